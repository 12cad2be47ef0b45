"""Options of the HTTP servers: the listening address and the bearer token.

Does not import uvicorn, so that invalid options are reported at once.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from ptyctl.api.errors import PtyctlError
from ptyctl.core import json_lines

from .listener import Listener
from .origins import is_loopback

#: Length of the listening socket's queue.
BACKLOG = 128

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")
_MAX_TOKEN_FILE_BYTES = 65536


class AccessError(Exception):
    """An option is invalid or cannot be used. `str()` gives the message and the hint in one line."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback address. Port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> Address:
    """Return the address of `--listen HOST:PORT`. Raises AccessError if it is none, or not loopback."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise AccessError(f"--listen {text} is not an address", "give HOST:PORT, for example 127.0.0.1:8765")
    host, port = match["v6"] or match["host"], int(match["port"])
    if not is_loopback(host):
        raise AccessError(
            f"--listen {text}: ptyctl listens on loopback only, because plain HTTP would expose the token and every keystroke "
            "to the network",
            f"listen on 127.0.0.1:{port} and tunnel to it: ssh -L {port}:127.0.0.1:{port} THIS-HOST",
        )
    return Address("127.0.0.1" if host.lower() == "localhost" else host, port)


def open_listener(address: Address) -> socket.socket:
    """Return a listening socket; `getsockname()` has the port if 0 was requested. Raises AccessError."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol; without it a response waits 40 ms for a delayed ACK.
    listener = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, encode_refusal=_encode_refusal)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AccessError(
                f"--listen {address}: the port is in use",
                f"choose another one, or find the process that uses it: ss -ltnp 'sport = :{address.port}'",
            ) from None
        raise AccessError(
            f"--listen {address}: {os.strerror(error.errno or 0)}", "choose another address, for example 127.0.0.1:8765"
        ) from None
    return listener


def _encode_refusal(error: PtyctlError) -> bytes:
    """Return an HTTP response."""
    body = json_lines.encode({"error": "unavailable", "message": error.message})
    header = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{header}Retry-After: 1\r\nConnection: close\r\n\r\n".encode() + body


def find_token(file: Path | None, environment: str | None) -> str | None:
    """Return the token of the file, or of PTYCTL_TOKEN if no file is given; None if there is none.

    Raises:
        AccessError: the file cannot be used, or the token cannot be sent in a header.
    """
    token = _read_token(file) if file is not None else environment
    if not token:
        return None
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise AccessError(
            f"{file or 'PTYCTL_TOKEN'}: a token must be one word of printable ASCII",
            "generate one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = opened.read(_MAX_TOKEN_FILE_BYTES)
    except OSError as error:
        raise AccessError(
            f"--token-file {file}: {os.strerror(error.errno or 0)}", "name a file that contains the token"
        ) from None
    if mode & 0o077:
        raise AccessError(f"--token-file {file}: other users can read it (mode {mode:04o})", f"run: chmod 600 {file}")
    token = content.decode("latin-1").strip()
    if not token:
        raise AccessError(f"--token-file {file} is empty", "write the token to it, one word")
    return token
