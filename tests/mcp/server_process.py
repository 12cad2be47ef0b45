"""`ptyctl mcp` in a separate process, with a minimal JSON-RPC client that can send invalid messages."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fixtures.forked_process import ForkedProcess
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


@asynccontextmanager
async def server_process(*arguments: str, **variables: str) -> AsyncIterator[ServerProcess]:
    """Fork a `serve_stub` with the arguments of `command`; kill it at the end if it still runs."""
    process, to_server, from_server, from_log = _fork(*arguments, **variables)
    async with open_writer(to_server) as writer, open_reader(from_server) as output, open_reader(from_log) as log:
        try:
            yield ServerProcess(process, writer, output, log)
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)


@contextmanager
def blocking_server_process() -> Iterator[tuple[ForkedProcess, BinaryIO, BinaryIO, BinaryIO]]:
    """Fork a `serve_stub`; yield it with its standard files, which are read only on request. Kill it at the end."""
    process, *descriptors = _fork()
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


def _fork(*arguments: str, **variables: str) -> tuple[ForkedProcess, int, int, int]:
    """Return the process and the other ends of its standard files."""
    (stdin, to_server), (from_server, stdout), (from_log, stderr) = os.pipe(), os.pipe(), os.pipe()
    process = fork_server((stdin, stdout, stderr), *arguments, **variables)
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
