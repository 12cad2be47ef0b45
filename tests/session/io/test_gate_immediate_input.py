"""`Gate.type_now`: input sent in one step stays in one piece, even if the channel accepts only parts of it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import Leases
from ptyctl.session.io.gate import SYSTEM, Gate, Inspector, Refusal, Split, Writer
from ptyctl.session.io.signal import Signal
from tests.cost import assert_linear
from transports.receiver import QueueReceiver


async def test_type_now_on_slow_channel_precedes_writes_but_not_interrupts() -> None:
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    channel.capacity = 3
    gate.type_now("answer\n", Writer("first"))
    other = asyncio.create_task(gate.type("other\n", Writer("second")))
    await asyncio.sleep(0)
    assert bytes(channel.written) == b"ans"
    channel.capacity = 1
    await gate.interrupt(b"\x03", Writer("third"))
    channel.unblock()
    assert await other == 6
    assert bytes(channel.written) == b"ans\x03wer\rother\r"


async def test_password_on_slow_channel_is_not_sent_on_once_no_program_reads_it() -> None:
    channel = PasswordChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    gate.inspect_with(cast(Inspector, Passwords()))
    channel.capacity = 3
    gate.type_now("secret\n", Writer())
    channel.asks = False
    channel.unblock()
    await gate.type("next", SYSTEM)
    assert bytes(channel.written) == b"secnext"


async def test_key_that_submits_a_line_after_other_input_is_judged() -> None:
    """The write has no such key when it begins: `v` submits the line only after the Escape of another task, in vi mode."""
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    gate.inspect_with(cast(Inspector, ViMode()))
    channel.capacity = 1
    write = asyncio.create_task(gate.type("xyv", Writer("first")))
    await asyncio.sleep(0)
    assert bytes(channel.written) == b"x"
    channel.capacity = 2
    gate.type_now("\x1b", Writer("second"))
    channel.unblock()
    with pytest.raises(PtyctlError, match="judged"):
        await write
    assert bytes(channel.written) == b"x\x1by"


class ViMode:
    """Judges `v` in the command mode of vi, and refuses it."""

    escaped = False

    def awaits_prompt(self) -> bool:
        return False

    def check_held(self, data: bytes, writer: Writer) -> None: ...

    def asks_secret(self) -> bool:
        return False

    def is_judged(self, data: bytes, writer: Writer) -> bool:
        return False

    def review_now(self, data: bytes, writer: Writer) -> bool:
        return True

    def sending(self, data: bytes) -> None: ...

    def typed(self, data: bytes, *, secret: bool = False) -> None:
        self.escaped = self.escaped or b"\x1b" in data

    def split(self, data: bytes, judged: int) -> Split:
        key = data.find(b"v") if self.escaped else -1
        return Split(len(data), 0, 0) if key < 0 else Split(key, 0, 1)

    async def admit(self, key: bytes, writer: Writer) -> None:
        raise Refusal(PtyctlError(ErrorCode.POLICY_DENIED, "judged"), b"")


class PasswordChannel(MemoryChannel):
    """A program that asks for a password."""

    asks = True

    def reads_password(self) -> bool:
        return self.asks


class Passwords:
    """Takes all input for passwords."""

    def check_held(self, data: bytes, writer: Writer) -> None: ...

    def asks_secret(self) -> bool:
        return False

    def review_now(self, data: bytes, writer: Writer) -> bool:
        return False

    def sending(self, data: bytes) -> None: ...

    def typed(self, data: bytes, *, secret: bool = False) -> None: ...


async def test_type_now_when_channel_ends_drops_unsent_input() -> None:
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    channel.capacity = 2
    gate.type_now("answer\n", Writer())
    await asyncio.sleep(0)
    channel.end()
    await asyncio.sleep(0)
    assert bytes(channel.written) == b"an"


@given(st.lists(st.sampled_from(["\r", "\n", "\r\n", "a", "ä", "x" * 5000, "\udcff"])).map("".join))
def test_text_typed_at_once_is_the_text_typed_in_pieces(text: str) -> None:
    async def typed() -> tuple[bytes, bytes]:
        channels = MemoryChannel(), MemoryChannel()
        for channel in channels:
            await channel.open(QueueReceiver())
        at_once, in_pieces = channels
        Gate(Leases(), lambda: at_once, Signal(), console=False, paced=False).type_now(text, Writer())
        await Gate(Leases(), lambda: in_pieces, Signal(), console=False, paced=False).type(text, Writer())
        return bytes(at_once.written), bytes(in_pieces.written)

    at_once, in_pieces = asyncio.run(typed())
    assert at_once == in_pieces


async def test_typing_a_long_line_takes_linear_time() -> None:
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    assert_linear(lambda data: gate.type_now(data.decode(), Writer()), b"x", largest=4 << 20)
