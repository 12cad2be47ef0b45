"""Masking: what is typed in secret is never seen in what comes back, however that is cut; all else is left alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.secret_masker import ECHO_TIMEOUT_S, MAX_PERSISTENT, SecretMasker, is_distinctive

secrets = st.text("abcé*", min_size=1, max_size=6).map(str.encode)
distinct = st.text("ab1", min_size=8, max_size=12).map(str.encode).filter(is_distinctive)
texts = st.text("abcé*\n ", max_size=30).map(str.encode)


def fed(masking: SecretMasker, data: bytes, places: list[int], now: float = 1.0) -> bytes:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    pieces = [data[begin:end] for begin, end in pairwise(ends)]
    return b"".join(masking.feed(piece, now) for piece in pieces) + masking.flush()


@given(secrets, texts, texts, st.lists(st.integers(0, 99), max_size=8))
def test_the_first_echo_is_masked_however_it_is_cut(secret: bytes, before: bytes, behind: bytes, places: list[int]) -> None:
    masking = SecretMasker()
    masking.arm(secret + b"\r", 0.0)
    text = before + secret + behind
    begin = text.find(secret)
    rest = text[begin + len(secret) :]
    if is_distinctive(secret):
        rest = rest.replace(secret, b"*" * len(secret))
    assert fed(masking, text, places) == text[:begin] + b"*" * len(secret) + rest
    assert masking.armed is is_distinctive(secret)


@given(st.lists(distinct, min_size=1, max_size=3), st.data())
def test_a_distinct_secret_is_never_shown_whole(several: list[bytes], data: st.DataObject) -> None:
    """However late it comes, however it is cut, and also where what was held back had to be let go in between."""
    masking = SecretMasker()
    for secret in several:
        masking.arm(secret, 0.0)
    text = b"".join(data.draw(st.lists(st.sampled_from([*several, *(secret[:5] for secret in several), b"a", b" "]))))
    shown, begin = b"", 0
    while begin < len(text):
        size = data.draw(st.integers(1, 30))
        shown += masking.feed(text[begin : begin + size], 1000.0)
        shown += masking.flush() if data.draw(st.booleans()) else b""
        begin += size
    shown += masking.flush()
    assert len(shown) == len(text)
    assert not any(secret in shown for secret in several)


def test_what_was_let_go_is_masked_from_there_on() -> None:
    masking = SecretMasker()
    masking.arm(b"s3cret-Word", 0.0)
    assert masking.feed(b"it is s3c", 60.0) == b"it is "
    assert masking.flush() == b"s3c"
    assert masking.feed(b"ret", 61.0) == b""
    assert masking.feed(b"-Word.", 61.0) == b"********."
    assert masking.feed(b" s3c", 62.0) + masking.flush() == b" s3c"
    assert masking.feed(b"ure", 63.0) == b"ure"
    assert masking.expects_echo(ECHO_TIMEOUT_S / 2)
    assert not masking.expects_echo(60.0)


def test_so_many_distinct_secrets_are_remembered() -> None:
    masking = SecretMasker()
    for number in range(MAX_PERSISTENT + 1):
        masking.arm(b"secret-%04d\r" % number, 0.0)
    assert masking.feed(b"secret-0000 secret-0001\n", 60.0) == b"secret-0000 ***********\n"


@given(st.lists(secrets, max_size=3), texts, st.lists(st.integers(0, 99), max_size=8))
def test_nothing_else_changes_and_nothing_is_lost(several: list[bytes], text: bytes, places: list[int]) -> None:
    masking = SecretMasker()
    for secret in several:
        masking.arm(secret, 0.0)
    masked = fed(masking, text, places)
    assert len(masked) == len(text)
    assert all(there in (was, ord("*")) for there, was in zip(masked, text, strict=True))
    if not any(secret in text for secret in several):
        assert masked == text


def test_each_line_is_a_secret_of_its_own_and_each_time_it_is_typed() -> None:
    masking = SecretMasker()
    masking.arm(b"one\rtwo\r", 0.0)
    masking.arm(b"one\r", 0.0)
    assert masking.feed(b"one\r\ntwo\r\none\r\none", 1.0) + masking.flush() == b"***\r\n***\r\n***\r\none"


def test_of_two_that_begin_alike_the_longer_is_waited_for() -> None:
    masking = SecretMasker()
    masking.arm(b"ab", 0.0)
    masking.arm(b"abc", 0.0)
    assert masking.feed(b"xab", 1.0) == b"x"
    assert masking.feed(b"c ab.", 1.0) == b"*** **."


def test_a_secret_that_never_came_back_is_forgotten() -> None:
    masking = SecretMasker()
    masking.arm(b"hunter2", 0.0)
    assert masking.feed(b"hunt", ECHO_TIMEOUT_S / 2) == b""
    assert masking.feed(b"er2", ECHO_TIMEOUT_S + 1) == b"hunter2"
    assert not masking.armed
