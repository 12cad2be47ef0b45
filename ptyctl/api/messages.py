"""The JSON-RPC messages of calls, replies and errors, as values of JSON. `ptyctl.daemon.rpc` describes the protocol."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import SecretStr

from ptyctl.core.principal import Kind, Principal, Role

from . import approvals, blocks, config, devices, exec, history, io, operator, policy, pty, screen, session
from .errors import ErrorCode, PtyctlError, decode_payload, invalid
from .model import Reply, Request

KnownReply = TypeVar("KnownReply", bound=Reply)
#: Error codes of JSON-RPC 2.0, section 5.1.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
#: Error code of a PtyctlError, whose payload is in `data`.
PTYCTL_ERROR = -32000

_REPLY_TYPES: dict[str, type[Reply]] = {
    name: reply
    for module in (session, io, exec, config, pty, blocks, screen, approvals, operator, policy, history, devices)
    for name, reply in vars(module).items()
    if isinstance(reply, type) and issubclass(reply, Reply)
}


def encode_request(request: Request) -> dict[str, Any]:
    """Return a request as JSON values, secrets included."""
    return {name: _to_json(value) for name, value in request.model_dump(exclude_unset=True).items()}


def encode_reply(reply: Reply) -> dict[str, Any]:
    return {"type": type(reply).__name__, "reply": reply.payload()}


def decode_principal(value: Any) -> Principal:
    """Return the principal that a call names. Raises INVALID_ARGUMENT."""
    try:
        name, kind, role, [*devices] = value["name"], Kind(value["kind"]), Role(value["role"]), value["devices"]
        if not isinstance(value["devices"], list) or not all(isinstance(text, str) for text in (name, *devices)):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise invalid("principal: an object of name, kind, role and devices is expected") from None
    return Principal(name, kind, role, tuple(devices))


def decode_reply(result: dict[str, Any]) -> Reply:
    return decode_known(_REPLY_TYPES[result["type"]], result["reply"])


def decode_known(model: type[KnownReply], fields: dict[str, Any]) -> KnownReply:
    """Return a reply without fields that are unknown to this version: a node of a newer version may add some."""
    return model.model_validate(fields, extra="ignore")


def encode_error(error: PtyctlError) -> dict[str, Any]:
    return {"code": PTYCTL_ERROR, "message": error.message, "data": error.payload()}


def decode_error(error: dict[str, Any]) -> PtyctlError:
    """Return the error that the daemon's controller raised; an error of the protocol becomes INTERNAL."""
    data = error.get("data")
    if error["code"] == INTERNAL_ERROR:
        return PtyctlError(ErrorCode.INTERNAL, error["message"])
    if error["code"] != PTYCTL_ERROR or not isinstance(data, dict):
        return PtyctlError(ErrorCode.INTERNAL, f"the daemon rejected the request: {error['message']}")
    return decode_payload(data)


def _to_json(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    return value
