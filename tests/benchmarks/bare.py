"""Each transport's library alone, opened as our channels open it: the floor of what a session can be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh
import telnetlib3

from .local_pty import bare_pty


@asynccontextmanager
async def telnet(host: str, port: int, *, tuned: bool = False) -> AsyncIterator[tuple[Any, Any]]:
    """telnetlib3's reader and writer, in bytes mode.

    With ECHO and SGA agreed, as nearly every device does, the library looks at each byte it receives for editing characters of
    its own (SLC, RFC 1184). `tuned` turns that off, which made ingest 50 times faster.
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
    """asyncssh's process on a PTY, in bytes. `fields` are those of an open with a private key."""
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
    """An idle session of any protocol, from the fields of an open."""
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
