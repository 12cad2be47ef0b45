"""Sessions whose far end is a function in this process, so that nothing but our own work is measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fixtures.memory_channel import MemoryChannel

from .contest import Unavailable


@asynccontextmanager
async def session(on_write: Callable[[bytes], bytes] = lambda data: b"") -> AsyncIterator[tuple[Any, MemoryChannel]]:
    """A session as a user has it, and its far end. It has a state directory of its own, which goes with it: what one call has
    put on disk would otherwise be written back during the next."""
    try:
        from ptyctl.api.handle import SessionHandle
        from ptyctl.controller import LocalController
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


async def pty(handle: Any, tool: str, **fields: Any) -> Any:
    """Calls a tool of the terminal model on the session."""
    from ptyctl.api.methods import PTY_REQUESTS

    reply = await handle.controller.pty(PTY_REQUESTS[tool].of({"session_id": handle.session_id, **fields}))
    assert reply.ok, reply
    return reply
