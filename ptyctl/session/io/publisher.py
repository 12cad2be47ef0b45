"""Publication of events to one ordered list of subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Event = TypeVar("Event")
Unsubscribe = Callable[[], None]


class Publisher:
    """Calls the subscribers of an event's type synchronously, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: tuple[tuple[type[Any], Callable[[Any], None]], ...] = ()

    def subscribe(self, kind: type[Event], handler: Callable[[Event], None]) -> Unsubscribe:
        """Call `handler` for each event of a type. Return a function that ends the subscription."""
        entry = (kind, handler)
        self._subscribers = (*self._subscribers, entry)

        def unsubscribe() -> None:
            self._subscribers = tuple(each for each in self._subscribers if each is not entry)

        return unsubscribe

    def publish(self, event: object) -> None:
        """Call the subscribers of the event's type."""
        for kind, handler in self._subscribers:
            if kind is type(event):
                handler(event)
