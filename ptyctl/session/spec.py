"""What a session is, as it was opened: values that do not change while it lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from ptyctl.api.session import Expect, ProtocolName, PtyOptions, SessionType


@dataclass(frozen=True, slots=True)
class Spec:
    """`program` is the local program's path; `probing` says whether it may be asked if it is a POSIX shell; `hooked` that it is
    a shell which is started with marks, `hooking` that one which was found by asking is given them.
    `device` is its name in the inventory, by which the credentials are found anew: they themselves are nowhere in here.
    A conversation's own terminal names it, and the client that it belongs to."""

    protocol: ProtocolName
    host: str | None = None
    port: int | None = None
    username: str | None = None
    session_type: SessionType = "normal"
    device_id: str | None = None
    device: str | None = None
    platform: str | None = None
    program: str | None = None
    probing: bool = False
    hooked: bool = False
    hooking: bool = False
    idle_timeout_s: float = 0.0
    conversation_id: str | None = None
    client_id: str | None = None
    pty: PtyOptions = field(default_factory=PtyOptions)
    expect: Expect = field(default_factory=Expect)

    @property
    def console(self) -> bool:
        return self.session_type == "console"


#: Specs as JSON, for meta.json.
SPECS = TypeAdapter(Spec)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one session, in bytes: the window in memory (design, section 3), and the transcript on disk."""

    window_bytes: int = 2 * 1024 * 1024
    quota_bytes: int = 1024 * 1024 * 1024
