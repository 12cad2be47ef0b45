"""A session in the hands of a Python program: the four tools as methods, over any Controller."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from .asking import asked, every_block
from .blocks import Block
from .config import ConfigReply, ConfigRequest
from .controller import Controller
from .exec import ExecReply, ExecRequest
from .io import IoReply, IoRequest
from .pty import BlocksSearch
from .pty_replies import BlocksReply, Hit
from .session import SessionReply, SessionRequest
from .watch import Watched, WatchRequest


class SessionHandle:
    """One open session. Leaving `async with` closes it. All methods raise PtyctlError, and take the tools' fields as keywords.

    `task_id` is who writes, in every call; `cursor` is where the next `read` goes on.
    """

    def __init__(self, controller: Controller, opened: SessionReply, task_id: str | None = None) -> None:
        assert opened.session_id is not None
        self.controller = controller
        self.session_id = opened.session_id
        self.opened = opened
        self.task_id = task_id
        self.cursor = opened.next_cursor or "0"

    @classmethod
    async def open(cls, controller: Controller, **fields: Any) -> Self:
        """Opens a session with the fields of `ptyctl_session` action=open."""
        request = SessionRequest.of({"action": "open", **fields})
        return cls(controller, await controller.session(request), request.task_id)

    @classmethod
    async def of(cls, controller: Controller, session_id: str, task_id: str | None = None) -> Self:
        """A session that is open already; its `read` begins with what comes from now on."""
        status = await controller.session(SessionRequest.of({"action": "status", "session_id": session_id}))
        read = IoRequest.of({"action": "read", "session_id": session_id, "timeout_ms": 0})
        now = (await controller.io(read)).next_cursor
        return cls(controller, status.model_copy(update={"next_cursor": now}), task_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def exec(self, cmd: str, **fields: Any) -> ExecReply:
        """Runs a command and waits for its end, or for `timeout_ms`."""
        return await self.controller.exec(ExecRequest.of({**self._who(), "cmd": cmd, **fields}))

    async def wait(self, block_id: str, **fields: Any) -> ExecReply:
        """Waits again for a run that goes on."""
        return await self.controller.exec(ExecRequest.of({**self._who(), "block_id": block_id, **fields}))

    async def write(self, data: str, **fields: Any) -> IoReply:
        """Types; a newline is Enter."""
        return await self.controller.io(IoRequest.of({**self._who(), "action": "write", "data": data, **fields}))

    async def key(self, key: str, **fields: Any) -> IoReply:
        """Presses a key: enter, ctrl_c, up, f1 ..."""
        return await self.controller.io(IoRequest.of({**self._who(), "action": "write", "key": key, **fields}))

    async def read(self, **fields: Any) -> IoReply:
        """Reads on from where the last read ended, or from `cursor`, or the `tail`. For the screen see `screen`."""
        place = {} if fields.get("mode") == "tail" else {"cursor": self.cursor}
        reply = await self.controller.io(IoRequest.of({**self._who(), "action": "read", **place, **fields}))
        self.cursor = reply.next_cursor or self.cursor
        return reply

    async def screen(self, **fields: Any) -> IoReply:
        """What stands on the screen, now or when it matches `until_regex` or is still for `until_idle_ms`."""
        return await self.controller.io(IoRequest.of({**self._who(), "action": "read", "mode": "screen", **fields}))

    def watch(self, **fields: Any) -> AsyncGenerator[Watched, None]:
        """What happens: the present screen, then every byte, change and event; or all from the raw offset `from_offset` on."""
        return self.controller.watch(WatchRequest.of({**self._who(), **fields}))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Blocks that begin and end, locks taken over, resets: each a row of events.jsonl, until the session is closed."""
        async with aclosing(self.watch()) as watched:
            async for item in watched:
                if item.event is not None:
                    yield item.event

    async def blocks(self) -> list[Block]:
        """What ran, the oldest first."""
        return await every_block(self.controller, self.session_id)

    async def search(self, query: str, **fields: Any) -> list[Hit]:
        """Lines of the blocks' output that hold `query`, or match it with `regex=True`."""
        request = BlocksSearch.of({"session_id": self.session_id, "query": query, **fields})
        return (await asked(self.controller, request, BlocksReply)).hits or []

    async def lock(self, **fields: Any) -> SessionReply:
        return await self._session("lock", **fields)

    async def unlock(self, **fields: Any) -> SessionReply:
        return await self._session("unlock", **fields)

    async def heartbeat(self, **fields: Any) -> SessionReply:
        return await self._session("heartbeat", **fields)

    async def status(self) -> SessionReply:
        return await self._session("status")

    async def resize(self, cols: int, rows: int) -> ConfigReply:
        return await self.controller.config(ConfigRequest.of({**self._who(), "action": "resize", "cols": cols, "rows": rows}))

    async def close(self, *, force: bool = False) -> None:
        await self._session("close", **({"force": True} if force else {}))

    async def _session(self, action: str, **fields: Any) -> SessionReply:
        return await self.controller.session(SessionRequest.of({**self._who(), "action": action, **fields}))

    def _who(self) -> dict[str, str]:
        return {"session_id": self.session_id, **({"task_id": self.task_id} if self.task_id else {})}
