"""blocks_search: RE2 over the spool, block by block. No index is needed: 20 MB take about 20 ms."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptyctl.api.blocks import Block, BlocksReply, BlocksSearch, Hit
from ptyctl.core.search import line_pattern, literal_pattern
from ptyctl.session.io.pattern_search import LINE_STEPS, search_with
from ptyctl.session.session import Session

from .block_read import find_block, with_current_offsets

#: The spool is read in pieces of about this size, yielding to the event loop between them. A block is never split.
_PIECE_BYTES = 4 * 1024 * 1024
#: Longest part of a line in a hit, and how much of it precedes the match.
_SHOWN_BYTES = 1000
_BEFORE_BYTES = 200


async def blocks_search(session: Session, request: BlocksSearch) -> BlocksReply:
    """Return the matching lines, each once, oldest or newest first. `^` and `$` match at lines; a match stays within its block.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects; NOT_FOUND for an unknown block_id; LIMIT_EXCEEDED if the
            search takes too long.
    """
    pattern = line_pattern(request.query, "query") if request.regex else literal_pattern(request.query)
    spool_end = session.stream.spool_end
    pieces = list(_pieces(_chosen(session, request), spool_end))
    found: list[_Line] = []
    for piece in reversed(pieces) if request.newest_first else pieces:
        begin, end = piece[0].spool_begin, _end(piece[-1], spool_end)
        blocks = [(block, block.spool_begin - begin, _end(block, spool_end) - begin) for block in piece]
        limit = request.limit + 1 - len(found)
        data = await session.stream.read_in_thread(begin, end)
        search = partial(_lines_of_piece, data=data, blocks=blocks, request=request, limit=limit)
        found += await search_with(session.stream.search_turn, pattern, (end - begin) * LINE_STEPS, search)
        if len(found) > request.limit:
            last = found[request.limit - 1]
            resume = last.begin if request.newest_first else last.end
            return BlocksReply(hits=[line.hit for line in found[: request.limit]], truncated=True, resume_cursor=resume)
        await asyncio.sleep(0)  # neither the read nor the search waits if both are short
    return BlocksReply(hits=[line.hit for line in found], truncated=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A hit, and where its line begins and ends in the spool; `end` is after the newline."""

    hit: Hit
    begin: int
    end: int


def _chosen(session: Session, request: BlocksSearch) -> list[Block]:
    """Return the blocks that the request selects, in the order of the spool."""
    blocks = session.blocks.all() if request.block_id is None else [find_block(session, request.block_id)]
    if request.cmd is not None:
        blocks = [block for block in blocks if request.cmd in block.cmd]
    if request.status is not None:
        blocks = [
            block for block in blocks if block.status == request.status or (request.status == "failed" and block.error_hints)
        ]
    if request.since_ts is not None:
        blocks = [block for block in blocks if block.ts_end is None or block.ts_end >= request.since_ts]
    if request.until_ts is not None:
        blocks = [block for block in blocks if block.ts_begin <= request.until_ts]
    blocks = [*blocks[:-1], with_current_offsets(session, blocks[-1])] if blocks else []
    return sorted(blocks, key=lambda block: block.spool_begin)


def _pieces(blocks: list[Block], spool_end: int) -> Iterator[list[Block]]:
    """Group blocks that are close together, to be read at once."""
    piece: list[Block] = []
    for block in blocks:
        if piece and _end(block, spool_end) - piece[0].spool_begin > _PIECE_BYTES:
            yield piece
            piece = []
        piece.append(block)
    if piece:
        yield piece


def _end(block: Block, spool_end: int) -> int:
    return spool_end if block.spool_end is None else block.spool_end


def _lines_of_piece(
    pattern: Any, data: bytes, blocks: list[tuple[Block, int, int]], request: BlocksSearch, limit: int
) -> list[_Line]:
    """Return the first `limit` matching lines of blocks, each with its begin and end in `data`."""
    found: list[_Line] = []
    for block, begin, end in reversed(blocks) if request.newest_first else blocks:
        found += _lines(pattern, data[begin:end], block, request, limit - len(found))
        if len(found) >= limit:
            break
    return found


def _lines(pattern: Any, text: bytes, block: Block, request: BlocksSearch, limit: int) -> list[_Line]:
    """Return the block's first `limit` matching lines in the requested order, on the requested side of `from_cursor`."""
    lines: deque[_Line] = deque(maxlen=limit)
    begin, end, edge = 0, len(text), request.from_cursor
    if edge is not None:
        edge = min(max(edge - block.spool_begin, 0), len(text))
        begin, end = (0, edge) if request.newest_first else (edge, len(text))
    number, counted = 1, 0
    while begin < end and (request.newest_first or len(lines) < limit):
        found = pattern.search(text, begin)
        if found is None or found.start() >= end:
            break
        at = found.start()
        number += text.count(b"\n", counted, at)
        counted = at
        newline = text.find(b"\n", at)
        line = text.rfind(b"\n", 0, at) + 1, len(text) if newline < 0 else newline + 1
        lines.append(
            _Line(_hit(block, text, at, number, line, request), block.spool_begin + line[0], block.spool_begin + line[1])
        )
        newline = text.find(b"\n", found.end())
        begin = len(text) if newline < 0 else newline + 1
    return list(reversed(lines)) if request.newest_first else list(lines)


def _hit(block: Block, text: bytes, at: int, number: int, line: tuple[int, int], request: BlocksSearch) -> Hit:
    hit = Hit(block_id=block.block_id, seq=block.seq, line=number, offset=block.spool_begin + at, text=_line(text, at))
    if request.context:
        before = text[: line[0]].rsplit(b"\n", request.context + 1)[-request.context - 1 : -1]
        after = text[line[1] :].split(b"\n", request.context)[: request.context]
        hit.before = [_decoded(each) for each in before]
        hit.after = [_decoded(each) for each in after if each]
    return hit


def _decoded(line: bytes) -> str:
    return line[:_SHOWN_BYTES].decode("utf-8", "replace")


def _line(text: bytes, at: int) -> str:
    """Return the line at an offset, or for a long line the part around it."""
    begin = max(text.rfind(b"\n", 0, at) + 1, at - _BEFORE_BYTES)
    end = text.find(b"\n", at)
    line = text[begin : min(len(text) if end < 0 else end, begin + _SHOWN_BYTES)]
    return line.decode("utf-8", "replace")
