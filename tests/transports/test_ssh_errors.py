"""What can go wrong before a channel is open: a clear error each time, and nothing left behind."""

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

from fixtures.servers.inprocess_ssh import HOST, USER, Login, running_ssh_server
from fixtures.servers.programs import free_port
from fixtures.servers.relay import Relay
from fixtures.ssh import Recorder, opened, options_for
from transports.errors import (
    ChannelClosed,
    ChannelError,
    ConnectFailed,
    ConnectTimeout,
    Unsupported,
)
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectOptions

PASSWORD = Login(password="pw")
#: Short, and yet long enough for a busy machine to reach the stage that hangs.
TIMEOUT_S = 0.5


async def failure(port: int, **more: Any) -> ChannelError:
    """The error of an open that must fail, and must leave nothing behind."""
    before = asyncio.all_tasks()
    receiver = Recorder()
    with pytest.raises(ChannelError) as caught:
        await SshChannel(options_for(port, **more)).open(receiver)
    assert not receiver.ends
    assert asyncio.all_tasks() - before == set()
    return caught.value


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
    assert "check that the port is that of an SSH server" in (caught.value.hint or "")
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
        with pytest.raises(Unsupported, match="refused to allocate a terminal") as caught:
            await SshChannel(options_for(server.port)).open(Recorder())
        assert "pty.enabled false" in (caught.value.hint or "")
        async with opened(options_for(server.port, pty=None)):
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
            options = SshConnectOptions(HOST, server.port, USER, SshAuth("auto", "pw"), host_keys=HostKeyOptions("disabled"))
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
