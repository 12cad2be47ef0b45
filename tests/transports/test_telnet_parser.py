"""TelnetParser: the events do not depend on how the stream is split into chunks."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.telnet.parser import MAX_COMMANDS, MAX_SUBNEGOTIATION, Subnegotiation, TelnetCommand, TelnetEvent, TelnetParser

IAC, SB, SE, NOP = b"\xff", b"\xfa", b"\xf0", b"\xf1"
DO, WILL, TTYPE, NAWS = b"\xfd", b"\xfb", b"\x18", b"\x1f"


def joined(events: Iterable[TelnetEvent]) -> list[TelnetEvent]:
    """Join adjacent data events; their boundaries have no meaning."""
    result: list[TelnetEvent] = []
    for event in events:
        if isinstance(event, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += event
        else:
            result.append(event)
    return result


def scan(pieces: Iterable[bytes]) -> list[TelnetEvent]:
    parser = TelnetParser()
    return joined([event for piece in pieces for event in parser.feed(piece)])


def byte_by_byte(stream: bytes) -> list[TelnetEvent]:
    """Reference implementation of RFC 854 and 855 for a complete stream; incomplete commands give no event."""
    events: list[TelnetEvent] = []
    at = 0
    while at < len(stream):
        verb, option = stream[at + 1 : at + 2], stream[at + 2 : at + 3]
        if stream[at : at + 1] != IAC:
            events.append(stream[at : at + 1])
            at += 1
        elif verb == SB:
            at = _subnegotiation(stream, at + 2, events)
        elif verb in (b"", IAC):
            events.extend([IAC] if verb else [])
            at += 2
        elif verb >= WILL:
            events.extend([TelnetCommand(verb, option)] if option else [])
            at += 3
        else:
            at += 2
    return joined(events)


def _subnegotiation(stream: bytes, start: int, events: list[TelnetEvent]) -> int:
    payload, at = b"", start
    while stream[at : at + 1] != IAC or stream[at + 1 : at + 2] == IAC:
        if at >= len(stream):
            return at
        payload += stream[at : at + 1]
        at += 2 if stream[at : at + 1] == IAC else 1
    if stream[at + 1 : at + 2] != SE:
        return at if at + 1 < len(stream) else len(stream)
    if at - start <= MAX_SUBNEGOTIATION:
        events.append(Subnegotiation(payload))
    return at + 2


# Mostly bytes with a meaning, to get frequent combinations of them.
streams = st.one_of(
    st.lists(st.sampled_from([IAC, IAC, SB, SE, NOP, DO, WILL, TTYPE, b"\0", b"\r", b"text"]), max_size=60).map(b"".join),
    st.binary(max_size=200),
)


@given(streams, st.lists(st.integers(0, 300)))
def test_parser_result_is_independent_of_chunk_boundaries(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert scan(pieces) == scan([stream]) == byte_by_byte(stream)


RECORDED = (
    b"a" + IAC + IAC + b"b" + IAC + DO + TTYPE + IAC + SB + TTYPE + b"\x01" + IAC + SE + b"c"
    # IAC within a subnegotiation, and as an option code.
    + IAC + SB + NAWS + b"\0" + IAC + IAC + b"\0\x18" + IAC + SE + IAC + WILL + IAC + b"d\r\0" + IAC + NOP + b"e"
)  # fmt: skip


@pytest.mark.parametrize("cut", range(len(RECORDED) + 1))
def test_parser_recorded_negotiation_split_anywhere_gives_same_events(cut: int) -> None:
    assert scan([RECORDED[:cut], RECORDED[cut:]]) == [
        b"a\xffb",
        TelnetCommand(DO, TTYPE),
        Subnegotiation(TTYPE + b"\x01"),
        b"c",
        Subnegotiation(NAWS + b"\0\xff\0\x18"),
        TelnetCommand(WILL, IAC),
        b"d\r\0e",
    ]


@pytest.mark.parametrize("size", [MAX_SUBNEGOTIATION - 1, MAX_SUBNEGOTIATION, MAX_SUBNEGOTIATION + 1, 3 * MAX_SUBNEGOTIATION])
@pytest.mark.parametrize("step", [1, 1000, 1 << 20])
def test_parser_overlong_subnegotiation_is_dropped_entirely(size: int, step: int) -> None:
    stream = IAC + SB + b"x" * size + IAC + SE + b"text"
    kept = [Subnegotiation(b"x" * size)] if size <= MAX_SUBNEGOTIATION else []
    assert scan(stream[start : start + step] for start in range(0, len(stream), step)) == [*kept, b"text"]


@pytest.mark.parametrize("end", [IAC + SE + b"text", IAC + NOP + b"text"])
def test_parser_overlong_subnegotiation_split_anywhere_ends(end: bytes) -> None:
    stream = IAC + SB + b"x" * 3 * MAX_SUBNEGOTIATION + IAC + IAC + end
    for cut in range(len(stream) - len(end) - 3, len(stream) + 1):
        assert scan([stream[:cut], stream[cut:]]) == [b"text"]


def test_parser_flood_of_commands_gives_bounded_number_of_events() -> None:
    parser = TelnetParser()
    for flood in (IAC + WILL + TTYPE, b"a" + IAC + WILL + TTYPE, b"a" + IAC + NOP, IAC + SB + TTYPE + IAC + SE):
        events = parser.feed(flood * 10_000)
        assert len(events) <= 2 * MAX_COMMANDS + 1
        assert b"".join(event for event in events if isinstance(event, bytes)) == b"a" * flood.count(b"a") * 10_000
    assert parser.feed(IAC + DO + TTYPE) == [TelnetCommand(DO, TTYPE)]


def test_parser_endless_subnegotiation_uses_bounded_memory() -> None:
    parser = TelnetParser()
    parser.feed(IAC + SB + TTYPE)
    piece = b"\0garbage" * 8192
    tracemalloc.start()
    try:
        for _ in range(100):
            assert parser.feed(piece) == []
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * MAX_SUBNEGOTIATION
    assert parser.feed(IAC + SE + b"text") == [b"text"]
