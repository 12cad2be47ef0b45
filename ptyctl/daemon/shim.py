"""`ptyctl mcp`: relays MCP messages between standard input and output and the daemon.

If the daemon exits, the shim connects to the next one. It stores the client's `initialize` exchange and the ids of unanswered
requests, replays the former to the new daemon, and answers the latter with errors; the client notices nothing else. An
`initialize` that was refused is not replayed: a client tries it when its `server/discover` is answered late, and then uses the
protocol of 2026, whose connections have no `initialize`.

After a crash the shim starts the next daemon at once, because local shells survive and their output must be read. After a
regular shutdown, recognized by the removed socket file, it waits for the client's next request. Notifications are dropped
meanwhile, because they concern the state of the previous daemon; `initialized` is replayed.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
from contextlib import suppress

from ptyctl.core import json_lines

from .connection import hello_line, open_connection
from .errors import EXIT_INTERRUPTED, EXIT_REFUSED, DaemonError
from .runtime_dir import RuntimeDir

_PIECE_BYTES = 256 * 1024
#: JSON-RPC 2.0, section 5.1: implementation-defined server error.
_DAEMON_ENDED = -32000
#: Number of daemons in a row that may exit without a reply; after that, the next one starts only on a client's message.
_MAX_FAILURES = 3
#: The start of a reply as the daemon writes it. Gives the id and the kind without parsing the rest, which may be large.
_REPLY = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?[0-9]+|"[^"\\]*"),"(result|error)":')
_INITIALIZATION = ("initialize", "notifications/initialized")


def run(toolsets: str, *, full_text: bool | None = None) -> int:
    """Relay messages until the client closes its side. Return the exit code: 2 without a daemon, 130 after a SIGINT, or 0."""
    try:
        runtime_dir = RuntimeDir()
        hello = hello_line("mcp", to_system=runtime_dir.is_system, toolsets=toolsets, full_text=full_text)
        Shim(runtime_dir, hello).run()
    except DaemonError as error:
        print(f"ptyctl: {error}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    except (BrokenPipeError, ConnectionResetError):  # the client has exited
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


class Shim:
    """One client on descriptors 0 and 1, and its connection to the daemon."""

    def __init__(self, runtime_dir: RuntimeDir, hello: bytes) -> None:
        self._runtime_dir = runtime_dir
        self._hello = hello
        self._poll = select.poll()
        self._from_client = json_lines.LineBuffer()
        self._from_daemon = json_lines.LineBuffer()
        self._initialization: dict[str, bytes] = {}
        #: The unanswered requests, with the tool of a tool call.
        self._unanswered: dict[json_lines.CallId, str | None] = {}
        self._failures = 0
        self._link: socket.socket | None = None
        self._connect()

    def run(self) -> None:
        self._poll.register(0, select.POLLIN)
        self._poll.register(_signal_pipe(), select.POLLIN)
        while True:
            ready = dict(self._poll.poll())
            if self._link is not None and self._link.fileno() in ready and not self._relay_from_daemon(self._link):
                self._handle_disconnect()
            elif 0 in ready and not self._relay_from_client():
                self._finish()
                return

    def _relay_from_client(self) -> bool:
        """Relay available data from the client; return False at the end of the input."""
        piece = os.read(0, _PIECE_BYTES)
        lines = self._from_client.feed(piece) if piece else self._from_client.finish()
        if lines:
            if self._link is None and not all(map(_is_notification, lines)):
                self._connect()
            for line in lines:
                self._track_request(line)
            self._send(b"".join(lines))
        return bool(piece)

    def _relay_from_daemon(self, link: socket.socket) -> bool:
        """Relay available data from the daemon; return False if the daemon has disconnected."""
        try:
            piece = link.recv(_PIECE_BYTES)
        except ConnectionError:
            piece = b""
        lines = self._from_daemon.feed(piece)
        for line in lines:
            self._track_reply(line)
        _write(b"".join(lines))
        return bool(piece)

    def _send(self, data: bytes) -> None:
        try:
            if self._link is not None:
                self._link.sendall(data)
        except ConnectionError:
            self._handle_disconnect()

    def _track_request(self, line: bytes) -> None:
        """Record the messages that the next daemon needs, and the unanswered requests."""
        message = json_lines.decode_object(line)
        method, request_id = message.get("method"), message.get("id")
        if method == "initialize":
            self._initialization = {}
        if method in _INITIALIZATION:
            self._initialization[method] = line
        if method is not None and isinstance(request_id, json_lines.CallId):
            params = message.get("params")
            tool = params.get("name") if method == "tools/call" and isinstance(params, dict) else None
            self._unanswered[request_id] = tool if isinstance(tool, str) else None
        if method == "notifications/cancelled":  # the server may never answer a cancelled request
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            self._unanswered = {key: tool for key, tool in self._unanswered.items() if key != cancelled}

    def _track_reply(self, line: bytes) -> None:
        found = _REPLY.match(line)
        message = {"id": json.loads(found[1]), found[2].decode(): None} if found else json_lines.decode_object(line)
        request_id = message.get("id")
        if "method" not in message and isinstance(request_id, json_lines.CallId):
            self._unanswered.pop(request_id, None)
            self._failures = 0
            if "error" in message and request_id == self._initialize_id():
                self._initialization = {}

    def _handle_disconnect(self) -> None:
        """Answer unanswered requests with errors, and connect to the next daemon if it is needed at once.

        An unanswered `initialize` gets no error: the next daemon answers it.
        """
        assert self._link is not None
        self._poll.unregister(self._link)
        self._link.close()
        self._link, self._from_daemon = None, json_lines.LineBuffer()
        self._failures += 1
        initialize_id = self._initialize_id()
        initializing = self._failures <= _MAX_FAILURES and initialize_id in self._unanswered
        _write(
            b"".join(
                _error_reply(pending, tool)
                for pending, tool in self._unanswered.items()
                if not (initializing and pending == initialize_id)
            )
        )
        self._unanswered = {initialize_id: None} if initializing and initialize_id is not None else {}
        crashed = self._runtime_dir.has_socket
        if initializing:
            self._connect()
        elif crashed and self._failures <= _MAX_FAILURES:
            with suppress(DaemonError):  # reported when the client's next message needs the daemon
                self._connect()

    def _connect(self) -> None:
        """Connect to a daemon and replay the client's initialization."""
        self._link = link = open_connection(self._runtime_dir, self._hello)
        self._poll.register(link, select.POLLIN)
        for method, line in self._initialization.items():
            with suppress(ConnectionError):  # this daemon has exited too, which the next poll reports
                link.sendall(line)
                if method == "initialize":
                    self._receive_initialize_reply(link)

    def _receive_initialize_reply(self, link: socket.socket) -> None:
        """Read up to the reply of a replayed `initialize`; relay it only if the client has not received one before."""
        initialize_id = self._initialize_id()
        relayed = initialize_id in self._unanswered
        while piece := link.recv(_PIECE_BYTES):
            lines = self._from_daemon.feed(piece)
            replies = [line for line in lines if json_lines.decode_object(line).get("id") == initialize_id]
            _write(b"".join(line for line in lines if relayed or line not in replies))
            if replies:
                self._unanswered = {key: tool for key, tool in self._unanswered.items() if key != initialize_id}
                return

    def _initialize_id(self) -> json_lines.CallId | None:
        request_id = json_lines.decode_object(self._initialization.get("initialize", b"")).get("id")
        return request_id if isinstance(request_id, json_lines.CallId) else None

    def _finish(self) -> None:
        """Relay the daemon's remaining replies after the client closed its side."""
        if self._link is None:
            return
        with suppress(OSError):  # the daemon has exited as well
            self._link.shutdown(socket.SHUT_WR)
        while self._relay_from_daemon(self._link):
            pass


def _signal_pipe() -> int:
    """Return a descriptor that becomes readable at each signal.

    A signal that arrives after the interpreter's last check and before the system call does not interrupt the call: without
    this descriptor, poll(2) would delay the KeyboardInterrupt until the next message.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _is_notification(line: bytes) -> bool:
    """Return whether a line of the client is a notification (JSON-RPC 2.0, section 4.1)."""
    message = json_lines.decode_object(line)
    return "method" in message and "id" not in message


def _error_reply(request_id: json_lines.CallId, tool: str | None) -> bytes:
    """Return the reply to a request that the daemon did not answer; to a tool call, an error in the form of that tool."""
    # Imported here: pydantic is slow to load, and most shims see no daemon end.
    from ptyctl.api.methods import PTY_REQUESTS
    from ptyctl.api.pty import encode_error
    from ptyctl.mcp.hints import format_hint

    from .errors import DaemonConnectionLost

    error = DaemonConnectionLost()
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": request_id}
    if tool is None:
        return json_lines.encode({**reply, "error": {"code": _DAEMON_ENDED, "message": error.message}})
    is_pty = tool in PTY_REQUESTS
    payload = encode_error(error).payload() if is_pty else error.payload()
    payload["hint"] = format_hint(payload["hint"], pty=is_pty)
    content = [{"type": "text", "text": json.dumps(payload, ensure_ascii=False)}]
    result = {"content": content, "structuredContent": payload, "isError": not is_pty, "resultType": "complete"}
    return json_lines.encode({**reply, "result": result})


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
