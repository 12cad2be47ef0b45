"""Expensive output of one far end is delivered in pieces, in order, and its end follows the last byte."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transports import output_delivery
from transports.errors import ChannelEnded, ChannelError, ReceiverFailed
from transports.output_delivery import DELIVERY_S, PIECE_BYTES, OutputDelivery
from transports.receiver import Receiver

#: 32 KB of shell marks, the size of one SSH packet.
MARKS = (b"\x1b]7717;nonce;1;E;0\x07out\r\n" * 2000)[: 32 * 1024]


class SlowReceiver(Receiver):
    """Processing of a piece takes `piece_s` on a clock that nothing else moves."""

    def __init__(self, piece_s: float = 2 * DELIVERY_S) -> None:
        self.pieces: list[bytes] = []
        self.piece_s = piece_s
        self.ended = False
        self.drains: list[int] = []
        self.now = 0.0
        self.fails = False
        self._buffer = bytearray(64 * 1024)

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        assert not self.ended
        if self.fails:
            raise ValueError("a bug")
        self.pieces.append(bytes(self._buffer[:nbytes]))
        self.now += self.piece_s

    def drained(self) -> None:
        if self.fails:
            raise ValueError("a bug")
        self.drains.append(len(self.data))

    def channel_ended(self, reason: ChannelError) -> None:
        self.ended = True

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class Line:
    """A delivery, its receiver, and a record of its calls."""

    def __init__(self, receiver: SlowReceiver) -> None:
        self.receiver = receiver
        self.calls: list[str] = []
        self.delivery = OutputDelivery(
            receiver, lambda: self.calls.append("pause"), lambda: self.calls.append("resume"), self._fail
        )

    def _fail(self, reason: ReceiverFailed) -> None:
        self.calls.append(f"{reason.code}: {reason.message}")

    def end(self) -> None:
        self.delivery.then(lambda: self.receiver.channel_ended(ChannelEnded("over")))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line(SlowReceiver())
    monkeypatch.setattr(output_delivery, "clock", lambda: line.receiver.now)
    return line


async def test_expensive_output_is_delivered_one_piece_in_each_iteration(line: Line) -> None:
    line.delivery.deliver(MARKS)
    for count in range(1, len(MARKS) // PIECE_BYTES + 1):
        assert len(line.receiver.pieces) == count
        await asyncio.sleep(0)
    assert line.receiver.data == MARKS
    assert line.calls == ["pause", "resume"]
    await line.delivery.wait()


async def test_all_packets_of_one_read_share_the_time_of_an_iteration(line: Line) -> None:
    line.receiver.piece_s = DELIVERY_S / 2.5
    packets = [MARKS[:500] + b"%d" % number for number in range(60)]
    for packet in packets:
        line.delivery.deliver(packet)
    done = [len(line.receiver.pieces)]
    while len(line.receiver.pieces) < len(packets):
        await asyncio.sleep(0)
        done.append(len(line.receiver.pieces))
    assert {after - before for before, after in zip([0, *done], done, strict=False)} == {3}
    assert line.receiver.pieces == packets
    assert line.calls == ["pause", "resume"]


async def test_small_packets_of_many_iterations_are_delivered_at_once(line: Line) -> None:
    line.receiver.piece_s = DELIVERY_S / 3
    for count in range(1, 20):
        line.delivery.deliver(b"\x1b[m$ ")
        assert len(line.receiver.pieces) == count
        await asyncio.sleep(0)
    assert line.calls == []


async def test_bytes_and_end_that_arrive_meanwhile_follow_in_order(line: Line) -> None:
    line.delivery.deliver(MARKS)
    line.delivery.deliver(b"plain")
    line.delivery.deliver(MARKS)
    line.end()
    assert not line.receiver.ended
    await line.delivery.wait()
    assert line.receiver.ended
    assert line.receiver.data == MARKS + b"plain" + MARKS


async def test_plain_output_is_not_divided(line: Line) -> None:
    line.receiver.piece_s = 0.0
    for _ in range(2):
        line.delivery.deliver(b"x" * 32 * 1024)
    assert [len(piece) for piece in line.receiver.pieces] == [32 * 1024] * 2
    line.end()
    assert line.receiver.ended
    assert line.calls == []


async def test_discarded_output_is_not_delivered(line: Line) -> None:
    line.delivery.deliver(MARKS)
    line.end()
    line.delivery.discard()
    await line.delivery.wait()
    assert (len(line.receiver.pieces), line.receiver.ended) == (1, False)


@pytest.mark.parametrize("when", ["first piece", "later piece", "drained"])
async def test_exception_of_receiver_is_reported_once_and_the_end_follows(
    line: Line, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    line.receiver.piece_s = 0.0 if when == "drained" else 2 * DELIVERY_S
    line.receiver.fails = when == "first piece"
    line.delivery.deliver(MARKS)
    line.receiver.fails = True
    line.delivery.drained()
    line.end()
    await line.delivery.wait()
    line.delivery.deliver(MARKS)
    line.delivery.drained()
    failures = [call for call in line.calls if call not in ("pause", "resume")]
    assert failures == ["INTERNAL: internal error in ptyctl (ValueError): the output could not be processed"]
    assert line.receiver.ended
    (record,) = caplog.records
    assert record.__dict__["error"] == "ValueError"
    assert "a bug" not in str(record.__dict__)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    actions=st.lists(st.one_of(st.integers(0, 3 * PIECE_BYTES), st.sampled_from(["drained", "iterate"])), max_size=25),
    costs=st.lists(st.sampled_from([0.0, DELIVERY_S / 20, DELIVERY_S / 3, DELIVERY_S, 5 * DELIVERY_S]), min_size=1),
    escapes=st.booleans(),
)
async def test_all_bytes_and_the_end_are_delivered_once_in_order_for_any_cuts_and_costs(
    monkeypatch: pytest.MonkeyPatch, actions: list[int | str], costs: list[float], *, escapes: bool
) -> None:
    line, sent = Line(SlowReceiver()), b""
    monkeypatch.setattr(output_delivery, "clock", lambda: line.receiver.now)
    for number, action in enumerate(actions):
        line.receiver.piece_s = costs[number % len(costs)]
        if action == "drained":
            line.delivery.drained()
            assert all(size == len(sent) for size in line.receiver.drains)
            line.receiver.drains.clear()
        elif isinstance(action, int):
            data = (b"\x1b[%dm" % number if escapes else b"%d " % number) * (action // 4)
            sent += data
            line.delivery.deliver(data)
        else:
            await asyncio.sleep(0)
        assert sent.startswith(line.receiver.data)
    line.end()
    assert line.receiver.ended is (line.receiver.data == sent)
    await line.delivery.wait()
    assert line.receiver.ended
    assert line.receiver.data == sent
    assert line.calls == ["pause", "resume"] * (len(line.calls) // 2)
