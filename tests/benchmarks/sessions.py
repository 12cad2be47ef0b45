"""Sessions under measurement: through the public API, or with an in-memory remote end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fixtures.memory_channel import MemoryChannel

from .measurement import Unavailable


@asynccontextmanager
async def opened_session(**fields: Any) -> AsyncIterator[Any]:
    """Open a session with `ptyctl.open_session`, imported here so that the other candidates run without it."""
    try:
        from ptyctl import open_session
    except ImportError as error:
        raise Unavailable(str(error)) from None
    async with open_session(**fields) as opened:
        yield opened


def spool_end(reply: Any) -> int:
    """Return the offset in the spool, in bytes, at which a reply ends."""
    return int(reply.next_cursor)


@asynccontextmanager
async def scripted_session(on_write: Callable[[bytes], bytes] = lambda data: b"") -> AsyncIterator[tuple[Any, MemoryChannel]]:
    """Yield a session and its in-memory remote end; `on_write` returns the response to each write.

    Its state directory is deleted afterwards: otherwise the kernel would write its files to disk during the next call.
    """
    try:
        from ptyctl.api.handle import SessionHandle
        from ptyctl.controller.local import LocalController
        from ptyctl.controller.settings import Settings
    except ImportError as error:
        raise Unavailable(str(error)) from None
    channel = MemoryChannel(on_write)
    with TemporaryDirectory(prefix="scripted-") as folder:
        settings = Settings(state_dir=Path(folder) / "state")
        async with (
            LocalController(settings, create_channel=lambda request: channel) as controller,
            await SessionHandle.open(controller, protocol="telnet", host="scripted") as handle,
        ):
            yield handle, channel


async def call_pty(handle: Any, tool: str, **fields: Any) -> Any:
    """Call a pty_* or blocks_* tool on the session."""
    from ptyctl.api.methods import PTY_REQUESTS

    reply = await handle.controller.pty(PTY_REQUESTS[tool].of({"session_id": handle.session_id, **fields}))
    assert reply.ok, reply
    return reply
