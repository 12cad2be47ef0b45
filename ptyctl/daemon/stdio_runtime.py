"""`ptyctl daemon --stdio-handshake`: the runtime of the terminal contract on standard input and output.

After the handshake it relays the daemon's RPC until one side closes its connection.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress

from ptyctl.terminal.handshake import MAX_MESSAGE_BYTES, HandshakeError, ServerHandshake

from .connection import open_rpc
from .errors import EXIT_REFUSED, DaemonError
from .runtime_dir import RuntimeDir

_PIECE_BYTES = 256 * 1024


def run() -> int:
    """Serve the process that has started this one. Returns the exit code: 2 after a refused handshake, 75 without a daemon."""
    try:
        answer = ServerHandshake(None).receive(_read_hello())
    except HandshakeError as error:
        _write(error.encode())
        return EXIT_REFUSED
    try:
        link = open_rpc(RuntimeDir())
    except (DaemonError, OSError) as error:
        print(f"ptyctl: {error}", file=sys.stderr, flush=True)
        return os.EX_TEMPFAIL  # the client may start the program again
    with link, suppress(BrokenPipeError, ConnectionError, KeyboardInterrupt):
        _write(answer)
        _relay(link)
    return 0


def _read_hello() -> bytes:
    """Return the first line. The client sends nothing more before it has the answer."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= MAX_MESSAGE_BYTES:
        piece = os.read(0, MAX_MESSAGE_BYTES)
        if not piece:
            break
        line += piece
    return line


def _relay(link: socket.socket, source: int = 0, target: int = 1) -> None:
    """Relay between the daemon and a pair of pipes. Each direction has a thread, so that neither blocks the other."""
    threading.Thread(target=_relay_calls, args=(source, link), name="calls", daemon=True).start()
    try:
        while piece := link.recv(_PIECE_BYTES):
            _write(piece, target)
    finally:
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)


def _relay_calls(source: int, link: socket.socket) -> None:
    with suppress(OSError):
        while piece := os.read(source, _PIECE_BYTES):
            link.sendall(piece)
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)  # ends the other direction


def _write(data: bytes, target: int = 1) -> None:
    while data:
        data = data[os.write(target, data) :]
