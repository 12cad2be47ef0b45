"""The pty_* surface for who programs against a Controller: there an error is an answer too, here it is raised."""

from __future__ import annotations

from typing import TypeVar

from .blocks import Block
from .controller import Controller
from .pty import BlocksSince, PtyRequest
from .pty_replies import BlocksReply, PtyReply, raised
from .screen import ScreenAnswer

A = TypeVar("A", bound=PtyReply | BlocksReply | ScreenAnswer)

_PAGE_BLOCKS = 1000


async def asked(controller: Controller, request: PtyRequest, kind: type[A]) -> A:
    """The answer, which is of that kind.

    Raises:
        PtyctlError
    """
    reply = await controller.pty(request)
    if not reply.ok:
        raise raised(reply, reply.error, reply.message)
    assert isinstance(reply, kind)
    return reply


async def every_block(controller: Controller, session_id: str) -> list[Block]:
    """What ran in a session, the oldest first, each as it is now."""
    blocks: dict[int, Block] = {}
    cursor, items = 0, True
    while items:
        request = BlocksSince.of({"session_id": session_id, "cursor": cursor, "limit": _PAGE_BLOCKS})
        reply = await asked(controller, request, BlocksReply)
        items, cursor = bool(reply.items), reply.resume_cursor or 0
        blocks |= {block.seq: block for block in reply.items or ()}
    return [blocks[seq] for seq in sorted(blocks)]
