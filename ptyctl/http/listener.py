"""A listening socket that answers its clients also at the limit of open files, where accept(2) fails."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.session.io.errors import OPEN_FILE_LIMITS

_LOG = logging.getLogger(__name__)

#: Number of descriptors in reserve.
RESERVED = 8


def too_many_files() -> PtyctlError:
    """Return the error for a client that is refused because the process is at its limit of open files."""
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        "the server is at its limit of open files, and takes no further connection",
        {"limit": "RLIMIT_NOFILE"},
        hint=NextStep.CLOSE_SESSIONS,
    )


class Listener(socket.socket):
    """A socket with descriptors in reserve: with them, clients that cannot be served are accepted and answered.

    A refused client keeps its descriptor until others need it: closing a socket with unread data would reset the connection,
    and the client might not see its answer.
    """

    def __init__(self, *args: Any, encode_refusal: Callable[[PtyctlError], bytes]) -> None:
        """Create the socket; `args` as for socket.socket. `encode_refusal` returns what a refused client receives."""
        super().__init__(*args)
        self._encode_refusal = encode_refusal
        self._reserve: deque[IO[bytes] | socket.socket] = deque()
        self._fill_reserve()

    @classmethod
    def at(cls, host: str, port: int, backlog: int, encode_refusal: Callable[[PtyctlError], bytes]) -> Self:
        """Return a socket that listens on TCP at an IP address. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With an explicit protocol asyncio sets TCP_NODELAY; without it a response waits 40 ms for a delayed ACK.
        listener = cls(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, encode_refusal=encode_refusal)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(backlog)
        except BaseException:
            listener.close()
            raise
        return listener

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            BlockingIOError: no client connects, or the client was refused; an event loop calls again for the next one.
        """
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in OPEN_FILE_LIMITS or not self._reserve:
                raise
            self._refuse()
            raise BlockingIOError from None
        self._fill_reserve()
        return accepted

    def close(self) -> None:
        super().close()
        while self._reserve:
            self._reserve.pop().close()

    def _refuse(self) -> None:
        _LOG.warning("a connection was refused at the limit of open files")
        self._reserve.popleft().close()
        try:
            client, _ = super().accept()
        except OSError:  # the client has left, or another thread has taken the descriptor
            self._fill_reserve()
            return
        client.setblocking(False)
        with suppress(OSError):
            client.send(self._encode_refusal(too_many_files()))
            client.shutdown(socket.SHUT_WR)
        self._reserve.append(client)

    def _fill_reserve(self) -> None:
        """Open the descriptors that are missing, as far as the limit allows."""
        with suppress(OSError):
            while len(self._reserve) < RESERVED:
                self._reserve.append(_open_reserve())


def _open_reserve() -> IO[bytes]:
    return Path(os.devnull).open("rb", buffering=0)
