"""Search over commands and output of all sessions, in memory and on disk.

A stored session is searched in its files, without restoring it. Nothing is indexed but when each session was created.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ptyctl.api.blocks import Block
from ptyctl.api.errors import invalid
from ptyctl.api.history import MAX_HIT_LINES, HitLine, SearchHit, SearchReply, SearchRequest
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.core.search import line_pattern, literal_pattern
from ptyctl.files import open_for_reading
from ptyctl.session.calls.block_read import read_blocks
from ptyctl.session.io.pattern_search import Turn, line_steps, search_with
from ptyctl.session.session import Session
from ptyctl.session.transcript.jsonl import read_rows
from ptyctl.session.transcript.meta_file import read_meta

from .registry import SessionRegistry

#: A call ends after about this time; its reply has the cursor of the next call (seconds).
SEARCH_S = 2.0
#: Output is read and searched in pieces of this size.
_PIECE_BYTES = 4 * 1024 * 1024
_SHOWN_CHARS = 1000
#: Size that a line adds to a reply in addition to its text (bytes).
_LINE_COST = 32
_CURSOR = re.compile(r"(\d{1,18}):([A-Za-z0-9._-]+):(\d{1,18})(?::(\d{1,18}):(\d{1,18}))?")

#: Whether the caller may see a session of a device with these names.
SessionVisibility = Callable[[str | None, str | None], bool]
#: Whether a search selects a block.
Selects = Callable[[Block], bool]


@dataclass(frozen=True, slots=True)
class _Searched:
    """A session: its time of creation, its names, and access to its blocks, newest first, and its text."""

    created_at: int
    session_id: str
    device: str | None
    device_id: str | None
    blocks: Callable[[Selects], Awaitable[list[Block]]]
    read: Callable[[int, int], Awaitable[bytes]]
    turn: Turn = field(default_factory=asyncio.Lock)

    @property
    def key(self) -> tuple[int, str]:
        return self.created_at, self.session_id


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Position at which a search resumes: a session, and its blocks before `seq`.

    Attributes:
        key: the session's creation time (epoch ms) and id.
        output: if set, the output of block `seq` is searched first, from this spool offset; with the number of its line.
    """

    key: tuple[int, str]
    seq: int
    output: tuple[int, int] | None = None

    def __str__(self) -> str:
        return ":".join(map(str, (*self.key, self.seq, *(self.output or ()))))

    def selects(self, block: Block) -> bool:
        """Return whether a block of the cursor's session is still to be searched."""
        return block.seq < self.seq or (block.seq == self.seq and self.output is not None)


@dataclass(frozen=True, slots=True)
class _Stored:
    created_at: int
    device: str | None
    device_id: str | None


class BlockSearches:
    """Serves searches. Lists the stored sessions at the first search."""

    def __init__(self, sessions: Path, registry: SessionRegistry) -> None:
        self._folder = sessions
        self._registry = registry
        self._stored: dict[str, _Stored] = {}
        self._indexing = asyncio.Lock()

    async def search(self, request: SearchRequest, sees: SessionVisibility) -> SearchReply:
        """Return the commands that match, the newest first.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects, or for another cursor; LIMIT_EXCEEDED for a slow
                pattern.
        """
        pattern = None
        if request.query is not None:
            pattern = line_pattern(request.query, "query") if request.regex else literal_pattern(request.query)
        cursor = _parse_cursor(request.from_cursor)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SEARCH_S
        hits: list[SearchHit] = []
        room = MAX_LIST_BYTES
        for session in await self._sessions(request, sees):
            if cursor is not None and (session.key > cursor.key or (session.key == cursor.key and cursor.seq == 0)):
                continue
            begin = cursor if cursor is not None and session.key == cursor.key else None
            async for block, lines, rest in _matches(
                session, await session.blocks(partial(_selects, request, begin)), pattern, begin, deadline
            ):
                if lines is not None:
                    hits.append(_hit(session, block, lines, is_cut=rest is not None))
                    room -= len(hits[-1].cmd) + sum(len(line.text) + _LINE_COST for line in lines)
                if len(hits) >= request.limit or room <= 0 or loop.time() >= deadline:
                    resume = _Cursor(session.key, block.seq, rest if lines is None else None)
                    return SearchReply(hits=hits, resume_cursor=str(resume))
            if loop.time() >= deadline:
                return SearchReply(hits=hits, resume_cursor=str(_Cursor(session.key, 0)))
        return SearchReply(hits=hits)

    async def _sessions(self, request: SearchRequest, sees: SessionVisibility) -> list[_Searched]:
        """Return the sessions that the request selects and the caller sees, the newest first."""
        async with self._indexing:
            self._stored = await asyncio.to_thread(_index, self._folder, self._stored)
        live = {session.session_id: session for session in self._registry.known()}
        found = [_in_memory(session) for session in live.values()]
        found += [
            _on_disk(self._folder / session_id, stored) for session_id, stored in self._stored.items() if session_id not in live
        ]
        chosen = (
            session
            for session in found
            if sees(session.device, session.device_id)
            and request.session_id in (None, session.session_id)
            and _is_of_device(session, request.device)
        )
        return sorted(chosen, key=lambda session: session.key, reverse=True)


def _index(folder: Path, known: dict[str, _Stored]) -> dict[str, _Stored]:
    """Return the sessions in a folder, reading unknown ones from disk. Blocks."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - thousands of names; nearly all are known
    except FileNotFoundError:
        return {}
    found = ((name, known.get(name) or _read_stored(folder / name)) for name in names if not name.startswith("."))
    return {name: stored for name, stored in found if stored is not None}


def _read_stored(folder: Path) -> _Stored | None:
    """Return the metadata of a stored session; None if it cannot be read, or if other users can access its folder."""
    try:
        status = folder.lstat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return None
        meta = read_meta(folder)
        return _Stored(int(meta["created_at"]), meta.get("device"), meta.get("device_id"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _in_memory(session: Session) -> _Searched:
    async def blocks(selects: Selects) -> list[Block]:
        return (await read_blocks(session, selects, _seq))[::-1]

    spec, stream = session.spec, session.stream
    turn = stream.search_turn
    return _Searched(session.created_at, session.session_id, spec.device, spec.device_id, blocks, stream.read_in_thread, turn)


def _on_disk(folder: Path, stored: _Stored) -> _Searched:
    async def blocks(selects: Selects) -> list[Block]:
        return await asyncio.to_thread(_read_blocks, folder / "blocks.jsonl", selects)

    async def read(begin: int, end: int) -> bytes:
        return await asyncio.to_thread(_read_spool, folder, begin, end)

    return _Searched(stored.created_at, folder.name, stored.device, stored.device_id, blocks, read)


def _read_spool(folder: Path, begin: int, end: int) -> bytes:
    try:
        with open_for_reading(folder / "output.spool") as file:
            file.seek(begin)
            return file.read(end - begin)
    except FileNotFoundError:  # removed since
        return b""


def _read_blocks(path: Path, selects: Selects) -> list[Block]:
    """Return the selected blocks, the newest first. Blocks."""
    rows = {row.get("block_id"): row for row in read_rows(path)}
    blocks = []
    for row in rows.values():
        try:
            block = Block.model_validate(row)
        except ValueError:
            continue
        if selects(block):
            blocks.append(block)
    return sorted(blocks, key=_seq, reverse=True)


def _seq(block: Block) -> int:
    return block.seq


def _is_of_device(session: _Searched, device: str | None) -> bool:
    return device is None or any(name is not None and fnmatchcase(name, device) for name in (session.device, session.device_id))


def _selects(request: SearchRequest, cursor: _Cursor | None, block: Block) -> bool:
    return (
        (cursor is None or cursor.selects(block))
        and request.exit_code in (None, block.exit_code)
        and request.failed in (None, block.status == "failed" or bool(block.exit_code or block.error_hints))
        and (request.since_ts is None or block.ts_end is None or block.ts_end >= request.since_ts)
        and (request.until_ts is None or block.ts_begin <= request.until_ts)
    )


async def _matches(
    session: _Searched, blocks: list[Block], pattern: Any, cursor: _Cursor | None, deadline: float
) -> AsyncGenerator[tuple[Block, list[HitLine] | None, tuple[int, int] | None], None]:
    """Yield each block with its matching lines, and where the search of its output ended, if that is before its end.

    The lines are None if neither they nor the command match, or if none was found before the deadline.
    """
    for block in blocks:
        if pattern is None:
            yield block, [], None
            continue
        begin = cursor.output if cursor is not None and block.seq == cursor.seq else None
        lines, rest = await _lines(session, block, pattern, begin or (block.spool_begin, 1), deadline)
        is_hit = bool(lines) or (rest is None and await _is_in_command(session, block, pattern))
        yield block, lines if is_hit else None, rest
        await asyncio.sleep(0)


async def _is_in_command(session: _Searched, block: Block, pattern: Any) -> bool:
    command = block.cmd.encode()
    return bool(await search_with(session.turn, pattern, len(command), lambda pattern: pattern.search(command) is not None))


async def _lines(
    session: _Searched, block: Block, pattern: Any, begin: tuple[int, int], deadline: float
) -> tuple[list[HitLine], tuple[int, int] | None]:
    """Search the output of a block for matching lines, at most MAX_HIT_LINES.

    Args:
        begin: spool offset at which the search begins, and the number of its line.

    Returns:
        The lines; and the offset and line number at which to resume if there are more lines or the deadline passed.
    """
    found: list[HitLine] = []
    at, number = max(begin[0], block.spool_begin), begin[1]
    while block.spool_end is None or at < block.spool_end:
        end = at + _PIECE_BYTES if block.spool_end is None else min(at + _PIECE_BYTES, block.spool_end)
        data = await session.read(at, end)
        if not data:
            break
        limit = MAX_HIT_LINES + 1 - len(found)
        steps = line_steps(len(data), min(data.count(b"\n") + 1, limit))
        search = partial(_search_piece, data=data, limit=limit)
        lines, size, newlines = await search_with(session.turn, pattern, len(data), search, more_steps=steps)
        found += [HitLine(line=number + line, offset=at + offset, text=text) for line, offset, text in lines]
        at, number = at + size, number + newlines
        if len(found) > MAX_HIT_LINES or (at != block.spool_end and asyncio.get_running_loop().time() >= deadline):
            return found[:MAX_HIT_LINES], (at, number)
    return found, None


def _search_piece(pattern: Any, data: bytes, limit: int) -> tuple[list[tuple[int, int, str]], int, int]:
    """Return the first matching lines as `_lines_of_piece`, the number of bytes searched, and of newlines in them."""
    if len(data) == _PIECE_BYTES and (cut := data.rfind(b"\n")) >= 0:
        data = data[: cut + 1]  # the rest of the line belongs to the next piece
    return _lines_of_piece(pattern, data, limit), len(data), data.count(b"\n")


def _lines_of_piece(pattern: Any, data: bytes, limit: int) -> list[tuple[int, int, str]]:
    """Return the first matching lines: number from 0, offset of the match, and text."""
    found: list[tuple[int, int, str]] = []
    number = counted = at = 0
    while at < len(data) and len(found) < limit and (match := pattern.search(data, at)) is not None:
        begin = match.start()
        number += data.count(b"\n", counted, begin)
        counted = begin
        first = max(data.rfind(b"\n", 0, begin) + 1, begin - _SHOWN_CHARS // 2)
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        found.append((number, begin, data[first : min(end, first + _SHOWN_CHARS)].decode("utf-8", "replace")))
        newline = data.find(b"\n", match.end())
        at = len(data) if newline < 0 else newline + 1
    return found


def _hit(session: _Searched, block: Block, lines: list[HitLine], *, is_cut: bool) -> SearchHit:
    return SearchHit(
        session_id=session.session_id,
        device=session.device,
        device_id=session.device_id,
        block_id=block.block_id,
        cmd=block.cmd[:_SHOWN_CHARS],
        status=block.status,
        exit_code=block.exit_code,
        error_hints=block.error_hints,
        mode=block.mode,
        task_id=block.task_id,
        ts_begin=block.ts_begin,
        ts_end=block.ts_end,
        lines=lines,
        more_lines=is_cut or None,
    )


def _parse_cursor(text: str | None) -> _Cursor | None:
    if text is None:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise invalid("from_cursor is the resume_cursor of an earlier reply", field="from_cursor")
    output = None if found[4] is None else (int(found[4]), int(found[5]))
    return _Cursor((int(found[1]), found[2]), int(found[3]), output)
