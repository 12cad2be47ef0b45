"""Reference loops without ptyctl: a PTY, and the asyncssh and telnetlib3 connections that our channels use."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import asyncssh
import telnetlib3


class Reader(Protocol):
    """The reading half of asyncssh's and telnetlib3's streams, both in bytes."""

    async def read(self, n: int = -1, /) -> bytes: ...


async def read_until_ends(reader: Reader, end: bytes) -> bytes:
    """Read until the received data ends with `end`; return the data."""
    received = b""
    while not received.endswith(end):
        data = await reader.read(65536)
        if not data:
            raise EOFError(f"ended before {end!r}: {received[-200:]!r}")
        received += data
    return received


async def count_to_eof(reader: Reader) -> int:
    """Read to EOF; return the number of bytes."""
    size = 0
    while data := await reader.read(65536):
        size += len(data)
    return size


@contextmanager
def bare_pty(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run a program on a PTY. Yields the blocking master descriptor; kills and reaps the process afterwards."""
    master, slave = os.openpty()
    environment = {**os.environ, **(env or {})}
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment)
    os.close(slave)
    try:
        yield master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def count_pty_to_eof(master: int) -> int:
    """Read until the last slave is closed, which Linux reports as EIO; return the number of bytes."""
    size = 0
    try:
        while data := os.read(master, 65536):
            size += len(data)
    except OSError:
        pass
    return size


def read_pty_until_ends(master: int, end: bytes) -> bytes:
    """Read until the received data ends with `end`; return the data."""
    received = b""
    while not received.endswith(end):
        received += os.read(master, 65536)
    return received


@asynccontextmanager
async def telnet(host: str, port: int, *, tuned: bool = False) -> AsyncIterator[tuple[Any, Any]]:
    """Yield telnetlib3's reader and writer, in bytes mode.

    After ECHO and SGA are negotiated, which nearly every device does, the library checks each received byte for local editing
    characters (SLC, RFC 1184). `tuned` disables the check, which makes ingest 50 times faster.
    """
    reader, writer = await telnetlib3.open_connection(
        host, port, encoding=False, compression=False, client_factory=telnetlib3.TelnetClient
    )
    writer.slc_simulated = not tuned
    try:
        yield reader, writer
    finally:
        writer.close()


@asynccontextmanager
async def ssh(fields: dict[str, Any], command: str) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
    """Yield asyncssh's process on a PTY, in bytes mode. `fields` are those of an open with a private key."""
    connection = asyncssh.connect(
        fields["host"],
        fields["port"],
        username=fields["username"],
        client_keys=[fields["auth"]["private_key_path"]],
        known_hosts=fields["ssh_options"]["known_hosts_path"],
        config=None,
        agent_path=None,
    )
    async with (
        connection as connected,
        connected.create_process(command, term_type="xterm-256color", term_size=(120, 40), encoding=None) as process,
    ):
        yield process


@asynccontextmanager
async def session(**fields: Any) -> AsyncIterator[None]:
    """Keep an idle session of any protocol open, from the fields of an open."""
    match fields["protocol"]:
        case "local":
            with bare_pty(fields["command"]):
                yield
        case "ssh":
            async with ssh(fields, fields["command"]):
                yield
        case "telnet":
            async with telnet(fields["host"], fields["port"]):
                yield
