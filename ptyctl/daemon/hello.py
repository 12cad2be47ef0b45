"""The first line of a connection, and the daemon's answer: one JSON object each. What is spoken comes behind them.

{"speaks": "mcp", "version": "0.1.0", "toolsets": "core", "cwd": "/home/me", "env": {...}, "umask": 18}
{"speaks": "rpc", "version": "0.1.0", "cwd": "/home/me", "env": {...}, "umask": 18}
-> {"ok": true, "version": "0.1.0", "pid": 4711}   or   {"ok": false, "message": "..."}
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

from ptyctl.version import __version__

from .peer import peer
from .place import Place
from .starting import connect

#: How long a daemon may take to answer: one that has just been started goes on with the sessions of the last one first.
ANSWER_S = 30.0
#: Room for a large environment.
MAX_HELLO_BYTES = 4 * 1024 * 1024


class HelloRefused(Exception):
    """The daemon does not speak with us; the message says why, and what to do."""


def hello(speaks: str, **more: Any) -> bytes:
    """The line of this process."""
    try:
        cwd = str(Path.cwd())
    except OSError:  # it was removed under us
        cwd = "/"
    said = {"speaks": speaks, "version": __version__, "cwd": cwd, "env": dict(os.environ), "umask": _umask(), **more}
    return json.dumps(said).encode() + b"\n"


def _umask() -> int | None:
    """Asked of the kernel (Linux proc(5)): os.umask changes it for a moment, for all threads."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)
    return int(found[1], 8) if found else None


def greet(place: Place, line: bytes, *, start: bool = True) -> socket.socket:
    """A connection on which `line` was said and accepted. A daemon that ends just now is followed by another.

    Raises:
        HelloRefused, NotStarted, ConnectionRefusedError, OSError
    """
    for _ in range(3):
        link = connect(place, start=start)
        answer = answer_to(link, line)
        if answer is not None:
            if not answer["ok"]:
                link.close()
                raise HelloRefused(answer["message"])
            return link
        link.close()
    raise HelloRefused(f"the daemon ends as soon as one connects; see {place.log}")


def answer_to(link: socket.socket, line: bytes) -> dict[str, Any] | None:
    """What the daemon says to a hello; None where it ended. Nothing follows its answer before we ask.

    Raises:
        HelloRefused: it hangs, or is no daemon of ours.
    """
    said = b""
    link.settimeout(ANSWER_S)
    try:
        link.sendall(line)
        while not said.endswith(b"\n"):
            piece = link.recv(65536)
            if not piece:
                return None
            said += piece
    except ConnectionError:
        return None
    except TimeoutError:
        pid = peer(link).pid
        link.close()
        raise HelloRefused(
            f"the daemon (process {pid}) has not answered for {ANSWER_S:.0f} s; end it: kill -9 {pid} (local shells live on)"
        ) from None
    link.settimeout(None)
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        link.close()
        raise HelloRefused(
            "what listens at the daemon's socket is no ptyctl daemon; end it, or set PTYCTL_RUNTIME_DIR"
        ) from None
    return answer


def other_version(said: str) -> str:
    return (
        f"the daemon is ptyctl {__version__} and this is ptyctl {said}; "
        "run: ptyctl daemon restart (local shells live on; SSH and Telnet sessions are closed)"
    )
