"""ptyctl_session: open, close, list, lock, unlock, heartbeat, status (docs/contracts.md, ptyctl_session)."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_core import from_json

from ptyctl.core.states import SessionState, TerminalMode

from .model import (
    MAY_BE_EMPTY,
    HostName,
    Id,
    Reply,
    Request,
    RequestPart,
    SystemText,
    Text,
    Unlisted,
    VariableName,
    check_fields,
    check_members,
)

ProtocolName = Literal["local", "ssh", "telnet"]
SessionAction = Literal["open", "close", "list", "lock", "unlock", "heartbeat", "status"]
SessionType = Literal["normal", "console"]
BlockStatus = Literal["awaiting_approval", "running", "interactive", "completed", "failed", "cancelled"]
ShellName = Literal["bash", "zsh", "fish", "posix"]
AuthMethod = Literal["auto", "password", "private_key", "agent"]
Dimension = Annotated[int, Field(ge=1, le=65535)]
#: Largest terminal: each read of the screen costs time and memory for all its cells.
MAX_CELLS = 200_000
#: Longest list of pager or error patterns.
MAX_DEVICE_PATTERNS = 50
Argv = Annotated[tuple[SystemText, ...], Field(min_length=1, fail_fast=True)]

_QUOTED = r"""(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
#: An array that begins with a text, in JSON or as Python prints it; the end may be cut off.
_ARRAY = re.compile(
    rf"""(?s)\[\s*(?:{_QUOTED}(?:\s*,\s*(?:{_QUOTED}|[\w.+-]+))*\s*(?:,\s*(?:['"][^'"]*)?)?\]?|['"][^'"]*)""", re.DOTALL
)


def _check_command_line(text: str) -> str:
    """Refuse JSON text, which would run a program of that name. `[ "$X" ] && ls` is a command: an array does not continue."""
    is_json = False
    if text.lstrip().startswith(("[", "{")):
        try:
            value = from_json(text)
            is_json = isinstance(value, dict) or value == [] or any(isinstance(word, str) for word in value)
        except ValueError:
            is_json = _ARRAY.fullmatch(text.strip()) is not None
    if is_json:
        raise ValueError("is JSON as text, and no command; give the program and its arguments as an array of texts")
    return text


#: A program, or a command for the shell of a far end.
CommandLine = Annotated[SystemText, AfterValidator(_check_command_line)]

DEFAULT_LOCK_TTL_MS = 60_000


class Auth(RequestPart):
    """Credentials of a connection. The method `auto` tries a named key, the agent, other keys, then the password.

    Attributes:
        enable_secret: for a device's privileged mode.
        one_time_code: answers the keyboard-interactive prompt for a code.
    """

    method: AuthMethod = "auto"
    password: Annotated[SecretStr, MAY_BE_EMPTY] | None = None
    private_key_pem: SecretStr | None = None
    private_key_path: SystemText | None = None
    passphrase: SecretStr | None = None
    enable_secret: SecretStr | None = None
    one_time_code: SecretStr | None = None


def check_size(cols: int, rows: int) -> None:
    """Raise ValueError for a terminal of more than `MAX_CELLS` cells."""
    if cols * rows > MAX_CELLS:
        raise ValueError(f"a terminal of {cols} columns and {rows} rows exceeds the limit of {MAX_CELLS} cells")


class PtyOptions(RequestPart):
    """The terminal to request. Sizes are in characters."""

    enabled: bool = True
    cols: Dimension = 120
    rows: Dimension = 40
    term: SystemText = "xterm-256color"

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        check_size(self.cols, self.rows)
        return self


class Timeouts(RequestPart):
    """Time limits. A session that is unused for `idle_timeout_ms` is closed; 0 disables this."""

    connect_timeout_ms: int = Field(default=15_000, ge=1)
    idle_timeout_ms: int = Field(default=0, ge=0)


class SshOptions(RequestPart):
    """Options of the protocol `ssh`."""

    host_key_policy: Literal["strict", "accept_new", "disabled"] = "strict"
    known_hosts_path: Annotated[SystemText | None, Unlisted] = None
    host_key_fingerprint: SystemText | None = Field(default=None, description="SHA256:...")
    use_openssh_config: Annotated[bool, Unlisted] = True
    config_path: Annotated[SystemText | None, Unlisted] = None
    jump: SystemText | None = Field(default=None, description="[user@]host[:port],...")
    legacy_algorithms: bool = False
    keepalive_s: Annotated[float, Unlisted] = Field(default=15, ge=0)


class TelnetOptions(RequestPart):
    """Options of the protocol `telnet`."""

    line_ending: Literal["auto", "cr", "crlf", "lf", "pass_through"] = "auto"
    binary: Annotated[bool | None, Unlisted] = None
    keepalive: Annotated[Literal["nop", "ayt"] | None, Unlisted] = None
    keepalive_s: Annotated[float | None, Unlisted] = Field(default=None, gt=0)


class Pace(RequestPart):
    """Typing speed. A serial console of 9600 bit/s accepts 960 characters per second, and some drop faster input.

    Attributes:
        chars_per_s: maximum bytes per second.
        line_delay_ms: additional pause after each Enter.
    """

    chars_per_s: float | None = Field(default=None, gt=0)
    line_delay_ms: int | None = Field(default=None, ge=0, le=60_000)


class Expect(RequestPart):
    """RE2 patterns of a device's prompt, pager and errors.

    Attributes:
        settle_ms: time for which a prompt or pager must remain the end of the output to count. Without it, a prompt that is
            identical to the previous one counts at once, or on a slow line after twice the pauses within the output.
    """

    prompt_regex: str | None = None
    pager_regexes: tuple[str, ...] | None = Field(default=None, max_length=MAX_DEVICE_PATTERNS, fail_fast=True)
    error_regexes: tuple[str, ...] | None = Field(default=None, max_length=MAX_DEVICE_PATTERNS, fail_fast=True)
    settle_ms: Annotated[int | None, Unlisted] = Field(default=None, ge=0, le=10_000)

    def replaced_by(self, given: Expect) -> Expect:
        """Return a copy with the fields that are set in `given`."""
        return self.model_copy(update=given.model_dump(exclude_none=True))


class TerminalInfo(RequestPart):
    """The role of a session in the terminal contract (docs/terminal.md).

    Attributes:
        mode: `interactive` if people see it.
        terminal_id: the name of an interactive terminal.
        workspace_id: the caller's workspace.
        runtime_session_id: the connection of a runtime adapter that it was opened through.
    """

    mode: Literal["interactive", "headless"]
    terminal_id: Id | None = None
    workspace_id: Id | None = None
    runtime_session_id: Id | None = None


_OPEN = """protocol device host port username auth pty timeouts ssh_options telnet_options command cwd env expect platform
session_type device_id acquire_lock lock_ttl_ms shell_integration shell terminal node"""

#: The fields of each action: required and optional ones.
_ACTIONS = {
    "open": ("", _OPEN),
    "close": ("session_id", "force"),
    "list": ("", "details"),
    "lock": ("session_id task_id", "lock_ttl_ms wait_ms force reason"),
    "unlock": ("session_id task_id", "lock_ttl_ms"),
    "heartbeat": ("session_id task_id", "lock_ttl_ms"),
    "status": ("session_id", ""),
}

#: Fields of an open that a protocol cannot use. They are rejected instead of ignored.
_FOREIGN = {
    "local": ["host", "port", "username", "auth", "ssh_options", "telnet_options"],
    "ssh": ["telnet_options", "cwd", "terminal"],
    "telnet": ["ssh_options", "command", "cwd", "env", "terminal"],
}


class SessionRequest(Request):
    """Open, close or list sessions, or take and release their locks."""

    action: SessionAction
    protocol: ProtocolName | None = None
    device: Id | None = Field(default=None, description="inventory name")
    host: HostName | None = Field(default=None, min_length=1)
    port: int | None = Field(default=None, ge=1, le=65535)
    username: SystemText | None = None
    auth: Auth | None = None
    pty: PtyOptions | None = None
    timeouts: Annotated[Timeouts | None, Unlisted] = None
    ssh_options: SshOptions | None = None
    telnet_options: Annotated[TelnetOptions | None, Unlisted] = None
    command: CommandLine | Argv | None = Field(default=None, description="instead of the login shell")
    cwd: SystemText | None = None
    env: Annotated[dict[VariableName, SystemText] | None, BeforeValidator(check_members), Unlisted] = None
    expect: Annotated[Expect | None, Unlisted] = None
    platform: Id | None = None
    session_type: SessionType | None = None
    device_id: Id | None = None
    acquire_lock: bool | None = None
    lock_ttl_ms: int | None = Field(default=None, ge=1, le=86_400_000)
    task_id: Id | None = Field(default=None, description="your task, the same in every call")
    shell_integration: Literal["auto", "off"] | None = None
    shell: ShellName | None = None
    node: Annotated[Id | None, Unlisted] = None
    terminal: Annotated[TerminalInfo | None, Unlisted] = None
    session_id: Id | None = None
    conversation_id: Id | None = None
    client_id: Annotated[Id, Unlisted] = "default"
    force: bool | None = None
    wait_ms: int | None = Field(default=None, ge=0)
    reason: Text | None = None
    details: Annotated[bool | None, Unlisted] = None

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        required, optional = _ACTIONS[self.action]
        if self.conversation_id is not None and self.session_id is None:
            required, optional = required.replace("session_id", "conversation_id"), f"{optional} client_id"
        check_fields(self, self.action, required, optional)
        if self.action == "open":
            self._check_open()
        return self

    def _check_open(self) -> None:
        if self.device is None and self.protocol is None:
            raise ValueError('action "open" needs protocol (local, ssh or telnet) or device')
        if self.protocol in ("ssh", "telnet") and self.host is None:
            raise ValueError(f'protocol "{self.protocol}" needs host')
        foreign = [name for name in _FOREIGN.get(self.protocol or "", ()) if getattr(self, name) is not None]
        if foreign:
            raise ValueError(f'protocol "{self.protocol}" takes no {", ".join(foreign)}')
        if self.session_type == "console" and self.device_id is None:
            raise ValueError('session_type "console" needs device_id, the name of the one console')
        if self.device_id is not None and self.session_type != "console":
            raise ValueError('device_id needs session_type "console"')
        if self.acquire_lock and self.task_id is None:
            raise ValueError("acquire_lock needs task_id")


class LeftProcess(Reply):
    """A process that continues after the close of its terminal.

    Attributes:
        detached: True if it has left the terminal's session (setsid, daemons), so that `force` does not end it.
    """

    pid: int
    command: str
    detached: bool | None = None


class LastCommand(Reply):
    """The last command of a session. Times are epoch ms.

    Attributes:
        cmd: its first 200 characters.
        ts_end: None while it runs.
    """

    block_id: str
    cmd: str
    status: BlockStatus
    exit_code: int | None = None
    error_hints: list[str] | None = None
    ts_begin: int
    ts_end: int | None = None


class GivenUp(Reply):
    """Why a lost console is not reconnected automatically, also not by the next server. `at` is epoch ms."""

    reason: str
    at: int


class SessionEntry(Reply):
    """One session in the reply of `list`. Times are epoch ms, sizes are bytes.

    Attributes:
        opened_by: name of the principal that opened it.
        mode: None once the program has ended.
        terminal: its role in the terminal contract, if it has one.
        alarm: why the session's files cannot be written.
        given_up: why a lost console is not reconnected automatically.
        waiting_for_input, pending_approvals, last_command: only with `details`.
        node: the other node of the fleet that has the session.
        unreachable_s: seconds since that node was last seen, if it is not reachable.
    """

    session_id: str
    protocol: ProtocolName
    host: str | None = None
    port: int | None = None
    username: str | None = None
    session_type: SessionType
    device: str | None = None
    device_id: str | None = None
    conversation_id: str | None = None
    client_id: str | None = None
    opened_by: str | None = None
    platform: str | None = None
    state: SessionState
    mode: TerminalMode | None = None
    pty: PtyOptions | None = None
    lock_holder: str | None = None
    lock_principal: str | None = None
    lock_expires_at: int | None = None
    observers: int
    created_at: int
    last_activity_at: int
    bytes_received: int
    bytes_sent: int
    spool_size: int
    disk_bytes: int
    incarnation: int
    terminal: TerminalInfo | None = None
    alarm: str | None = None
    given_up: GivenUp | None = None
    waiting_for_input: bool | None = None
    pending_approvals: int | None = None
    last_command: LastCommand | None = None
    node: str | None = None
    unreachable_s: int | None = None


class Capabilities(Reply):
    """Features of this server; the last three by protocol."""

    protocols: list[str]
    toolsets: list[str]
    platforms: list[str]
    supports_split_stdout_stderr: dict[str, bool]
    supports_exit_code: dict[str, bool]
    supports_resize: dict[str, bool]


class LimitUse(Reply):
    """How much of a limit is in use."""

    name: str
    in_use: int
    limit: int


class SessionReply(Reply):
    """Reply of the tool ptyctl_session: the fields of all actions. `OpenReply` ... `ListReply` have those of one action."""

    action: SessionAction
    success: bool = True
    message: str | None = None
    notices: list[str] | None = None
    session_id: str | None = None
    protocol: ProtocolName | None = None
    state: SessionState | None = None
    pty_enabled: bool | None = None
    next_cursor: str | None = None
    security_warning: str | None = None
    server_banner: str | None = None
    platform: str | None = None
    lock_acquired: bool | None = None
    existing_session_id: str | None = None
    sessions: list[SessionEntry] | None = None
    capabilities: Capabilities | None = None
    lock_holder: str | None = None
    lock_principal: str | None = None
    lock_expires_at: int | None = None
    fence: int | None = None
    queue_position: int | None = None
    mode: TerminalMode | None = None
    observers: list[str] | None = None
    queue: list[str] | None = None
    exit_code: int | None = None
    given_up: GivenUp | None = None
    limits: list[LimitUse] | None = None
    policy: str | None = None
    pending_approvals: int | None = None
    left_running: list[LeftProcess] | None = None


class ActionReply(Reply):
    """Base of the replies of one ptyctl_session action.

    Attributes:
        notices: messages that the task has not received yet: lock taken over, reset, reconnected, gap, message of a person.
    """

    action: SessionAction
    success: bool = True
    message: str | None = None
    notices: list[str] | None = None


class ListReply(ActionReply):
    """Reply of `list`."""

    sessions: list[SessionEntry]
    capabilities: Capabilities


class CloseReply(ActionReply):
    """Reply of `close`.

    Attributes:
        left_running: local processes that continue, such as background jobs.
    """

    session_id: str
    left_running: list[LeftProcess] | None = None


class LockReply(ActionReply):
    """Reply of `lock` and `heartbeat`: `lock_holder` holds the lock until `lock_expires_at` (epoch ms)."""

    session_id: str
    lock_holder: str
    lock_principal: str | None = None
    lock_expires_at: int
    fence: int


class LockStateReply(ActionReply):
    """Base of the replies that report the lock if there is one; without a lock its fields are None."""

    session_id: str
    lock_holder: str | None = None
    lock_principal: str | None = None
    lock_expires_at: int | None = None
    fence: int | None = None


class OpenReply(LockStateReply):
    """Reply of `open`. `existing_session_id` is given if the console was open already."""

    protocol: ProtocolName
    state: SessionState
    pty_enabled: bool
    next_cursor: str
    lock_acquired: bool
    security_warning: str | None = None
    server_banner: str | None = None
    platform: str | None = None
    existing_session_id: str | None = None


class UnlockReply(LockStateReply):
    """Reply of `unlock`. The lock fields are those of the next holder, if there is one."""


class StatusReply(LockStateReply):
    """Reply of `status`.

    Attributes:
        mode: None once the program has ended.
        observers: tasks that have read within the last minute.
        queue: tasks that wait for the lock, in order.
        exit_code: exit code of the session's program, once it has ended and the protocol transfers it.
        given_up: why a lost console is not reconnected automatically.
        limits: the session's limits of which something is in use.
        policy: name of the policy in force; `pending_approvals` is the number of texts that wait for an approval.
    """

    state: SessionState
    mode: TerminalMode | None = None
    observers: list[str]
    queue: list[str]
    exit_code: int | None = None
    given_up: GivenUp | None = None
    limits: list[LimitUse] | None = None
    policy: str | None = None
    pending_approvals: int | None = None
