"""`ptyctl mcp`: connects standard input and output to the daemon, which speaks MCP.

It knows of MCP only what a new daemon must be told when the old one ended in mid-connection: the client's `initialize`, and
which requests were not answered. The client notices nothing but the errors of those.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

from .hello import HelloRefused, greet, hello
from .place import NoPlace, Place
from .starting import NotStarted

_PIECE_BYTES = 256 * 1024
EXIT_REFUSED = 2
#: JSON-RPC 2.0, section 5.1: an error of the server's own.
_DAEMON_ENDED = -32000


def run(toolsets: str) -> int:
    """Carries messages until the client closes its side.

    Returns:
        The exit code: 0 when the client closed its side, 2 when there is no daemon to be had.
    """
    try:
        Shim(Place(), hello("mcp", toolsets=toolsets)).run()
    except (NoPlace, NotStarted, HelloRefused) as error:
        print(f"ptyctl: {error}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    except BrokenPipeError:  # the client is gone
        return 0
    return 0


class Shim:
    """One client on 0 and 1, and its connection to the daemon."""

    def __init__(self, place: Place, line: bytes) -> None:
        self._place = place
        self._hello = line
        self._link = greet(place, line)
        self._asked = Lines()
        self._told = Lines()
        self._greeting: list[bytes] = []
        self._open: dict[Any, None] = {}

    def run(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while True:
            poll.register(self._link, select.POLLIN)
            ready = dict(poll.poll())
            if self._link.fileno() in ready and not self._from_daemon():
                poll.unregister(self._link)
                self._reconnect()
            elif 0 in ready and not self._from_client():
                self._finish()
                return

    def _from_client(self) -> bool:
        piece = os.read(0, _PIECE_BYTES)
        lines = self._asked.feed(piece)
        for line in lines:
            self._note(line)
        if lines and not self._send(b"".join(lines)):
            self._reconnect()
        return bool(piece)

    def _from_daemon(self) -> bool:
        try:
            piece = self._link.recv(_PIECE_BYTES)
        except ConnectionError:
            piece = b""
        for line in self._told.feed(piece):
            self._settle(line)
            _write(line)
        return bool(piece)

    def _send(self, data: bytes) -> bool:
        try:
            self._link.sendall(data)
        except ConnectionError:
            return False
        return True

    def _note(self, line: bytes) -> None:
        """Remembers what a next daemon would have to know."""
        message = _parsed(line)
        method, number = message.get("method"), message.get("id")
        if method in ("initialize", "notifications/initialized"):
            self._greeting.append(line)
        if method is not None and number is not None:
            self._open[number] = None

    def _settle(self, line: bytes) -> None:
        message = _parsed(line)
        if "method" not in message:
            self._open.pop(message.get("id"), None)

    def _reconnect(self) -> None:
        """Another daemon takes over: it is greeted as the client greeted the last one, and what was under way is answered."""
        self._link.close()
        self._told = Lines()
        self._link = greet(self._place, self._hello)
        unanswered, self._open = list(self._open), {}
        initialized = {_parsed(line).get("id") for line in self._greeting} - {None}
        for line in self._greeting:
            self._send(line)
            if _parsed(line).get("id") is not None:
                self._answer_to_greeting(shown=bool(initialized & set(unanswered)))
        for number in unanswered:
            if number not in initialized:
                _write(_ended(number))

    def _answer_to_greeting(self, *, shown: bool) -> None:
        """The client has had its answer already, unless the daemon ended before it."""
        while True:
            piece = self._link.recv(_PIECE_BYTES)
            if not piece:
                return  # this one has ended too: the next round meets it
            lines = self._told.feed(piece)
            if lines:
                _write(b"".join(lines if shown else lines[1:]))
                return

    def _finish(self) -> None:
        """The client says no more; what it asked before may still be answered."""
        self._link.shutdown(socket.SHUT_WR)
        while self._from_daemon():
            pass


class Lines:
    """Gathers pieces into whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now, each with its end."""
        if b"\n" not in piece:
            self._rest += piece
            return []
        *lines, rest = (self._rest + piece).split(b"\n")
        self._rest = rest
        return [line + b"\n" for line in lines]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:  # the daemon answers what is no JSON
        return {}
    return message if isinstance(message, dict) else {}


def _ended(number: Any) -> bytes:
    message = "the daemon ended in mid-call and another has taken over; local shells live on: look, then go on"
    error = {"code": _DAEMON_ENDED, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
