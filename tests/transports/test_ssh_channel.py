"""SshChannel against a real sshd: with and without a terminal, sizes, exit status, large input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.ssh import open_channel, options_for_sshd
from transports.channel import ExitStatus, Pty
from transports.errors import ChannelClosed, ChannelEnded, InvalidOption, Unsupported
from transports.ssh import SshChannel, SshConnectionPool

#: A shell without start-up files, with a known prompt.
SHELL = "exec env PS1='ready$ ' bash --norc --noprofile"
READY = b"ready$ "


@pytest.fixture(scope="module")
def sshd() -> Iterator[OpenSshServer]:
    with running_sshd() as server:
        yield server


async def test_sshd_login_shell_has_requested_terminal(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, pty=Pty(132, 50, "vt220"))) as (channel, receiver):
        assert channel.pty_enabled
        assert channel.enter == b"\r"
        assert channel.server_banner is not None
        assert channel.server_banner.startswith("SSH-2.0-OpenSSH")
        await channel.send(b"echo $TERM $(stty size) e''nd\r")
        assert b"vt220 50 132 end" in await receiver.receive_until(b"end")


async def test_sshd_resize_changes_size(sshd: OpenSshServer) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    async with open_channel(options_for_sshd(sshd, command=f"bash -c {script!r}")) as (channel, receiver):
        await receiver.receive_until(b"40 120")
        channel.resize(200, 61)
        await receiver.receive_until(b"61 200")
        with pytest.raises(InvalidOption):
            channel.resize(0, 10)
        with pytest.raises(InvalidOption):
            channel.resize(10, 65536)


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
async def test_sshd_exit_code_is_reported(sshd: OpenSshServer, code: int) -> None:
    async with open_channel(options_for_sshd(sshd, command=f"echo last; exit {code}")) as (channel, receiver):
        assert await receiver.receive_all() == b"last\r\n"
        assert channel.exit_status == ExitStatus(code=code)
        (reason,) = receiver.ends
        assert isinstance(reason, ChannelEnded)
        assert f"exit code {code}" in reason.message


async def test_sshd_death_by_signal_is_reported(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, command="exec bash -c 'kill -TERM $$'")) as (channel, receiver):
        await receiver.receive_all()
        assert channel.exit_status == ExitStatus(signal="TERM")
        assert channel.exit_status.shell_code == 143
        assert "signal TERM" in receiver.ends[0].message


async def test_sshd_operations_after_end_raise_channel_ended(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, command="true")) as (channel, receiver):
        await receiver.receive_all()
        channel.resize(10, 10)
        with pytest.raises(ChannelEnded):
            channel.write(b"x")
        with pytest.raises(ChannelEnded):
            await channel.drain()
        with pytest.raises(ChannelEnded):
            await channel.send_break()


async def test_sshd_operations_after_close_raise_channel_closed(sshd: OpenSshServer) -> None:
    for force in (False, True):
        async with open_channel(options_for_sshd(sshd)) as (channel, receiver):
            await channel.close(force=force)
            assert isinstance(receiver.ends[0], ChannelClosed)
            await channel.close()
            channel.resize(10, 10)
            with pytest.raises(ChannelClosed):
                channel.write(b"x")
            with pytest.raises(ChannelClosed):
                await channel.drain()


async def test_ssh_operations_before_open_raise_channel_closed(sshd: OpenSshServer) -> None:
    channel = SshChannel(options_for_sshd(sshd))
    with pytest.raises(ChannelClosed):
        channel.write(b"x")
    with pytest.raises(ChannelClosed):
        await channel.drain()
    await channel.close()
    with pytest.raises(InvalidOption):
        await channel.open(RecordingReceiver())


async def test_sshd_second_open_raises_invalid_option(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd)) as (channel, receiver):
        with pytest.raises(InvalidOption):
            await channel.open(receiver)


async def test_sshd_channel_without_terminal_merges_stderr(sshd: OpenSshServer) -> None:
    command = "tty; echo one; read next; echo two >&2; read next; echo three; cat; exit 4"
    async with open_channel(options_for_sshd(sshd, pty=None, command=command)) as (channel, receiver):
        assert not channel.pty_enabled
        assert channel.enter == b"\n"
        for output in (b"not a tty\none\n", b"two\n", b"three\n"):
            assert await receiver.receive_until(output) == output
            await channel.send(b"\n")
        assert await receiver.receive_until(b"\n") == b"\n"  # of cat
        await channel.send(b"\x00\xff raw \r\n")
        assert await receiver.receive_until(b"raw \r\n") == b"\x00\xff raw \r\n"
        with pytest.raises(Unsupported):
            channel.resize(80, 24)
        with pytest.raises(Unsupported):
            await channel.send_break()


async def test_sshd_channel_without_terminal_accepts_input_after_output_ended(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, pty=None, command="exec >&- 2>&-; read line; exit $line")) as (
        channel,
        receiver,
    ):
        # If the channel were closed at end of file, there would be no exit code.
        await channel.send(b"7\n")
        await receiver.receive_all()
        assert channel.exit_status == ExitStatus(code=7)


async def test_sshd_receives_environment_and_quoted_command(sshd: OpenSshServer) -> None:
    command = ("printf", "%s|", "a b", "$HOME", "it's")
    async with open_channel(options_for_sshd(sshd, pty=None, command=command)) as (_, receiver):
        assert await receiver.receive_all() == b"a b|$HOME|it's|"
    async with open_channel(options_for_sshd(sshd, pty=None, command="echo $GREETING", env={"GREETING": "grüß dich"})) as (
        _,
        receiver,
    ):
        assert await receiver.receive_all() == "grüß dich\n".encode()


async def test_sshd_break_has_no_side_effect(sshd: OpenSshServer) -> None:
    """sshd passes it to the pseudo-terminal, where Linux ignores BREAK; the session must remain usable."""
    async with open_channel(options_for_sshd(sshd, command=SHELL)) as (channel, receiver):
        await receiver.receive_until(READY)
        await channel.send_break()
        await channel.send(b"echo o''k\r")
        await receiver.receive_until(b"ok")


async def test_sshd_paste_of_64_kb_is_echoed_completely(sshd: OpenSshServer) -> None:
    paste = b"".join(b"%06d %s\n" % (number, b"x" * 56) for number in range(1024))
    async with open_channel(options_for_sshd(sshd, command="stty raw -echo; echo ready; cat")) as (channel, receiver):
        await receiver.receive_until(b"ready\n")
        sending = asyncio.ensure_future(channel.send(paste))
        assert await receiver.receive_until(paste[-64:]) == paste
        await sending


async def test_sshd_flood_is_received_completely_in_order(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, command="stty -opost; seq 1 200000")) as (_, receiver):
        assert await receiver.receive_all() == b"".join(b"%d\n" % number for number in range(1, 200001))


async def test_sshd_ctrl_c_stops_unread_flood(sshd: OpenSshServer) -> None:
    async with open_channel(options_for_sshd(sshd, command=SHELL)) as (channel, receiver):
        await receiver.receive_until(READY)
        await channel.send(b"yes\r")
        await receiver.receive_until(b"y\r\ny\r\n")
        await channel.send(b"\x03")
        await receiver.receive_until(b"^C")
        await channel.send(b"echo $?\r")
        await receiver.receive_until(b"130")


async def test_sshd_hundred_channels_do_not_mix_data(sshd: OpenSshServer) -> None:
    connections = SshConnectionPool()

    async def one(number: int) -> bytes:
        options = options_for_sshd(sshd, pty=None, command=f"read line; echo {number} $line {number}")
        channel, receiver = SshChannel(options, connections), RecordingReceiver()
        await channel.open(receiver)
        live.append(channel)
        if len(live) == 100:
            all_live.set()
        await all_live.wait()
        await channel.send(b"line-%d\n" % number)
        seen = await receiver.receive_all()
        await channel.close()
        return seen

    live: list[SshChannel] = []
    all_live = asyncio.Event()
    seen = await asyncio.gather(*(one(number) for number in range(100)))
    assert seen == [b"%d line-%d %d\n" % (number, number, number) for number in range(100)]
