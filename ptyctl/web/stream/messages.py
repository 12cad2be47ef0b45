"""The messages of a client of the stream: JSON objects with an `op`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from ptyctl.api.errors import invalid
from ptyctl.api.model import Request, Text

#: Number of a subscription, chosen by the client.
SubscriptionId = Annotated[int, Field(ge=0, lt=1 << 32)]


class Subscribe(Request):
    """Begin to send a topic: `sessions`, `approvals`, `terminal:SESSION` or `screen:SESSION`.

    Attributes:
        start: of a terminal: a raw offset at which the client resumes, or the current screen.
    """

    op: Literal["subscribe"]
    id: SubscriptionId
    topic: Annotated[Text, Field(min_length=1, max_length=300)]
    start: Literal["snapshot"] | Annotated[int, Field(ge=0, lt=1 << 64)] = Field(default="snapshot", alias="from")


class Unsubscribe(Request):
    """End a subscription."""

    op: Literal["unsubscribe"]
    id: SubscriptionId


class Acknowledge(Request):
    """The client's terminal has parsed the output before a raw offset."""

    op: Literal["ack"]
    id: SubscriptionId
    offset: Annotated[int, Field(ge=0, lt=1 << 64)]


class Use(Request):
    """This window of the client uses the lock of a terminal: other windows of the principal stop to renew it and to resize."""

    op: Literal["use"]
    id: SubscriptionId


ClientMessage = Subscribe | Unsubscribe | Acknowledge | Use
_MESSAGES: dict[str, type[ClientMessage]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "ack": Acknowledge,
    "use": Use,
}


def parse(text: str) -> object:
    """Return the JSON value of a message. Raises PtyctlError INVALID_ARGUMENT."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise invalid("a message must be a JSON object") from None


def message_of(value: object) -> ClientMessage:
    """Return the message of a JSON value. Raises PtyctlError INVALID_ARGUMENT."""
    op = value.get("op") if isinstance(value, dict) else None
    kind = _MESSAGES.get(op) if isinstance(op, str) else None
    if kind is None:
        raise invalid(f"a message needs an op: {', '.join(_MESSAGES)}", field="op")
    return kind.of(value)


def id_of(value: object) -> int | None:
    """Return the id in a message, for the answer to an invalid message."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if type(found) is int else None
