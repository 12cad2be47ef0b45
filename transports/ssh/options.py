"""What an SSH channel can be told: values only, checked when they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from transports.channel import Pty
from transports.errors import InvalidOption

AuthMethod = Literal["auto", "password", "private_key", "agent"]
HostKeyPolicy = Literal["strict", "accept_new", "disabled"]

#: How `ssh-keygen -lf` prints it: base64 of 32 bytes, with or without the padding.
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_MAX_PORT = 65535
#: The most columns or rows that a window can have here, as in struct winsize (unsigned short).
MAX_CELLS = 65535
_DEFAULT_PTY = Pty()


@dataclass(frozen=True, slots=True)
class Auth:
    """How to log in.

    `auto` tries the agent, the keys, then the password, as far as each is there. `password` uses neither agent nor keys;
    `private_key` uses the key that is named here, or else those of the OpenSSH configuration; `agent` the agent alone.
    """

    method: AuthMethod = "auto"
    password: str | None = field(default=None, repr=False)
    private_key_pem: str | None = field(default=None, repr=False)
    private_key_path: str | None = None
    passphrase: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.private_key_pem is not None and self.private_key_path is not None:
            raise InvalidOption("auth takes private_key_pem or private_key_path, not both")
        if self.method == "password" and self.password is None:
            raise InvalidOption('auth method "password" needs password')

    @property
    def names_a_key(self) -> bool:
        """Whether one key was named: then no other key file is read."""
        return self.private_key_pem is not None or self.private_key_path is not None

    def without_password(self) -> Auth:
        """The same agent and keys. What a jump host may see when it has no credentials of its own: a signature proves the
        key to one connection only, while a password would be in the jump host's hands."""
        return replace(self, method="auto" if self.method == "password" else self.method, password=None)


@dataclass(frozen=True, slots=True)
class HostKeys:
    """Which host key is right.

    Args:
        policy: `strict` takes known keys only; `accept_new` also records the key of a host that has none; `disabled` takes any.
        known_hosts_path: the only file to read, and the one that `accept_new` writes to.
        fingerprint: `SHA256:...` of the only key to take, whatever the policy and the files say.
    """

    policy: HostKeyPolicy = "strict"
    known_hosts_path: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not _FINGERPRINT.fullmatch(self.fingerprint):
            raise InvalidOption("host_key_fingerprint must look like SHA256:... as `ssh-keygen -lf` prints it")


@dataclass(frozen=True, slots=True)
class Hop:
    """A host on the way.

    Args:
        port, username: None takes them from the OpenSSH configuration, or else 22 and the local user.
        auth: None uses the target's agent and keys, never its password.
        legacy_algorithms: as for the target, whose own setting does not hold here.
    """

    host: str
    port: int | None = None
    username: str | None = None
    auth: Auth | None = None
    legacy_algorithms: bool = False

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, "a jump host")


@dataclass(frozen=True, slots=True)
class SshOptions:
    """One SSH channel.

    Args:
        port, username: None takes them from the OpenSSH configuration, or else 22 and the local user.
        pty: None opens a plain channel, its stderr merged into the stream.
        command: runs instead of the login shell; a tuple is quoted for a POSIX shell.
        env: sent as requests, which the server may ignore (RFC 4254 6.4).
        connect_timeout_s: seconds for everything until the terminal is there, jump hosts and login included.
        use_openssh_config: reads ~/.ssh (config, known_hosts, keys); without it nothing is read that is not named here.
        config_path: the configuration file to read instead of ~/.ssh/config.
        jump: the hosts to go through, first one first; None asks the configuration's ProxyJump, () goes directly.
        legacy_algorithms: also offers what is no longer safe (SHA-1 key exchange and signatures, CBC, MD5) to old devices.
        keepalive_s: seconds between keepalives; after three unanswered ones the channel is broken. 0 sends none.
    """

    host: str
    port: int | None = None
    username: str | None = None
    auth: Auth = Auth()
    pty: Pty | None = _DEFAULT_PTY
    command: str | tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    connect_timeout_s: float = 15.0
    host_keys: HostKeys = HostKeys()
    use_openssh_config: bool = True
    config_path: str | None = None
    jump: tuple[Hop, ...] | None = None
    legacy_algorithms: bool = False
    keepalive_s: float = 15.0

    def __post_init__(self) -> None:
        _check_address(self.host, self.port, "an SSH channel")
        if self.pty is not None and not (1 <= self.pty.cols <= MAX_CELLS and 1 <= self.pty.rows <= MAX_CELLS):
            raise InvalidOption(f"pty cols and rows are 1 to {MAX_CELLS} each")
        if self.command is not None and not self.command:
            raise InvalidOption("command is empty; leave it out to get the login shell")
        _check_texts(self)
        if self.connect_timeout_s <= 0:
            raise InvalidOption("connect_timeout must be more than 0")
        if self.keepalive_s < 0:
            raise InvalidOption("keepalive_s must be 0 (off) or more")
        if self.config_path is not None and not self.use_openssh_config:
            raise InvalidOption("config_path contradicts use_openssh_config false; leave one out")
        if self.host_keys.policy == "accept_new" and not self.use_openssh_config and self.host_keys.known_hosts_path is None:
            raise InvalidOption('host_key_policy "accept_new" without the OpenSSH configuration needs known_hosts_path')


def _check_address(host: str, port: int | None, what: str) -> None:
    if not host or host.startswith("-") or any(letter.isspace() for letter in host):
        raise InvalidOption(f"{what} needs a host name or address")
    if port is not None and not 1 <= port <= _MAX_PORT:
        raise InvalidOption(f"a port is 1 to {_MAX_PORT}, not {port}")


def _check_texts(options: SshOptions) -> None:
    """What is sent as it is: NUL would end it early at the server, and a surrogate is no UTF-8."""
    command = options.command or ""
    texts = [command if isinstance(command, str) else "".join(command), *options.env, *options.env.values()]
    if any("\0" in text or not _is_utf8(text) for text in texts):
        raise InvalidOption("command and env must be text without NUL")
    if any(not name or "=" in name for name in options.env):
        raise InvalidOption("the name of an environment variable is not empty and has no =")


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
