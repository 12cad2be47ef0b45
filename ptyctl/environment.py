"""The PTYCTL_* environment variables, and warnings about unknown ones. Imports only the standard library."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

PREFIX = "PTYCTL_"
#: The id of the session, in the environment of its local program.
SESSION_VARIABLE = PREFIX + "SESSION_ID"
#: Fields of `ptyctl.controller.settings.Settings`, which reads them in any case. Repeated here because that module is slow to
#: import.
SETTINGS = frozenset(
    PREFIX + name
    for name in (
        "STATE_DIR", "DEVICES_FILE", "PLATFORMS_DIR", "WINDOW_BYTES", "QUOTA_BYTES", "DAEMON_IDLE_S", "RECONNECT_FOR_S",
        "GC_MAX_AGE_DAYS", "GC_MAX_BYTES", "AUDIT", "ACCESS", "POLICY", "APPROVALS",
        "MAX_SESSIONS", "MAX_CONNECTIONS", "MAX_HTTP_CONNECTIONS", "MAX_MCP_SESSIONS", "MAX_WEB_LOGINS", "MAX_WEB_TICKETS",
        "MAX_APPROVAL_WATCHES", "MAX_REMEMBERED_CALLS", "MAX_FORWARDED_CALLS", "MAX_SOCKET_SUBSCRIPTIONS",
        "MAX_CLIENT_CONNECTIONS", "MAX_CLIENT_SESSIONS", "MAX_CLIENT_CALLS", "MAX_CLIENT_SEARCHES", "MAX_CLIENT_SOCKETS",
        "MAX_CLIENT_DOWNLOADS", "MAX_CLIENT_WATCHES", "MAX_PRINCIPAL_LOGINS", "MAX_PRINCIPAL_CHECKS",
        "MAX_PRINCIPAL_VERDICTS", "MAX_PRINCIPAL_APPROVALS", "MAX_SESSION_APPROVALS", "MAX_SESSION_CALLS",
        "MAX_SESSION_WATCHES", "MAX_SESSION_SEARCHES", "MAX_SESSION_OBSERVERS", "MAX_SESSION_QUEUE",
    )
)  # fmt: skip
#: Other variables that people set, and that the programs, the container's files and Compose read.
_OTHERS = frozenset(
    PREFIX + name
    for name in (
        "CONFIG", "RUNTIME_DIR", "SYSTEM_USER", "TOKEN", "TASK", "FLEET", "DEMO_PASSWORD", "DEMO_ENABLE",
        "BRIDGE_ADDRESS", "IMAGE", "UID",
    )
)  # fmt: skip
#: Variables of the programs of sessions, of their shells until they have read them, and of the tests. Never suggested.
_INTERNAL = frozenset(
    PREFIX + name
    for name in (
        "SESSION_ID", "NONCE_FILE", "NORC", "ZDOTDIR", "HOOKS",
        "REQUIRE_SERVERS", "CHROMIUM", "ESCTEST", "ESCTEST_INCLUDE", "KILLS",
    )
)  # fmt: skip
_KNOWN = SETTINGS | _OTHERS | _INTERNAL
_SECRET = re.compile(r"env:(\w+)", re.ASCII)
#: Minimum similarity of a suggested name, without the prefix (`difflib`).
_CUTOFF = 0.65


def surrounding_sessions() -> set[str]:
    """Return the ids of the sessions in whose terminals this process runs.

    A program between may have removed the variable (sudo, `env -i`), so the processes above this one count too. Those whose
    environment this user may not read tell nothing.
    """
    found = {os.environ.get(SESSION_VARIABLE, "")}
    variable, pid = SESSION_VARIABLE.encode() + b"=", os.getppid()
    while pid > 1:
        with suppress(OSError):
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {os.fsdecode(entry.removeprefix(variable)) for entry in entries if entry.startswith(variable)}
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):  # it has ended
            break
    return found - {""}


def unknown_variables(environment: Mapping[str, str], used: Collection[str] = ()) -> list[str]:
    """Return the names that begin with PTYCTL_, in any case, and that nothing reads. `used`: further names that are read."""
    names = (name for name in environment if name[: len(PREFIX)].upper() == PREFIX)
    return [name for name in names if name not in _KNOWN and name.upper() not in SETTINGS and name not in used]


def describe_unknown(name: str) -> str:
    """Return a warning about an unknown variable, with the known name that is most like it, if one is."""
    from difflib import get_close_matches

    suffixes = sorted(known.removeprefix(PREFIX) for known in SETTINGS | _OTHERS)
    nearest = get_close_matches(name[len(PREFIX) :].upper(), suffixes, 1, _CUTOFF)
    suggestion = f"; did you mean {PREFIX}{nearest[0]}?" if nearest else ""
    return f"the environment variable {name} has no effect: ptyctl does not know it{suggestion}"


def secret_variables(inventory: Path) -> set[str]:
    """Return the names of the variables that an inventory reads secrets from (`env:NAME`); none if it cannot be read."""
    with suppress(OSError):  # reported when the inventory is used
        return set(_SECRET.findall(inventory.read_text("utf-8", "replace")))
    return set()


def environment_warnings(devices_file: Path) -> list[str]:
    """Return warnings about the unknown PTYCTL_* variables of this process. `devices_file`: the inventory."""
    if not unknown_variables(os.environ):
        return []
    return [describe_unknown(name) for name in unknown_variables(os.environ, secret_variables(devices_file))]
