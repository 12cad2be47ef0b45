"""`ptyctl tail`, `screen`, `log`, `blocks` and `search`: read what a session has printed. Reading needs no lock."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from ptyctl.api.blocks import Block, BlocksRead, BlocksReply, BlocksSearch
from ptyctl.api.controller import Controller
from ptyctl.api.handle import call_pty, fetch_blocks
from ptyctl.api.io import IoRequest
from ptyctl.api.operator import LogLine, LogRequest
from ptyctl.api.screen import AttributeRun, PtyReadScreen, ScreenReply
from ptyctl.daemon.errors import DaemonConnectionLost

from .client import call_session, connect_successor
from .errors import EXIT_FAILED
from .frequent_commands import TAIL_BYTES, print_tail
from .names import MAX_CALL_MS, refuse_own_session
from .options import AsJson, SessionName
from .output import print_json, print_table, print_text, replace_controls, strip_empty_rows

_BLOCK_PAGE_BYTES = 1 << 20


def tail(
    name: SessionName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new output until the session ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of lines.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Print the last lines of a session's text."""
    if not follow:
        print_tail(name, lines, as_json=as_json)
        return

    async def run(controller: Controller, session_id: str) -> None:
        refuse_own_session(session_id)
        fields = {"session_id": session_id, "action": "read", "mode": "tail", "max_bytes": TAIL_BYTES}
        reply = await controller.io(IoRequest.of({**fields, "max_lines": max(lines, 1)}))
        if not lines:
            reply = reply.model_copy(update={"chunk": ""})
        _print_chunk(reply.chunk or "", as_json)
        async for chunk in _follow(controller, session_id, reply.next_cursor or "0"):
            _print_chunk(chunk, as_json)

    call_session(name, run)


def screen(
    name: SessionName,
    at: Annotated[str | None, typer.Option(metavar="N", help="The screen at a raw offset, or at the end of a block.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the screen, in colours on a terminal."""
    moment: dict[str, Any] = {} if at is None else {"at": int(at) if at.isdecimal() else at}

    async def read(controller: Controller, session_id: str) -> ScreenReply:
        request = PtyReadScreen.of({"session_id": session_id, "attributes": True, **moment})
        return await call_pty(controller, request, ScreenReply)

    reply = call_session(name, read)
    if as_json:
        print_json(reply.payload())
    elif sys.stdout.isatty():
        rows = list(map(_colour_row, reply.rows, reply.attributes or []))
        typer.echo("\n".join(strip_empty_rows(rows)), color=True)
    else:
        typer.echo("\n".join(strip_empty_rows(reply.rows)))


def log(
    name: SessionName,
    console: Annotated[bool, typer.Option("--console", help="Print the time before each line, as console servers do.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with its time.")] = False,
) -> None:
    """Print all text of a session line by line, also after its end."""

    async def run(controller: Controller, session_id: str) -> None:
        offset, complete = 0, False
        while not complete:
            page = await controller.log(LogRequest(session_id=session_id, from_offset=offset))
            offset, complete = page.resume_offset, page.complete
            for line in page.lines:
                _print_log_line(line, console=console, as_json=as_json)

    call_session(name, run)


def blocks(
    name: SessionName,
    output: Annotated[str | None, typer.Option(metavar="BLOCK", help="Print the output of this block.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of blocks, from the newest.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the commands that ran, or print the output of one."""
    if output is not None:
        text = call_session(name, partial(_read_block, block_id=output))
        if as_json:
            print_json({"block_id": output, "text": text})
        else:
            print_text(text)
        return
    items = call_session(name, fetch_blocks)[-limit:]
    if as_json:
        print_json([block.payload() for block in items])
    else:
        print_table(("block", "started", "duration", "result", "command"), map(_block_row, items))


def search(
    name: SessionName,
    query: Annotated[str, typer.Argument(help="Text to find in a line.")],
    regex: Annotated[bool, typer.Option("--regex", "-e", help="The query is an RE2 pattern.")] = False,
    cmd: Annotated[str | None, typer.Option(help="Search only the output of commands that contain this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of lines.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Find lines in the output of commands. Exit code 1 if there are none."""
    fields = {"query": query, "regex": regex, "limit": limit, **({"cmd": cmd} if cmd is not None else {})}

    async def run(controller: Controller, session_id: str) -> BlocksReply:
        return await call_pty(controller, BlocksSearch.of({"session_id": session_id, **fields}), BlocksReply)

    reply = call_session(name, run)
    hits = reply.hits or []
    if as_json:
        print_json({"hits": [hit.payload() for hit in hits], "truncated": bool(reply.truncated)})
    else:
        for hit in hits:
            print_text(f"{hit.block_id}:{hit.line}: {hit.text}\n")
        if reply.truncated:
            typer.echo(f"there are more than {limit} lines; give a larger --limit", err=True)
    if not hits:
        raise typer.Exit(EXIT_FAILED)


async def _follow(controller: Controller, session_id: str, cursor: str) -> AsyncIterator[str]:
    """Yield text after `cursor` until the far end closes; continue with the next daemon if this one is killed."""
    async with AsyncExitStack() as connections:
        while True:
            fields = {"session_id": session_id, "action": "read", "cursor": cursor, "timeout_ms": MAX_CALL_MS}
            try:
                reply = await controller.io(IoRequest.of(fields))
            except DaemonConnectionLost:
                successor = await connect_successor(session_id)
                if successor is None:
                    return
                controller = await connections.enter_async_context(successor)
                continue
            if reply.chunk:
                yield reply.chunk
            if reply.eof:
                return
            cursor = reply.next_cursor or cursor


async def _read_block(controller: Controller, session_id: str, block_id: str) -> str:
    text, offset = "", 0
    while True:
        fields = {"session_id": session_id, "block_id": block_id, "offset": offset, "max_bytes": _BLOCK_PAGE_BYTES}
        reply = await call_pty(controller, BlocksRead.of(fields), BlocksReply)
        text += reply.data or ""
        if not reply.data or reply.resume_offset is None:
            return text
        offset = reply.resume_offset


def _print_chunk(text: str, as_json: bool) -> None:
    if as_json:
        print_json({"text": text})
    else:
        print_text(text)


def _print_log_line(line: LogLine, *, console: bool, as_json: bool) -> None:
    """Print a log line. The separator before an incarnation is printed with times only."""
    if as_json:
        print_json(line.payload())
        return
    starts_incarnation = line.kind == "incarnation"
    text = f"{'--- ' if starts_incarnation else ''}{replace_controls(line.text)}\n"
    if console:
        ended_at = datetime.fromtimestamp(line.ts / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
        sys.stdout.write(f"{ended_at}  {text}")
    elif not starts_incarnation:
        sys.stdout.write(text)


def _block_row(block: Block) -> tuple[str, ...]:
    started = time.strftime("%m-%d %H:%M:%S", time.localtime(block.ts_begin / 1000))
    duration = f"{(block.ts_end - block.ts_begin) / 1000:.1f} s" if block.ts_end is not None else ""
    failed = "device error" if block.error_hints else block.refused or block.status
    result = failed if block.exit_code is None else str(block.exit_code)
    return block.block_id, started, duration, result, block.cmd


def _colour_row(row: str, runs: list[AttributeRun]) -> str:
    """Return a screen row with SGR sequences for its attribute runs, padded to the end of the last run."""
    from ptyctl.core.screen.attributes import PLAIN, Style, sgr
    from ptyctl.core.screen.cells import split_columns

    cells = split_columns(row)
    cells += [" "] * (max((run.end for run in runs), default=0) - len(cells))
    parts, at = [], 0
    for run in runs:
        style = Style(**{name: value for name, value in run.payload().items() if name not in ("begin", "end")})
        parts += [*cells[at : run.begin], sgr(style).decode(), *cells[run.begin : run.end], sgr(PLAIN).decode()]
        at = run.end
    return "".join([*parts, *cells[at:]])
