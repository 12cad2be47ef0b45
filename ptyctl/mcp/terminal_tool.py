"""The tool of the interactive terminal contract. It reports every error in its response, also that of an invalid request."""

from __future__ import annotations

from typing import Annotated, Any, Self, cast
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, Field

from ptyctl.api.controller import Controller, Progress
from ptyctl.api.model import Reply, Request, Unlisted
from ptyctl.session.clients import current_principal
from ptyctl.terminal.request import Compat, Correlation, Execution, Invocation, Runtime, Target
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
    target: Target | None = None
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
    service = TerminalService(controller, state, environment(), current_principal().name)
    return TerminalResponse.model_construct(**await service.handle(request.arguments))
