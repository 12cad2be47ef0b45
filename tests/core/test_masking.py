"""Masking: what is typed in secret is never seen in what comes back, however that is cut; all else is left alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.masking import LIFE_S, Masking

secrets = st.text("abcé*", min_size=1, max_size=6).map(str.encode)
texts = st.text("abcé*\n ", max_size=30).map(str.encode)


def fed(masking: Masking, data: bytes, places: list[int], now: float = 1.0) -> bytes:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    pieces = [data[begin:end] for begin, end in pairwise(ends)]
    return b"".join(masking.feed(piece, now) for piece in pieces) + masking.flush()


@given(secrets, texts, texts, st.lists(st.integers(0, 99), max_size=8))
def test_the_first_echo_is_masked_however_it_is_cut(secret: bytes, before: bytes, behind: bytes, places: list[int]) -> None:
    masking = Masking()
    masking.arm(secret + b"\r", 0.0)
    text = before + secret + behind
    begin = text.find(secret)
    assert fed(masking, text, places) == text[:begin] + b"*" * len(secret) + text[begin + len(secret) :]
    assert not masking.armed


@given(st.lists(secrets, max_size=3), texts, st.lists(st.integers(0, 99), max_size=8))
def test_nothing_else_changes_and_nothing_is_lost(several: list[bytes], text: bytes, places: list[int]) -> None:
    masking = Masking()
    for secret in several:
        masking.arm(secret, 0.0)
    masked = fed(masking, text, places)
    assert len(masked) == len(text)
    assert all(there in (was, ord("*")) for there, was in zip(masked, text, strict=True))
    if not any(secret in text for secret in several):
        assert masked == text


def test_each_line_is_a_secret_of_its_own_and_each_time_it_is_typed() -> None:
    masking = Masking()
    masking.arm(b"one\rtwo\r", 0.0)
    masking.arm(b"one\r", 0.0)
    assert masking.feed(b"one\r\ntwo\r\none\r\none", 1.0) + masking.flush() == b"***\r\n***\r\n***\r\none"


def test_of_two_that_begin_alike_the_longer_is_waited_for() -> None:
    masking = Masking()
    masking.arm(b"ab", 0.0)
    masking.arm(b"abc", 0.0)
    assert masking.feed(b"xab", 1.0) == b"x"
    assert masking.feed(b"c ab.", 1.0) == b"*** **."


def test_a_secret_that_never_came_back_is_forgotten() -> None:
    masking = Masking()
    masking.arm(b"hunter2", 0.0)
    assert masking.feed(b"hunt", LIFE_S / 2) == b""
    assert masking.feed(b"er2", LIFE_S + 1) == b"hunter2"
    assert not masking.armed
