"""A Controller without terminals, which records its requests and replies at once or as `cmd` says."""

from __future__ import annotations

import asyncio
import sys
from typing import Self

from ptyctl.api import (
    ConfigReply,
    ConfigRequest,
    ErrorCode,
    ExecReply,
    ExecRequest,
    IoReply,
    IoRequest,
    Progress,
    PtyctlError,
    SessionReply,
    SessionRequest,
)

#: Printed on stderr when the stub is closed, to prove an orderly shutdown.
CLOSED = "stub controller closed"


class StubController:
    """exec supports `fail CODE`, `crash TEXT`, `progress SECONDS...`, `hang` (until released) and `big BYTES`, or echoes."""

    def __init__(self) -> None:
        self.requests: list[object] = []
        self.released = asyncio.Event()
        self.hanging = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.closed = True
        print(CLOSED, file=sys.stderr, flush=True)

    async def session(self, request: SessionRequest) -> SessionReply:
        self.requests.append(request)
        return SessionReply(
            action=request.action, session_id="s1", state="open", next_cursor="0", message=f"call {len(self.requests)}"
        )

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        self.requests.append(request)
        if request.action == "write":
            return IoReply(action="write", bytes_written=len(request.data or ""), next_cursor="0")
        return IoReply(action="read", chunk="größe ☃\n", encoding="utf-8", next_cursor="7", eof=False)

    async def config(self, request: ConfigRequest) -> ConfigReply:
        self.requests.append(request)
        return ConfigReply(action=request.action, cols=request.cols or 80, rows=request.rows or 24)

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        self.requests.append(request)
        word, _, rest = (request.cmd or "").partition(" ")
        stdout = rest
        if word == "fail":
            raise PtyctlError(ErrorCode(rest), f"what {rest} means, and the next step", {"lock_holder": "t1"})
        if word == "crash":
            raise RuntimeError(rest)
        if word == "progress" and progress is not None:
            for seconds in map(float, rest.split()):
                progress(int(seconds * 100), seconds)
                await asyncio.sleep(0)
            stdout = "told"
        if word == "hang":
            await self._hang()
        if word == "torn":
            stdout = "\ud800"  # a lone surrogate, which UTF-8 cannot encode
        if word == "big":
            stdout = "x" * int(rest)
        return ExecReply(stdout=stdout, done_reason="prompt", duration_ms=1, block_id="1_1", cursor="0", next_cursor="9")

    async def _hang(self) -> None:
        self.hanging.set()
        print("stub controller hangs", file=sys.stderr, flush=True)
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
