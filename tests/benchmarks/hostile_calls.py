"""A catalogue of calls of a client that wants to be expensive, on a session with much output."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from ptyctl.api import ConfigRequest, ExecRequest, IoRequest, SessionRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.api.operator import GcRequest, LogRequest, NotifyRequest

HostileCall = Callable[[SessionHandle], Awaitable[Any]]

_MAX_BYTES = 4 * 1024 * 1024
_WAIT_MS = 1_000
#: Patterns that a search can evaluate only with its slowest method.
_COUNTED = r"(?s)a[ab\n]{900}z"
_NESTED = r"(?s)(\w+[\s\S]{0,80}){1,10}zzz"
_ALTERNATIVES = "|".join(f"(x*){{{n}}}[^{n}]*q" for n in range(1, 40))
#: A text that a parser of shells reads again and again.
_ERRORS = "!;" * 390 + "]" * 6000
#: Prints about 1 MB of text.
_LINE = "".join(random.Random(1).choices("ab", k=70))
_OUTPUT = f"yes {_LINE} | head -n 14000"
_MUCH_OUTPUT = f"yes {_LINE} | head -n 56000"


async def prepare(handle: SessionHandle) -> None:
    """Fill the session with 2 MB of output in two commands, and some short ones."""
    for command in (_OUTPUT, _OUTPUT, "for i in 1 2 3; do echo switchport trunk allowed vlan $i; done"):
        await handle.exec(command, timeout_ms=50_000, max_output_bytes=256)


def _io(**fields: Any) -> HostileCall:
    return lambda handle: handle.controller.io(IoRequest.of({"session_id": handle.session_id, **fields}))


def _read(**fields: Any) -> HostileCall:
    return _io(**{"action": "read", "cursor": "0", "timeout_ms": _WAIT_MS, **fields})


def _exec(**fields: Any) -> HostileCall:
    return lambda handle: handle.controller.exec(
        ExecRequest.of({"session_id": handle.session_id, "timeout_ms": _WAIT_MS, **fields})
    )


def _pty(tool: str, **fields: Any) -> HostileCall:
    return lambda handle: handle.controller.pty(PTY_REQUESTS[tool].of({"session_id": handle.session_id, **fields}))


def _config(**fields: Any) -> HostileCall:
    return lambda handle: handle.controller.config(ConfigRequest.of({"session_id": handle.session_id, **fields}))


async def _resize(handle: SessionHandle) -> None:
    for cols, rows in ((2000, 100), (100, 2000), (80, 24)):
        await _pty("pty_resize", cols=cols, rows=rows)(handle)
        await _pty("pty_read_screen")(handle)


async def _queue(handle: SessionHandle) -> None:
    def lock(task_id: str) -> Awaitable[Any]:
        fields = {"action": "lock", "session_id": handle.session_id, "task_id": task_id, "wait_ms": _WAIT_MS}
        return handle.controller.session(SessionRequest.of(fields))

    await asyncio.gather(*(lock(f"task-{number}") for number in range(300)), return_exceptions=True)


async def _waiters(handle: SessionHandle) -> None:
    waits = [_read(until_regex=f"never {number}[ab]*$") for number in range(300)]
    await asyncio.gather(*(wait(handle) for wait in waits), return_exceptions=True)


async def _watch(handle: SessionHandle) -> None:
    async with aclosing(handle.watch(from_offset=0)) as items:
        async for item in items:
            if item.kind == "terminal":
                break


async def _log(handle: SessionHandle) -> None:
    await handle.controller.log(LogRequest.of({"session_id": handle.session_id, "from_offset": 0, "limit": 1000}))


async def _notify(handle: SessionHandle) -> None:
    await handle.controller.notify(NotifyRequest.of({"session_id": handle.session_id, "message": "x" * 2000}))


async def _list(handle: SessionHandle) -> None:
    await handle.controller.session(SessionRequest.of({"action": "list"}))


async def _gc(handle: SessionHandle) -> None:
    await handle.controller.gc(GcRequest.of({"dry_run": True}))


async def _open_and_close(handle: SessionHandle) -> None:
    async with await SessionHandle.open(handle.controller, protocol="local", command=("true",)):
        pass


async def _failing_opens(handle: SessionHandle) -> None:
    opens = [SessionHandle.open(handle.controller, protocol="telnet", host="127.0.0.1", port=1) for _ in range(50)]
    await asyncio.gather(*opens, return_exceptions=True)


CALLS: dict[str, HostileCall] = {
    "read until a counted pattern": _read(until_regex=_COUNTED),
    "read until a nested pattern": _read(until_regex=_NESTED),
    "read until a pattern of alternatives": _read(until_regex=_ALTERNATIVES),
    "read until one of 20 patterns": _read(until_any=[f"(x*){{9}}[^{number}]*q{number}" for number in range(20)]),
    "300 reads that wait": _waiters,
    "read of 4 MB": _read(max_bytes=_MAX_BYTES),
    "read of 4 MB of history": _io(action="read", cursor="0", mode="history", max_bytes=_MAX_BYTES),
    "tail of 4 MB": _io(action="read", mode="tail", max_bytes=_MAX_BYTES),
    "tail of a million lines": _io(action="read", mode="tail", max_lines=1_000_000, max_bytes=_MAX_BYTES),
    "input hints": _read(input_hints={"wait_for_regexes": [f"{_NESTED}{number}" for number in range(20)]}),
    "write of 1 MB": _io(action="write", data="# " + "x" * 1_000_000 + "\x03"),
    "write of 90,000 lines": _io(action="write", data="true # x\n" * 90_000 + "\x03"),
    "write of 900,000 keys": _io(action="write", data="\x01" * 900_000 + "\x03"),
    "write of lines with many errors": _io(action="write", data=f"{_ERRORS[:1000]}\n" * 500 + "\x03"),
    "exec of a text with many errors": _exec(cmd=_ERRORS, cancel_after_ms=1_000),
    "exec with 4 MB of output": _exec(cmd=_MUCH_OUTPUT, max_output_bytes=_MAX_BYTES),
    "exec with grep and context": _exec(cmd=_OUTPUT, grep=".", grep_context=100, max_output_bytes=_MAX_BYTES),
    "exec with an expensive grep": _exec(cmd=_OUTPUT, grep=_NESTED),
    "exec with 20 responses": _exec(
        cmd=_OUTPUT, responses=[{"match": f"{_COUNTED}{number}", "send": "x"} for number in range(20)]
    ),
    "exec until a nested pattern": _exec(cmd=_OUTPUT, until_regex=_NESTED),
    "exec with 10,000 lines": _exec(cmd="\n".join(["true"] * 10_000), cancel_after_ms=1_000),
    "blocks_search with a counted pattern": _pty("blocks_search", query=_COUNTED, regex=True),
    "blocks_search with a nested pattern": _pty("blocks_search", query=_NESTED, regex=True),
    "blocks_search with many hits": _pty("blocks_search", query="a", limit=1000, context=20),
    "blocks_since": _pty("blocks_since", limit=1000),
    "pty_wait_for a nested pattern": _pty(
        "pty_wait_for", match=_NESTED, match_type="regex", from_cursor=0, timeout_ms=_WAIT_MS
    ),
    "pty_expect_send with a nested pattern": _pty(
        "pty_expect_send", expect=_NESTED, send="x", expect_type="regex", from_cursor=0, timeout_ms=_WAIT_MS
    ),
    "pty_read_spool of 4 MB": _pty("pty_read_spool", from_cursor=0, max_bytes=_MAX_BYTES),
    "pty_read_raw of 4 MB": _pty("pty_read_raw", from_offset=0, max_bytes=_MAX_BYTES),
    "pty_read_scrollback with attributes": _pty("pty_read_scrollback", from_line=0, limit=1000, attributes=True),
    "pty_read_screen of the past": _pty("pty_read_screen", at=1_000_000),
    "pty_read_screen until a nested pattern": _pty("pty_read_screen", until_regex=_NESTED, timeout_ms=_WAIT_MS),
    "pty_read_screen_deltas": _pty("pty_read_screen_deltas", cursor=0, limit=1000),
    "resizes with screens": _resize,
    "patterns of the session": _config(action="expect", expect={"pager_regexes": [f"{_NESTED}{n}" for n in range(50)]}),
    "300 tasks in the queue of a lock": _queue,
    "watch from the start": _watch,
    "log lines": _log,
    "notices": _notify,
    "list of sessions": _list,
    "gc": _gc,
    "opens and closes": _open_and_close,
    "50 opens that fail": _failing_opens,
}
