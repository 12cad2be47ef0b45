"""ProxyCommand of the OpenSSH configuration: a program whose stdin and stdout are the connection to the server.

As in ssh(1), the caller's shell runs it, with the caller's environment and in its directory.

asyncssh can start it too, but treats the stderr output of the program as data of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .programs import ProgramContext
from .socket_input import limit_reads

#: Size of the end of stderr that is kept for messages, bytes.
_STDERR_BYTES = 1000
#: How long a program that has closed its stdout may still print why, seconds.
_STDERR_GRACE_S = 0.5


class ProxyCommand(asyncio.SubprocessProtocol):
    """The running program as the tunnel that asyncssh connects through, and as the transport of its connection."""

    def __init__(self, command: str, context: ProgramContext) -> None:
        self._command = command
        self._context = context
        self._stderr = b""
        self._connection: Any = None
        self._process: asyncio.SubprocessTransport | None = None
        self._ended = asyncio.Event()

    @property
    def stderr(self) -> str:
        """The end of the stderr output of the program."""
        return self._stderr.decode(errors="replace")

    async def create_connection(self, session_factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Start the program, and asyncssh's connection on it; called by asyncssh."""
        self._connection = session_factory()
        argv = (self._context.shell, "-c", f"exec {self._command}")
        await asyncio.get_running_loop().subprocess_exec(lambda: self, *argv, **self._context.options)
        self._connection.set_tunnel(self)
        return self, self._connection

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._process = transport
        limit_reads(transport.get_pipe_transport(1))
        self._connection.connection_made(self)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
        else:
            self._connection.data_received(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            asyncio.get_running_loop().call_later(_STDERR_GRACE_S, self.close)

    def process_exited(self) -> None:
        self._ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        self._connection.connection_lost(exc)

    # Called by asyncssh

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._process is None else self._process.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._process is None or self._process.is_closing()

    def write(self, data: bytes) -> None:
        stdin = self._process.get_pipe_transport(0) if self._process is not None else None
        if stdin is not None:
            stdin.write(data)  # type: ignore[attr-defined]

    def pause_reading(self) -> None:
        if (stdout := self._stdout()) is not None:
            stdout.pause_reading()

    def resume_reading(self) -> None:
        if (stdout := self._stdout()) is not None:
            stdout.resume_reading()

    def _stdout(self) -> asyncio.ReadTransport | None:
        transport = self._process.get_pipe_transport(1) if self._process is not None else None
        return transport if isinstance(transport, asyncio.ReadTransport) else None

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    async def wait_closed(self) -> None:
        await self._ended.wait()
