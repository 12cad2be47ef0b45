"""Fixtures for session tests: sessions on scripted channels, and a local controller."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session
from transports.channel import Channel

Connect = Callable[..., Awaitable[Session]]


@pytest.fixture(scope="module", autouse=True)
def _temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create the folders of single examples where the tests' files are: in memory, if the run keeps them there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))
        yield


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
