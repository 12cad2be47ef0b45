"""blocks_since, blocks_get and blocks_read: the commands of a session, and their output as text or raw bytes."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict

from ptyctl.api.blocks import Block, BlocksGet, BlocksRead, BlocksReply, BlocksSince
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, invalid
from ptyctl.core.echo import strip_echo, strip_prompt
from ptyctl.core.spool import UTF8_MAX_BYTES, whole_characters
from ptyctl.session.runs.run_output import render_between
from ptyctl.session.session import Session

#: More raw bytes than this are rendered in a thread, so that other sessions continue.
_THREAD_BYTES = 256 * 1024
#: Rendered texts of ended blocks that are cached for the next page: their number, and the largest size.
_KEPT_TEXTS = 4
_KEPT_BYTES = 16 * 1024 * 1024


def blocks_since(session: Session, request: BlocksSince) -> BlocksReply:
    if request.cursor > session.blocks.rows:
        raise invalid(
            f"cursor {request.cursor} is past the end, {session.blocks.rows}",
            hint="the cursor counts rows of blocks, not bytes",
        )
    items, cursor = session.blocks.since(request.cursor, request.limit)
    return BlocksReply(items=[with_current_offsets(session, block) for block in items], resume_cursor=cursor)


def blocks_get(session: Session, request: BlocksGet) -> BlocksReply:
    return BlocksReply(block=find_block(session, request.block_id))


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


def with_current_offsets(session: Session, block: Block) -> Block:
    """Return a running block with the start of its output, which was unknown when the block began."""
    run = session.runs.current
    if run is None or run.block_id != block.block_id:
        return block
    stream = session.stream
    return block.model_copy(
        update={
            "raw_begin": stream.raw_size if run.raw_begin is None else run.raw_begin,
            "spool_begin": stream.spool_end if run.spool_begin is None else run.spool_begin,
            "prompt_before": run.prompt_before if run.echoed else None,
            "device": run.on_device or None,
        }
    )


class BlockReader:
    """Reads blocks page by page. An ended block is rendered once for consecutive pages."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    async def read(self, session: Session, request: BlocksRead) -> BlocksReply:
        """Return one page. Offsets and sizes count bytes of the text, or of the raw output.

        A running block is read as far as it has come; redrawn text may still change.

        Raises:
            PtyctlError: NOT_FOUND; INVALID_ARGUMENT for an offset past the end.
        """
        block = find_block(session, request.block_id)
        if request.format == "raw":
            return self._raw(session, block, request)
        text = await self._text(session, block)
        _check(request.offset, len(text))
        page = text[request.offset : request.offset + request.max_bytes]
        whole = whole_characters(page) or whole_characters(text[request.offset : request.offset + UTF8_MAX_BYTES])
        end = request.offset + whole
        return BlocksReply(
            data=text[request.offset : end].decode("utf-8", "replace"),
            offset=request.offset,
            resume_offset=end,
            size=len(text),
            complete=block.ts_end is not None and end == len(text),
            message=_not_kept(session, block),
        )

    def _raw(self, session: Session, block: Block, request: BlocksRead) -> BlocksReply:
        begin, end = block.raw_begin, _raw_end(session, block)
        _check(request.offset, end - begin)
        offset = begin + request.offset
        data = session.stream.read_raw(offset, min(offset + request.max_bytes, end))
        return BlocksReply(
            data_b64=base64.b64encode(data).decode(),
            offset=request.offset,
            resume_offset=request.offset + len(data),
            size=end - begin,
            complete=block.ts_end is not None and offset + len(data) == end,
            message=_not_kept(session, block),
        )

    async def _text(self, session: Session, block: Block) -> bytes:
        key = (session.session_id, block.block_id)
        if block.ts_end is not None and key in self._texts:
            self._texts.move_to_end(key)
            return self._texts[key]
        begin, end = block.raw_begin, _raw_end(session, block)
        if end - begin > _THREAD_BYTES:
            text = await asyncio.to_thread(text_of, session, block, end)
        else:
            text = text_of(session, block, end)
        if block.ts_end is not None and len(text) <= _KEPT_BYTES:
            self._texts[key] = text
            while len(self._texts) > _KEPT_TEXTS:
                self._texts.popitem(last=False)
        return text


def text_of(session: Session, block: Block, raw_end: int) -> bytes:
    """Return the block's output as the terminal showed it, in its width at that time, without echo and prompt."""
    if session.stream.raw_kept < raw_end:  # not persisted: use the spool
        end = session.stream.spool_end if block.spool_end is None else block.spool_end
        return session.stream.read(block.spool_begin, end)
    before = block.prompt_before
    # the echo follows the prompt and wraps there; without the prompt it would wrap elsewhere
    text = render_between(session.stream, block.raw_begin, raw_end, before or "", on_device=bool(block.device))
    if before is not None and "\n" not in block.cmd:
        text = strip_echo(text, before, block.cmd)
    if block.prompt_after:
        text = strip_prompt(text, block.prompt_after)
    return text.encode()


def _raw_end(session: Session, block: Block) -> int:
    end = session.stream.raw_size if block.raw_end is None else block.raw_end
    return max(end, block.raw_begin)


def _not_kept(session: Session, block: Block) -> str | None:
    missing = _raw_end(session, block) - max(session.stream.raw_kept, block.raw_begin)
    return f"the last {missing} bytes were not kept: the disk or the quota was full" if missing > 0 else None


def _check(offset: int, size: int) -> None:
    if offset > size:
        raise invalid(f"offset {offset} is past the end of the block, {size}", field="offset")
