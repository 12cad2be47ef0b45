"""The Python library: a session in this process, or the daemon's shared sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

from .api.controller import Controller
from .api.handle import OpenOptions, SessionHandle
from .api.session import ListReply, SessionEntry, SessionRequest


class Connection:
    """Connection to this user's daemon, whose sessions the command line and all MCP clients share. They outlive the connection.

    All methods raise PtyctlError.

    Attributes:
        controller: for calls that have no method here.
    """

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    async def open(self, **options: Unpack[OpenOptions]) -> SessionHandle:
        """Open a session, or return the open session of a console.

        The session stays open until it is closed: by `close`, or at the end of `async with` on the handle.
        """
        return await SessionHandle.open(self.controller, **options)

    async def session(self, session_id: str, task_id: str | None = None) -> SessionHandle:
        """Return a handle of an open session. `task_id` names the task that writes."""
        return await SessionHandle.attach(self.controller, session_id, task_id)

    async def sessions(self) -> list[SessionEntry]:
        """Return all open sessions."""
        return ListReply.of(await self.controller.session(SessionRequest.of({"action": "list"}))).sessions


@asynccontextmanager
async def connect(*, start: bool = True) -> AsyncIterator[Connection]:
    """Connect to this user's daemon.

        async with connect() as daemon:
            session = await daemon.open(protocol="local", task_id="me")
            print((await session.exec("uname -a")).stdout)

    Args:
        start: whether to start the daemon if it is not running.

    Raises:
        PtyctlError: CONNECT_FAILED.
    """
    from .daemon.client import RemoteController

    async with await RemoteController.connect(start=start) as controller:
        yield Connection(controller)


@asynccontextmanager
async def open_session(**options: Unpack[OpenOptions]) -> AsyncIterator[SessionHandle]:
    """Open a session in this process, and close it at the end of the block.

        async with open_session(protocol="ssh", host="192.0.2.10", username="admin") as session:
            print((await session.exec("uname -a")).stdout)

    Raises:
        PtyctlError: the session could not be opened.
    """
    from .controller.local import LocalController

    async with LocalController() as controller, await SessionHandle.open(controller, **options) as session:
        yield session
