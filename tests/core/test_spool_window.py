"""A bounded window: exact offsets, bounded memory, whole characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.spool import UTF8_MAX_BYTES, SpoolWindow, whole_characters

pieces = st.lists(st.binary(max_size=40), max_size=30)


@given(pieces, st.integers(1, 64), st.integers(0, 1000))
def test_it_holds_the_last_bytes_at_their_offsets(texts: list[bytes], limit: int, base: int) -> None:
    window = SpoolWindow(limit, base)
    everything = b""
    for text in texts:
        window.append(text)
        everything += text
        assert window.end == base + len(everything)
        assert window.start == max(base, window.end - limit)
        assert window.read(window.start, window.end) == everything[-limit:]


@given(st.binary(min_size=1, max_size=100), st.integers(1, 100), st.integers(-5, 110), st.integers(-5, 110))
def test_a_part_of_it_as_far_as_it_is_held(text: bytes, limit: int, begin: int, end: int) -> None:
    window = SpoolWindow(limit)
    window.append(text)
    assert window.read(begin, end) == text[max(begin, window.start, 0) : max(end, 0)]


def test_memory_stays_near_the_limit() -> None:
    window = SpoolWindow(4096)
    for _ in range(2_000):
        window.append(b"x" * 1_000)
        assert len(window._bytes) <= 4096 + 256 * 1024 + 1_000
    window.append(b"y" * 1_000_000)
    assert len(window._bytes) <= 4096 + 256 * 1024
    assert window.end == 3_000_000


def test_released_memory_keeps_the_offsets() -> None:
    window = SpoolWindow(100)
    window.append(b"hello")
    window.release()
    assert (window.start, window.end, window.read(0, 5)) == (5, 5, b"")
    window.append(b"more")
    assert window.read(5, 9) == b"more"


@given(st.text(min_size=1, max_size=30), st.integers(0, 130))
def test_a_character_begins_where_it_says(text: str, offset: int) -> None:
    data = text.encode()
    window = SpoolWindow(1_000)
    window.append(data)
    begin = window.character_start(min(offset, len(data)))
    assert min(offset, len(data)) <= begin <= offset + UTF8_MAX_BYTES - 1
    data[begin:].decode()  # raises where a character was cut


@given(st.text(max_size=20), st.integers(0, 90))
def test_only_an_incomplete_character_is_not_counted(text: str, cut: int) -> None:
    data = text.encode()[:cut]
    whole = whole_characters(data)
    assert len(data) - whole < UTF8_MAX_BYTES
    assert data[:whole].decode() == data.decode("utf-8", "ignore")


@given(st.binary(max_size=40))
def test_what_is_no_utf_8_is_never_waited_for_beyond_a_character(data: bytes) -> None:
    whole = whole_characters(data)
    assert len(data) - UTF8_MAX_BYTES < whole <= len(data)
    held = data[whole:]
    assert not held or held[0] >= 0xC2  # only what can begin a character of several bytes


def test_bytes_that_begin_no_character() -> None:
    for data in (b"\x80", b"\x80\x80\x80\x80", b"\xc0", b"\xc1", b"\xf5", b"\xff", b"a\x80", b""):
        assert whole_characters(data) == len(data)
    for data in (b"\xc2", b"\xe2\x82", b"\xf0\x9f\x98"):
        assert whole_characters(b"x" + data) == 1
