"""Fixtures for session tests: sessions on scripted channels, and a local controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session
from transports.channel import Channel

Connect = Callable[..., Awaitable[Session]]


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Open sessions on scripted channels; they are closed after the test."""
    opened: list[Session] = []

    async def connect_one(channel: Channel, **fields: Any) -> Session:
        session = await connect_session(tmp_path / str(len(opened)), channel, **fields)
        opened.append(session)
        return session

    yield connect_one
    for session in opened:
        await session.close(force=True)


@pytest.fixture
async def controller() -> AsyncIterator[LocalController]:
    async with LocalController() as controller:
        yield controller
