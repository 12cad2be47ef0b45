"""`ptyctl mcp` in a separate process, with a minimal JSON-RPC client that can send invalid messages."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from fixtures.forked_process import PTYCTL, ForkedProcess, run_source
from tests.mcp.serve_stub import serve

ROOT = Path(__file__).parents[2]

#: Timeout of each wait, so that a hang fails its own test only.
PATIENCE_S = 120


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def command(transport: str = "stdio", listen: str = "127.0.0.1:0", toolsets: str = "core", *rest: str) -> list[str]:
    return [sys.executable, "-m", "tests.mcp.serve_stub", transport, listen, toolsets, *rest]


class ServerProcess:
    """A running server. `notifications` collects those that arrive before a reply."""

    def __init__(
        self,
        process: ForkedProcess,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.process, self.stdin, self.stdout, self.stderr = process, stdin, stdout, stderr
        self.notifications: list[dict[str, Any]] = []
        self._next_id = 0

    def send(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._next_id += 1
        self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params or {}})
        return self._next_id

    def call(self, tool: str, **arguments: Any) -> int:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def receive(self) -> dict[str, Any]:
        """Return the next message that is not a notification."""
        while True:
            line = await asyncio.wait_for(self.stdout.readline(), PATIENCE_S)
            assert line, "the server closed stdout"
            message: dict[str, Any] = json.loads(line)
            if "id" in message:
                return message
            self.notifications.append(message)

    async def initialize(self, revision: str = "2025-11-25") -> dict[str, Any]:
        info = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
        self.ask("initialize", info)
        answer = await self.receive()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return dict(answer["result"])

    async def log_until(self, pattern: str) -> re.Match[str]:
        """Read stderr up to the line that matches."""
        while True:
            line = await asyncio.wait_for(self.stderr.readline(), PATIENCE_S)
            assert line, f"stderr ended without {pattern}"
            if match := re.search(pattern, line.decode()):
                return match

    async def end(self) -> tuple[int | None, str]:
        """Wait for the exit; return the exit code and the rest of stderr."""
        log = await asyncio.wait_for(self.stderr.read(), PATIENCE_S)
        return await asyncio.to_thread(self.process.wait, PATIENCE_S), log.decode()


def server_process(*arguments: str, **variables: str) -> AbstractAsyncContextManager[ServerProcess]:
    """Fork a `serve_stub` with the arguments of `command`; kill it at the end if it still runs."""
    return _running(serve, *command(*arguments)[3:], **variables)


def ptyctl_process(*arguments: str, **variables: str) -> AbstractAsyncContextManager[ServerProcess]:
    """Fork `ptyctl` with these arguments; kill it at the end if it still runs."""
    return _running(run_source, PTYCTL, arguments, **variables)


@asynccontextmanager
async def client_streams(running: AbstractAsyncContextManager[ServerProcess]) -> AsyncIterator[TransportStreams]:
    """Run a forked server, and yield the messages of its standard files for an SDK client, as the SDK's `stdio_client` does."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def relay_output() -> None:
        async with to_client:
            with suppress(anyio.BrokenResourceError):  # the client has closed
                while line := await server.stdout.readline():
                    await to_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def relay_input() -> None:
        async with from_client:
            async for message in from_client:
                server.send(message.message.model_dump(mode="json", by_alias=True, exclude_unset=True))

    async with running as server, anyio.create_task_group() as relays, from_server, to_server:
        relays.start_soon(relay_output)
        relays.start_soon(relay_input)
        yield from_server, to_server
        relays.cancel_scope.cancel()
        server.stdin.close()
        await server.end()


@asynccontextmanager
async def _running(function: Callable[..., int | None], *arguments: object, **variables: str) -> AsyncIterator[ServerProcess]:
    process, to_server, from_server, from_log = _fork(function, *arguments, **variables)
    async with open_writer(to_server) as writer, open_reader(from_server) as output, open_reader(from_log) as log:
        try:
            yield ServerProcess(process, writer, output, log)
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)


@contextmanager
def blocking_server_process() -> Iterator[tuple[ForkedProcess, BinaryIO, BinaryIO, BinaryIO]]:
    """Fork a `serve_stub`; yield it with its standard files, which are read only on request. Kill it at the end."""
    process, *descriptors = _fork(serve, *command()[3:])
    with ExitStack() as stack:
        stdin, stdout, stderr = (
            stack.enter_context(os.fdopen(descriptor, mode, buffering=0))
            for descriptor, mode in zip(descriptors, ("wb", "rb", "rb"), strict=True)
        )
        try:
            yield process, stdin, stdout, stderr
        finally:
            process.kill()
            process.wait()


def _fork(function: Callable[..., int | None], *arguments: object, **variables: str) -> tuple[ForkedProcess, int, int, int]:
    """Return the process and the other ends of its standard files."""
    (stdin, to_server), (from_server, stdout), (from_log, stderr) = os.pipe(), os.pipe(), os.pipe()
    process = ForkedProcess(function, *arguments, files=(stdin, stdout, stderr), environment={**os.environ, **variables})
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    return process, to_server, from_server, from_log


def fork_server(files: tuple[int, int, int], *arguments: str, **variables: str) -> ForkedProcess:
    return ForkedProcess(serve, *command(*arguments)[3:], files=files, environment={**os.environ, **variables})


@asynccontextmanager
async def open_writer(descriptor: int) -> AsyncIterator[asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, file)
    yield asyncio.StreamWriter(transport, protocol, None, loop)
    if not transport.is_closing():
        transport.abort()


@asynccontextmanager
async def open_reader(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader(limit=1 << 26)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    yield reader
    if not transport.is_closing():
        transport.close()
