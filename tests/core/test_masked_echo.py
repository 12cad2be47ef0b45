"""EchoMasker: a typed secret is masked where its echo can be, whole, and nowhere else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.secret_masker import ANSWER_PAUSE_S, ECHO_TIMEOUT_S, EchoMasker

secrets = st.text("abé", min_size=1, max_size=5).map(str.encode)
#: Output that may follow the line with a typed secret.
answers = st.text("abé-> \r\n", max_size=40).map(str.encode)
logs = st.lists(
    st.sampled_from(
        [
            b"*Nov 22 08:12:33.123: %LINK-3-UPDOWN: Interface ab, changed state to down",
            b"%SYS-5-CONFIG_I: Configured from console by a",
            b"<189>Nov 22 08:12:33 b-a sshd[12]: session opened for user a.",
            b"2026-11-22T08:12:33+00:00 a hpe-config[77]: Event|ab|",
        ]
    ),
    min_size=1,
    max_size=3,
).map(lambda lines: b"\r\n" + b"".join(line + b"|\r\n" for line in lines))
places = st.lists(st.integers(0, 99), max_size=8)


def expecting(*typed: bytes) -> EchoMasker:
    masker = EchoMasker()
    for secret in typed:
        masker.expect(secret, 0.0)
    return masker


def fed(masker: EchoMasker, data: bytes, places: list[int], now: float = 0.1) -> bytes:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    pieces = [data[begin:end] for begin, end in pairwise(ends)]
    return b"".join(masker.feed(piece, now) for piece in pieces) + masker.flush()


@given(secrets, answers, places)
def test_echo_at_the_cursor_is_masked_and_the_answer_unchanged(secret: bytes, answer: bytes, places: list[int]) -> None:
    masked = fed(expecting(secret), secret + b"\r\n" + answer, places)
    assert masked == b"*" * len(secret) + b"\r\n" + answer


@given(secrets, answers, places, st.sampled_from([b"", b"***", b"\x1b[?2004l\r", b"\x1b[0m "]))
def test_secret_that_is_not_echoed_changes_nothing(secret: bytes, answer: bytes, places: list[int], shown: bytes) -> None:
    text = shown + b"\r\n" + answer
    assert fed(expecting(secret), text, places) == text


@given(secrets, st.lists(st.text("abé-> ", min_size=1).filter(str.strip), max_size=4), answers, places)
def test_echo_after_output_in_transit_is_masked(secret: bytes, lines: list[str], answer: bytes, places: list[int]) -> None:
    """The lines neither begin nor end with the secret."""
    transit = b"".join(b"|" + line.encode() + b"|\r\n" for line in lines) + b"> "
    masked = fed(expecting(secret), transit + secret + b"\r\n" + answer, places)
    assert masked == transit + b"*" * len(secret) + b"\r\n" + answer


@given(secrets, logs, answers, places, st.sampled_from([b"", b"Password: "]))
def test_echo_after_log_lines_that_begin_with_crlf_is_masked(
    secret: bytes, log: bytes, answer: bytes, places: list[int], prompt: bytes
) -> None:
    masked = fed(expecting(secret), log + prompt + secret + b"\r\n" + answer, places)
    assert masked == log + prompt + b"*" * len(secret) + b"\r\n" + answer


@given(secrets, logs, st.text("abé-> ").map(str.encode), answers, places)
def test_only_the_line_after_log_lines_may_be_the_echo(
    secret: bytes, log: bytes, line: bytes, answer: bytes, places: list[int]
) -> None:
    text = log + b"|" + line + b"|\r\n" + answer
    assert fed(expecting(secret), text, places) == text


@given(secrets, secrets, answers, places)
def test_secret_typed_after_one_that_is_not_echoed_is_masked(
    hidden: bytes, shown: bytes, answer: bytes, places: list[int]
) -> None:
    masked = fed(expecting(hidden, shown), b"\r\n" + shown + b"\r\n" + answer, places)
    assert masked == b"\r\n" + b"*" * len(shown) + b"\r\n" + answer


@given(st.lists(secrets, min_size=1, max_size=4), answers, places)
def test_lines_typed_ahead_are_masked_one_by_one(typed: list[bytes], answer: bytes, places: list[int]) -> None:
    echo = b"\r\n".join(typed) + b"\r\n"
    masks = b"\r\n".join(b"*" * len(secret) for secret in typed) + b"\r\n"
    assert fed(expecting(*typed), echo + answer, places) == masks + answer


@pytest.mark.parametrize(
    "shown",
    [
        b"\r\nzebra-core1> ",
        b"\rzebra-core1> ",
        b"\r\x1b[Kzebra> ",
        b"zebra-core1> ",
        b"Welcome to zebra-core1\r\nzebra-core1> ",
    ],
)
def test_word_of_the_answer_that_begins_like_the_secret_is_text(shown: bytes) -> None:
    assert fed(expecting(b"zebra"), shown, []) == shown


@pytest.mark.parametrize("places", [[], list(range(30))])
def test_secret_typed_in_parts_is_masked_whole(places: list[int]) -> None:
    assert fed(expecting(b"ze", b"bra"), b"zebra\r\nzebra> ", places) == b"*****\r\nzebra> "


def test_echo_with_pauses_between_its_characters_is_held_back() -> None:
    masker = expecting(b"zebra")
    assert [masker.feed(bytes([byte]), number * 0.9) for number, byte in enumerate(b"zebra")] == [b""] * 5
    assert masker.feed(b"\r\n", 4.5) == b"*****\r\n"


def test_flush_masks_complete_echo_and_releases_start_of_one() -> None:
    masker = expecting(b"zebra")
    assert masker.feed(b"$ zebra", 0.0) == b"$ "
    assert masker.flush() == b"*****"
    masker = expecting(b"zebra")
    assert masker.feed(b"$ zeb", 0.0) == b"$ "
    assert masker.flush() == b"zeb"
    assert masker.feed(b"u\r\n", 0.1) == b"u\r\n"


def test_hold_time_is_short_for_complete_echo_and_after_text() -> None:
    masker = expecting(b"zebra")
    masker.feed(b"zeb", 0.0)
    assert masker.hold_s == 1.0
    masker.feed(b"ra", 0.0)
    assert masker.hold_s == 0.2
    masker = expecting(b"zebra")
    masker.feed(b"$ zeb", 0.0)
    assert masker.hold_s == 0.2


def test_text_followed_by_pause_is_the_answer() -> None:
    masker = expecting(b"zebra")
    assert masker.feed(b"sw1> ", 0.0) == b"sw1> "
    assert masker.feed(b"zebra\r\n", ANSWER_PAUSE_S) == b"zebra\r\n"
    assert not masker.armed


def test_echo_timeout_forgets_secret() -> None:
    masker = expecting(b"zebra")
    assert masker.feed(b"zeb", ECHO_TIMEOUT_S / 2) == b""
    assert masker.feed(b"ra\r\n", ECHO_TIMEOUT_S + 1) == b"zebra\r\n"
    assert not masker.armed
