"""Failures while an SSH channel opens: the error for each, and the release of all resources."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import HOST, USER, LoginPolicy, running_ssh_server
from fixtures.servers.programs import free_port
from fixtures.servers.relay import Relay
from fixtures.ssh import open_channel, options_for
from transports.errors import (
    ChannelClosed,
    ChannelError,
    ConnectFailed,
    ConnectTimeout,
    Unsupported,
)
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectOptions

pytestmark = pytest.mark.waits

PASSWORD = LoginPolicy(password="pw")
#: The timeout of the opens that the test itself lets time out.
TIMEOUT_S = 2.0


async def failure(port: int, **more: Any) -> ChannelError:
    """Return the error of an open that must fail; check that it leaves no task and reports no end."""
    before = asyncio.all_tasks()
    receiver = RecordingReceiver()
    with pytest.raises(ChannelError) as caught:
        await SshChannel(options_for(port, **more)).open(receiver)
    assert not receiver.ends
    assert asyncio.all_tasks() - before == set()
    return caught.value


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tcp_server(talk: Talk) -> AsyncIterator[int]:
    """Run a TCP server that calls `talk` for each connection, then reads until the client closes."""
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


async def test_ssh_open_to_closed_port_raises_connect_failed() -> None:
    error = await failure(free_port())
    assert isinstance(error, ConnectFailed)
    assert "refused" in error.message
    assert error.details["host"] == HOST


async def test_ssh_open_to_unknown_host_raises_connect_failed() -> None:
    error = await failure(22, host="no-such-host.invalid")
    assert isinstance(error, ConnectFailed)
    assert "resolve" in error.message


@pytest.fixture
def expire(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the open in progress time out. A machine may need any time until it reaches the stage of a test."""
    timeouts: list[asyncio.Timeout] = []
    start_timeout = asyncio.timeout

    def start(limit_s: float | None) -> asyncio.Timeout:
        timeout = start_timeout(None if limit_s == TIMEOUT_S else limit_s)
        if limit_s == TIMEOUT_S:
            timeouts.append(timeout)
        return timeout

    monkeypatch.setattr(asyncio, "timeout", start)
    return lambda: timeouts[-1].reschedule(asyncio.get_running_loop().time())


async def time_out(port: int) -> ConnectTimeout:
    """Return the error of an open that the server lets time out."""
    with pytest.raises(ConnectTimeout) as caught:
        await SshChannel(options_for(port, connect_timeout_s=TIMEOUT_S)).open(RecordingReceiver())
    return caught.value


async def test_ssh_open_to_silent_server_raises_connect_timeout_with_hint(expire: Callable[[], None]) -> None:
    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readline()  # the client's version
        expire()

    async with tcp_server(talk) as port:
        error = await time_out(port)
    assert error.details["stage"] == "version"
    assert "check that the port is that of an SSH server" in (error.hint or "")
    assert f"{TIMEOUT_S:g} s" in error.message


async def test_ssh_open_to_server_silent_after_version_raises_connect_timeout(expire: Callable[[], None]) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-Slow_1\r\n")
        await reader.readline()
        await reader.read(1)  # of the key exchange
        expire()

    async with tcp_server(talk) as port:
        assert "exchanging keys" in (await time_out(port)).message


class Stalling(asyncssh.SSHServer):
    """A server that never responds at one stage; it calls `at_stage` then."""

    def __init__(self, stage: str, at_stage: Callable[[], None]) -> None:
        self._stage = stage
        self._at_stage = at_stage

    async def begin_auth(self, username: str) -> bool:
        if self._stage == "login":
            self._at_stage()
            await asyncio.Event().wait()
        return False

    async def session_requested(self) -> Any:
        self._at_stage()
        await asyncio.Event().wait()


@pytest.mark.parametrize("stage", ["login", "session"])
async def test_ssh_open_to_server_silent_at_stage_names_stage(stage: str, expire: Callable[[], None]) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with await asyncssh.listen(
        HOST, 0, server_factory=lambda: Stalling(stage, expire), server_host_keys=[key], gss_host=None, config=None
    ) as server:
        assert (await time_out(server.get_port())).details["stage"] == stage


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
async def test_ssh_open_to_non_ssh_server_raises_connect_failed(talk: Talk) -> None:
    async with tcp_server(talk) as port:
        with pytest.raises(ConnectFailed):
            await SshChannel(options_for(port)).open(RecordingReceiver())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.binary(max_size=300))
async def test_ssh_open_with_random_key_exchange_raises_connect_failed(data: bytes) -> None:
    async with tcp_server(saying(b"SSH-2.0-x\r\n" + data, lambda writer: writer.write_eof())) as port:
        with pytest.raises(ConnectFailed):
            await SshChannel(options_for(port)).open(RecordingReceiver())


async def test_ssh_open_without_server_terminals_raises_unsupported() -> None:
    async with running_ssh_server(PASSWORD, allow_pty=False) as server:
        with pytest.raises(Unsupported, match="refused to allocate a terminal") as caught:
            await SshChannel(options_for(server.port)).open(RecordingReceiver())
        assert "pty.enabled false" in (caught.value.hint or "")
        async with open_channel(options_for(server.port, pty=None)):
            pass


async def test_ssh_open_with_refused_command_raises_connect_failed() -> None:
    async with running_ssh_server(PASSWORD, takes_commands=False) as server:
        with pytest.raises(ConnectFailed, match="refused the session"):
            await SshChannel(options_for(server.port, command="ls")).open(RecordingReceiver())
        await server.wait_until(lambda: not server.live)


async def test_ssh_open_with_connection_lost_at_session_raises_connect_failed() -> None:
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
            await SshChannel(options_for(server.get_port())).open(RecordingReceiver())


@pytest.mark.parametrize("bytes_through", [0, 30, 1000, 2000, 3000, 10_000])
async def test_ssh_cancelled_open_leaves_no_connection_and_no_task(bytes_through: int) -> None:
    """The relay freezes after `bytes_through` bytes from the server, which determines the stage of the cancellation."""
    async with running_ssh_server(PASSWORD) as server, Relay(server.port, bytes_through) as relay:
        before = asyncio.all_tasks()
        receiver = RecordingReceiver()
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


async def test_ssh_close_during_open_raises_channel_closed() -> None:
    async with tcp_server(saying(b"SSH-2.0-Slow_1\r\n")) as port:
        receiver = RecordingReceiver()
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


# An audit hook cannot be removed; this one is inactive unless the list exists.
sys.addaudithook(_note_opened_files)


@pytest.mark.parametrize("hermetic", [True, False])
async def test_ssh_open_without_configuration_reads_no_file_in_home(
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
            await channel.open(RecordingReceiver())
            await channel.close()
            of_home = {path for path in _opened_files if path.startswith(str(tmp_path))}
        finally:
            _opened_files = None
    # ssh(1) reads the configuration, where it is installed.
    own = {"known_hosts", "id_rsa", "id_ed25519"} if which("ssh") else {"config", "known_hosts", "id_rsa", "id_ed25519"}
    expected = set() if hermetic else own
    assert {path for path in written if str(folder / path) in of_home} == expected
    assert bool(of_home) is not hermetic
