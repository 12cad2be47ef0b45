"""The request of the contract: fields, rules, and the canonical form of legacy requests.

A request is parsed in two steps. `identify` never fails: it finds what every response repeats (correlation, action, mode), also
in an invalid request. `parse` validates the rest and reports all violations at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import AfterValidator, Field, ValidationError

from ptyctl.api.field_faults import field_faults
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.model import WORDS, Command, Id, RequestPart, SystemText, Unlisted, VariableName

from .aliases import ALIASES, CANONICAL_ACTIONS, AliasPhase, canonical_request, deprecation_warning
from .errors import RequestClass, TerminalError, TerminalErrorCode
from .runtime_mode import MAX_SPAWN_TIMEOUT_MS, AdapterName

TerminalAction = Literal["execute", "read_output", "terminate", "list"]
ExecutionMode = Literal["interactive", "headless"]
Intent = Literal["open_only", "execute_command"]
MODES = get_args(ExecutionMode)
_MAX_VIOLATIONS = 100
#: Wait of a call that gives no `timeout_ms`.
DEFAULT_TIMEOUT_MS = 30_000


class Invocation(RequestPart):
    """How an `execute` runs."""

    mode: ExecutionMode
    intent: Intent


class Correlation(RequestPart):
    """Ids that every response repeats. A missing `request_id` or `trace_id` is generated."""

    request_id: Id | None = None
    trace_id: Id | None = None
    client_request_id: Annotated[Id | None, Unlisted] = None


class Runtime(RequestPart):
    """Where and how long.

    Attributes:
        timeout_ms: limit of the wait, at most `MAX_WAIT_MS`; it does not end the command.
        cursor: where `read_output` begins; by default after the caller's last read.
        adapter_override: how the terminals are reached (`runtime_mode.py`).
        binary_path: the program of the adapter `local`; only one that the server's environment allows.
        spawn_timeout_ms: limit of its start.
    """

    workspace_id: Id | None = None
    cwd: SystemText | None = None
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=0, description=f"at most {MAX_WAIT_MS}")
    cursor: str | None = Field(default=None, description="of read_output: next_cursor of a response")
    adapter_override: Annotated[AdapterName | None, Unlisted] = None
    binary_path: Annotated[SystemText | None, Unlisted] = Field(default=None, min_length=1)
    spawn_timeout_ms: Annotated[int | None, Unlisted] = Field(default=None, ge=1, le=MAX_SPAWN_TIMEOUT_MS)


def _check_printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("contains characters that cannot be printed")
    return value


#: A part of a terminal's id, which people see.
_Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_printable)]


class Execution(RequestPart):
    """The command. Without `args`, `command` is a line for the shell; with them, the name of a program.

    Attributes:
        pty: False runs a headless command without a terminal, with stderr apart from stdout.
    """

    command: Annotated[Command, Field(min_length=1)] | None = None
    args: Annotated[tuple[SystemText, ...], WORDS] | None = Field(default=None, fail_fast=True)
    env: Annotated[dict[VariableName, SystemText] | None, Unlisted] = None
    name: Annotated[_Name | None, Unlisted] = None
    pty: Annotated[bool | None, Unlisted] = None


class TerminalTarget(RequestPart):
    """The terminal. `terminal_id` is that of an interactive one."""

    session_id: Id | None = None
    terminal_id: Id | None = None


class Compat(RequestPart):
    """Where the request comes from."""

    legacy_action: Annotated[str | None, Unlisted] = None
    caller_surface: Literal["server", "extension", "dashboard", "chat_button"] | None = None


class CanonicalRequest(RequestPart):
    """A valid request in canonical form."""

    action: TerminalAction
    invocation: Invocation | None = None
    correlation: Correlation = Correlation()
    runtime: Runtime = Runtime()
    execution: Execution | None = None
    target: TerminalTarget | None = None
    compat: Compat = Compat()

    @property
    def has_target(self) -> bool:
        """Whether the request names a terminal."""
        return self.target is not None and (self.target.session_id, self.target.terminal_id) != (None, None)


class Correlated(NamedTuple):
    """The correlation of a response."""

    request_id: str
    trace_id: str
    client_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Identified:
    """The parts of a request that every response repeats.

    Attributes:
        action: the action as sent; "" if it is not a string.
        canonical_action, mode: None if missing or unsupported.
        legacy_action: the legacy action that was sent, or that `compat` names.
        arguments: the request in canonical form, not validated.
    """

    correlation: Correlated
    action: str
    canonical_action: str | None
    mode: str | None
    legacy_action: str | None
    arguments: Mapping[str, Any]

    @property
    def request_class(self) -> RequestClass:
        """Return the request class, which selects the fallback of a failure."""
        return RequestClass(self.canonical_action, self.mode)

    @property
    def alias_applied(self) -> bool:
        """Whether this server, or the caller's, has replaced a legacy action."""
        return self.legacy_action in ALIASES

    @property
    def deprecation(self) -> str | None:
        """Return the warning for a legacy action that was sent."""
        return deprecation_warning(self.action) if self.action in ALIASES else None


def repeat_id(principal: str, request: CanonicalRequest) -> str | None:
    """Return the identity of a request and its repetitions; None if it executes nothing or has no request id.

    An id names one request: the same command with it is not executed again while the call is remembered, because the client
    may not know the outcome. What is executed counts too, so that another command never gets this one's answer.
    """
    request_id = request.correlation.request_id
    if request.action != "execute" or not request_id:
        return None
    runtime = request.runtime.model_dump(mode="json", include={"cwd", "workspace_id", "adapter_override", "binary_path"})
    parts = request.model_dump(mode="json", include={"invocation", "execution", "target"})
    content = json.dumps([principal, request_id, parts, runtime], sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()


def identify(arguments: Any, number: int) -> Identified:
    """Find the ids, the action and the mode of a request; never fails.

    Args:
        number: the request's number in this server. A missing id is generated from it and the content.
    """
    given = arguments if isinstance(arguments, dict) else {}
    action = given.get("action")
    action = action if isinstance(action, str) else ""
    alias = ALIASES.get(action)
    canonical = given if alias is None else canonical_request(given, alias)
    legacy = _text(_part(canonical, "compat"), "legacy_action")
    mode = _text(_part(canonical, "invocation"), "mode")
    return Identified(
        _correlation(given, number),
        action,
        alias.action if alias is not None else action if action in CANONICAL_ACTIONS else None,
        mode if mode in MODES else None,
        legacy,
        canonical,
    )


def parse(arguments: Any, identified: Identified, phase: AliasPhase) -> CanonicalRequest:
    """Validate a request.

    Raises:
        TerminalError: INVALID_ACTION for an action or legacy action that is unknown or, in the strict phase, deprecated;
            INVALID_MODE for an unknown mode; INVALID_PAYLOAD with every other violation.
    """
    if not isinstance(arguments, dict):
        raise _invalid_payload([("", "Input should be an object")])
    _check_action(identified, phase)
    _check_mode(identified.arguments)
    request, violations = None, []
    try:
        request = CanonicalRequest.model_validate(dict(identified.arguments))
    except ValidationError as error:
        violations += [(fault.path, fault.problem) for fault in field_faults(error)]
    violations += _coupling(identified.canonical_action or "", identified.arguments)
    if violations or request is None:
        raise _invalid_payload(list(dict.fromkeys(violations)))
    return request


def _check_action(identified: Identified, phase: AliasPhase) -> None:
    migration = {name: alias.action for name, alias in ALIASES.items()}
    if identified.canonical_action is None:
        what = f'unknown action "{identified.action[:64]}"' if identified.action else "action is missing"
        raise TerminalError(
            TerminalErrorCode.INVALID_ACTION,
            f"{what}; the actions are {', '.join(CANONICAL_ACTIONS)}",
            {"actions": list(CANONICAL_ACTIONS), "migration": migration},
        )
    legacy = identified.legacy_action
    if legacy is not None and legacy != "list" and legacy not in ALIASES:
        raise TerminalError(
            TerminalErrorCode.INVALID_ACTION,
            f'unknown legacy action "{legacy[:64]}"; the canonical actions are {", ".join(CANONICAL_ACTIONS)}',
            {"actions": list(CANONICAL_ACTIONS), "migration": migration},
        )
    if identified.action in ALIASES and phase is AliasPhase.STRICT:
        canonical = {name: part for name, part in identified.arguments.items() if name not in ("compat", "correlation")}
        raise TerminalError(
            TerminalErrorCode.INVALID_ACTION,
            f"{identified.deprecation}; legacy actions are not accepted any more",
            {"canonical_request": canonical},
        )


def _check_mode(arguments: Mapping[str, Any]) -> None:
    mode = _part(arguments, "invocation").get("mode")
    if mode is not None and mode not in MODES:
        shown = f'"{mode[:64]}"' if isinstance(mode, str) else "that is not a text"
        message = f"unknown mode {shown}; the modes are {' and '.join(MODES)}"
        raise TerminalError(TerminalErrorCode.INVALID_MODE, message, {"modes": list(MODES)})


def _coupling(action: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the violated rules between the action, the mode, and the fields, each with its path."""
    target, execution = _part(arguments, "target"), _part(arguments, "execution")
    has_target = any(target.get(name) is not None for name in ("session_id", "terminal_id"))
    if action == "execute":
        yield from _execute_coupling(_part(arguments, "invocation"), execution, target)
    elif action in ("read_output", "terminate") and not has_target:
        yield "target", f"{action} needs session_id or terminal_id"
    if action == "list":
        yield from ((name, "list does not take it") for name in ("execution", "target") if arguments.get(name) is not None)
    legacy = _part(arguments, "compat").get("legacy_action")
    if isinstance(legacy, str) and legacy in ALIASES and ALIASES[legacy].action != action:
        yield "compat.legacy_action", f'"{legacy}" is "{ALIASES[legacy].action}", not "{action}"'


def _execute_coupling(
    invocation: Mapping[str, Any], execution: Mapping[str, Any], target: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    for name in ("mode", "intent"):
        if invocation.get(name) is None:
            yield f"invocation.{name}", "execute needs it"
    command = execution.get("command") is not None
    if invocation.get("intent") == "execute_command" and not command:
        yield "execution.command", "the intent execute_command needs it"
    if invocation.get("intent") == "open_only" and command:
        yield "execution.command", "the intent open_only does not take it"
    if invocation.get("intent") == "open_only":
        ids = (name for name in ("session_id", "terminal_id") if target.get(name) is not None)
        yield from ((f"target.{name}", "the intent open_only does not take it") for name in ids)
    if execution.get("pty") is False:
        if invocation.get("mode") == "interactive":
            yield "execution.pty", "an interactive terminal has one"
        if any(target.get(name) is not None for name in ("session_id", "terminal_id")):
            yield "execution.pty", "it is a property of a new session"
    if invocation.get("mode") == "headless":
        if target.get("terminal_id") is not None:
            yield "target.terminal_id", "a headless execute does not take it"
        if invocation.get("intent") == "open_only":
            yield "invocation.intent", "open_only needs the mode interactive"


def _correlation(given: Mapping[str, Any], number: int) -> Correlated:
    part = _part(given, "correlation")
    request_id, trace_id = _id(part, "request_id"), _id(part, "trace_id")
    digest = ""
    if request_id is None or trace_id is None:
        content = json.dumps(given, sort_keys=True, default=str)
        digest = hashlib.sha256(f"{number} {content}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Correlated(request_id or f"req_{digest}", trace_id or f"trace_{digest}", _id(part, "client_request_id"))


def _id(part: Mapping[str, Any], name: str) -> str | None:
    value = _text(part, name)
    return value if value and len(value) <= 256 and value.isprintable() else None


def _text(part: Mapping[str, Any], name: str) -> str | None:
    value = part.get(name)
    return value if isinstance(value, str) else None


def _part(arguments: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = arguments.get(name)
    return part if isinstance(part, dict) else {}


def _invalid_payload(violations: list[tuple[str, str]]) -> TerminalError:
    listed = [{"path": path, "problem": problem} for path, problem in violations[:_MAX_VIOLATIONS]]
    text = "; ".join(f"{path}: {problem}" if path else problem for path, problem in violations[:10])
    return TerminalError(TerminalErrorCode.INVALID_PAYLOAD, text, {"violations": listed})
