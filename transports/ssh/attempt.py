"""How far one attempt to connect came: what an error can say beyond what the library says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .endpoint import Endpoint
from .hostkeys import HostKeyCheck


class Stage(StrEnum):
    """What the attempt waits for, in words."""

    TCP = "waiting for the TCP connection"
    VERSION = "waiting for the SSH version"
    KEY_EXCHANGE = "exchanging keys"
    LOGIN = "logging in"
    SESSION = "asking for the terminal"


@dataclass(slots=True)
class Attempt:
    """Filled in by the callbacks of the connection.

    Args:
        via: the label of the jump host that the connection goes through.
        lost: whether the connection is gone.
        offered: the authentication methods that the server can go on with, as far as it told.
        tried: those that were tried, in words.
        keys: how many keys there are to try.
        prompts: what keyboard-interactive asked that no password answers, in printable form.
    """

    endpoint: Endpoint
    host_keys: HostKeyCheck
    via: str | None = None
    stage: Stage = Stage.TCP
    lost: bool = False
    server_version: str | None = None
    banners: list[str] = field(default_factory=list)
    keys: int = 0
    offered: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def note_version(self, version: str | None) -> None:
        """asyncssh calls nobody when it has the server's version; whoever is called next asks for it."""
        self.server_version = version
        if version is not None and self.stage is Stage.VERSION:
            self.stage = Stage.KEY_EXCHANGE

    @property
    def server_banner(self) -> str | None:
        """The server's version, and on further lines what it showed before the login."""
        lines = [self.server_version or "", *self.banners]
        return "\n".join(line for line in lines if line) or None

    @property
    def details(self) -> dict[str, Any]:
        """For programs that read the error."""
        return {"host": self.endpoint.host, "port": self.endpoint.port}


class Trail:
    """Follows an open through its jump hosts, to say at a timeout where it stood."""

    def __init__(self) -> None:
        self._now: Attempt | Trail | None = None

    def follow(self, now: Attempt | Trail) -> None:
        self._now = now

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that is waited for now."""
        return self._now.attempt if isinstance(self._now, Trail) else self._now
