"""The parameters with which a session was opened, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, TypeAdapter

from ptyctl.api.session import Expect, ProtocolName, PtyOptions, SessionType, ShellName, TerminalInfo
from ptyctl.core.limits import LIMITS, Limit


@dataclass(frozen=True, slots=True)
class Spec:
    """The parameters of a session. They hold no credentials.

    Attributes:
        device: name in the inventory, where the credentials are looked up again for a reconnect.
        program: path of the local program.
        runs_program: the far end of SSH runs a program that starts no shell; it may never show a prompt.
        probe_shell: whether to find out if the far end is a POSIX shell.
        integrated: the program is a shell that is started with shell integration.
        install_integration: whether to install shell integration in a shell that was found by probing.
        shell: the shell at the far end, if the caller named it.
        conversation_id: the conversation that owns the terminal, with its `client_id`.
        terminal: its role in the terminal contract.
        opened_by: name of the principal that opened the session; None for the user of a version that did not store it.
    """

    protocol: ProtocolName
    host: str | None = None
    port: int | None = None
    username: str | None = None
    session_type: SessionType = "normal"
    device_id: str | None = None
    device: str | None = None
    platform: str | None = None
    program: str | None = None
    runs_program: bool = False
    # the aliases are the names in meta.json
    probe_shell: Annotated[bool, Field(alias="probing")] = False
    integrated: Annotated[bool, Field(alias="hooked")] = False
    install_integration: Annotated[bool, Field(alias="hooking")] = False
    shell: ShellName | None = None
    idle_timeout_s: float = 0.0
    conversation_id: str | None = None
    client_id: str | None = None
    terminal: TerminalInfo | None = None
    opened_by: str | None = None
    pty: PtyOptions = field(default_factory=PtyOptions)
    expect: Expect = field(default_factory=Expect)

    @property
    def console(self) -> bool:
        """Whether the session is a console, which only the lock's holder may write to."""
        return self.session_type == "console"


#: Converts a Spec to and from the `spec` field of meta.json.
SPECS = TypeAdapter(Spec)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one session: bytes of the window in memory and of the transcript on disk, and the named limits of its use."""

    window_bytes: int = 2 * 1024 * 1024
    quota_bytes: int = 1024 * 1024 * 1024
    use: Mapping[str, Limit] = field(default_factory=lambda: LIMITS)
