"""ptyctl_session: open, close, list, lock, unlock, heartbeat, status (CONTRACTS, ptyctl_session)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from .fields import check_fields, fields
from .model import Id, Name, Reply, Request, Value, Word

Protocol_ = Literal["local", "ssh", "telnet"]
SessionType = Literal["normal", "console"]
State = Literal["opening", "open", "reconnecting", "eof", "lost", "closed"]
Mode = Literal["idle", "block_running", "interactive"]
Columns = Annotated[int, Field(ge=1, le=65535)]
Argv = Annotated[tuple[Word, ...], Field(min_length=1)]

DEFAULT_LOCK_TTL_MS = 60_000


class Auth(Value):
    """How to log in. `auto` tries what is there: agent, keys, then the password. `enable_secret` is for a device's privileged
    mode."""

    method: Literal["auto", "password", "private_key", "agent"] = "auto"
    password: SecretStr | None = None
    private_key_pem: SecretStr | None = None
    private_key_path: Word | None = None
    passphrase: SecretStr | None = None
    enable_secret: SecretStr | None = None


class PtyOptions(Value):
    """The terminal asked for; sizes in characters."""

    enabled: bool = True
    cols: Columns = 120
    rows: Columns = 40
    term: Word = "xterm-256color"


class Timeouts(Value):
    """`idle_timeout_ms` closes a session that nobody used for so long; 0 is never."""

    connect_timeout_ms: int = Field(15_000, ge=1)
    idle_timeout_ms: int = Field(0, ge=0)


class SshOptions(Value):
    host_key_policy: Literal["strict", "accept_new", "disabled"] = "strict"
    known_hosts_path: Word | None = None
    host_key_fingerprint: Word | None = Field(None, description="SHA256:..., the only key")
    use_openssh_config: bool = True
    config_path: Word | None = None
    jump: Word | None = Field(None, description="[user@]host[:port],...")
    legacy_algorithms: bool = False
    keepalive_s: float = Field(15, ge=0)


class TelnetOptions(Value):
    line_ending: Literal["auto", "cr", "crlf", "lf", "pass_through"] = "auto"
    binary: bool | None = None
    keepalive: Literal["nop", "ayt"] | None = None
    keepalive_s: float | None = Field(None, gt=0)


class Pace(Value):
    """How fast a line is typed at: a console of 9600 bit/s takes 960 characters a second, and some lose what comes faster.

    Args:
        chars_per_s: at most so many bytes a second.
        line_delay_ms: besides, a rest after each Enter.
    """

    chars_per_s: float | None = Field(None, gt=0)
    line_delay_ms: int | None = Field(None, ge=0, le=60_000)


class Expect(Value):
    """RE2 patterns that tell a device's prompt, pager and errors. `settle_ms`: how long a prompt or a pager must stay the end
    of the output to be one; without it, the very prompt that was seen before counts at once."""

    prompt_regex: str | None = None
    pager_regexes: tuple[str, ...] | None = None
    error_regexes: tuple[str, ...] | None = None
    settle_ms: int | None = Field(None, ge=0, le=10_000)


_OPEN = """protocol device host port username auth pty timeouts ssh_options telnet_options command cwd env expect platform
session_type device_id acquire_lock lock_ttl_ms shell_integration"""

_ACTIONS = {
    "open": fields(optional=_OPEN),
    "close": fields("session_id", "force"),
    "list": fields(),
    "lock": fields("session_id task_id", "lock_ttl_ms wait_ms force reason"),
    "unlock": fields("session_id task_id", "lock_ttl_ms"),
    "heartbeat": fields("session_id task_id", "lock_ttl_ms"),
    "status": fields("session_id"),
}
_COMMON = frozenset({"action", "task_id"})

#: What an open to each protocol cannot take: it would be ignored, and that helps nobody.
_FOREIGN = {
    "local": ["host", "port", "username", "auth", "ssh_options", "telnet_options"],
    "ssh": ["telnet_options", "cwd"],
    "telnet": ["ssh_options", "command", "cwd", "env"],
}


class SessionRequest(Request):
    action: Literal["open", "close", "list", "lock", "unlock", "heartbeat", "status"]
    protocol: Protocol_ | None = None
    device: Id | None = Field(None, description="its name in the inventory")
    host: Word | None = Field(None, min_length=1)
    port: int | None = Field(None, ge=1, le=65535)
    username: Word | None = None
    auth: Auth | None = None
    pty: PtyOptions | None = None
    timeouts: Timeouts | None = None
    ssh_options: SshOptions | None = None
    telnet_options: TelnetOptions | None = None
    command: Word | Argv | None = Field(None, description="instead of the login shell")
    cwd: Word | None = None
    env: dict[Name, Word] | None = None
    expect: Expect | None = None
    platform: Id | None = None
    session_type: SessionType | None = None
    device_id: Id | None = None
    acquire_lock: bool | None = None
    lock_ttl_ms: int | None = Field(None, ge=1, le=86_400_000)
    task_id: Id | None = Field(None, description="who you are: the same in every call")
    shell_integration: Literal["auto", "off"] | None = None
    session_id: Id | None = None
    force: bool | None = None
    wait_ms: int | None = Field(None, ge=0)
    reason: str | None = None

    @model_validator(mode="after")
    def _coupled(self) -> Self:
        check_fields(self, _ACTIONS, _COMMON)
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


class SessionEntry(Reply):
    """One row of `list`. Times are epoch ms, sizes bytes."""

    session_id: str
    protocol: Protocol_
    host: str | None = None
    port: int | None = None
    username: str | None = None
    session_type: SessionType
    device: str | None = None
    device_id: str | None = None
    conversation_id: str | None = None
    client_id: str | None = None
    platform: str | None = None
    state: State
    mode: Mode
    pty: PtyOptions | None = None
    lock_holder: str | None = None
    lock_expires_at: int | None = None
    observers: int
    created_at: int
    last_activity_at: int
    bytes_received: int
    bytes_sent: int
    spool_size: int
    disk_bytes: int
    incarnation: int


class Capabilities(Reply):
    """What this server can do; the last three by protocol."""

    protocols: list[str]
    toolsets: list[str]
    platforms: list[str]
    supports_split_stdout_stderr: dict[str, bool]
    supports_exit_code: dict[str, bool]
    supports_resize: dict[str, bool]


class SessionReply(Reply):
    action: Literal["open", "close", "list", "lock", "unlock", "heartbeat", "status"]
    success: bool = True
    message: str | None = None
    notices: list[str] | None = None
    session_id: str | None = None
    protocol: Protocol_ | None = None
    state: State | None = None
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
    lock_expires_at: int | None = None
    fence: int | None = None
    queue_position: int | None = None
    mode: Mode | None = None
    observers: list[str] | None = None
    queue: list[str] | None = None
