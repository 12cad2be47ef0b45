"""The Python library: a session of one's own in one line, or the sessions that everybody shares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .api.controller import Controller
from .api.handle import SessionHandle
from .api.session import SessionEntry, SessionRequest


class Connection:
    """This user's daemon: its sessions are those of the command line and of all MCP clients, and stay when we go.

    All methods raise PtyctlError. `controller` takes what they do not.
    """

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    async def open(self, **fields: Any) -> SessionHandle:
        """Opens a session, or finds the one that a console has; `fields` are those of `ptyctl_session` with action=open.

        It stays open, unless the handle is used with `async with`, or closed.
        """
        return await SessionHandle.open(self.controller, **fields)

    async def session(self, session_id: str, task_id: str | None = None) -> SessionHandle:
        """A session that is open; `task_id` is who writes."""
        return await SessionHandle.of(self.controller, session_id, task_id)

    async def sessions(self) -> list[SessionEntry]:
        """All that are open."""
        return (await self.controller.session(SessionRequest.of({"action": "list"}))).sessions or []


@asynccontextmanager
async def connect(*, start: bool = True) -> AsyncIterator[Connection]:
    """Connects to this user's daemon, and starts it if need be and `start` says so.

        async with connect() as daemon:
            session = await daemon.open(protocol="local", task_id="me")
            print((await session.exec("uname -a")).stdout)

    Raises:
        PtyctlError: CONNECT_FAILED, with what to do.
    """
    from .daemon.client import RemoteController

    async with await RemoteController.connect(start=start) as controller:
        yield Connection(controller)


@asynccontextmanager
async def open_session(**fields: Any) -> AsyncIterator[SessionHandle]:
    """Opens a session in this process, and closes it at the end of the block.

        async with open_session(protocol="ssh", host="192.0.2.10", username="admin") as session:
            print((await session.exec("uname -a")).stdout)

    `fields` are those of the tool `ptyctl_session` with action=open.

    Raises:
        PtyctlError: what kept it from opening.
    """
    from .controller import LocalController

    async with LocalController() as controller, await SessionHandle.open(controller, **fields) as session:
        yield session
