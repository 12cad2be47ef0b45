"""How a command reaches the daemon, finds the session that is meant, and says who it is."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.session import SessionEntry, SessionReply, SessionRequest
from ptyctl.daemon.client import RemoteController

T = TypeVar("T")

_WHOLE_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


def call(work: Callable[[RemoteController], Awaitable[T]]) -> T:
    """What `work` makes of this user's daemon, which is started if need be."""

    async def connected() -> T:
        async with await RemoteController.connect() as controller:
            return await work(controller)

    return asyncio.run(connected())


async def session(controller: Controller, action: str, **fields: object) -> SessionReply:
    """`ptyctl_session` with the fields that are given."""
    given = {name: value for name, value in fields.items() if value is not None}
    return await controller.session(SessionRequest.of({"action": action, **given}))


async def found(controller: Controller, name: str) -> str:
    """The id of the session that `name` means. One that nobody has open may still be known by its whole id.

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT where several could be meant.
    """
    if _WHOLE_ID.fullmatch(name):
        return name
    return meant((await session(controller, "list")).sessions or [], name)


def meant(entries: list[SessionEntry], name: str) -> str:
    exact = [entry.session_id for entry in entries if name in (entry.session_id, entry.device_id, entry.device)]
    ids = exact or [entry.session_id for entry in entries if name and name in entry.session_id]
    if len(ids) > 1:
        raise invalid(f"{name} means {len(ids)} sessions: {', '.join(ids)}; give more of the id")
    if not ids:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no session {name} is open", {"session_id": name})
    return ids[0]


def task_name(given: str | None) -> str:
    """Who types: the user at this terminal, so that commands given there are one task and two terminals are two."""
    if given is not None:
        return given
    try:
        where = os.ttyname(sys.stdin.fileno()).removeprefix("/dev/")
    except (OSError, ValueError):  # no terminal: a script, with all that it runs
        where = f"sid{os.getsid(0)}"
    return f"{getpass.getuser()}@{socket.gethostname()}:{where}"
