"""`ptyctl mcp`: connects standard input and output to the daemon, which speaks MCP.

It knows of MCP only what a new daemon must be told when the old one ended in mid-connection: the client's `initialize`, and
which requests were not answered. The client notices nothing but the errors of those.

A daemon that was killed is followed by another at once, as local programs live on and somebody must read what they print. One
that was ended in order has removed its socket, and the next one is started by what the client asks next.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
from contextlib import suppress
from typing import Any

from .hello import HelloRefused, greet, hello
from .place import NoPlace, Place
from .starting import NotStarted

_PIECE_BYTES = 256 * 1024
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130
#: JSON-RPC 2.0, section 5.1: an error of the server's own.
_DAEMON_ENDED = -32000
#: So many daemons in a row may end without an answer; the next one is started only when the client asks for something.
_MOST_FRUITLESS = 3
#: An answer as our daemon writes it: its id is found without reading the rest, which may be large.
_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?[0-9]+|"[^"\\]*"),"(?:result|error)":')
_GREETING = ("initialize", "notifications/initialized")

_Id = int | str


def run(toolsets: str) -> int:
    """Carries messages until the client closes its side.

    Returns:
        The exit code: 0 when the client closed its side, 2 when there is no daemon to be had, 130 after a SIGINT.
    """
    try:
        Shim(Place(), hello("mcp", toolsets=toolsets)).run()
    except (NoPlace, NotStarted, HelloRefused) as error:
        print(f"ptyctl: {error}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    except (BrokenPipeError, ConnectionResetError):  # the client is gone
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


class Shim:
    """One client on 0 and 1, and its connection to the daemon."""

    def __init__(self, place: Place, line: bytes) -> None:
        self._place = place
        self._hello = line
        self._poll = select.poll()
        self._asked = Lines()
        self._told = Lines()
        self._greeting: dict[str, bytes] = {}
        self._open: dict[_Id, None] = {}
        self._fruitless = 0
        self._link: socket.socket | None = None
        self._connect()

    def run(self) -> None:
        self._poll.register(0, select.POLLIN)
        while True:
            ready = dict(self._poll.poll())
            if self._link is not None and self._link.fileno() in ready and not self._from_daemon(self._link):
                self._lost()
            elif 0 in ready and not self._from_client():
                self._finish()
                return

    def _from_client(self) -> bool:
        piece = os.read(0, _PIECE_BYTES)
        lines = self._asked.feed(piece or self._asked.missing_end())
        if lines:
            if self._link is None:
                self._connect()
            for line in lines:
                self._note(line)
            self._send(b"".join(lines))
        return bool(piece)

    def _from_daemon(self, link: socket.socket) -> bool:
        try:
            piece = link.recv(_PIECE_BYTES)
        except ConnectionError:
            piece = b""
        lines = self._told.feed(piece)
        for line in lines:
            self._settle(line)
        _write(b"".join(lines))
        return bool(piece)

    def _send(self, data: bytes) -> None:
        try:
            if self._link is not None:
                self._link.sendall(data)
        except ConnectionError:
            self._lost()

    def _note(self, line: bytes) -> None:
        """Remembers what a next daemon would have to know."""
        message = _parsed(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            self._greeting = {}
        if method in _GREETING:
            self._greeting[method] = line
        if method is not None and isinstance(number, _Id):
            self._open[number] = None
        if method == "notifications/cancelled":  # it may never be answered
            given_up = message["params"].get("requestId") if isinstance(message.get("params"), dict) else None
            self._open = {number: None for number in self._open if number != given_up}

    def _settle(self, line: bytes) -> None:
        found = _ANSWER.match(line)
        message = {"id": json.loads(found[1])} if found else _parsed(line)
        number = message.get("id")
        if "method" not in message and isinstance(number, _Id):
            self._open.pop(number, None)
            self._fruitless = 0

    def _lost(self) -> None:
        """The daemon is gone: what was under way is answered, and another one greeted where one is needed at once."""
        assert self._link is not None
        self._poll.unregister(self._link)
        self._link.close()
        self._link, self._told = None, Lines()
        self._fruitless += 1
        greeting = self._greeting_id()
        waited_for = self._fruitless <= _MOST_FRUITLESS and greeting in self._open
        _write(b"".join(_ended(number) for number in self._open if not (waited_for and number == greeting)))
        self._open = {greeting: None} if waited_for and greeting is not None else {}
        killed = self._place.goes_on
        if waited_for:
            self._connect()
        elif killed and self._fruitless <= _MOST_FRUITLESS:
            with suppress(NotStarted, HelloRefused):  # should the client ask for something, it is told why
                self._connect()

    def _connect(self) -> None:
        """Greets a daemon as the client greeted the last one."""
        self._link = link = greet(self._place, self._hello)
        self._poll.register(link, select.POLLIN)
        for method, line in self._greeting.items():
            with suppress(ConnectionError):  # this one has ended too: the next round meets it
                link.sendall(line)
                if method == "initialize":
                    self._until_greeted(link)

    def _until_greeted(self, link: socket.socket) -> None:
        """The client has had its answer already, unless the daemon ended before it."""
        greeting = self._greeting_id()
        shown = greeting in self._open
        while piece := link.recv(_PIECE_BYTES):
            lines = self._told.feed(piece)
            answers = [line for line in lines if _parsed(line).get("id") == greeting]
            _write(b"".join(line for line in lines if shown or line not in answers))
            if answers:
                self._open = {number: None for number in self._open if number != greeting}
                return

    def _greeting_id(self) -> _Id | None:
        number = _parsed(self._greeting.get("initialize", b"")).get("id")
        return number if isinstance(number, _Id) else None

    def _finish(self) -> None:
        """The client says no more; what it asked before may still be answered."""
        if self._link is None:
            return
        with suppress(OSError):  # the daemon has ended as well
            self._link.shutdown(socket.SHUT_WR)
        while self._from_daemon(self._link):
            pass


class Lines:
    """Gathers pieces into whole lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now, each with its end."""
        self._rest.append(piece)
        if b"\n" not in piece:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        return [line + b"\n" for line in lines]

    def missing_end(self) -> bytes:
        """What makes the last line whole, should nothing more come."""
        return b"\n" if any(self._rest) else b""


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # the daemon answers what is no JSON
        return {}
    return message if isinstance(message, dict) else {}


def _ended(number: Any) -> bytes:
    message = "the daemon ended in mid-call and another has taken over; local shells live on: look, then go on"
    error = {"code": _DAEMON_ENDED, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
