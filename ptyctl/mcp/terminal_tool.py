"""The tool of the interactive terminal contract. All errors, including invalid requests, are reported in its response."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, Self, cast, runtime_checkable
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, Field

from ptyctl.api.controller import Controller, Progress
from ptyctl.api.model import Reply, Request, Unlisted
from ptyctl.core.principal import Operation, Principal
from ptyctl.session.clients import current_principal
from ptyctl.terminal.request import Compat, Correlation, Execution, Invocation, Runtime, TerminalTarget
from ptyctl.terminal.service import ServiceState, TerminalService
from transports.caller import environment

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
        """Keep any arguments."""
        return cast(Self, cls.model_construct(action="", arguments=arguments))


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
