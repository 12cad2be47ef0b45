"""The Controller protocol, which every interface uses, whether the sessions are in this process or in the daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from .approvals import ApprovalsReply, ApprovalsRequest
from .config import ConfigReply, ConfigRequest
from .devices import DevicesReply, DevicesRequest
from .exec import ExecReply, ExecRequest
from .history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from .io import IoReply, IoRequest
from .operator import (
    AuditReply,
    AuditRequest,
    GcReply,
    GcRequest,
    LogReply,
    LogRequest,
    NotifyReply,
    NotifyRequest,
    WatchItem,
    WatchRequest,
)
from .policy import PolicyReply, PolicyRequest
from .pty import PtyReplyBase, PtyRequest
from .session import SessionReply, SessionRequest

#: Called during a long wait with the number of bytes received since the call began, and the seconds elapsed.
Progress = Callable[[int, float], None]


class Controller(Protocol):
    """Opens, finds, lists, drives and closes sessions.

    Every method raises PtyctlError and nothing else. Cancelling a call stops only the wait: bytes that were sent stay sent,
    and a run continues in its session.
    """

    async def session(self, request: SessionRequest) -> SessionReply:
        """Perform ptyctl_session."""
        ...

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        """Perform ptyctl_session_io."""
        ...

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        """Perform ptyctl_session_exec."""
        ...

    async def config(self, request: ConfigRequest) -> ConfigReply:
        """Perform ptyctl_session_config."""
        ...

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReplyBase:
        """Perform a pty_*, blocks_* or screen tool, given by the request's type. An error is a reply with `ok` false."""
        ...

    def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        """Follow a session from the current end or from an offset. A slow reader gets items late, but misses none."""
        ...

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        """Send a message to all users of a session."""
        ...

    async def log(self, request: LogRequest) -> LogReply:
        """Return a session's output line by line with times."""
        ...

    async def recording(self, request: RecordingRequest) -> RecordingReply:
        """Return a session's raw output with its times, and the changes of its terminal."""
        ...

    async def search(self, request: SearchRequest) -> SearchReply:
        """Search the commands of all sessions, and their output."""
        ...

    async def devices(self, request: DevicesRequest) -> DevicesReply:
        """Return the devices of the inventory, or check one of them."""
        ...

    async def gc(self, request: GcRequest) -> GcReply:
        """Delete transcripts that exceed the age or size limit. Transcripts of live sessions are kept."""
        ...

    async def audit(self, request: AuditRequest) -> AuditReply:
        """Return rows of the audit log, or verify it."""
        ...

    async def policy(self, request: PolicyRequest) -> PolicyReply:
        """Judge a text by the policy that is in force, show the policy, or load it again."""
        ...

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        """Return approval requests, wait for changes of them, or answer one."""
        ...

    async def aclose(self) -> None:
        """Release the controller. The local one closes its sessions."""
        ...
