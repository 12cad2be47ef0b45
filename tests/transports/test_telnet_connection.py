"""TelnetConnection and its option negotiation without a socket: received data and responses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.telnet import (
    BINARY,
    DO,
    DONT,
    ECHO,
    IAC,
    MCCP1,
    MCCP2,
    MCCP3,
    NAWS,
    NEW_ENVIRON,
    SB,
    SE,
    SGA,
    TM,
    TTYPE,
    WILL,
    WONT,
)
from transports import output_delivery
from transports.channel import Pty
from transports.errors import ChannelError
from transports.receiver import Receiver
from transports.telnet.connection import FLOOD_READ_BYTES, READ_BYTES, TelnetConnection
from transports.telnet.negotiation import MAX_CHANGES_WITHOUT_DATA, TelnetNegotiation

ALL_OPTIONS = [bytes([number]) for number in range(256)]


@pytest.fixture(autouse=True, scope="module")
def _delivery_takes_no_time() -> Iterator[None]:
    """All data is delivered within the read, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_delivery, "clock", lambda: 0.0)
        yield


class SmallBufferReceiver(Receiver):
    """A receiver with a buffer of a few bytes; fails a connection that relies on a large one."""

    def __init__(self) -> None:
        self._buffer = bytearray(7)
        self.data = b""

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]

    def channel_ended(self, reason: ChannelError) -> None:
        raise AssertionError("nothing has ended")


class _Socket:
    """A fake socket that accepts options."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert value > 0


class Wire(asyncio.Transport):
    """A transport that records the written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return _Socket() if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data


class Line:
    """A connection with its receiver and its transport."""

    def __init__(self, *, binary: bool | None = None, pty: Pty | None = None) -> None:
        self.heard = SmallBufferReceiver()
        self.wire = Wire()
        self.negotiation = TelnetNegotiation(self.wire, binary=binary, pty=pty, term="vt220")
        self.connection = TelnetConnection(self.heard, lambda wire: self.negotiation, "console:23")
        self.connection.connection_made(self.wire)

    def say(self, *pieces: bytes) -> bytes:
        """Process data of the peer, one read per piece; return the response."""
        before = len(self.wire.written)
        for piece in pieces:
            buffer = self.connection.get_buffer(-1)
            buffer[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))
        return self.wire.written[before:]


def exchange(pieces: Iterable[bytes]) -> tuple[bytes, bytes]:
    line = Line(pty=Pty(80, 24))
    answers = line.say(*pieces)
    return line.heard.data, answers


PADDED = b"login\r\0\0\n" + IAC + IAC + b"\0\r" + IAC + DO + TTYPE + b"\0\nend\r\0"
BINARY_PART = b"\0a\r\0" + IAC + WILL + BINARY + b"\0b\r\0" + IAC + IAC + IAC + WONT + BINARY + b"\0c\r\0"


@pytest.mark.parametrize("cut", range(len(PADDED) + 1))
def test_nul_padding_and_iac_are_removed_at_any_chunk_boundary(cut: int) -> None:
    assert exchange([PADDED[:cut], PADDED[cut:]]) == (b"login\r\n\xff\r\nend\r", IAC + WILL + TTYPE)


@pytest.mark.parametrize("cut", range(len(BINARY_PART) + 1))
def test_nul_is_data_while_peer_sends_binary(cut: int) -> None:
    data, answers = exchange([BINARY_PART[:cut], BINARY_PART[cut:]])
    assert data == b"a\r" + b"\0b\r\0\xff" + b"c\r"
    assert answers == IAC + DO + BINARY + IAC + DONT + BINARY


commands = st.builds(
    lambda verb, option: IAC + verb + option, st.sampled_from([WILL, WONT, DO, DONT]), st.sampled_from(ALL_OPTIONS)
)
subnegotiations = st.builds(
    lambda option, rest: IAC + SB + (option + rest).replace(IAC, IAC + IAC) + IAC + SE,
    st.sampled_from([b"", TTYPE, NAWS, NEW_ENVIRON, MCCP2, b"\x22"]),
    st.one_of(st.sampled_from([b"", b"\x01", b"\x00", b"\x01\x00TERM"]), st.binary(max_size=12)),
)
negotiations = st.sampled_from(
    [IAC + verb + option for verb in (WILL, WONT, DO, DONT) for option in (BINARY, ECHO, TTYPE, NAWS)]
)
text = st.sampled_from([b"text", b"\r\0", b"\0", b"\r\n", IAC + IAC, b"\r"])
dialogues = st.lists(st.one_of(text, negotiations, commands, subnegotiations, st.binary(max_size=9)), max_size=30).map(b"".join)


@given(dialogues, st.lists(st.integers(0, 200)))
def test_data_and_responses_are_independent_of_chunk_boundaries(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges) if start < end]
    assert exchange(pieces) == exchange([stream] if stream else [])


@given(st.binary(max_size=300), st.booleans())
def test_sent_data_has_iac_doubled_only(data: bytes, binary: bool) -> None:
    line = Line(binary=binary)
    before = len(line.wire.written)
    assert line.connection.write(data) == len(data)
    assert line.wire.written[before:] == data.replace(IAC, IAC + IAC)


@pytest.mark.parametrize("binary", [None, True, False])
@pytest.mark.parametrize("pty", [None, Pty(80, 24)])
def test_each_option_request_gets_one_response(pty: Pty | None, binary: bool | None) -> None:
    for option in ALL_OPTIONS:
        line = Line(pty=pty, binary=binary)
        asked = binary is True and option == BINARY
        for verb, yes, no in ((DO, WILL, WONT), (WILL, DO, DONT)):
            answer = line.say(IAC + verb + option)
            # A request of the peer completes our own request.
            assert answer[:3] in ([b""] if asked else [IAC + yes + option, IAC + no + option])
            if (verb, option) != (DO, TM):  # each timing mark gets a response (RFC 860)
                assert line.say((IAC + verb + option) * 3) == b""


@pytest.mark.parametrize(
    ("pty", "binary", "ours", "theirs"),
    [
        (Pty(), None, {BINARY, SGA, TTYPE, NAWS, NEW_ENVIRON}, {BINARY, SGA, ECHO}),
        (Pty(), False, {SGA, TTYPE, NAWS, NEW_ENVIRON}, {SGA, ECHO}),
        (None, None, {BINARY, SGA}, {BINARY, SGA, ECHO}),
    ],
)
def test_unsupported_options_are_refused(pty: Pty | None, binary: bool | None, ours: set[bytes], theirs: set[bytes]) -> None:
    for option in ALL_OPTIONS:
        line = Line(pty=pty, binary=binary)
        assert line.say(IAC + DO + option).startswith(IAC + (WILL if option in ours else WONT) + option)
        assert line.say(IAC + WILL + option) == IAC + (DO if option in theirs else DONT) + option


def test_option_withdrawal_is_acknowledged_and_option_may_return() -> None:
    line = Line(pty=Pty(80, 24))
    for _ in range(3):
        assert line.say(IAC + WILL + ECHO) == IAC + DO + ECHO
        assert line.say(IAC + WONT + ECHO) == IAC + DONT + ECHO
        assert line.say(IAC + WONT + ECHO) == b""
        assert line.say(IAC + DO + TTYPE) == IAC + WILL + TTYPE
        assert line.say(IAC + DONT + TTYPE) == IAC + WONT + TTYPE
        assert line.say(IAC + DONT + TTYPE) == b""


@pytest.mark.parametrize("loop", [IAC + DO + NAWS + IAC + DONT + NAWS, IAC + DO + TM, IAC + WILL + ECHO + IAC + WONT + ECHO])
def test_negotiation_loop_is_stopped(loop: bytes) -> None:
    line = Line(pty=Pty(80, 24))
    assert len(line.say(*[loop] * 1000)) <= MAX_CHANGES_WITHOUT_DATA * len(
        IAC + WILL + NAWS + IAC + SB + NAWS + b"1234" + IAC + SE
    )
    assert line.say(loop) == b""
    assert line.say(b"$ " + IAC + DO + TM) == IAC + WONT + TM


def test_naws_sends_size_with_iac_doubled() -> None:
    line = Line(pty=Pty(255, 24))
    line.negotiation.resize(Pty(80, 25))  # before the request: stored
    assert line.say(IAC + DO + NAWS) == IAC + WILL + NAWS + IAC + SB + NAWS + b"\0\x50\0\x19" + IAC + SE
    line.negotiation.resize(Pty(65535, 255))
    assert line.wire.written.endswith(IAC + SB + NAWS + b"\xff\xff\xff\xff\0\xff\xff" + IAC + SE)
    line.say(IAC + DONT + NAWS)
    line.negotiation.resize(Pty(80, 25))
    assert line.wire.written.endswith(IAC + WONT + NAWS)


def test_ttype_and_new_environ_send_terminal_type_only() -> None:
    line = Line(pty=Pty())
    send, all_names = b"\x01", b""
    assert line.say(IAC + SB + TTYPE + send + IAC + SE) == b""  # not negotiated yet
    line.say(IAC + DO + TTYPE + IAC + DO + NEW_ENVIRON)
    for _ in range(3):
        assert line.say(IAC + SB + TTYPE + send + IAC + SE) == IAC + SB + TTYPE + b"\0vt220" + IAC + SE
    reply = IAC + SB + NEW_ENVIRON + b"\0\0TERM\x01vt220" + IAC + SE
    for names, answer in (
        (all_names, reply),
        (b"\0TERM\0LANG", reply),
        (b"\0LANG\x03USER", IAC + SB + NEW_ENVIRON + b"\0" + IAC + SE),
    ):
        assert line.say(IAC + SB + NEW_ENVIRON + send + names + IAC + SE) == answer


@pytest.mark.parametrize(
    "payload", [b"", TTYPE, TTYPE + b"\0IS", TTYPE + b"\x07", NEW_ENVIRON + b"\x02", b"\0", b"\x22\x01", b"\xfe"]
)
def test_invalid_subnegotiation_is_ignored(payload: bytes) -> None:
    line = Line(pty=Pty())
    line.say(IAC + DO + TTYPE + IAC + DO + NEW_ENVIRON)
    assert line.say(IAC + SB + payload + IAC + SE + b"text") == b""
    assert line.heard.data == b"text"


def test_compression_is_refused_and_never_started() -> None:
    line = Line(pty=Pty())
    offer = b"".join(IAC + WILL + option for option in (MCCP1, MCCP2, MCCP3))
    assert line.say(offer) == offer.replace(WILL, DONT)
    bomb = b"x\x9c\xed\xc1\x01\x01"
    assert line.say(IAC + SB + MCCP2 + IAC + SE + bomb) == b""
    assert line.heard.data == bomb
    assert line.connection.write(b"plain") == 5
    assert line.wire.written.endswith(b"plain")


def test_binary_option_requests_both_directions() -> None:
    line = Line(binary=True)
    assert line.wire.written == IAC + WILL + BINARY + IAC + DO + BINARY
    assert (line.negotiation.sends_binary, line.negotiation.receives_binary) == (False, False)
    assert line.say(IAC + DO + BINARY) == b""
    assert (line.negotiation.sends_binary, line.negotiation.receives_binary) == (True, False)
    assert line.say(IAC + WONT + BINARY) == b""
    assert (line.negotiation.sends_binary, line.negotiation.receives_binary) == (True, False)
    assert line.say(IAC + DONT + BINARY) == IAC + WONT + BINARY
    assert line.negotiation.sends_binary is False


FLOODS = {
    "refused": b"a" + IAC + WILL + TTYPE,
    "changes": b"a" + IAC + WILL + ECHO + IAC + WONT + ECHO,
    "subnegotiations": b"a" + IAC + SB + TTYPE + b"\x01" + IAC + SE,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_read_after_flood_of_commands_is_small_until_they_are_few(flood: bytes) -> None:
    line = Line(pty=Pty(80, 24))
    line.say(flood * (READ_BYTES // len(flood)))
    assert len(line.connection.get_buffer(-1)) == FLOOD_READ_BYTES
    line.say(flood * (FLOOD_READ_BYTES // len(flood)))
    assert len(line.connection.get_buffer(-1)) == FLOOD_READ_BYTES
    line.say(b"x" * (FLOOD_READ_BYTES - len(flood)) + flood)
    assert len(line.connection.get_buffer(-1)) == READ_BYTES


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_text_between_commands_of_one_read_is_delivered_in_one_piece(flood: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = list[bytes]()
    monkeypatch.setattr(SmallBufferReceiver, "data_received", lambda _receiver, data: pieces.append(bytes(data)), raising=False)
    Line(pty=Pty(80, 24)).say(flood * 100)
    assert pieces == [b"a" * 100]
