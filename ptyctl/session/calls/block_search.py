"""blocks_search: RE2 over the spool, block by block. No index is needed: 20 MB take about 20 ms."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptyctl.api.blocks import Block, BlocksReply, BlocksSearch, Hit
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.core.search import line_pattern, literal_pattern
from ptyctl.session.io.pattern_search import line_steps, search_with
from ptyctl.session.io.time_slice import TimeSlice
from ptyctl.session.session import Session

from .block_read import find_block, read_blocks

#: The spool is read in pieces of about this size, yielding to the event loop between them. A block is never split.
_PIECE_BYTES = 4 * 1024 * 1024
#: Most blocks of a piece. Each takes some microseconds, also without output.
_PIECE_BLOCKS = 500
#: Longest part of a line in a hit, and how much of it precedes the match.
_SHOWN_BYTES = 1000
_BEFORE_BYTES = 200
#: Steps, as of a search, that a hit takes, and that a line before and a line after it take together.
_HIT_STEPS = 1500
_CONTEXT_STEPS = 800
#: Size that a line adds to a reply in addition to its text (bytes).
_LINE_COST = 16


async def blocks_search(session: Session, request: BlocksSearch) -> BlocksReply:
    """Return the matching lines, each once, oldest or newest first. `^` and `$` match at lines; a match stays within its block.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects; NOT_FOUND for an unknown block_id; LIMIT_EXCEEDED if the
            search takes too long.
    """
    pattern = line_pattern(request.query, "query") if request.regex else literal_pattern(request.query)
    spool_end = session.stream.spool_end
    pieces = await _pieces(await _chosen(session, request), spool_end)
    found: list[_Line] = []
    room = MAX_LIST_BYTES
    for piece in reversed(pieces) if request.newest_first else pieces:
        begin, end = piece[0].spool_begin, max(_end(block, spool_end) for block in piece)
        blocks = [(block, block.spool_begin - begin, _end(block, spool_end) - begin) for block in piece]
        limit = request.limit + 1 - len(found)
        data = await session.stream.read_in_thread(begin, end)
        search = partial(_lines_of_piece, data=data, blocks=blocks, request=request, limit=limit, room=room)
        lines_read = data.count(b"\n") + len(piece)
        steps = line_steps(len(data), lines_read) + min(lines_read, limit) * (_HIT_STEPS + request.context * _CONTEXT_STEPS)
        lines = await search_with(session.stream.search_turn, pattern, len(data), search, more_steps=steps)
        found += lines
        room -= sum(line.size for line in lines)
        if len(found) > request.limit or room < 0:
            found.pop()  # the first line of the next page
            resume = found[-1].begin if request.newest_first else found[-1].end
            return BlocksReply(hits=[line.hit for line in found], truncated=True, resume_cursor=resume)
        await asyncio.sleep(0)  # neither the read nor the search waits if both are short
    return BlocksReply(hits=[line.hit for line in found], truncated=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A hit, where its line begins and ends in the spool, and the hit's size; `end` is after the newline."""

    hit: Hit
    begin: int
    end: int
    size: int


async def _chosen(session: Session, request: BlocksSearch) -> list[Block]:
    """Return the blocks that the request selects, in the order of the spool."""
    if request.block_id is None:
        return await read_blocks(session, partial(_selects, request), lambda block: block.spool_begin)
    block = find_block(session, request.block_id)
    return [block] if _selects(request, block) else []


def _selects(request: BlocksSearch, block: Block) -> bool:
    return (
        (request.cmd is None or request.cmd in block.cmd)
        and (request.status in (None, block.status) or (request.status == "failed" and bool(block.error_hints)))
        and (request.since_ts is None or block.ts_end is None or block.ts_end >= request.since_ts)
        and (request.until_ts is None or block.ts_begin <= request.until_ts)
    )


async def _pieces(blocks: list[Block], spool_end: int) -> list[list[Block]]:
    """Group blocks that are close together, to be read at once. Yields to the event loop, as there may be 100,000 blocks."""
    pieces: list[list[Block]] = []
    time_slice = TimeSlice()
    for block in blocks:
        if not pieces or _end(block, spool_end) - pieces[-1][0].spool_begin > _PIECE_BYTES or len(pieces[-1]) == _PIECE_BLOCKS:
            pieces.append([])
        pieces[-1].append(block)
        await time_slice.yield_if_over()
    return pieces


def _end(block: Block, spool_end: int) -> int:
    return spool_end if block.spool_end is None else block.spool_end


def _lines_of_piece(
    pattern: Any, data: bytes, blocks: list[tuple[Block, int, int]], request: BlocksSearch, limit: int, room: int
) -> list[_Line]:
    """Return the first `limit` matching lines of blocks, or those up to the first that exceeds a size."""
    found: list[_Line] = []
    for block, begin, end in reversed(blocks) if request.newest_first else blocks:
        text = data[begin:end]
        for at, number in _matches(pattern, text, block, request, limit - len(found)):
            found.append(_line(block, text, at, number, request))
            room -= found[-1].size
            if room < 0:
                return found
        if len(found) >= limit:
            break
    return found


def _matches(pattern: Any, text: bytes, block: Block, request: BlocksSearch, limit: int) -> Iterable[tuple[int, int]]:
    """Return the first match of each of the first `limit` lines, with the number of its line.

    They are in the requested order, and on the requested side of `from_cursor`.
    """
    found: deque[tuple[int, int]] = deque(maxlen=limit)
    begin, end, edge = 0, len(text), request.from_cursor
    if edge is not None:
        edge = min(max(edge - block.spool_begin, 0), len(text))
        begin, end = (0, edge) if request.newest_first else (edge, len(text))
    number, counted = 1, 0
    while begin < end and (request.newest_first or len(found) < limit):
        match = pattern.search(text, begin)
        if match is None or match.start() >= end:
            break
        at = match.start()
        number += text.count(b"\n", counted, at)
        counted = at
        found.append((at, number))
        newline = text.find(b"\n", match.end())
        begin = len(text) if newline < 0 else newline + 1
    return reversed(found) if request.newest_first else found


def _line(block: Block, text: bytes, at: int, number: int, request: BlocksSearch) -> _Line:
    newline = text.find(b"\n", at)
    begin, end = text.rfind(b"\n", 0, at) + 1, len(text) if newline < 0 else newline + 1
    hit = Hit(block_id=block.block_id, seq=block.seq, line=number, offset=block.spool_begin + at, text=_shown(text, at))
    if request.context:
        hit.before = _decoded_lines(text[_lines_back(text, begin, request.context) : begin])
        hit.after = _decoded_lines(text[end : _lines_forth(text, end, request.context)])
    size = sum(len(line) + _LINE_COST for line in (hit.text, *(hit.before or ()), *(hit.after or ())))
    return _Line(hit, block.spool_begin + begin, block.spool_begin + end, size)


def _lines_back(text: bytes, at: int, count: int) -> int:
    """Return the offset `count` lines before the line that begins at `at`, without a copy: the text may be long."""
    for _ in range(count):
        if at == 0:
            break
        at = text.rfind(b"\n", 0, at - 1) + 1
    return at


def _lines_forth(text: bytes, at: int, count: int) -> int:
    """Return the offset `count` lines after the line that begins at `at`."""
    for _ in range(count):
        newline = text.find(b"\n", at)
        if newline < 0:
            return len(text)
        at = newline + 1
    return at


def _decoded_lines(lines: bytes) -> list[str]:
    pieces = lines.removesuffix(b"\n").split(b"\n") if lines else []
    return [piece[:_SHOWN_BYTES].decode("utf-8", "replace") for piece in pieces]


def _shown(text: bytes, at: int) -> str:
    """Return the line at an offset, or for a long line the part around it."""
    begin = max(text.rfind(b"\n", 0, at) + 1, at - _BEFORE_BYTES)
    end = text.find(b"\n", at)
    line = text[begin : min(len(text) if end < 0 else end, begin + _SHOWN_BYTES)]
    return line.decode("utf-8", "replace")
