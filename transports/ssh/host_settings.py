"""The settings of the OpenSSH configuration for one host: those that ssh(1) finds (`ssh -G`), or those of `openssh_config`.

ssh(1) reads the configuration of the user in the password database. If $HOME of the caller is another directory, it reads the
configuration there instead.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh

from transports.caller import absolute_path, readable_file
from transports.channel import MAX_PORT
from transports.errors import ConnectTimeout, InvalidOption

from .connect_options import SshConnectOptions, SshJumpHost
from .openssh_config import (
    SYSTEM_CONFIG,
    Lookup,
    Settings,
    has_relative_include,
    is_safe_user,
    matches_pattern,
    read_config,
    split_words,
)
from .programs import ProgramContext, ProgramFailed, local_user, run_program

#: The default identity files of ssh(1). Those of hardware tokens select keys of the agent.
_DEFAULT_KEYS = [f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")]
_USER_KNOWN_HOSTS = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_GLOBAL_KNOWN_HOSTS = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
#: Settings with paths that ssh(1) prints without quotes, and of some expanded in the home of the password database.
_PATHS = {
    "userknownhostsfile": _USER_KNOWN_HOSTS,
    "globalknownhostsfile": _GLOBAL_KNOWN_HOSTS,
    "revokedhostkeys": [],
    "identityagent": [],
}
#: ssh(1) prints its own error for a file that others can write, in English only.
_BAD_PERMISSIONS = re.compile(r"Bad owner or permissions on .*")
_KEY_ALGORITHMS = (
    lambda: [*asyncssh.connection.get_certificate_algs(), *asyncssh.connection.get_public_key_algs()],  # type: ignore[attr-defined]
    lambda: [
        *asyncssh.connection.get_default_certificate_algs(),  # type: ignore[attr-defined]
        *asyncssh.connection.get_default_public_key_algs(),  # type: ignore[attr-defined]
    ],
)
#: The setting for the algorithms with which the user's keys sign.
_LOGIN_ALGORITHMS = "PubkeyAcceptedAlgorithms"
#: The settings for algorithms, the supported names, and those that are offered by default.
_ALGORITHMS = {
    "KexAlgorithms": (asyncssh.connection.get_kex_algs, asyncssh.connection.get_default_kex_algs),  # type: ignore[attr-defined]
    "Ciphers": (
        asyncssh.connection.get_encryption_algs,  # type: ignore[attr-defined]
        asyncssh.connection.get_default_encryption_algs,  # type: ignore[attr-defined]
    ),
    "MACs": (asyncssh.connection.get_mac_algs, asyncssh.connection.get_default_mac_algs),  # type: ignore[attr-defined]
    "HostKeyAlgorithms": _KEY_ALGORITHMS,
    _LOGIN_ALGORITHMS: _KEY_ALGORITHMS,
    "CASignatureAlgorithms": (
        asyncssh.connection.get_public_key_algs,  # type: ignore[attr-defined]
        asyncssh.connection.get_default_public_key_algs,  # type: ignore[attr-defined]
    ),
}


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings for one host, expanded. Paths are absolute.

    Args:
        known_hosts, global_known_hosts: the user's files and the machine's.
        known_hosts_command: a program that prints further lines, and its arguments with the tokens of the host key.
        revoked_host_keys: lists of keys to reject.
        agent_path: the socket of the agent, if one may be used.
        proxy_command: a command line for the shell; `remote_command`: what runs instead of the login shell.
        environment: variables to send.
        algorithms: the supported algorithms of each setting that the configuration changes.
        login: arguments of asyncssh for the login methods; `network`: those for the TCP connection.
        known_hosts_name: the name that HostKeyAlias sets.
    """

    host: str
    port: int
    username: str
    known_hosts_name: str | None = None
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_path: str | None = None
    known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    known_hosts_command: tuple[str, ...] = ()
    revoked_host_keys: tuple[str, ...] = ()
    proxy_command: str | None = None
    proxy_jump: str | None = None
    remote_command: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    algorithms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    login: tuple[tuple[str, bool | tuple[str, ...]], ...] = ()
    network: tuple[tuple[str, str | bool | int], ...] = ()

    @property
    def login_algorithms(self) -> tuple[str, ...] | None:
        """The algorithms with which the user's keys may sign; None for all."""
        return dict(self.algorithms).get(_LOGIN_ALGORITHMS)


def settings_for(hop: SshJumpHost, options: SshConnectOptions, context: ProgramContext, deadline: float) -> HostSettings:
    """Return the settings for a host. Reads files and runs programs.

    Args:
        deadline: the time of `time.monotonic` at which the programs are ended.

    Raises:
        InvalidOption: the configuration cannot be read, or has an invalid setting for this host.
        ConnectTimeout: the programs that the configuration runs took too long.
    """
    lookup = _lookup(hop, context, deadline)
    if not options.use_openssh_config:
        found: Settings = {"userknownhostsfile": ["none"], "globalknownhostsfile": ["none"], "identityfile": ["none"]}
        return _expanded(found, lookup)
    if options.config_path is not None:
        _check_readable(absolute_path(options.config_path))
    found_by_ssh = _ask_ssh(hop, options, lookup, context, deadline)
    return _expanded(_read(options, lookup) if found_by_ssh is None else found_by_ssh, lookup)


def _lookup(hop: SshJumpHost, context: ProgramContext, deadline: float) -> Lookup:
    variables = dict(context.environment)

    def execute(command: str) -> bool:
        try:
            return run_program([context.shell, "-c", command], context, deadline, output=subprocess.DEVNULL)[0] == 0
        except ProgramFailed as error:
            raise _too_long(hop.host, error) from None

    home = variables.get("HOME") or _own_home()
    return Lookup(hop.host, hop.port, hop.username, local_user(), home, variables, execute)


def _own_home() -> str:
    """Return the home directory in the password database, which ssh(1) uses."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _too_long(host: str, error: ProgramFailed) -> ConnectTimeout:
    return ConnectTimeout(
        f"reading the SSH configuration for {host} failed: {error}",
        hint="look for a Match exec in the SSH configuration that does not end",
        host=host,
    )


def _check_readable(path: str) -> None:
    try:
        with readable_file(path).open("rb"):
            pass
    except OSError as error:
        raise InvalidOption(f"cannot read the SSH configuration {path}: {error.strerror}") from error


def _read(options: SshConnectOptions, lookup: Lookup) -> Settings:
    """Return the settings that our own reader finds."""
    if options.config_path is not None:
        # As ssh -F: without the machine's file, and whoever can write it.
        return read_config([(absolute_path(options.config_path), True)], lookup, named=True)
    return read_config([(f"{lookup.home}/.ssh/config", True), (SYSTEM_CONFIG, False)], lookup)


# Asking ssh(1)


def _ask_ssh(
    hop: SshJumpHost, options: SshConnectOptions, lookup: Lookup, context: ProgramContext, deadline: float
) -> Settings | None:
    """Return what `ssh -G` prints; None if there is no ssh, or it does not accept the configuration."""
    program = shutil.which("ssh", path=lookup.variables.get("PATH", os.defpath))
    if program is None or (hop.username is not None and not is_safe_user(hop.username)):
        return None
    argv = [program, "-G"]
    argv += [] if hop.username is None else ["-l", hop.username]
    argv += [] if hop.port is None else ["-p", str(hop.port)]
    standard_input = subprocess.DEVNULL
    if options.config_path is not None:
        argv += ["-F", absolute_path(options.config_path)]
    elif lookup.home != _own_home():
        if has_relative_include(SYSTEM_CONFIG):  # ssh would take it for the user's
            return None
        # A file without a name, which ssh opens by its standard input; Match exec does not inherit it.
        standard_input = os.memfd_create("ssh_config")
        files = " ".join(map(_quoted, map(lookup.expand_home, _USER_KNOWN_HOSTS)))
        text = _include(f"{lookup.home}/.ssh/config") + _include(SYSTEM_CONFIG) + f"Host *\nUserKnownHostsFile {files}\n"
        os.write(standard_input, os.fsencode(text))
        argv += ["-F", "/dev/stdin"]
    try:
        status, printed, problem = run_program([*argv, "--", hop.host], context, deadline, standard_input=standard_input)
    except ProgramFailed as error:
        raise _too_long(hop.host, error) from None
    finally:
        if standard_input != subprocess.DEVNULL:
            os.close(standard_input)
    if status != 0:
        if denied := _BAD_PERMISSIONS.search(os.fsdecode(problem)):
            raise InvalidOption(f"ssh(1) does not read the SSH configuration: {denied[0].strip()}", hint="chmod go-w the file")
        return None
    found = _parse_printed(printed)
    if not {"hostname", "port"} <= found.keys():  # not what ssh -G prints
        return None
    try:
        defaults = _defaults(program, deadline)
    except ProgramFailed as error:
        raise _too_long(hop.host, error) from None
    if defaults is None:
        return None
    _drop_defaults(found, defaults)
    found["remotecommand"] = [_escaped(value) for value in found.get("remotecommand", ())]
    words, printer = None, replace(lookup, home=_own_home())
    _note_address(_Values(found, printer))
    for keyword in _PATHS.keys() & found.keys():
        value = " ".join(found[keyword])
        if lookup.home == printer.home and (" " not in value or keyword == "identityagent"):
            found[keyword] = [_escaped(value) if keyword in ("userknownhostsfile", "identityagent") else value]
            continue
        if value == " ".join(map(lookup.expand_home, _PATHS[keyword])):
            found[keyword] = _PATHS[keyword]
            continue
        if words is None:
            words = _read(options, _lookup(hop, context, deadline))
        found[keyword] = words.get(keyword, _PATHS[keyword])
        if not _prints(found[keyword], value, printer):
            hint = "set it outside Match blocks, to one path without spaces"
            raise _Values(found, lookup).invalid(f"it is not certain which files {keyword} names: {value}", hint)
    return found


def _escaped(value: str) -> str:
    """Return a value that ssh has expanded, for another expansion."""
    return value.replace("%", "%%")


def _prints(words: list[str], value: str, printer: Lookup) -> bool:
    """Return whether ssh prints a value for the words of our own reader: as they are, or expanded."""
    try:
        expanded = [printer.expand_tokens(printer.expand_variables(printer.expand_home(word))) for word in words]
    except (KeyError, ValueError):
        expanded = words
    return value in (" ".join(words), " ".join(expanded))


def _include(path: str) -> str:
    """Return a line that reads a file, whose name is not a pattern."""
    escaped = re.sub(r"([\[*?\\])", r"[\1]", path)
    return f'Include "{escaped}"\n'


def _quoted(path: str) -> str:
    """Return a path as a word of the configuration, without tokens."""
    return '"' + re.sub(r'(["\\])', r"\\\1", path.replace("%", "%%")) + '"'


def _parse_printed(printed: bytes) -> Settings:
    found: Settings = {}
    for line in os.fsdecode(printed).split("\n"):
        keyword, _, value = line.partition(" ")
        if value:
            found.setdefault(keyword.lower(), []).append(value)
    return found


#: What each ssh program prints without a configuration, by its path and the time of its last change.
_printed_defaults: dict[tuple[str, int], Settings] = {}


def _defaults(program: str, deadline: float) -> Settings | None:
    """Return what ssh prints without a configuration; None if it fails. Raises ProgramFailed if it does not end."""
    key = (program, Path(program).stat().st_mtime_ns)
    if key not in _printed_defaults:
        command = [program, "-G", "-F", "none", "--", "localhost"]
        status, printed, _ = run_program(command, ProgramContext((), "/"), deadline)
        if status != 0:
            return None
        _printed_defaults[key] = _parse_printed(printed)
    return _printed_defaults[key]


def _drop_defaults(found: Settings, defaults: Settings) -> None:
    """Remove the algorithms and the identity files that the configuration does not change: ours are then used."""
    for name in (*_ALGORITHMS, "IdentityFile"):
        if found.get(name.lower()) == defaults.get(name.lower()):
            found.pop(name.lower(), None)


# Values


def _expanded(found: Settings, lookup: Lookup) -> HostSettings:
    """Return the values as they are used. Raises InvalidOption for one that the host needs and that is invalid."""
    values = _Values(found, lookup)
    host, port = _note_address(values)
    agent = values.agent()
    return HostSettings(
        host=host,
        port=port,
        username=lookup.user or lookup.local_user,
        known_hosts_name=lookup.alias,
        identity_files=tuple(values.paths("identityfile", _DEFAULT_KEYS, required=False)),
        certificate_files=tuple(values.paths("certificatefile", [], required=False)),
        identities_only=values.flag("identitiesonly", default=False),
        agent_path=agent,
        known_hosts=tuple(values.paths("userknownhostsfile", _USER_KNOWN_HOSTS, required=True)),
        global_known_hosts=tuple(values.paths("globalknownhostsfile", _GLOBAL_KNOWN_HOSTS, required=True, has_tokens=False)),
        known_hosts_command=values.known_hosts_command(),
        revoked_host_keys=tuple(values.paths("revokedhostkeys", [], required=True)),
        proxy_command=values.proxy_command(),
        proxy_jump=values.proxy_jump(),
        remote_command=values.remote_command(),
        environment=tuple(values.environment()),
        algorithms=tuple(values.algorithms()),
        login=tuple(values.login()),
        network=tuple(values.network()),
    )


def _note_address(values: _Values) -> tuple[str, int]:
    """Complete what tokens stand for; return host and port."""
    lookup = values.lookup
    lookup.address = values.literal("hostname") or lookup.host
    lookup.port = lookup.port or values.port()
    lookup.user = lookup.user or values.literal("user")
    lookup.alias = (values.first("hostkeyalias") or "").lower() or None
    return lookup.address, lookup.port


class _Values:
    """The values of the settings of one host."""

    def __init__(self, found: Settings, lookup: Lookup) -> None:
        self._found = found
        self.lookup = lookup

    def first(self, keyword: str) -> str | None:
        """Return the value of a setting; None if it is not set, or `none`."""
        value = next(iter(self._found.get(keyword, ())), "")
        return value if value and value.lower() != "none" else None

    def literal(self, keyword: str) -> str | None:
        """Return the value of a setting for which `none` has no special meaning."""
        return next(iter(self._found.get(keyword, ())), None)

    def flag(self, keyword: str, *, default: bool) -> bool:
        value = (self.first(keyword) or "").lower()
        return default if value not in ("yes", "true", "no", "false") else value in ("yes", "true")

    def port(self) -> int:
        value = self.literal("port") or "22"
        with suppress(OSError, ValueError):
            value = value if value.isdecimal() else str(socket.getservbyname(value, "tcp"))
        if value.isdecimal() and 1 <= int(value) <= MAX_PORT:
            return int(value)
        raise self.invalid(f"Port {value} is not a port")

    def paths(self, keyword: str, default: list[str], *, required: bool, has_tokens: bool = True) -> list[str]:
        """Return the files of a setting. One that cannot be expanded is skipped, or raises InvalidOption if it is required."""
        paths = []
        for value in self._found.get(keyword, default):
            if value.lower() == "none":
                continue
            path = self.lookup.expand_home(value)
            try:
                path = self.lookup.expand_tokens(self.lookup.expand_variables(path)) if has_tokens else path
            except (KeyError, ValueError) as error:
                if required:
                    raise self.invalid(f"{keyword} {value}: {_reason(error)}") from None
                continue
            paths.append(absolute_path(path))
        return list(dict.fromkeys(paths))

    def agent(self) -> str | None:
        """Return the agent's socket: IdentityAgent, which may be `none`, else $SSH_AUTH_SOCK."""
        value, variables = next(iter(self._found.get("identityagent", ())), "SSH_AUTH_SOCK"), self.lookup.variables
        if value.lower() == "none":
            return None
        if value == "SSH_AUTH_SOCK" or (value.startswith("$") and not value.startswith("${")):
            value = variables.get(value.removeprefix("$"), "")
            return absolute_path(value) if value else None
        return next(iter(self.paths("identityagent", [], required=False)), None)

    def command(self, keyword: str, tokens: str | None) -> str | None:
        """Return a command line for a shell."""
        command = self.first(keyword)
        try:
            return None if command is None else self.lookup.expand_for_shell(command, tokens)
        except ValueError as error:
            raise self.invalid(f"{keyword} {command}: {error}") from None

    def proxy_command(self) -> str | None:
        """Return ProxyCommand, which must relay the connection itself."""
        command = self.command("proxycommand", "hknpr")
        if command is not None and self.flag("proxyusefdpass", default=False):
            raise self.invalid(
                "ProxyUseFdpass is not supported: a ProxyCommand cannot hand over its socket",
                hint="set ProxyUseFdpass no for this host, and use a ProxyCommand that relays, such as nc without -F",
            )
        return command

    def known_hosts_command(self) -> tuple[str, ...]:
        """Return the arguments of KnownHostsCommand, in which only the tokens of the host key are left."""
        command = self.first("knownhostscommand")
        if command is None:
            return ()
        try:
            words = [self.lookup.expand_variables(word) for word in split_words(command)]
            argv = tuple(self.lookup.expand_tokens(word, keep="%fHIKt") for word in words)
        except (KeyError, ValueError) as error:
            raise self.invalid(f"KnownHostsCommand {command}: {_reason(error)}") from None
        if not argv or not Path(argv[0]).is_absolute():
            raise self.invalid(f"KnownHostsCommand {command} is not an absolute path")
        return argv

    def remote_command(self) -> str | None:
        """Return RemoteCommand, for the shell of the server, with its tokens expanded as far as they are known."""
        command = self.first("remotecommand")
        try:
            return None if command is None else self.lookup.expand_tokens(command)
        except ValueError:
            return command

    def proxy_jump(self) -> str | None:
        value = self.first("proxyjump")
        try:
            return None if value is None else self.lookup.expand_tokens(value, "hnpr")
        except ValueError as error:
            raise self.invalid(f"ProxyJump {value}: {error}") from None

    def environment(self) -> Iterable[tuple[str, str]]:
        """Yield the variables of SendEnv, which may also remove patterns, and SetEnv."""
        patterns: list[str] = []
        for pattern in self._found.get("sendenv", ()):
            if pattern.startswith("-"):
                patterns = [one for one in patterns if not matches_pattern(pattern[1:], one)]
            else:
                patterns.append(pattern)
        sent = {
            name: value
            for name, value in self.lookup.variables.items()
            if any(matches_pattern(pattern, name) for pattern in patterns) and _is_text(name + value)
        }
        for setting in self._found.get("setenv", ()):
            name, separator, value = setting.partition("=")
            if name and separator and _is_text(setting):
                sent[name] = value
        return sorted(sent.items())

    def algorithms(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        for name, (supported, default) in _ALGORITHMS.items():
            text = self.first(name.lower())
            if text is None and name == _LOGIN_ALGORITHMS:
                text = self.first("pubkeyacceptedkeytypes")  # the name before OpenSSH 8.5
            if text is None or text == "default":
                continue
            selected = _select(text, [one.decode() for one in supported()], [one.decode() for one in default()])
            if not selected and name not in (_LOGIN_ALGORITHMS, "CASignatureAlgorithms"):  # without them, others are used
                raise self.invalid(f"{name} {text} has no algorithm that this client supports")
            yield name, tuple(selected)

    def login(self) -> Iterable[tuple[str, bool | tuple[str, ...]]]:
        key = (self.first("pubkeyauthentication") or "yes").lower()
        if key in ("no", "false"):
            yield "public_key_auth", False
        interactive = "kbdinteractiveauthentication"
        if not self.flag(interactive, default=self.flag("challengeresponseauthentication", default=True)):
            yield "kbdint_auth", False
        if not self.flag("passwordauthentication", default=True):
            yield "password_auth", False
        if preferred := self.first("preferredauthentications"):
            yield "preferred_auth", tuple(preferred.split(","))

    def network(self) -> Iterable[tuple[str, str | bool | int]]:
        family = (self.first("addressfamily") or "any").lower()
        if family in ("inet", "inet6"):
            yield "family", family
        if address := self.first("bindaddress"):
            yield "bind_address", address
        if not self.flag("tcpkeepalive", default=True):
            yield "tcp_keepalive", False
        size, seconds = rekey_limit(" ".join(self._found.get("rekeylimit", ())))
        if size:
            yield "rekey_bytes", size
        if seconds:
            yield "rekey_seconds", seconds

    def invalid(self, what: str, hint: str | None = None) -> InvalidOption:
        what = f"the settings for {self.lookup.host} in the SSH configuration cannot be used: {what}"
        return InvalidOption(what, hint=hint)


def _reason(error: Exception) -> str:
    return f"the variable {error.args[0]} is not set" if isinstance(error, KeyError) else str(error)


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _select(text: str, supported: list[str], default: list[str]) -> list[str]:
    """Return the algorithms of a setting: a list of patterns, or a change of the defaults with +, - or ^ (ssh_config(5))."""
    change = text[0] if text[0] in "+-^" else ""
    patterns = text.removeprefix(change).split(",")
    pool = default if change == "-" else supported
    matching = list(dict.fromkeys(name for pattern in patterns for name in pool if matches_pattern(pattern, name)))
    if change == "-":
        return [name for name in default if name not in matching]
    rest = [name for name in default if name not in matching] if change else []
    return rest + matching if change == "+" else matching + rest


def asyncssh_arguments(settings: Mapping[str, str | bool | int]) -> dict[str, object]:
    """Return the arguments of asyncssh for `HostSettings.network`."""
    arguments: dict[str, object] = {}
    if family := settings.get("family"):
        arguments["family"] = socket.AF_INET6 if family == "inet6" else socket.AF_INET
    if address := settings.get("bind_address"):
        arguments["local_addr"] = (address, 0)
    if "tcp_keepalive" in settings:
        arguments["tcp_keepalive"] = False
    arguments |= {name: settings[name] for name in ("rekey_bytes", "rekey_seconds") if name in settings}
    return arguments


def rekey_limit(text: str) -> tuple[int, int]:
    """Return the bytes and the seconds of RekeyLimit (ssh_config(5)); 0 for a default, and for what cannot be read."""
    size, time_, *_ = [*text.lower().split(), "", ""]
    number = re.fullmatch(r"(\d{1,12})([kmg]?)", size)
    amount = int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[number[2]] if number else 0
    # The TIME FORMATS of sshd_config(5): numbers with units, in seconds without one.
    parts = re.findall(r"(\d{1,9})([smhdw]?)", time_) if re.fullmatch(r"(?:\d{1,9}[smhdw]?)+", time_) else []
    unit = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    return amount, sum(int(count) * unit[name] for count, name in parts)


def read_without_ssh(hop: SshJumpHost, options: SshConnectOptions, context: ProgramContext, deadline: float) -> HostSettings:
    """Return the settings of our own reader, which is used where ssh(1) is not installed. For tests."""
    lookup = _lookup(hop, context, deadline)
    return _expanded(_read(options, lookup), lookup)
