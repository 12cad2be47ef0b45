"""One agent reads along while the other works: by cursor, without a lock, and without missing a byte."""

from __future__ import annotations

import asyncio

from .agent import Agent

_SHOWN = 48


class Watcher:
    """`seen` is all that it has read."""

    def __init__(self, who: Agent, cursor: str) -> None:
        self.seen = ""
        self._who = who
        self._cursor = cursor
        self._moved = asyncio.Condition()

    async def watch(self) -> None:
        """Reads until nobody holds the lock any more."""
        holder = True
        while holder:
            holder = (await self._who.call("ptyctl_session", action="status")).get("lock_holder") is not None
            reply = await self._who.call(
                "ptyctl_session_io", action="read", cursor=self._cursor, until_idle_ms=50, timeout_ms=1000
            )
            async with self._moved:
                self._cursor = reply["next_cursor"]
                self.seen += reply["chunk"]
                self._moved.notify_all()
            await self._tell(reply["chunk"])

    async def reached(self, cursor: int) -> None:
        """Waits until everything up to this offset was read."""
        async with self._moved:
            await self._moved.wait_for(lambda: int(self._cursor) >= cursor)

    async def _tell(self, chunk: str) -> None:
        lines = [line.strip() for line in chunk.split("\n") if line.strip()]
        if lines:
            await self._who.say(f"sees {len(chunk.encode())} bytes: “{lines[0][:_SHOWN]}” … “{lines[-1][-_SHOWN:]}”")
