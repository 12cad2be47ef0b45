"""Names of sessions and tasks on the command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from ptyctl.accounts import login_name
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, invalid
from ptyctl.environment import surrounding_sessions

#: Timeout of one waiting call. A longer wait repeats the call; the lock queue keeps the task's place in between.
MAX_CALL_MS = 50_000
SESSION_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


class ListedSession(NamedTuple):
    """The fields of `SessionEntry` that are used to find a session by name."""

    session_id: str
    device_id: str | None
    device: str | None
    session_type: str
    state: str
    unreachable_s: int | None

    @property
    def left_console(self) -> bool:
        """Whether it is a console's session without a line, which keeps its name when the console moves to another node."""
        return self.session_type == "console" and (self.state in ("eof", "lost") or self.unreachable_s is not None)


def match_session(sessions: Iterable[ListedSession], name: str) -> str:
    """Return the id of the only session with this name, otherwise with this part of an id.

    The name of a console denotes the session that has its line, if there is one.

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT if the name is ambiguous.
    """
    known = list(sessions)
    exact = [session for session in known if name in (session.session_id, session.device_id, session.device)]
    named = [session for session in exact if not session.left_console] or exact
    ids = [session.session_id for session in named or known if named or (name and name in session.session_id)]
    if len(ids) > 1:
        raise invalid(f"{name} matches {len(ids)} sessions: {', '.join(ids)}", hint="give more of the id")
    if not ids:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no session {name} is open", {"session_id": name}, hint=NextStep.LIST_SESSIONS)
    return ids[0]


def refuse_own_session(session_id: str) -> None:
    """Refuse to show a session in the terminal of that session: each update would be new output of it.

    Raises:
        PtyctlError: INVALID_ARGUMENT
    """
    if session_id in surrounding_sessions():
        raise invalid(
            f"this command runs in the session {session_id}, and would show its own output without an end",
            hint=f"run it in another terminal; to print what the session has shown: ptyctl tail {session_id}",
            session_id=session_id,
        )


def name_holder(task: str | None, principal: str | None) -> str:
    """Return the task that holds a lock, with its principal if that is not the user; "" without a lock."""
    return task or "" if task is None or principal in (None, login_name(os.geteuid())) else f"{task} ({principal})"


def resolve_task(given: str | None) -> str:
    """Return the task name: `given`, or `user@host:terminal`, with the process session's id where there is no terminal.

    Commands in one terminal, or in one script, are one task.
    """
    if given is not None:
        return given
    import getpass
    import socket

    try:
        place = os.ttyname(sys.stdin.fileno()).removeprefix("/dev/")
    except (OSError, ValueError):
        place = f"sid{os.getsid(0)}"
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without an account, for example in a container
        user = login_name(os.getuid())
    return f"{user}@{socket.gethostname()}:{place}"
