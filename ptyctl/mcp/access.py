"""Who may reach the HTTP endpoint: on which address it listens, and by which token it knows its clients.

No part of the SDK is imported here, so that a wrong option is told at once.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import secrets
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

#: Bytes of randomness in a token that is made here.
TOKEN_BYTES = 32
#: Connections that wait to be taken.
BACKLOG = 128

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


class AccessError(Exception):
    """An option that cannot be followed; the text says why, and what would do."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address of this machine only. Port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host, as written in an option, a Host or an Origin header, is this machine's loopback."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_listen(text: str) -> Address:
    """The address of `--listen HOST:PORT`.

    Raises:
        AccessError: no address, or one that other machines could reach.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise AccessError(f"--listen {text}: give HOST:PORT, as in 127.0.0.1:8765")
    host, port = match["v6"] or match["host"], int(match["port"])
    if not is_loopback(host):
        raise AccessError(
            f"--listen {text}: ptyctl listens on loopback only, since plain HTTP would show the token and every keystroke to "
            f"the network. Listen on 127.0.0.1:{port} and tunnel to it: ssh -L {port}:127.0.0.1:{port} THIS-HOST"
        )
    return Address("127.0.0.1" if host.lower() == "localhost" else host, port)


def open_listener(address: Address) -> socket.socket:
    """A listening socket; `getsockname()` has the port if any free one was asked for. Who connects early is kept waiting.

    Raises:
        AccessError: the address is taken, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # The protocol is named since asyncio sets TCP_NODELAY only where it is: else an answer waits 40 ms for a delayed ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            why = f"the port is in use. Choose another one, or see what holds it: ss -ltnp 'sport = :{address.port}'"
        else:
            why = f"{os.strerror(error.errno or 0)}. Choose another address, as in 127.0.0.1:8765"
        raise AccessError(f"--listen {address}: {why}") from None
    return listener


def find_token(file: Path | None, environment: str | None) -> str | None:
    """The token that the user chose: the file's, else that of PTYCTL_TOKEN; None if there is neither.

    Raises:
        AccessError: the file cannot be used, or what it holds cannot be sent in a header.
    """
    token = _read_token(file) if file is not None else environment
    if not token:
        return None
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise AccessError(
            f"{file or 'PTYCTL_TOKEN'}: a token is one word of printable ASCII; "
            "make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return token


def _read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = opened.read(65536)
    except OSError as error:
        raise AccessError(f"--token-file {file}: {os.strerror(error.errno or 0)}. Name a file that holds the token") from None
    if mode & 0o077:
        raise AccessError(f"--token-file {file}: others may read it (mode {mode:04o}). Mend it: chmod 600 {file}")
    token = content.decode("latin-1").strip()
    if not token:
        raise AccessError(f"--token-file {file}: it is empty. Put a token into it, one word")
    return token


def make_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)
