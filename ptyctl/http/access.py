"""Options of the HTTP servers: the listening address, TLS and proxies, and the bearer token.

Does not import uvicorn, so that invalid options are reported at once.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptyctl.api.errors import PtyctlError
from ptyctl.core import json_lines

from .listener import Listener
from .origins import Origin, is_loopback

#: Length of the listening socket's queue.
BACKLOG = 128

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")
_MAX_TOKEN_FILE_BYTES = 65536

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


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


@dataclass(frozen=True, slots=True)
class Exposure:
    """How clients on other machines reach a server. By default they do not.

    Attributes:
        tls: the server's certificate and key; None for plain HTTP.
        proxies: the reverse proxies whose connections are accepted, besides those of this machine.
        public: the address of the server in browsers. With it, TLS or proxies are set.
    """

    tls: ssl.SSLContext | None = None
    proxies: tuple[Network, ...] = ()
    public: Origin | None = None

    def url(self, address: Address) -> str:
        """Return the address of a server that listens at `address`."""
        if self.public is not None:
            return str(self.public)
        return f"{'http' if self.tls is None else 'https'}://{address}"


NOT_EXPOSED = Exposure()


def parse_exposure(
    tls_cert: Path | None, tls_key: Path | None, trusted_proxies: Sequence[str], public_origin: str | None
) -> Exposure:
    """Parse the options `--tls-cert`, `--tls-key`, `--trusted-proxy` and `--public-origin`. Raises AccessError."""
    tls = _load_certificate(tls_cert, tls_key)
    proxies = tuple(_parse_network(text) for text in trusted_proxies)
    if public_origin is None:
        if proxies:
            raise AccessError("--trusted-proxy needs --public-origin", "give the proxy's address: https://console.example")
        return Exposure(tls)
    public = Origin.parse(public_origin)
    if public is None or public.scheme != "https":
        raise AccessError(f"--public-origin {public_origin} is not an https address", "for example https://console.example")
    if tls is None and not proxies:
        raise AccessError(
            "--public-origin needs encryption", "add --tls-cert and --tls-key, or the --trusted-proxy that provides it"
        )
    return Exposure(tls, proxies, public)


def _load_certificate(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise AccessError("--tls-cert and --tls-key are needed together", "name both files, in PEM format")
    try:
        if key.stat().st_mode & 0o007:
            raise AccessError(f"--tls-key {key}: other users can read it", f"run: chmod o= {key}")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key, password="")  # never asks for a passphrase
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise AccessError(
            f"--tls-cert {certificate}, --tls-key {key}: {reason}", "name a certificate and its key without passphrase, in PEM"
        ) from None
    return context


def _parse_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise AccessError(
            f"--trusted-proxy {text} is not an address", "give an IP address, or a network such as 10.0.0.0/24"
        ) from None


def parse_ip(text: str) -> Ip | None:
    """Return the address; that of an IPv4 host in its IPv6 form (::ffff:192.0.2.1) as IPv4. None if the text is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def parse_host_port(text: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT`, with an IPv6 address in brackets; None if the text has another form."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        return None
    return match["v6"] or match["host"], int(match["port"])


def parse_listen(text: str, exposure: Exposure = NOT_EXPOSED) -> Address:
    """Parse `--listen HOST:PORT`. Raises AccessError for an invalid address, or one outside loopback without exposure."""
    address = parse_host_port(text)
    if address is None:
        raise AccessError(f"--listen {text} is not an address", "give HOST:PORT, for example 127.0.0.1:8765")
    host, port = address
    if is_loopback(host):
        return Address("127.0.0.1" if host.lower() == "localhost" else host, port)
    if exposure.tls is None and not exposure.proxies:
        raise AccessError(
            f"--listen {text}: without TLS ptyctl listens on loopback only, because plain HTTP would expose the token and "
            "every keystroke to the network",
            f"listen on 127.0.0.1:{port} and tunnel to it: ssh -L {port}:127.0.0.1:{port} THIS-HOST",
        )
    if exposure.public is None:
        raise AccessError(
            f"--listen {text} needs the server's address in browsers", "add it: --public-origin https://console.example"
        )
    try:
        return Address(str(ipaddress.ip_address(host)), port)
    except ValueError:
        raise AccessError(
            f"--listen {text}: {host} is not an IP address", f"for all addresses: --listen 0.0.0.0:{port}"
        ) from None


def open_listener(address: Address) -> socket.socket:
    """Return a listening socket; `getsockname()` has the port if 0 was requested. Raises AccessError."""
    try:
        return Listener.at(address.host, address.port, BACKLOG, _encode_refusal)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AccessError(
                f"--listen {address}: the port is in use",
                f"choose another one, or find the process that uses it: ss -ltnp 'sport = :{address.port}'",
            ) from None
        raise AccessError(
            f"--listen {address}: {os.strerror(error.errno or 0)}", "choose another address, for example 127.0.0.1:8765"
        ) from None


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
