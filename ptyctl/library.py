"""The Python library: a session of one's own in one line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .api.handle import SessionHandle
from .controller import LocalController


@asynccontextmanager
async def open_session(**fields: Any) -> AsyncIterator[SessionHandle]:
    """Opens a session in this process, and closes it at the end of the block.

        async with open_session(protocol="ssh", host="192.0.2.10", username="admin") as session:
            print((await session.exec("uname -a")).stdout)

    `fields` are those of the tool `ptyctl_session` with action=open.

    Raises:
        PtyctlError: what kept it from opening.
    """
    async with LocalController() as controller, await SessionHandle.open(controller, **fields) as session:
        yield session
