"""What ran in a session: listed, read, searched."""

from __future__ import annotations

import time

import typer

from ptyctl.api.asking import asked, every_block
from ptyctl.api.blocks import Block
from ptyctl.api.controller import Controller
from ptyctl.api.pty import BlocksRead, BlocksSearch
from ptyctl.api.pty_replies import BlocksReply

from . import shown
from .calling import call, found

_PAGE_BYTES = 1 << 20


def list_blocks(name: str, limit: int, as_json: bool) -> None:
    items = call(lambda controller: _newest(controller, name, limit))
    if as_json:
        shown.as_json([block.payload() for block in items])
        return
    rows = [(block.block_id, _time(block.ts_begin), _took(block), _end(block), block.cmd) for block in items]
    shown.table(("block", "begun", "took", "end", "command"), rows)


def print_block(name: str, block_id: str, as_json: bool) -> None:
    text = call(lambda controller: _text(controller, name, block_id))
    if as_json:
        shown.as_json({"block_id": block_id, "text": text})
    else:
        shown.text(text)


def search_blocks(name: str, query: str, regex: bool, cmd: str | None, limit: int, as_json: bool) -> bool:
    """Whether something was found."""

    async def search(controller: Controller) -> BlocksReply:
        fields = {"query": query, "regex": regex, "limit": limit, **({"cmd": cmd} if cmd is not None else {})}
        return await asked(controller, BlocksSearch.of({"session_id": await found(controller, name), **fields}), BlocksReply)

    reply = call(search)
    hits = reply.hits or []
    if as_json:
        shown.as_json({"hits": [hit.payload() for hit in hits], "truncated": bool(reply.truncated)})
    else:
        for hit in hits:
            shown.text(f"{hit.block_id}:{hit.line}: {hit.text}\n")
        if reply.truncated:
            typer.echo(f"there are more than {limit}; give a larger --limit", err=True)
    return bool(hits)


async def _newest(controller: Controller, name: str, limit: int) -> list[Block]:
    return (await every_block(controller, await found(controller, name)))[-limit:]


async def _text(controller: Controller, name: str, block_id: str) -> str:
    session_id, text, offset = await found(controller, name), "", 0
    while True:
        fields = {"session_id": session_id, "block_id": block_id, "offset": offset, "max_bytes": _PAGE_BYTES}
        reply = await asked(controller, BlocksRead.of(fields), BlocksReply)
        text += reply.data or ""
        if not reply.data or reply.resume_offset is None:
            return text
        offset = reply.resume_offset


def _time(epoch_ms: int) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(epoch_ms / 1000))


def _took(block: Block) -> str:
    return f"{(block.ts_end - block.ts_begin) / 1000:.1f} s" if block.ts_end is not None else ""


def _end(block: Block) -> str:
    """Its exit code where that is known, else how it stands."""
    return str(block.exit_code) if block.exit_code is not None else block.status
