"""Settings of the environment: which runtime adapter serves a request, and the phase of the legacy actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from .aliases import AliasPhase
from .errors import TerminalError, TerminalErrorCode
from .handshake import MIN_TOKEN_CHARACTERS

RuntimeMode = Literal["local", "bundled", "container_bridge", "local_or_bundled_auto"]
#: Values of `runtime.adapter_override` and of PM_TERM_ADAPTER_MODE.
AdapterName = Literal["auto", "local", "bundled", "container_bridge"]
ADAPTER_NAMES = get_args(AdapterName)

#: Time for a program to start and to finish the handshake (ms).
SPAWN_TIMEOUT_MS = 8000
MAX_SPAWN_TIMEOUT_MS = 30_000
#: Names of the host in a container: of Podman, and of Docker.
HOST_ALIASES = ("host.containers.internal", "host.docker.internal")
DEFAULT_PORT = 45459
CONNECT_TIMEOUT_MS = 3000
REQUEST_TIMEOUT_MS = 30_000
_MAX_TIMEOUT_MS = 600_000

#: Variables. No session inherits the token.
BINARY = "PM_INTERACTIVE_TERMINAL_BINARY"
ALLOWED_BINARIES = "PM_INTERACTIVE_TERMINAL_ALLOWED_BINARIES"
SPAWN_TIMEOUT = "PM_INTERACTIVE_TERMINAL_SPAWN_TIMEOUT_MS"
HOST_ALIAS = "PM_INTERACTIVE_TERMINAL_HOST_ALIAS"
HOST_FALLBACK_ALIAS = "PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS"
HOST_PORT = "PM_INTERACTIVE_TERMINAL_HOST_PORT"
CONNECT_TIMEOUT = "PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS"
REQUEST_TIMEOUT = "PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS"
TOKEN = "PM_INTERACTIVE_TERMINAL_TOKEN"
TOKEN_FILE = "PM_INTERACTIVE_TERMINAL_TOKEN_FILE"
TRACE_BRIDGE = "PM_INTERACTIVE_TERMINAL_TRACE_BRIDGE"


class LocalSettings(NamedTuple):
    """How a program is found and started.

    Attributes:
        binary: the configured program, or None.
        search_path: the directories for programs without a configured path, as in PATH.
    """

    binary: str | None
    search_path: str
    spawn_timeout_ms: int
    request_timeout_ms: int


class BridgeSettings(NamedTuple):
    """Where the bridge of the host is. `trace`: log each step, without secrets."""

    hosts: tuple[str, ...]
    port: int
    token: str
    connect_timeout_ms: int
    request_timeout_ms: int
    trace: bool = False


def alias_phase(environment: Mapping[str, str]) -> AliasPhase:
    """Return the phase of the legacy actions. Raises TerminalError INVALID_PAYLOAD for an unknown one."""
    value = environment.get("PM_TERM_ALIAS_PHASE") or AliasPhase.COMPAT
    try:
        return AliasPhase(value)
    except ValueError:
        phases = ", ".join(AliasPhase)
        raise _invalid_setting("PM_TERM_ALIAS_PHASE", f"is not one of {phases}") from None


def resolve_mode(override: str | None, environment: Mapping[str, str]) -> RuntimeMode:
    """Return the mode: of the request, else PM_TERM_ADAPTER_MODE, else by PM_RUNNING_IN_CONTAINER, else local.

    Raises:
        TerminalError: INVALID_PAYLOAD for an unknown adapter.
    """
    for name, value in (
        ("runtime.adapter_override", override),
        ("PM_TERM_ADAPTER_MODE", environment.get("PM_TERM_ADAPTER_MODE")),
    ):
        if not value:
            continue
        if value not in ADAPTER_NAMES:
            raise _invalid_setting(name, f"is not one of {', '.join(ADAPTER_NAMES)}")
        if value != "auto":
            return value  # type: ignore[return-value]  # one of ADAPTER_NAMES
        break  # an explicit auto ignores PM_TERM_ADAPTER_MODE; only container detection follows
    in_container = environment.get("PM_RUNNING_IN_CONTAINER") == "true"
    return "container_bridge" if in_container else "local_or_bundled_auto"


def local_settings(binary_path: str | None, spawn_timeout_ms: int | None, environment: Mapping[str, str]) -> LocalSettings:
    """Return the settings of the adapters that start programs.

    Args:
        binary_path, spawn_timeout_ms: of the request; None for those of the environment.

    Raises:
        TerminalError: INVALID_PAYLOAD for a setting that is not valid, or a path that is not absolute; BLOCKED_DESTRUCTIVE for
            a program that the environment does not allow to requests.
    """
    configured = environment.get(BINARY) or None
    binary = binary_path or configured
    if binary is not None and not Path(binary).is_absolute():
        raise _invalid_setting("runtime.binary_path" if binary_path else BINARY, "is not an absolute path")
    allowed = [configured, *environment.get(ALLOWED_BINARIES, "").split(":")]
    if binary_path is not None and binary_path not in allowed:
        message = f"runtime.binary_path is neither {BINARY} nor one of {ALLOWED_BINARIES} of the server"
        raise TerminalError(TerminalErrorCode.BLOCKED_DESTRUCTIVE, message, {"setting": "runtime.binary_path"})
    try:
        timeout_ms = spawn_timeout_ms or _number(environment, SPAWN_TIMEOUT, SPAWN_TIMEOUT_MS, MAX_SPAWN_TIMEOUT_MS)
        request_timeout_ms = _number(environment, REQUEST_TIMEOUT, REQUEST_TIMEOUT_MS, _MAX_TIMEOUT_MS)
    except _InvalidNumberError as error:
        raise _invalid_setting(error.name, error.problem) from None
    return LocalSettings(binary, environment.get("PATH", ""), timeout_ms, request_timeout_ms)


def bridge_settings(environment: Mapping[str, str]) -> BridgeSettings:
    """Return the settings of the bridge. Reads the file of the token.

    Raises:
        TerminalError: INVALID_MODE; `missing` and `invalid` in its details list the variables.
    """
    missing, invalid = [], {}
    numbers = {}
    for name, default, maximum in (
        (HOST_PORT, DEFAULT_PORT, 65535),
        (CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS, _MAX_TIMEOUT_MS),
        (REQUEST_TIMEOUT, REQUEST_TIMEOUT_MS, _MAX_TIMEOUT_MS),
    ):
        try:
            numbers[name] = _number(environment, name, default, maximum)
        except _InvalidNumberError as error:
            invalid[error.name] = error.problem
    token = ""
    try:
        token = read_token(environment)
    except ValueError as error:
        invalid[TOKEN_FILE if environment.get(TOKEN_FILE) else TOKEN] = str(error)
    else:
        missing += [] if token else [TOKEN_FILE]
    if missing or invalid:
        listed = "; ".join([*(f"{name} is missing" for name in missing), *(f"{name} {why}" for name, why in invalid.items())])
        message = f"the container bridge is not configured: {listed}"
        raise TerminalError(TerminalErrorCode.INVALID_MODE, message, {"missing": missing, "invalid": invalid})
    named = zip((HOST_ALIAS, HOST_FALLBACK_ALIAS), HOST_ALIASES, strict=True)
    hosts = tuple(dict.fromkeys(environment.get(name) or default for name, default in named))
    trace = environment.get(TRACE_BRIDGE) == "1"
    return BridgeSettings(hosts, numbers[HOST_PORT], token, numbers[CONNECT_TIMEOUT], numbers[REQUEST_TIMEOUT], trace)


def read_token(environment: Mapping[str, str]) -> str:
    """Return the shared token of the file or of the variable; "" without one. Raises ValueError for one that is not valid."""
    if path := environment.get(TOKEN_FILE):
        try:
            with Path(path).open("rb") as file:
                token = file.read(4096).decode("ascii").strip()
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError("is not one word of ASCII") from None
    else:
        token = environment.get(TOKEN, "")
        if not token:
            return ""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("is not one word of ASCII")
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ValueError(f"has fewer than {MIN_TOKEN_CHARACTERS} characters")
    return token


class _InvalidNumberError(ValueError):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name
        self.problem = problem


def _number(environment: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    text = environment.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not 0 < int(text) <= maximum:
        raise _InvalidNumberError(name, f"is not a number from 1 to {maximum}")
    return int(text)


def _invalid_setting(name: str, problem: str) -> TerminalError:
    return TerminalError(TerminalErrorCode.INVALID_PAYLOAD, f"{name} {problem}", {"setting": name})
