"""The daemon: one process of a user's, which owns the sessions and serves whoever connects to its socket."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

from ptyctl.api.controller import Controller
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose
from ptyctl.mcp.wire import MAX_MESSAGE_BYTES, LineReader, LineWriter
from ptyctl.version import __version__
from transports.caller import Caller, on_behalf_of

from .hello import MAX_HELLO_BYTES, other_version
from .listening import Door
from .peer import peer
from .rpc import RpcConnection

#: How long a connection may take for its first line.
HELLO_S = 10.0
#: How often it is looked whether anybody still needs the daemon.
_LOOK_S = 5.0


class Daemon:
    """Serves connections until `stopped` is set, or it was of no use for `idle_s`; 0 is for ever."""

    def __init__(self, controller: Controller, idle_s: float, has_sessions: Any) -> None:
        self.stopped = asyncio.Event()
        self._controller = controller
        self._idle_s = idle_s
        self._has_sessions = has_sessions
        self._connections: set[asyncio.Task[None]] = set()
        self._used_at = asyncio.get_running_loop().time()

    async def serve(self, door: Door) -> None:
        """Ends the connections at the end, not the sessions."""
        server = await asyncio.start_unix_server(self._connected, sock=door.listener, limit=MAX_MESSAGE_BYTES)
        try:
            await self._until_useless()
        finally:
            server.close()  # Server.wait_closed may wait for the connections too (Python 3.12.1)
            door.remove()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _until_useless(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S if self._idle_s else None):
                    await self.stopped.wait()
            if self._connections or self._has_sessions():
                self._used_at = loop.time()
            elif self._idle_s and loop.time() >= self._used_at + self._idle_s:
                return

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._speak(reader, writer)
        finally:
            self._connections.discard(task)
            self._used_at = asyncio.get_running_loop().time()
            writer.close()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said, refusal = await self._hello(reader, writer)
        answer = {"ok": False, "message": refusal} if refusal else {"ok": True, "version": __version__, "pid": os.getpid()}
        writer.write(json.dumps(answer).encode() + b"\n")
        if refusal:
            return
        with on_behalf_of(Caller(said["cwd"], said["env"], said.get("umask"))):
            if said["speaks"] == "rpc":
                await RpcConnection(self._controller, reader, writer).run()
            else:
                await self._mcp(said, reader, writer)

    async def _hello(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[dict[str, Any], str | None]:
        """What the other side said, and why it is refused."""
        if peer(writer.get_extra_info("socket")).uid != os.geteuid():
            return {}, "this daemon serves its own user only"
        try:
            async with asyncio.timeout(HELLO_S):
                line = await reader.readline()
            said = json.loads(line) if len(line) <= MAX_HELLO_BYTES else None
        except (TimeoutError, ValueError, RecursionError, OSError):
            said = None
        if not isinstance(said, dict) or said.get("speaks") not in ("mcp", "rpc"):
            return {}, 'the first line says what is spoken: {"speaks": "mcp" or "rpc", "version", "cwd", "env"}'
        if said.get("version") != __version__ and not said.get("any_version"):
            return said, other_version(str(said.get("version")))
        if not _is_caller(said):
            return (
                said,
                "the first line has cwd, an absolute path, env, an object of strings, and umask, a number, if it is known",
            )
        return said, _wrong_toolsets(said)

    async def _mcp(self, said: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = build_server(self._controller, choose(said.get("toolsets", "core")))
        out = LineWriter(writer)
        await server.run(LineReader(reader, out), out, server.create_initialization_options())


def _is_caller(said: dict[str, Any]) -> bool:
    cwd, env = said.get("cwd"), said.get("env")
    strings = isinstance(env, dict) and all(isinstance(value, str) and _is_variable(name, value) for name, value in env.items())
    return strings and isinstance(cwd, str) and cwd.startswith("/") and _is_umask(said.get("umask"))


def _is_umask(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= 0o777)


def _is_variable(name: str, value: str) -> bool:
    """Whether a program can be given it (execve(2))."""
    return bool(name) and "=" not in name and "\0" not in name + value


def _wrong_toolsets(said: dict[str, Any]) -> str | None:
    if said["speaks"] != "mcp":
        return None
    try:
        choose(str(said.get("toolsets", "core")))
    except ValueError as error:
        return str(error)
    return None
