"""LocalChannel with real programs."""

from __future__ import annotations

import asyncio
import errno
import os
import pty
import termios
import tty
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fixtures.receiver import RecordingReceiver
from tests.session.scripted_session import wait_until
from transports import local
from transports.channel import ExitStatus, Pty
from transports.errors import ChannelClosed, ChannelEnded, ConnectFailed, InvalidOption
from transports.local import LocalChannel, LocalOptions

pytestmark = pytest.mark.waits

Start = Callable[..., Awaitable[tuple[LocalChannel, RecordingReceiver]]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    channels: list[LocalChannel] = []

    async def run(*argv: str, pty: Pty | None = None, **options: object) -> tuple[LocalChannel, RecordingReceiver]:
        channel = LocalChannel(LocalOptions(argv=argv, **options), pty or Pty())  # type: ignore[arg-type]
        receiver = RecordingReceiver()
        await channel.open(receiver)
        channels.append(channel)
        return channel, receiver

    yield run
    for channel in channels:
        await channel.close(force=True)


async def test_local_exit_reports_output_then_end_with_exit_code(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "printf 'a\\nb'; exit 3")
    output = await receiver.receive_all()
    (reason,) = receiver.ends
    assert output == b"a\r\nb"
    assert isinstance(reason, ChannelEnded)
    assert channel.exit_status == ExitStatus(code=3)
    assert "exited with 3" in reason.message


async def test_local_output_is_complete_before_end(start: Start) -> None:
    _, receiver = await start("sh", "-c", "seq 1 20000")
    output = await receiver.receive_all()
    assert output.split() == [str(number).encode() for number in range(1, 20001)]


async def test_local_last_output_that_the_kernel_reports_late_is_received_before_the_end(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """epoll(7) does not report the output of an ended program while the kernel's work queue has not passed it on."""
    monkeypatch.setattr(local, "LAST_OUTPUT_S", 0.0)
    channel, receiver = await start("sh", "-c", "sleep 60 & echo last")
    loop, output = asyncio.get_running_loop(), channel.terminal_fd
    assert output is not None
    loop.remove_reader(output)
    await channel._exited.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert receiver.ends == []
    loop.add_reader(output, channel._read_ready)
    assert await receiver.receive_all() == b"last\r\n"
    assert channel.exit_status == ExitStatus(code=0)


async def test_local_death_by_signal_reports_signal_status(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "kill -9 $$")
    await receiver.receive_all()
    assert channel.exit_status == ExitStatus(signal="KILL")
    assert channel.exit_status.shell_code == 137


async def test_local_program_leads_session_with_controlling_terminal_of_requested_size(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "ps -o pid=,sid=,tty= -p $$; stty size; cat </dev/tty", pty=Pty(91, 17))
    output = await receiver.receive_until(b"17 91")
    pid, sid, tty = output.split()[:3]
    assert pid == sid
    assert tty.startswith(b"pts/")
    assert os.getsid(channel.pid) == channel.pid


async def test_local_resize_changes_size_and_sends_sigwinch(start: Start) -> None:
    channel, receiver = await start("bash", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    await receiver.receive_until(b"ready")
    channel.resize(77, 33)
    assert b"33 77" in await receiver.receive_until(b"33 77")


async def test_local_program_has_requested_cwd_env_and_term(start: Start) -> None:
    _, receiver = await start("sh", "-c", "pwd; echo $EXTRA-$TERM", cwd="/usr", env={"EXTRA": "ü"}, pty=Pty(term="vt100"))
    assert await receiver.receive_all() == "/usr\r\nü-vt100\r\n".encode()


async def test_local_master_is_not_inherited_by_other_programs(start: Start) -> None:
    first, receiver = await start("cat")
    _, other = await start("sh", "-c", "ls -l /proc/$$/fd; echo done")
    assert b"ptmx" not in await other.receive_until(b"done")
    await first.close()
    await receiver.receive_all()
    assert isinstance(receiver.ends[0], ChannelClosed)


@pytest.mark.parametrize(("argv", "why"), [(("/nonexistent/x",), "No such file"), (("/etc/passwd",), "Permission denied")])
async def test_local_open_of_unstartable_program_raises_reason(start: Start, argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConnectFailed, match=why):
        await start(*argv)


async def test_local_open_with_missing_cwd_raises_invalid_option(start: Start) -> None:
    with pytest.raises(InvalidOption, match="no directory"):
        await start("sh", cwd="/nonexistent")


async def test_local_write_to_full_pty_returns_and_drain_waits(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "stty raw -echo; echo ready; read -r _ </dev/null; sleep 0.2; cat")
    await receiver.receive_until(b"ready")
    written = 0
    while count := channel.write(b"x" * 4096):
        written += count
    await channel.drain()
    await channel.send(b"end")
    assert (await receiver.receive_until(b"end")).count(b"x") == written


async def test_local_close_wakes_all_waiting_writers(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "stty raw -echo; echo ready; exec sleep 60")
    await receiver.receive_until(b"ready")
    while channel.write(b"x" * 4096):
        pass
    writers = [asyncio.ensure_future(channel.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    writers[0].cancel()
    await channel.close(force=True)
    results = await asyncio.gather(*writers, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, ChannelClosed, ChannelClosed]


async def test_local_close_kills_program_that_ignores_hangup(start: Start) -> None:
    channel, receiver = await start("bash", "-c", "trap '' HUP; echo ready; while :; do read -r line || sleep 0.1; done")
    await receiver.receive_until(b"ready")
    await channel.close()
    assert channel.exit_status == ExitStatus(signal="KILL")
    assert not Path(f"/proc/{channel.pid}").exists()


async def test_local_operations_after_close_raise_channel_closed(start: Start) -> None:
    channel, _ = await start("cat")
    await asyncio.gather(channel.close(), channel.close())
    channel.resize(10, 10)
    with pytest.raises(ChannelClosed):
        channel.write(b"x")
    with pytest.raises(ChannelClosed):
        await channel.drain()


async def test_local_echo_off_follows_termios(start: Start) -> None:
    channel, receiver = await start("sh", "-c", "echo one; read -r _; stty -echo; echo two; cat")
    await receiver.receive_until(b"one")
    assert not channel.echo_off
    await channel.send(b"\r")
    await receiver.receive_until(b"two")
    assert channel.echo_off


async def test_local_program_that_closes_its_terminal_ends_channel(start: Start) -> None:
    _, receiver = await start("bash", "-c", "exec </dev/null >/dev/null 2>&1; sleep 60")
    await receiver.receive_all()
    (reason,) = receiver.ends
    assert isinstance(reason, ChannelEnded)
    assert "closed its terminal" in reason.message


async def test_local_hundred_channels_do_not_mix_data(start: Start) -> None:
    channels = await asyncio.gather(*(start("cat") for _ in range(100)))
    for number, (channel, _) in enumerate(channels):
        await channel.send(b"%d\r" % number)
    for number, (_, receiver) in enumerate(channels):
        twice = b"%d\r\n" % number * 2  # the echo, and the output, of which the kernel may deliver a part first
        assert await receiver.receive_until(twice) == twice


async def test_local_output_written_before_is_read_while_pending_output_is_read() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    channel, receiver = LocalChannel.adopt(os.dup(master), Pty()), RecordingReceiver()
    await channel.open(receiver)
    try:
        for number in range(2000):
            os.write(slave, b"%d;" % number)
            await channel.read_pending()
            async with asyncio.timeout(0):  # expires at the first wait
                assert await receiver.receive() == b"%d;" % number
    finally:
        os.close(slave)
        os.close(master)
        await channel.close(force=True)


async def test_local_output_is_unread_until_it_is_received() -> None:
    master, slave = os.openpty()
    channel, receiver = LocalChannel.adopt(os.dup(master), Pty()), RecordingReceiver()
    await channel.open(receiver)
    try:
        for _ in range(2000):  # the system passes output on later in about one of 20,000 writes, and must not be waited for
            os.write(slave, b"text")
            assert channel.has_unread_output()
            assert await receiver.receive() == b"text"
            assert not channel.has_unread_output()
    finally:
        os.close(slave)
        os.close(master)
        await channel.close(force=True)
    assert not channel.has_unread_output()


async def test_local_terminal_modes_after_close_are_off(start: Start) -> None:
    channel, _ = await start("cat")
    await channel.close(force=True)
    assert (channel.canonical, channel.echo_off) == (False, False)


async def test_local_input_is_not_read_while_a_shell_waits_for_a_child_that_works(start: Start) -> None:
    channel, receiver = await start("bash", "-c", "stty raw -echo; x=$(echo ready >/dev/tty; while :; do :; done)")
    await receiver.receive_until(b"ready")
    assert not channel.input_is_read()
    await channel.close(force=True)


async def test_local_input_is_read_by_a_child_of_the_program(start: Start) -> None:
    channel, receiver = await start("bash", "-c", "echo ready; cat; true")
    await receiver.receive_until(b"ready")
    await wait_until(lambda: channel.input_is_read() is True)
    await channel.close(force=True)


@pytest.mark.parametrize(("program", "expected"), [("cat", True), ("sleep 60", False)])
async def test_local_input_is_read_by_a_program_that_reads(start: Start, program: str, expected: bool) -> None:
    channel, receiver = await start("sh", "-c", f"stty raw -echo; echo ready; {program}")
    await receiver.receive_until(b"ready")
    await channel.send(b"x")
    await wait_until(lambda: channel.input_is_read() is expected)
    await channel.close(force=True)
    assert channel.input_is_read() is None


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ("sane", False),
        ("raw", False),
        ("-icanon inlcr -icrnl", False),  # zsh
        ("iuclc", True),
        ("istrip", True),
        ("igncr", True),
        ("inlcr", True),
        ("-icrnl", True),
        ("start x", True),
        ("-icanon intr x", True),
        ("kill x", True),
        ("rprnt x", True),
        ("-icanon kill x", False),
    ],
)
async def test_terminal_reports_whether_it_rewrites_input(start: Start, modes: str, expected: bool) -> None:
    channel, receiver = await start("sh", "-c", f"stty {modes}; echo ready; exec sleep 60")
    await receiver.receive_until(b"ready")
    assert channel.rewrites_input is expected


async def test_terminal_that_is_closed_counts_as_one_that_rewrites_input(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, receiver = await start("sh", "-c", "echo ready; exec sleep 60")
    await receiver.receive_until(b"ready")

    def closed(terminal: int) -> list[object]:
        raise termios.error(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(termios, "tcgetattr", closed)
        assert channel.rewrites_input
    assert not channel.rewrites_input
    await channel.close(force=True)
    assert channel.rewrites_input
