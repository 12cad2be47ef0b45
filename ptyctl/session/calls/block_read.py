"""blocks_since, blocks_get and blocks_read: the commands of a session, and their output as text or raw bytes."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from typing import Any

from ptyctl.api.blocks import Block, BlocksGet, BlocksRead, BlocksReply, BlocksSince
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, invalid
from ptyctl.core.echo import strip_echo, strip_prompt
from ptyctl.core.spool import UTF8_MAX_BYTES, page_size
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.time_slice import TimeSlice, base64_text
from ptyctl.session.runs.run_output import OutputRenderer
from ptyctl.session.session import Session

#: blocks_since writes outputs up to this size to their files; blocks_get writes any.
_LISTED_BYTES = 1 << 20
#: Texts of blocks that are kept for the next page: their number, and the bytes that are kept of each before the last page.
_KEPT_TEXTS = 2
_KEPT_BYTES = 8 * 1024 * 1024
#: Limits of the text that is rendered beyond a page, to find the size of the block, and of the time for it (seconds).
_AHEAD_BYTES = 4 * 1024 * 1024
_AHEAD_S = 0.5
#: The echo is searched for in a first line of at most this length.
_FIRST_LINE_LIMIT = 64 * 1024


async def blocks_since(session: Session, request: BlocksSince) -> BlocksReply:
    """Return changed blocks. The output files that the reply names are written if they are small."""
    if request.cursor > session.blocks.rows:
        raise invalid(
            f"cursor {request.cursor} is past the end, {session.blocks.rows}",
            hint="the cursor counts rows of blocks, not bytes",
        )
    if request.last is not None:
        cursor = session.blocks.rows
        items = await session.blocks.last(request.last)
    else:
        items, cursor = await session.blocks.since(request.cursor, request.limit)
    await session.blocks.write_outputs(items, _LISTED_BYTES)
    return BlocksReply(items=[with_current_offsets(session, block) for block in items], resume_cursor=cursor)


async def blocks_get(session: Session, request: BlocksGet) -> BlocksReply:
    """Return a block, and write its output file."""
    block = find_block(session, request.block_id)
    await session.blocks.write_outputs([block])
    return BlocksReply(block=block)


def find_block(session: Session, block_id: str) -> Block:
    """Raises PtyctlError NOT_FOUND."""
    block = session.blocks.get(block_id)
    if block is None:
        raise PtyctlError(
            ErrorCode.NOT_FOUND,
            f"there is no block {block_id} in this session",
            {"block_id": block_id},
            hint=NextStep.LIST_BLOCKS,
        )
    return with_current_offsets(session, block)


async def read_blocks(session: Session, selects: Callable[[Block], bool], key: Callable[[Block], int]) -> list[Block]:
    """Return the selected blocks as they are now, sorted by `key`. Yields to the event loop: there may be 100,000 blocks."""
    running_id, offsets = _running(session)
    found: list[Block] = []
    time_slice = TimeSlice()
    for each in session.blocks.iterate():
        if selects(each):
            block = each.model_copy(update=offsets) if each.block_id == running_id else each
            if found and key(block) < key(found[-1]):
                insort(found, block, key=key)
            else:
                found.append(block)
        await time_slice.yield_if_over()
    return found


def with_current_offsets(session: Session, block: Block) -> Block:
    """Return a running block with the start of its output, which was unknown when the block began."""
    running_id, offsets = _running(session)
    return block.model_copy(update=offsets) if block.block_id == running_id else block


def _running(session: Session) -> tuple[str | None, dict[str, Any]]:
    """Return the id of the running block, and the known offsets of its start."""
    run, stream = session.runs.current, session.stream
    if run is None:
        return None, {}
    return run.block_id, {
        "raw_begin": stream.raw_size if run.raw_begin is None else run.raw_begin,
        "spool_begin": stream.spool_end if run.spool_begin is None else run.spool_begin,
        "prompt_before": run.prompt_before if run.echoed else None,
        "device": run.on_device or None,
    }


class BlockReader:
    """Reads blocks page by page. Rendering continues where the previous page ended."""

    def __init__(self) -> None:
        self._texts: list[_BlockText] = []

    async def read(self, session: Session, request: BlocksRead) -> BlocksReply:
        """Return one page. Offsets and sizes count bytes of the text, or of the raw output.

        A running block is read up to the last line that cannot change any more.

        Raises:
            PtyctlError: NOT_FOUND; INVALID_ARGUMENT for an offset past the end.
        """
        block, stream = find_block(session, request.block_id), session.stream
        if request.format == "raw":
            return await self._raw(session, block, request)
        if stream.raw_kept < _raw_end(session, block):
            return _spool_page(session, block, request)
        text = self._take(block, stream, request.offset)
        try:
            size = await text.read_to(block, _raw_end(session, block), request.offset, request.max_bytes)
            page = text.page(request.offset, request.max_bytes)
        finally:
            self._texts = [text, *self._texts[: _KEPT_TEXTS - 1]]
        if size is not None and (block.ts_end is not None or request.offset > _raw_end(session, block) - block.raw_begin):
            _check(request.offset, size)
        return _page_reply(request, page, size, ended=block.ts_end is not None)

    def _take(self, block: Block, stream: OutputStream, offset: int) -> _BlockText:
        """Return the kept text that can continue to an offset, or a new one. A text is used by one call at a time."""
        found = next((text for text in self._texts if text.continues(block, stream, offset)), None)
        if found is None:
            return _BlockText(block, stream)
        self._texts.remove(found)
        return found

    async def _raw(self, session: Session, block: Block, request: BlocksRead) -> BlocksReply:
        begin, end = block.raw_begin, _raw_end(session, block)
        _check(request.offset, end - begin)
        offset = begin + request.offset
        data = session.stream.read_raw(offset, min(offset + request.max_bytes, end))
        complete = block.ts_end is not None and offset + len(data) == end
        return BlocksReply(
            data_b64=await base64_text(data),
            offset=request.offset,
            resume_offset=request.offset + len(data),
            size=end - begin,
            complete=complete,
            message=_not_kept(session, block),
        )


class _BlockText:
    """A block's output as the terminal showed it, in its width at that time, without echo and prompt.

    It is rendered as far as it was read. Text before the last page is dropped.
    """

    def __init__(self, block: Block, stream: OutputStream) -> None:
        before = block.prompt_before
        self._source = (stream, block.block_id, block.raw_begin, before)
        # the echo follows the prompt and wraps there; without the prompt it would wrap elsewhere
        self._output = OutputRenderer(stream, block.raw_begin, before or "", on_device=bool(block.device))
        self._renderer = self._output.renderer
        self._has_echo = before is not None and "\n" not in block.cmd
        self._block = block
        self._begin = 0
        self._text = bytearray()
        self._first = ""  # the line with the echo, until it is complete
        self._live = b""  # complete lines that are not final yet
        self._finished = False

    def continues(self, block: Block, stream: OutputStream, offset: int) -> bool:
        """Return whether this text can be read at an offset of the block."""
        same = self._source == (stream, block.block_id, block.raw_begin, block.prompt_before)
        return same and self._begin <= offset and (block.raw_end is None or self._output.raw <= block.raw_end)

    async def read_to(self, block: Block, raw_end: int, offset: int, max_bytes: int) -> int | None:
        """Render up to the end of a page and a little further. Return the size of all text if the end was reached."""
        wanted, ahead_until = offset + max_bytes, 0.0
        while self._output.raw < raw_end and (size := self._begin + len(self._text)) < wanted + _AHEAD_BYTES:
            if size >= wanted:
                ahead_until = ahead_until or time.perf_counter() + _AHEAD_S
                if time.perf_counter() >= ahead_until:
                    break
            self._add(await self._output.next_text(raw_end))
            self.drop_before(offset)
        if self._output.raw < raw_end:
            self._live = b""
            return None
        if block.ts_end is None:
            lines = self._first + self._renderer.unchanging_lines()
            self._live = (self._without_echo(lines) if "\n" in lines else "").encode()
        elif not self._finished:
            self._finished, self._live = True, b""
            rest = self._renderer.finish()
            self._add(strip_prompt(rest, block.prompt_after) if block.prompt_after else rest, last=True)
        return self._begin + len(self._text) + len(self._live)

    def page(self, offset: int, max_bytes: int) -> bytes:
        """Return at most `max_bytes` of the text, but at least one character."""
        at = offset - self._begin
        around = bytes(self._text[at : at + max_bytes + UTF8_MAX_BYTES])
        if len(around) < max_bytes + UTF8_MAX_BYTES:
            around += self._live[max(at - len(self._text), 0) :]
        return around[: page_size(around, max_bytes)]

    def drop_before(self, offset: int) -> None:
        """Drop text before an offset, unless it is little."""
        surplus = min(len(self._text) - _KEPT_BYTES, offset - self._begin)
        if surplus > 0:
            del self._text[:surplus]
            self._begin += surplus

    def _add(self, text: str, *, last: bool = False) -> None:
        if self._has_echo:
            self._first += text
            if not last and "\n" not in self._first and len(self._first) < _FIRST_LINE_LIMIT:
                return
            text, self._first = self._without_echo(self._first), ""
            self._has_echo = False
        self._text += text.encode()

    def _without_echo(self, text: str) -> str:
        return strip_echo(text, self._block.prompt_before or "", self._block.cmd) if self._has_echo else text


def _spool_page(session: Session, block: Block, request: BlocksRead) -> BlocksReply:
    """Return a page of the spool, for raw bytes that were not persisted."""
    stream = session.stream
    end = stream.spool_end if block.spool_end is None else block.spool_end
    if block.spool_begin < stream.window.start:
        end = min(end, stream.transcript.spool_persisted)
    size = max(end - block.spool_begin, 0)
    _check(request.offset, size)
    begin = block.spool_begin + request.offset
    text = stream.read(begin, min(begin + request.max_bytes + UTF8_MAX_BYTES, end))
    page = text[: page_size(text, request.max_bytes)]
    reply = _page_reply(request, page, size, ended=block.ts_end is not None)
    reply.message = _not_kept(session, block)
    return reply


def _page_reply(request: BlocksRead, page: bytes, size: int | None, *, ended: bool) -> BlocksReply:
    end = request.offset + len(page)
    return BlocksReply(
        data=page.decode("utf-8", "replace"),
        offset=request.offset,
        resume_offset=end,
        size=size,
        complete=ended and end == size,
    )


def _raw_end(session: Session, block: Block) -> int:
    end = session.stream.raw_size if block.raw_end is None else block.raw_end
    return max(end, block.raw_begin)


def _not_kept(session: Session, block: Block) -> str | None:
    missing = _raw_end(session, block) - max(session.stream.raw_kept, block.raw_begin)
    return f"the last {missing} bytes were not kept: the disk or the quota was full" if missing > 0 else None


def _check(offset: int, size: int) -> None:
    if offset > size:
        raise invalid(f"offset {offset} is past the end of the block, {size}", field="offset")
