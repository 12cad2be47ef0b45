"""The tool of the interactive terminal contract. All errors, including invalid requests, are reported in its response."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, Self, cast, runtime_checkable
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from ptyctl.api.controller import Controller, Progress
from ptyctl.api.model import Reply, Request, Unlisted
from ptyctl.core.principal import Operation, Principal
from ptyctl.session.clients import current_principal
from ptyctl.terminal.aliases import ALIASES, LEGACY_PLACES, AliasPhase
from ptyctl.terminal.errors import TerminalError
from ptyctl.terminal.request import (
    CanonicalRequest,
    Compat,
    Correlation,
    Execution,
    Invocation,
    Runtime,
    TerminalTarget,
    identify,
    parse,
)
from ptyctl.terminal.service import ServiceState, TerminalService
from transports.caller import environment

from .arguments import object_types, shape, without_empty

_states: WeakKeyDictionary[Controller, ServiceState] = WeakKeyDictionary()


class TerminalCall(Request):
    """The arguments as they are. The fields are only for the schema: the contract validates them itself."""

    action: str = Field(description="execute, read_output, terminate or list")
    invocation: Invocation | None = None
    correlation: Correlation | None = None
    runtime: Runtime | None = None
    execution: Execution | None = None
    target: TerminalTarget | None = None
    compat: Annotated[Compat | None, Unlisted] = None
    arguments: Annotated[dict[str, Any], Unlisted] = Field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Any) -> Self:
        """Keep any arguments; as models send them they are brought into the form of the contract."""
        given = _in_contract_form(arguments) if isinstance(arguments, dict) else arguments
        return cast(Self, cls.model_construct(action="", arguments=given))


def _in_contract_form(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a request in the types of the contract's fields, without empty values for which the contract would refuse it."""
    fields = CanonicalRequest.model_fields
    action = arguments.get("action")
    if isinstance(action, str) and action in ALIASES:
        fields = fields | {name: _field_at(part, field) for name, (part, field) in LEGACY_PLACES.items()}
    shaped = _with_program(shape(fields, arguments))
    if isinstance(execution := shaped.get("execution"), dict):
        shaped["execution"] = _with_program(execution)

    def accepted(request: dict[str, Any]) -> dict[str, Any]:
        parse(request, identify(request, 0), AliasPhase.COMPAT)
        return request

    try:
        return without_empty(fields, shaped, accepted, TerminalError)
    except TerminalError:  # the service reports it in its response
        return shaped


def _field_at(part: str, name: str) -> FieldInfo:
    """Return the field of the contract that a field of a legacy request stands for."""
    (model,) = (kind for kind in object_types(CanonicalRequest.model_fields[part]))
    return model.model_fields[name]


def _with_program(execution: dict[str, Any]) -> dict[str, Any]:
    """Return an execution whose `command` is an array, or the JSON text of one, as the program and its `args`."""
    command = execution.get("command")
    if isinstance(command, str) and command.lstrip().startswith("["):
        try:
            command = from_json(command)
        except (TypeError, ValueError):  # TypeError: a lone surrogate
            return execution
    if not isinstance(command, list) or not command or execution.get("args"):
        return execution
    if not all(isinstance(word, str) for word in command):
        return execution
    return {**execution, "command": command[0], "args": command[1:]}


class TerminalResponse(Reply):
    """A response of the contract. Its objects are those of `ptyctl.terminal.response`, nulls included."""

    model_config = ConfigDict(extra="allow")

    success: bool
    action: str | None
    status: str

    def payload(self) -> dict[str, Any]:
        return {**self.__dict__, **(self.model_extra or {})}


async def call_terminal(controller: Controller, request: TerminalCall, _progress: Progress | None) -> TerminalResponse:
    """Serve a request of the contract; never raises."""
    state = _states.setdefault(controller, ServiceState())
    principal = current_principal()
    allowed = _may_use_other_runtimes(controller, principal)
    service = TerminalService(controller, state, environment(), principal.name, others_allowed=allowed)
    return TerminalResponse.model_construct(**await service.handle(request.arguments))


async def close_runtimes(controller: Controller) -> None:
    """Close the runtime connections of the tool. Sessions stay open."""
    state = _states.pop(controller, None)
    if state is not None:
        await state.close()


@runtime_checkable
class _ServesOthers(Protocol):
    """A Controller that decides what its clients may do on its machine."""

    @property
    def local_sessions(self) -> bool:
        """Return whether clients may use the machine as the server's user."""
        ...


def _may_use_other_runtimes(controller: Controller, principal: Principal) -> bool:
    """Return whether the client may use other runtimes, which enforce neither its devices nor its rules for sessions."""
    has_local_sessions = not isinstance(controller, _ServesOthers) or controller.local_sessions
    return has_local_sessions and principal.may(Operation.OPEN) and not principal.devices
