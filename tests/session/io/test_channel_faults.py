"""Channel faults: lost lines, blocked channels and failed opens give a clear error, and affect one session only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, PtyctlError, SessionRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.destinations import Destination
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits, Spec
from tests.session.conftest import Connect
from tests.session.scripted_session import PATIENCE_MS, read_from, run_command, write_to
from transports.channel import Channel, Pty
from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError, ConnectTimeout, WriteRightEnded
from transports.local import LocalChannel, LocalOptions
from transports.receiver import Receiver

BASH = ("bash", "--norc", "--noprofile")


class Device(MemoryChannel):
    """A command line that echoes, answers known commands, and ends the channel at `crash`."""

    def __init__(self, at_crash: ChannelError | None = None, answers: dict[str, str] | None = None) -> None:
        super().__init__(self._answer)
        self.answers = {"show clock": "12:00\r\n", **(answers or {})}
        self._at_crash = at_crash
        self._line = b""

    async def open(self, receiver: Receiver) -> None:
        await super().open(receiver)
        self.feed(b"R1# ")

    def _answer(self, data: bytes) -> bytes:
        *lines, self._line = (self._line + data).split(b"\r")
        said = b""
        for line in lines:
            if line == b"crash":
                self.feed(b"crash\r\nSystem going down\r\n")
                self.end(self._at_crash)
                return b""
            said += line + b"\r\n" + self.answers.get(line.decode(), "").encode() + b"R1# "
        return said


class GuardedDevice(Device):
    """A device on whose console this process may type until `end_right` is called: at its next write, as the time passes."""

    def guard_output(self, may_send: Callable[[], bool], delivery_s: float) -> None:
        self._may_send = may_send
        self.end_right: Callable[[], None] | None = None

    def write(self, data: bytes) -> int:
        if self.end_right is not None:
            self.end_right()
        if not self._may_send():
            raise WriteRightEnded("the right to write to R1 has ended")
        return super().write(data)


@pytest.mark.parametrize("call", [partial(write_to, data="x"), partial(run_command, cmd="show clock")])
async def test_write_whose_claim_ends_after_its_check_is_claim_lost(
    tmp_path: Path, call: Callable[[Session], Awaitable[object]]
) -> None:
    device, session = GuardedDevice(), Session("s", Spec(protocol="telnet", host="scripted"), tmp_path / "s", Limits())
    is_owner = True

    def check() -> None:
        if not is_owner:
            raise PtyctlError(ErrorCode.CLAIM_LOST, "the lease was not renewed in time")

    def end_right() -> None:
        nonlocal is_owner
        is_owner = False

    session.set_ownership_check(check, 1.0)
    await session.connect(device)
    assert (await read_from(session.stream, cursor="0", until_regex="R1# ", timeout_ms=PATIENCE_MS)).matched
    device.end_right = end_right
    with pytest.raises(PtyctlError) as caught:
        await call(session)
    assert (caught.value.code, caught.value.retryable, device.written) == (ErrorCode.CLAIM_LOST, True, b"")
    await session.close()


@pytest.mark.parametrize(
    ("reason", "state"),
    [(ChannelEnded("the peer closed"), "eof"), (ChannelBroken("connection reset by peer"), "lost")],
)
async def test_exec_when_channel_ends_raises_remote_closed_with_output_so_far(
    connect: Connect, reason: ChannelError, state: str
) -> None:
    session = await connect(Device(at_crash=reason))
    with pytest.raises(PtyctlError, match=reason.message) as caught:
        await run_command(session, "crash")
    assert caught.value.code is ErrorCode.REMOTE_CLOSED
    assert caught.value.details["stdout"] == "System going down\n"
    assert caught.value.details["done_reason"] == "eof"
    assert session.state == state
    assert session.runs.mode == "idle"
    reply = await read_from(session.stream, cursor="0")
    assert (reply.chunk, reply.eof) == ("R1# crash\nSystem going down\n", True)
    for call in (
        lambda: write_to(session, data="x"),
        lambda: run_command(session, "x"),
        lambda: write_to(session, key="enter"),
    ):
        with pytest.raises(PtyctlError, match=reason.message) as caught:
            await call()
        assert caught.value.code is ErrorCode.REMOTE_CLOSED
    await session.close()
    assert (await read_from(session.stream, cursor="0")).chunk == "R1# crash\nSystem going down\n"


async def test_bug_in_output_processing_ends_session_with_clear_error(connect: Connect) -> None:
    session = await connect(LocalChannel(LocalOptions(argv=BASH), Pty()))

    def fail(begin: int, data: bytes) -> None:
        raise ValueError("a bug")

    session.stream.subscribe_output(fail)
    for _ in range(2):  # during a command, and afterwards
        with pytest.raises(PtyctlError, match=r"internal error in ptyctl \(ValueError\)") as caught:
            await run_command(session, "echo x")
        assert caught.value.code is ErrorCode.REMOTE_CLOSED
    assert session.state == "lost"
    await session.close()


async def test_all_waiting_calls_return_when_channel_ends(connect: Connect) -> None:
    channel = Device()
    session = await connect(channel)
    waits = [asyncio.create_task(read_from(session.stream, until_regex="never", timeout_ms=PATIENCE_MS)) for _ in range(5)]
    run = asyncio.create_task(
        run_command(session, "show nothing at all", until_regex="never", expect={"prompt_regex": "no prompt"})
    )
    await asyncio.sleep(0.05)
    channel.end(ChannelBroken("reset"))
    assert all([(await wait).eof for wait in waits])
    with pytest.raises(PtyctlError) as caught:
        await run
    assert caught.value.code is ErrorCode.REMOTE_CLOSED


async def test_reconnected_session_continues_same_transcript(connect: Connect) -> None:
    session = await connect(Device(at_crash=ChannelBroken("reset")))
    assert (await run_command(session, "show clock")).stdout == "12:00\n"
    with pytest.raises(PtyctlError):
        await run_command(session, "crash")
    cursor = str(session.stream.spool_end)
    await session.connect(Device(answers={"show clock": "13:00\r\n"}))
    assert (session.state, session.incarnation) == ("open", 2)
    assert (await run_command(session, "show clock")).stdout == "13:00\n"
    assert (await read_from(session.stream, cursor=cursor)).chunk == "R1# show clock\n13:00\nR1# "


class Hesitant(MemoryChannel):
    """Begins to open (`opening`), and opens when `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = asyncio.Event()
        self.go = asyncio.Event()
        self.closed = 0

    async def open(self, receiver: Receiver) -> None:
        self.opening.set()
        await self.go.wait()
        await super().open(receiver)

    async def close(self, *, force: bool = False) -> None:
        self.closed += 1
        await super().close(force=force)


async def test_close_during_reconnect_fails_connect_with_already_closed(connect: Connect) -> None:
    first = MemoryChannel()
    session = await connect(first)
    first.end()
    second = Hesitant()
    connecting = asyncio.create_task(session.connect(second))
    await asyncio.sleep(0)
    assert session.state == "reconnecting"
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    second.go.set()
    with pytest.raises(PtyctlError) as caught:
        await connecting
    await closing
    assert caught.value.code is ErrorCode.ALREADY_CLOSED
    assert session.state == "closed"
    assert second.closed


async def test_cancelled_open_leaves_no_session_and_frees_its_slot(tmp_path: Path) -> None:
    channel = Hesitant()
    state = tmp_path / "state"
    async with LocalController(Settings(state_dir=state, max_sessions=1), lambda request: channel) as controller:
        opening = asyncio.create_task(SessionHandle.open(controller, protocol="local", command=BASH))
        await channel.opening.wait()
        opening.cancel()
        assert isinstance((await asyncio.gather(opening, return_exceptions=True))[0], asyncio.CancelledError)
        assert channel.closed
        assert (await controller.session(SessionRequest.of({"action": "list"}))).sessions == []
        channel.go.set()
        await SessionHandle.open(controller, protocol="local", command=BASH)  # its slot is free again


async def test_failed_open_raises_code_hint_and_details(tmp_path: Path) -> None:
    channel = MemoryChannel(
        fail=ConnectTimeout("no answer from scripted within 1 s", hint="check the address", host="scripted")
    )
    async with LocalController(Settings(state_dir=tmp_path / "state"), lambda request: channel) as controller:
        with pytest.raises(PtyctlError, match="no answer from scripted") as caught:
            await SessionHandle.open(controller, protocol="telnet", host="scripted")
    assert caught.value.code is ErrorCode.CONNECT_TIMEOUT
    assert caught.value.retryable
    assert caught.value.hint == "check the address"
    assert caught.value.details == {"host": "scripted"}


async def test_writes_to_blocked_channel_fail_in_time_with_bytes_written(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call returns in time and reports how many bytes were sent; queued calls do not wait forever."""
    monkeypatch.setattr("ptyctl.session.calls.write.MAX_WAIT_MS", 400)
    channel = MemoryChannel()
    session = await connect(channel, protocol="ssh")
    channel.capacity = 10
    results = await asyncio.gather(
        write_to(session, data="a" * 100), write_to(session, data="b"), write_to(session, key="ctrl_c"), return_exceptions=True
    )
    assert [getattr(result, "code", None) for result in results] == [ErrorCode.IO_ERROR] * 3
    assert [getattr(result, "details", {}).get("bytes_written") for result in results] == [10, 0, 0]
    assert bytes(channel.written) == b"a" * 10
    channel.unblock()
    assert (await write_to(session, data="c")).bytes_written == 1
    assert bytes(channel.written) == b"a" * 10 + b"c"


async def test_blocked_write_when_channel_ends_raises_remote_closed(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, protocol="ssh")
    channel.capacity = 10
    writing = asyncio.create_task(write_to(session, data="a" * 100))
    await asyncio.sleep(0)
    channel.end(ChannelBroken("keepalive unanswered"))
    with pytest.raises(PtyctlError, match="keepalive unanswered") as caught:
        await writing
    assert caught.value.code is ErrorCode.REMOTE_CLOSED
    assert caught.value.details["bytes_written"] == 10


async def test_key_break_sends_break_signal(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    assert (await write_to(session, key="break")).bytes_written == 0
    assert channel.breaks == [250]


async def test_resize_without_terminal_is_unsupported(connect: Connect) -> None:
    channel = MemoryChannel()
    channel.pty_enabled = False
    session = await connect(channel)
    with pytest.raises(PtyctlError, match="no terminal") as caught:
        session.resize(80, 24)
    assert caught.value.code is ErrorCode.UNSUPPORTED


async def test_channel_that_ends_during_open_leaves_readable_session_in_eof(tmp_path: Path) -> None:
    class Brief(MemoryChannel):
        async def open(self, receiver: Receiver) -> None:
            await super().open(receiver)
            self.feed(b"go away\r\n")
            self.end(ChannelEnded("the peer hung up"))

    session = Session("s", Spec("telnet", host="scripted"), tmp_path / "s", Settings(state_dir=tmp_path).limits)
    await session.connect(Brief())
    assert session.state == "eof"
    reply = await read_from(session.stream, cursor="0", timeout_ms=PATIENCE_MS, until_regex="never")
    assert (reply.chunk, reply.eof) == ("go away\n", True)
    await session.close()


async def test_failing_sessions_do_not_affect_working_session(tmp_path: Path) -> None:
    """One is killed, one breaks, one floods, one is closed, one never answers."""

    def open_channel(destination: Destination, /) -> Channel:
        return MemoryChannel() if destination.request.host == "silent" else Device(ChannelBroken("reset"))

    async with LocalController(Settings(state_dir=tmp_path / "scripted"), open_channel) as scripted, LocalController() as local:
        good = await SessionHandle.open(local, protocol="local", command=BASH)
        killed = await SessionHandle.open(local, protocol="local", command=BASH)
        flood = await SessionHandle.open(local, protocol="local", command=("yes",))
        closed = await SessionHandle.open(local, protocol="local", command=BASH)
        broken = await SessionHandle.open(scripted, protocol="telnet", host="broken")
        silent = await SessionHandle.open(scripted, protocol="telnet", host="silent")

        async def work() -> list[str]:
            return [(await good.exec(f"echo {number}; sleep 0.01")).stdout for number in range(40)]

        unanswered = {"until_regex": "never", "expect": {"prompt_regex": "none"}}
        working = asyncio.create_task(work())
        failing = [
            asyncio.create_task(killed.exec("kill -9 $$")),
            asyncio.create_task(closed.exec("echo begun; sleep 60")),
            asyncio.create_task(broken.exec("crash", **unanswered)),
            asyncio.create_task(silent.exec("show never", timeout_ms=1_500, **unanswered)),
            asyncio.create_task(flood.read(until_regex="never", timeout_ms=1_000)),
        ]
        await closed.read(until_regex=r"(?m)^begun$", timeout_ms=PATIENCE_MS)
        await closed.close(force=True)
        results = await asyncio.gather(*failing, return_exceptions=True)
        assert await working == [f"{number}\n" for number in range(40)]
        assert [getattr(result, "code", getattr(result, "done_reason", None)) for result in results[:4]] == [
            "eof",
            "cancelled",
            ErrorCode.REMOTE_CLOSED,
            "timeout",
        ]
        states = {(await handle.status()).state for handle in (good, flood, silent)}
        assert states == {"open"}


async def test_hundred_concurrent_sessions_have_no_cross_talk(controller: LocalController) -> None:
    handles = await asyncio.gather(
        *(SessionHandle.open(controller, protocol="local", command=BASH, task_id=f"task-{number}") for number in range(100))
    )

    async def talk(number: int, handle: SessionHandle) -> None:
        for turn in range(3):
            reply = await handle.exec(f"echo session {number} turn {turn}; (exit {number})", timeout_ms=50_000)
            assert (reply.stdout, reply.exit_code) == (f"session {number} turn {turn}\n", number)
        seen = await handle.read(timeout_ms=0)
        numbers = {line.split()[1] for line in (seen.chunk or "").split("\n") if line.startswith("session ")}
        assert numbers == {str(number)}

    async with asyncio.timeout(60):
        await asyncio.gather(*(talk(number, handle) for number, handle in enumerate(handles)))
    assert len((await controller.session(SessionRequest.of({"action": "list"}))).sessions or []) == 100


async def test_second_channel_end_keeps_first_reason(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.end(ChannelEnded("the first"))
    channel.end(ChannelClosed("the second"))
    assert session.stream.ended is not None
    assert session.stream.ended.message == "the first"
