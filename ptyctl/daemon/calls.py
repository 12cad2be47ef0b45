"""The Controller protocol as JSON-RPC 2.0: a method for each tool, by its name (api.calls); how its values are written."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from ptyctl.api import blocks, config, exec, io, operator, pty, screen, session
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.model import Reply, Request

#: A method beside the tools': its items come as notifications `watched`, its result when it is over.
WATCH = "watch"
#: So many items of a watch may be under way; the client asks for `more` as it takes them.
WATCH_WINDOW = 64
#: JSON-RPC 2.0, section 5.1; the last is ours, with the PtyctlError in `data`.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR, REFUSED = -32700, -32600, -32601, -32603, -32000

_REPLIES: dict[str, type[Reply]] = {
    name: reply
    for module in (session, io, exec, config, pty, blocks, screen, operator)
    for name, reply in vars(module).items()
    if isinstance(reply, type) and issubclass(reply, Reply)
}


def params_of(request: Request) -> dict[str, Any]:
    """A request as JSON's values, its secrets with it: the socket is the user's own."""
    return {name: _plain(value) for name, value in request.model_dump(exclude_unset=True).items()}


def result_of(reply: Reply) -> dict[str, Any]:
    return {"type": type(reply).__name__, "reply": reply.payload()}


def reply_of(result: dict[str, Any]) -> Reply:
    return _REPLIES[result["type"]].model_validate(result["reply"])


def error_of(error: PtyctlError) -> dict[str, Any]:
    return {"code": REFUSED, "message": error.message, "data": error.payload()}


def raised(error: dict[str, Any]) -> PtyctlError:
    """What the far Controller raised; an error of the protocol itself is INTERNAL."""
    told = error.get("data")
    if error["code"] == INTERNAL_ERROR:
        return PtyctlError(ErrorCode.INTERNAL, error["message"])
    if error["code"] != REFUSED or not isinstance(told, dict):
        return PtyctlError(ErrorCode.INTERNAL, f"the daemon did not understand: {error['message']}")
    return PtyctlError(ErrorCode(told["error_code"]), told["message"], told["details"], hint=told.get("hint"))


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
