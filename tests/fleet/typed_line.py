"""A console that records the writer of each input, and nodes in separate processes that type on it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fleet import typing_node
from tests.fleet.line_history import Typed, Written, find_faults
from tests.fleet.node_process import NodeProcess

NODES = ("a", "b")
_TOKEN = re.compile(rb"([a-z]\d*\.\d+)\r")


class Line:
    """A Telnet console that accepts any number of connections, and records their tokens in order of arrival."""

    def __init__(self) -> None:
        self.port = 0
        self.typed: list[Typed] = []
        self._connections = 0
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._open: set[asyncio.StreamWriter] = set()
        self._received = asyncio.Condition()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\xff\xfb\x01\xff\xfb\x03line>")  # WILL ECHO, WILL SGA, a prompt
        self._open.add(writer)
        connection, rest = -1, b""
        while data := await read_some(reader):
            rest += data
            if 0 <= connection < self._connections - 1 and not _TOKEN.search(rest):
                self.typed.append(Typed(repr(data), connection))  # any byte is one too many
            for match in _TOKEN.finditer(rest):
                if connection < 0:
                    connection, self._connections = self._connections, self._connections + 1
                    self._writers[connection] = writer
                self.typed.append(Typed(match[1].decode(), connection))
            rest = rest[max((match.end() for match in _TOKEN.finditer(rest)), default=0) :]
            async with self._received:
                self._received.notify_all()
        self._open.discard(writer)
        writer.close()

    def negotiate(self) -> None:
        """Ask for options on the connection that has typed last; each requires an answer."""
        self._writers[self._connections - 1].write(b"\xff\xfd\x18\xff\xfd\x06\xff\xfb\x63")  # DO TTYPE, DO TM, WILL 99

    def disconnect(self) -> None:
        """End all connections at once, as a console server does that is started again."""
        for writer in self._open:
            writer.transport.abort()

    def owner(self) -> str:
        """Return the node that has typed last."""
        return self.typed[-1].token[0]

    async def until_typed_by(self, nodes: str, count: int) -> None:
        """Wait for a number of further tokens of the nodes."""
        begin = len(self.typed)
        async with asyncio.timeout(120), self._received:
            await self._received.wait_for(lambda: sum(typed.token[0] in nodes for typed in self.typed[begin:]) >= count)


async def read_some(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes; nothing at the end, which is a reset if the node has discarded what it could not deliver."""
    try:
        return await reader.read(4096)
    except ConnectionResetError:
        return b""


class TypingNode(NodeProcess):
    """A node's process that types on a console."""

    def __init__(self, urls: list[str], name: str, folder: Path, port: int) -> None:
        self.record = folder / f"{name}.tokens"
        arguments = [",".join(urls), name, str(folder / name), str(port), str(self.record)]
        super().__init__(name, typing_node.run, arguments, folder / f"{name}.log")

    def acknowledged(self) -> list[Written]:
        lines = self.record.read_text().splitlines()
        return [Written(token, int(fence)) for token, fence in (line.split() for line in lines if line.count(" ") == 1)]


@asynccontextmanager
async def running_line() -> AsyncIterator[Line]:
    line = Line()
    server = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    async with server:
        yield line


async def check_history(line: Line, nodes: Collection[TypingNode], at_least: int) -> None:
    """Kill the nodes; fail on a fault in what they have typed, or if it is not more than `at_least` acknowledged tokens."""
    for node in nodes:
        await node.kill()
    acknowledged = [entry for node in nodes for entry in node.acknowledged()]
    async with asyncio.timeout(60):  # what was acknowledged last may still be on its way
        while {entry.token for entry in acknowledged} - {typed.token for typed in line.typed}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert len(acknowledged) > at_least
    assert find_faults(line.typed, acknowledged) == []
