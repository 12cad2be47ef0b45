"""The parameters of an SSH channel, validated on construction, and the text form of jump hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from transports.channel import MAX_PORT, Pty, check_window_size
from transports.errors import InvalidOption

AuthMethod = Literal["auto", "password", "private_key", "agent"]
HostKeyPolicy = Literal["strict", "accept_new", "disabled"]

#: The format of `ssh-keygen -lf`: base64 of 32 bytes, with or without padding.
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_DEFAULT_PTY = Pty()

#: [user@]host[:port]. The user may contain @ (as mail addresses do), so it extends to the last one; an IPv6 address with a port
#: is in brackets.
_JUMP_HOST = re.compile(
    r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<bracketed>[^\[\]@]+)\]|(?P<host>[^\[\]@:]+))(?::(?P<port>\d+))?/?"
)
#: What no host name or address contains: an option, control characters, and what a shell or ssh(1) would interpret.
_NO_HOST = re.compile(r"^-|[\x00-\x1f\x7f'`\"$\\;&<>|(){}@/*?~#!]")
_BARE_IPV6 = re.compile(r"(?:(?P<user>.+)@)?(?P<host>[^\[\]@:/]*(?::[^\[\]@:/]*){2,})")


@dataclass(frozen=True, slots=True)
class SshAuth:
    """Credentials.

    `auto` tries the named key, then the agent, then the keys of the OpenSSH configuration, then the password, as available.
    `password` uses neither agent nor keys;
    `private_key` uses the named key, or those of the OpenSSH configuration if none is named; `agent` uses only the agent.
    `one_time_code` answers the keyboard-interactive prompt for a code, with any method.
    """

    method: AuthMethod = "auto"
    password: str | None = field(default=None, repr=False)
    private_key_pem: str | None = field(default=None, repr=False)
    private_key_path: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    one_time_code: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.private_key_pem is not None and self.private_key_path is not None:
            raise InvalidOption("auth takes private_key_pem or private_key_path, not both")
        if self.method == "password" and self.password is None:
            raise InvalidOption('auth method "password" needs password')

    @property
    def names_a_key(self) -> bool:
        """Whether a key is named; other key files are not read then."""
        return self.private_key_pem is not None or self.private_key_path is not None

    def without_password(self) -> SshAuth:
        """Return the same agent and keys, for a jump host without separate credentials.

        A signature is valid for one connection only, whereas the jump host would learn the password and the code.
        """
        method = "auto" if self.method == "password" else self.method
        return replace(self, method=method, password=None, one_time_code=None)


@dataclass(frozen=True, slots=True)
class HostKeyOptions:
    """The host keys to accept.

    Args:
        policy: `strict` accepts known keys only; `accept_new` also records the key of a host that has none; `disabled` accepts
            any key.
        known_hosts_path: the only file to read, and the file that `accept_new` writes to.
        fingerprint: `SHA256:...` of the only key to accept; overrides policy and files.
    """

    policy: HostKeyPolicy = "strict"
    known_hosts_path: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not _FINGERPRINT.fullmatch(self.fingerprint):
            raise InvalidOption("host_key_fingerprint must have the form SHA256:... of `ssh-keygen -lf`")


@dataclass(frozen=True, slots=True)
class SshJumpHost:
    """A jump host.

    Args:
        port, username: None takes them from the OpenSSH configuration; the defaults are 22 and the local user.
        auth: None uses the target's agent and keys, never its password.
        legacy_algorithms: also offer obsolete algorithms; independent of the target's setting.
    """

    host: str
    port: int | None = None
    username: str | None = None
    auth: SshAuth | None = None
    legacy_algorithms: bool = False

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, "a jump host")


@dataclass(frozen=True, slots=True)
class SshConnectOptions:
    """The parameters of one SSH channel.

    Args:
        port, username: None takes them from the OpenSSH configuration; the defaults are 22 and the local user.
        pty: None opens a channel without a terminal; its stderr is merged into the stream.
        command: runs instead of the login shell, or of RemoteCommand; a tuple is quoted for a POSIX shell.
        env: sent as environment requests, which the server may ignore (RFC 4254 6.4).
        connect_timeout_s: limit for the whole open, including jump hosts and login, seconds.
        use_openssh_config: read ~/.ssh (config, known_hosts, keys); if False, only files named here are read.
        config_path: the configuration file to read instead of ~/.ssh/config.
        jump: the jump hosts, first one first; None uses ProxyJump of the configuration, () connects directly.
        legacy_algorithms: also offer obsolete algorithms to old devices (SHA-1 key exchange and signatures, CBC, MD5).
        keepalive_s: interval between keepalives, seconds; the channel is broken after three without a reply. 0 sends none.
    """

    host: str
    port: int | None = None
    username: str | None = None
    auth: SshAuth = SshAuth()
    pty: Pty | None = _DEFAULT_PTY
    command: str | tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    connect_timeout_s: float = 15.0
    host_keys: HostKeyOptions = HostKeyOptions()
    use_openssh_config: bool = True
    config_path: str | None = None
    jump: tuple[SshJumpHost, ...] | None = None
    legacy_algorithms: bool = False
    keepalive_s: float = 15.0

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, "an SSH channel")
        if self.pty is not None:
            check_window_size(self.pty.cols, self.pty.rows)
        if self.command is not None and not self.command:
            raise InvalidOption("command is empty", hint="omit it to start the login shell")
        _check_texts(self)
        if self.connect_timeout_s <= 0:
            raise InvalidOption("connect_timeout must be more than 0")
        if self.keepalive_s < 0:
            raise InvalidOption("keepalive_s must be 0 (off) or more")
        if self.config_path is not None and not self.use_openssh_config:
            raise InvalidOption("config_path contradicts use_openssh_config false", hint="omit one of them")
        if self.host_keys.policy == "accept_new" and not self.use_openssh_config and self.host_keys.known_hosts_path is None:
            raise InvalidOption('host_key_policy "accept_new" without the OpenSSH configuration needs known_hosts_path')


def parse_jump_hosts(text: str) -> tuple[SshJumpHost, ...]:
    """Parse `[user@]host[:port]`, comma-separated, first one first, as in ssh -J and ProxyJump (ssh_config(5)).

    `none` is an empty list.

    Raises:
        InvalidOption: names the invalid part.
    """
    if text.strip().lower() == "none":
        return ()
    return tuple(_parse_jump_host(part.strip()) for part in text.split(","))


def _parse_jump_host(text: str) -> SshJumpHost:
    match = _JUMP_HOST.fullmatch(text) or _BARE_IPV6.fullmatch(text)
    if match is None:
        raise InvalidOption(f"jump host {text!r} is not [user@]host[:port]", hint="separate several by commas")
    parts = match.groupdict()
    host = parts.get("bracketed") or parts["host"]
    port = parts.get("port")
    return SshJumpHost(host, int(port) if port else None, parts["user"])


def _check_address(host: str, port: int | None, what: str) -> None:
    if not host or _NO_HOST.search(host) or any(letter.isspace() for letter in host):
        raise InvalidOption(f"{what} needs a host name or address")
    if port is not None and not 1 <= port <= MAX_PORT:
        raise InvalidOption(f"a port is 1 to {MAX_PORT}, not {port}")


def _check_texts(options: SshConnectOptions) -> None:
    """Validate the strings that are sent unchanged: NUL would end them at the server, and surrogates are not UTF-8."""
    command = options.command or ""
    texts = [command if isinstance(command, str) else "".join(command), *options.env, *options.env.values()]
    if any("\0" in text or not _is_utf8(text) for text in texts):
        raise InvalidOption("command and env must be text without NUL")
    if any(not name or "=" in name for name in options.env):
        raise InvalidOption("the name of an environment variable is not empty and contains no =")


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
