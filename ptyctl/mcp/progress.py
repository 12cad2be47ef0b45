"""From the Controller's progress callback to MCP's notifications/progress: about one a second, and never a queue of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

#: Seconds between two notifications. A client shows them to a person, or restarts its clock on them; more would be noise.
INTERVAL_S = 1.0

#: Sends one notification: the progress so far, and a text.
Send = Callable[[float, str], Awaitable[None]]


class Reporter:
    """A `Progress` that keeps the latest news and sends it when it is due.

    MCP wants a number that grows with every notification (2025-11-25, Progress, Behavior requirements): bytes stand still
    while a device thinks, so the number is the seconds, and the text tells the bytes.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._latest = (0, 0.0)
        self._due = INTERVAL_S
        self._news = anyio.Event()

    def __call__(self, received: int, seconds: float) -> None:
        """`Progress`. Costs nothing until a notification is due; those that a slow client has not read yet are replaced."""
        if seconds >= self._due:
            self._latest = (received, seconds)
            self._due = seconds + INTERVAL_S
            self._news.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            received, seconds = self._latest
            await self._send(seconds, f"{received} bytes in {seconds:.0f} s")
