"""The recording: all output with its times, sizes and connections, page by page."""

from __future__ import annotations

from base64 import b64decode

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.api.history import RecordingEvent, RecordingReply, RecordingRequest
from ptyctl.api.screen import PtyReadScreen, ScreenReply
from ptyctl.core.screen import ScreenModel
from tests.controller.session_calls import Open, heard, refused, scripted_program, session


async def recording(handle: SessionHandle, from_offset: int = 0, max_bytes: int = 1 << 20) -> RecordingReply:
    request = RecordingRequest(session_id=handle.session_id, from_offset=from_offset, max_bytes=max_bytes)
    return await handle.controller.recording(request)


async def events(handle: SessionHandle, max_bytes: int) -> list[RecordingEvent]:
    found: list[RecordingEvent] = []
    reply = await recording(handle, 0, max_bytes)
    found += reply.events
    while not reply.complete:
        reply = await recording(handle, reply.resume_offset, max_bytes)
        found += reply.events
    return found


def replayed(found: list[RecordingEvent]) -> ScreenModel:
    model = ScreenModel(120, 40)
    for event in found:
        if event.cols is not None and event.rows is not None:
            model.resize(event.cols, event.rows)
        model.feed(b64decode(event.data_b64 or ""))
        model.responses.clear()
    return model


@pytest.mark.also_remote("events with output and sizes")
async def test_recording_replays_to_screen(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"\x1b[2J\x1b[3;5Hfirst")
    await handle.resize(60, 20)
    await heard(handle, b"\x1b[5;5H\x1b[1mlast", b"last")
    found = await events(handle, 1 << 20)
    assert [(event.cols, event.rows) for event in found if event.cols] == [(60, 20)]
    assert [event.ts for event in found] == sorted(event.ts for event in found)
    assert list(replayed(found).snapshot().rows) == (await handle.screen()).rows


@pytest.mark.parametrize("max_bytes", [1, 7, 100])
async def test_recording_in_pages_equals_whole(open_session: Open, max_bytes: int) -> None:
    handle = await scripted_program(open_session, b"one")
    await handle.resize(60, 20)
    await handle.resize(70, 25)
    await heard(handle, b"two" * 20)
    await handle.resize(80, 30)
    pages, whole = await events(handle, max_bytes), await events(handle, 1 << 20)
    assert b"".join(b64decode(event.data_b64 or "") for event in pages) == b"".join(
        b64decode(event.data_b64 or "") for event in whole
    )
    steps = [(event.offset, event.cols, event.incarnation) for event in whole if event.data_b64 is None]
    assert [(event.offset, event.cols, event.incarnation) for event in pages if event.data_b64 is None] == steps
    assert [cols for _, cols, _ in steps if cols] == [60, 70, 80]


async def test_recording_of_closed_session_and_offset_past_end(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"kept")
    await session(handle.controller, "close", session_id=handle.session_id, force=True)
    reply = await recording(handle)
    assert reply.complete
    assert b"kept" in b"".join(b64decode(event.data_b64 or "") for event in reply.events)
    with refused(ErrorCode.INVALID_ARGUMENT):
        await recording(handle, reply.resume_offset + 1)


async def test_painted_screen_continues_from_its_offset(controller: Controller, open_session: Open) -> None:
    """The offset is within a sequence."""
    handle = await scripted_program(open_session)
    await heard(handle, b"\x1b[3;5H\x1b[1mbold\x1b[4;7Hmoved", b"boldmoved")
    whole = b"".join(b64decode(event.data_b64 or "") for event in (await recording(handle)).events)
    at = whole.index(b"\x1b[4") + 3
    reply = await controller.pty(PtyReadScreen(session_id=handle.session_id, at=at, paint=True))
    assert isinstance(reply, ScreenReply)
    model = ScreenModel(reply.cols, reply.rows_count)
    model.feed(b64decode(reply.data_b64 or "") + whole[at:])
    assert "moved" not in str(reply.rows)
    assert list(model.snapshot().rows) == (await handle.screen()).rows
