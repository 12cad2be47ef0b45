"""The tests' real servers, for a program that is no test: what would be skipped there is unavailable here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.servers.openssh import OpenSshServer, running_sshd

from .contest import Unavailable

Server = TypeVar("Server")


@contextmanager
def zebra(**options: str) -> Iterator[Zebra]:
    """`options` are those of `running_zebra`."""
    with _available(running_zebra(**options)) as server:
        yield server


@contextmanager
def sshd() -> Iterator[OpenSshServer]:
    with _available(running_sshd()) as server:
        yield server


def ssh_fields(server: OpenSshServer) -> dict[str, Any]:
    """An open's fields for a login with the server's key, touching nothing of the user's own."""
    return {
        "protocol": "ssh",
        "host": server.host,
        "port": server.port,
        "username": server.username,
        "auth": {"method": "private_key", "private_key_path": str(server.key_path)},
        "ssh_options": {"known_hosts_path": str(server.known_hosts), "use_openssh_config": False},
    }


@contextmanager
def _available(manager: AbstractContextManager[Server]) -> Iterator[Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(manager)
        except pytest.skip.Exception as skipped:
            raise Unavailable(str(skipped)) from None
        yield server
