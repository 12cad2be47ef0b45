"""Our side of each row: the library's own API, as a user has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .contest import Unavailable


@asynccontextmanager
async def session(**fields: Any) -> AsyncIterator[Any]:
    """`ptyctl.open_session`, imported late so that the references run without it."""
    try:
        from ptyctl import open_session
    except ImportError as error:
        raise Unavailable(str(error)) from None
    async with open_session(**fields) as opened:
        yield opened


def spool_end(reply: Any) -> int:
    """The cursor behind what a reply has seen, as a number: an offset into the spool, in bytes."""
    return int(reply.next_cursor)
