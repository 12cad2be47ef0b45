"""blocks_search: RE2 over the spool, block by block. No index is needed: 20 MB take about 20 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from ptyctl.api.blocks import Block, BlocksReply, BlocksSearch, Hit
from ptyctl.core.search import compile_pattern, literal_pattern
from ptyctl.session.session import Session

from .block_read import find_block, with_current_offsets

#: The spool is read in pieces of about this size, yielding to the event loop between them. A block is never split.
_PIECE_BYTES = 4 * 1024 * 1024
#: Longest part of a line in a hit, and how much of it precedes the match.
_SHOWN_BYTES = 1000
_BEFORE_BYTES = 200


async def blocks_search(session: Session, request: BlocksSearch) -> BlocksReply:
    """Return the matching lines, oldest first, each once. `^` and `$` match at lines; a match stays within its block.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects; NOT_FOUND for an unknown block_id.
    """
    pattern = _lines(request.query) if request.regex else literal_pattern(request.query)
    hits: list[Hit] = []
    for piece in _pieces(_chosen(session, request), session.stream.spool_end):
        begin = piece[0].spool_begin
        data = session.stream.read(begin, _end(piece[-1], session.stream.spool_end))
        for block in piece:
            hits += _hits(
                pattern, data[block.spool_begin - begin : _end(block, session.stream.spool_end) - begin], block, request, hits
            )
            if len(hits) > request.limit:
                return BlocksReply(hits=hits[: request.limit], truncated=True)
        await asyncio.sleep(0)
    return BlocksReply(hits=hits, truncated=False)


def _lines(query: str) -> Any:
    compile_pattern(query, "query")  # an error shows the pattern as the caller gave it
    return compile_pattern(f"(?m){query}", "query")


def _chosen(session: Session, request: BlocksSearch) -> list[Block]:
    """Return the blocks that the request selects, in the order of the spool."""
    blocks = session.blocks.all() if request.block_id is None else [find_block(session, request.block_id)]
    if request.cmd is not None:
        blocks = [block for block in blocks if request.cmd in block.cmd]
    if request.status is not None:
        blocks = [block for block in blocks if block.status == request.status]
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


def _hits(pattern: Any, text: bytes, block: Block, request: BlocksSearch, before: list[Hit]) -> list[Hit]:
    """Return the block's matching lines, at most one more than the remaining limit."""
    hits: list[Hit] = []
    found = pattern.search(text) if text else None  # without output there is no line
    line, counted = 1, 0
    while found is not None and len(before) + len(hits) <= request.limit:
        at = found.start()
        line += text.count(b"\n", counted, at)
        counted = at
        hits.append(Hit(block_id=block.block_id, seq=block.seq, line=line, offset=block.spool_begin + at, text=_line(text, at)))
        newline = text.find(b"\n", found.end())
        if newline < 0 or newline + 1 >= len(text):
            break
        found = pattern.search(text, newline + 1)
    return hits


def _line(text: bytes, at: int) -> str:
    """Return the line at an offset, or for a long line the part around it."""
    begin = max(text.rfind(b"\n", 0, at) + 1, at - _BEFORE_BYTES)
    end = text.find(b"\n", at)
    line = text[begin : min(len(text) if end < 0 else end, begin + _SHOWN_BYTES)]
    return line.decode("utf-8", "replace")
