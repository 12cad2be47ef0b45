"""The Controller protocol: what every door speaks, whether the sessions live in this process or in another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from .config import ConfigReply, ConfigRequest
from .exec import ExecReply, ExecRequest
from .gc import GcReply, GcRequest
from .io import IoReply, IoRequest
from .log import LogReply, LogRequest
from .notify import NotifyReply, NotifyRequest
from .pty import PtyRequest
from .pty_replies import BlocksReply, PtyReply
from .screen import ScreenAnswer
from .session import SessionReply, SessionRequest
from .watch import Watched, WatchRequest

#: Told during a long wait: bytes received since the call began, and seconds passed.
Progress = Callable[[int, float], None]


class Controller(Protocol):
    """Opens, finds, lists, drives and closes sessions.

    Every method raises PtyctlError and nothing else. Cancelling a call stops only the waiting: what was sent is sent, and a
    run goes on in its session.
    """

    async def session(self, request: SessionRequest) -> SessionReply:
        """ptyctl_session."""
        ...

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        """ptyctl_session_io."""
        ...

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        """ptyctl_session_exec."""
        ...

    async def config(self, request: ConfigRequest) -> ConfigReply:
        """ptyctl_session_config."""
        ...

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReply | BlocksReply | ScreenAnswer:
        """pty_*, blocks_* and the screen's, by the type of the request. Here a PtyctlError is a reply too, with `ok` false."""
        ...

    def watch(self, request: WatchRequest) -> AsyncGenerator[Watched, None]:
        """What happens in a session from now on, or from an offset. A slow reader gets it late, and misses nothing."""
        ...

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        """A message to all who use a session."""
        ...

    async def log(self, request: LogRequest) -> LogReply:
        """What a session has printed, line by line with times."""
        ...

    async def gc(self, request: GcRequest) -> GcReply:
        """Removes transcripts that are too old or too much, never one of a live session."""
        ...

    async def aclose(self) -> None:
        """Ends the use of this controller; the local one closes its sessions."""
        ...
