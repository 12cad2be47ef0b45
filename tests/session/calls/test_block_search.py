"""Searches of blocks read text that is not in memory outside the event loop."""

from __future__ import annotations

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksSearch
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.transcript import Transcript
from tests.session.conftest import Connect
from tests.session.scripted_session import run_command

OUTPUT = b"".join(b"line %d\r\n" % number for number in range(20_000)) + b"R1# "


async def with_long_block(connect: Connect) -> Session:
    """Return a session with a block that is longer than its window."""
    device = MemoryChannel(lambda data: data.replace(b"\r", b"\r\n") + OUTPUT)
    session = await connect(device, platform="generic", limits=Limits(window_bytes=4096))
    device.feed(b"R1# ")
    assert (await run_command(session, "show all")).done_reason == "prompt"
    return session


async def found(session: Session) -> list[str]:
    reply = await blocks_search(session, BlocksSearch.of({"session_id": "s", "query": "line 777"}))
    return [hit.text for hit in reply.hits or ()]


EXPECTED = ["line 777", *(f"line 777{digit}" for digit in range(10))]


async def test_text_on_disk_is_not_read_in_the_event_loop(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await with_long_block(connect)
    monkeypatch.setattr(Transcript, "read_spool", None)
    assert await found(session) == EXPECTED


async def test_text_of_a_removed_file_is_found(connect: Connect) -> None:
    session = await with_long_block(connect)
    session.stream.flush()
    (session.stream.folder / "output.spool").unlink()
    assert await found(session) == EXPECTED
