"""What can go wrong, from the name of the host to a line that dies: a clear error each time, and nothing left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.servers.inprocess_ssh import HOST, USER, Login, Shell, running_ssh_server
from fixtures.servers.programs import free_port
from fixtures.servers.relay import Relay
from transports.errors import (
    ChannelBroken,
    ChannelClosed,
    ChannelEnded,
    ChannelError,
    ConnectFailed,
    ConnectTimeout,
    Unsupported,
)
from transports.receiver import QueueReceiver
from transports.ssh import Auth, HostKeys, SshChannel, SshOptions

PASSWORD = Login(password="pw")
#: Short, and yet long enough for a busy machine to reach the stage that hangs.
TIMEOUT_S = 0.5


class Recorder(QueueReceiver):
    """Counts the ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[ChannelError] = []

    def channel_ended(self, reason: ChannelError) -> None:
        self.ends.append(reason)
        super().channel_ended(reason)


def options_for(port: int, **more: Any) -> SshOptions:
    fields = {"host": HOST, "host_keys": HostKeys("disabled"), "use_openssh_config": False, **more}
    return SshOptions(port=port, username=USER, auth=Auth("password", "pw"), **fields)


async def failure(port: int, **more: Any) -> ChannelError:
    """The error of an open that must fail, and must leave nothing behind."""
    before = asyncio.all_tasks()
    receiver = Recorder()
    with pytest.raises(ChannelError) as caught:
        await SshChannel(options_for(port, **more)).open(receiver)
    assert not receiver.ends
    assert asyncio.all_tasks() - before == set()
    return caught.value


@asynccontextmanager
async def opened(port: int, **more: Any) -> AsyncIterator[tuple[SshChannel, Recorder]]:
    channel, receiver = SshChannel(options_for(port, **more)), Recorder()
    await channel.open(receiver)
    try:
        yield channel, receiver
    finally:
        await channel.close()
    assert len(receiver.ends) == 1


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tcp_server(talk: Talk) -> AsyncIterator[int]:
    """A server that says what `talk` says, and nothing more until the client is gone."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await talk(reader, writer)
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        if tasks:
            await asyncio.wait(tasks)


def saying(data: bytes, then: Callable[[asyncio.StreamWriter], None] = lambda _: None) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        then(writer)

    return talk


async def test_a_port_where_nobody_listens() -> None:
    error = await failure(free_port())
    assert isinstance(error, ConnectFailed)
    assert "refused" in error.message
    assert error.details["host"] == HOST


async def test_a_name_that_nobody_has() -> None:
    error = await failure(22, host="no-such-host.invalid")
    assert isinstance(error, ConnectFailed)
    assert "resolve" in error.message


async def test_a_server_that_accepts_and_says_nothing() -> None:
    async with tcp_server(saying(b"")) as port:
        with pytest.raises(ConnectTimeout) as caught:
            await SshChannel(options_for(port, connect_timeout_s=0.1)).open(Recorder())
    assert caught.value.details["stage"] == "version"
    assert "check that the port is that of an SSH server" in caught.value.message
    assert "0.1 s" in caught.value.message


async def test_a_server_that_stops_after_its_version() -> None:
    async with tcp_server(saying(b"SSH-2.0-Slow_1\r\n")) as port:
        with pytest.raises(ConnectTimeout, match="exchanging keys"):
            await SshChannel(options_for(port, connect_timeout_s=0.1)).open(Recorder())


class Stalling(asyncssh.SSHServer):
    """Never answers at one stage."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    async def begin_auth(self, username: str) -> bool:
        if self._stage == "login":
            await asyncio.Event().wait()
        return False

    async def session_requested(self) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize("stage", ["login", "session"])
async def test_a_server_that_stops_later(stage: str) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with await asyncssh.listen(
        HOST, 0, server_factory=lambda: Stalling(stage), server_host_keys=[key], gss_host=None, config=None
    ) as server:
        with pytest.raises(ConnectTimeout) as caught:
            await SshChannel(options_for(server.get_port(), connect_timeout_s=TIMEOUT_S)).open(Recorder())
    assert caught.value.details["stage"] == stage


def abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize(
    "talk",
    [
        saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", asyncio.StreamWriter.close),
        saying(b"\xff\xfb\x01login: " + b"\n" * 5000),
        saying(b"SSH-1.5-Old\r\n"),
        saying(b"", asyncio.StreamWriter.close),
        saying(b"", abort),
        saying(b"SSH-2.0-x\r\n", asyncio.StreamWriter.close),
        saying(b"SSH-2.0-x\r\n" + b"\x00" * 100),
        saying(b"SSH-2.0-x\r\n\xff\xff\xff\xff" + b"x" * 100),
    ],
)
async def test_a_server_that_does_not_speak_ssh(talk: Talk) -> None:
    async with tcp_server(talk) as port:
        with pytest.raises(ConnectFailed):
            await SshChannel(options_for(port)).open(Recorder())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.binary(max_size=300))
async def test_random_bytes_for_a_key_exchange(data: bytes) -> None:
    async with tcp_server(saying(b"SSH-2.0-x\r\n" + data, lambda writer: writer.write_eof())) as port:
        with pytest.raises(ConnectFailed):
            await SshChannel(options_for(port)).open(Recorder())


async def test_a_server_without_terminals() -> None:
    async with running_ssh_server(PASSWORD, allow_pty=False) as server:
        with pytest.raises(Unsupported, match=r"pty\.enabled false"):
            await SshChannel(options_for(server.port)).open(Recorder())
        async with opened(server.port, pty=None):
            pass


async def test_a_server_without_shells() -> None:
    async with running_ssh_server(PASSWORD, takes_commands=False) as server:
        with pytest.raises(ConnectFailed, match="refused the session"):
            await SshChannel(options_for(server.port, command="ls")).open(Recorder())
        await server.wait_until(lambda: not server.live)


async def test_a_server_that_goes_away_instead_of_giving_a_session() -> None:
    class Leaving(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._connection = conn

        def begin_auth(self, username: str) -> bool:
            return False

        def session_requested(self) -> Any:
            self._connection.abort()
            return False

    key = asyncssh.generate_private_key("ssh-ed25519")
    async with await asyncssh.listen(
        HOST, 0, server_factory=Leaving, server_host_keys=[key], gss_host=None, config=None
    ) as server:
        with pytest.raises(ConnectFailed, match="closed the connection"):
            await SshChannel(options_for(server.get_port())).open(Recorder())


async def test_a_line_that_is_reset_is_broken() -> None:
    async with running_ssh_server(PASSWORD) as server, Relay(server.port) as relay, opened(relay.port) as (channel, receiver):
        await channel.send(b"before")
        await receiver.receive_until(b"before")
        relay.reset()
        with pytest.raises(ChannelBroken, match="reset"):
            await receiver.receive()
        with pytest.raises(ChannelBroken):
            channel.write(b"x")
        with pytest.raises(ChannelBroken):
            await channel.drain()
        await channel.close()
        assert receiver.ends[0].retryable


async def test_a_line_that_is_closed_has_ended() -> None:
    """Many devices close the TCP connection at exit, and nothing else."""
    async with running_ssh_server(PASSWORD) as server, Relay(server.port) as relay, opened(relay.port) as (_, receiver):
        relay.close()
        with pytest.raises(ChannelEnded):
            await receiver.receive()


async def test_a_server_that_disconnects_has_ended_the_channel() -> None:
    async with running_ssh_server(PASSWORD) as server, opened(server.port) as (_, receiver):
        server.live[0].close()
        with pytest.raises(ChannelEnded):
            await receiver.receive()


async def test_a_dead_line_is_noticed_by_keepalives() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        opened(relay.port, keepalive_s=0.02) as (_, receiver),
    ):
        relay.freeze()
        with pytest.raises(ChannelBroken, match="keepalive"):
            await receiver.receive()


async def test_a_quiet_line_is_kept_by_keepalives() -> None:
    async with running_ssh_server(PASSWORD) as server, opened(server.port, keepalive_s=0.02) as (channel, receiver):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), 0.3)
        await channel.send(b"still here")
        await receiver.receive_until(b"still here")


async def test_without_keepalives_nothing_is_sent() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        opened(relay.port, keepalive_s=0) as (channel, receiver),
    ):
        relay.freeze()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), 0.2)
        await channel.close()
        assert isinstance(receiver.ends[0], ChannelClosed)


def finish_at_once(shell: Shell) -> None:
    shell.channel.write(b"x" * 100_000)
    shell.channel.write_stderr(b"last")
    shell.channel.exit(9)


async def test_an_end_before_open_returned_comes_after_the_last_byte() -> None:
    async with running_ssh_server(PASSWORD, finish_at_once) as server, opened(server.port) as (channel, receiver):
        assert len(await receiver.receive_until(b"last")) == 100_004
        with pytest.raises(ChannelEnded, match="exit code 9"):
            await receiver.receive()
        assert channel.exit_status is not None
        assert channel.exit_status.code == 9


async def test_breaks_and_sizes_reach_the_server() -> None:
    async with running_ssh_server(PASSWORD) as server, opened(server.port) as (channel, _):
        await channel.send_break()
        await channel.send_break(700)
        channel.resize(65535, 1)
        (shell,) = server.shells
        await server.wait_until(lambda: len(shell.sizes) == 2)
        assert shell.breaks == [250, 700]
        assert shell.sizes == [(120, 40), (65535, 1)]
        assert shell.term == "xterm-256color"


@pytest.mark.parametrize("bytes_through", [0, 30, 1000, 2000, 3000, 10_000])
async def test_an_open_that_is_cancelled_leaves_nothing(bytes_through: int) -> None:
    """Cancelled at several points: the line goes dead after so many bytes from the server."""
    async with running_ssh_server(PASSWORD) as server, Relay(server.port, bytes_through) as relay:
        before = asyncio.all_tasks()
        receiver = Recorder()
        channel = SshChannel(options_for(relay.port))
        opening = asyncio.ensure_future(channel.open(receiver))
        stuck = asyncio.ensure_future(relay.stuck.wait())
        await asyncio.wait([opening, stuck], return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        opening.cancel()
        await asyncio.wait([opening, stuck])
        if opening.cancelled():
            assert not receiver.ends
        await channel.close()
        relay.thaw()
        await server.wait_until(lambda: not server.live)
        assert {task for task in asyncio.all_tasks() - before if "transports" in repr(task.get_coro())} == set()


async def test_a_close_ends_an_open_that_is_under_way() -> None:
    async with tcp_server(saying(b"SSH-2.0-Slow_1\r\n")) as port:
        receiver = Recorder()
        channel = SshChannel(options_for(port))
        opening = asyncio.ensure_future(channel.open(receiver))
        await asyncio.sleep(0)
        await channel.close()
        with pytest.raises(ChannelClosed):
            await opening
        assert not receiver.ends


_opened_files: list[str] | None = None


def _note_opened_files(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened_files is not None:
        _opened_files.append(str(arguments[0]))


# A hook cannot be removed, so there is one, and it is idle without the list.
sys.addaudithook(_note_opened_files)


@pytest.mark.parametrize("hermetic", [True, False])
async def test_without_the_configuration_nothing_of_the_home_is_read(
    hermetic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    global _opened_files
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".ssh"
    folder.mkdir()
    written = ("config", "known_hosts", "id_rsa", "id_ed25519", "ca-bundle.crt")
    for name in written:
        (folder / name).write_text("")
    async with running_ssh_server(PASSWORD) as server:
        _opened_files = []
        try:
            options = SshOptions(HOST, server.port, USER, Auth("auto", "pw"), host_keys=HostKeys("disabled"))
            if hermetic:
                options = options_for(server.port)
            channel = SshChannel(options)
            await channel.open(Recorder())
            await channel.close()
            of_home = {path for path in _opened_files if path.startswith(str(tmp_path))}
        finally:
            _opened_files = None
    expected = set() if hermetic else {"config", "known_hosts", "id_rsa", "id_ed25519"}
    assert {path for path in written if str(folder / path) in of_home} == expected
    assert bool(of_home) is not hermetic
