"""Downloads: any place of a recorded session paints the server's screen, and replays from there to its end."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope

from fixtures.captures.store import Capture, names
from ptyctl.api import Controller, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import GcRequest, WatchRequest
from ptyctl.api.screen import PtyReadScreen, ScreenReply
from ptyctl.controller.local import LocalController
from ptyctl.core.screen import ScreenModel
from ptyctl.web import downloads
from ptyctl.web.downloads import routes
from tests.controller.session_calls import PATIENCE_MS, Open, scripted_program, session
from tests.web.stream_client import stream_server

#: Prints a file unchanged.
_PRINT = ("sh", "-c", 'stty raw -echo; cat "$0"; exec sleep 1000')
_OFFSETS = 25


def build_log() -> bytes:
    """The output of a large build: colours, a progress line that is redrawn, warnings, and titles."""
    pieces = []
    for number in range(4000):
        pieces.append(b"\r\x1b[K[%3d%%] \x1b[32mBuilding C object src/file%d.c.o\x1b[0m" % (number // 40, number))
        if number % 7 == 0:
            pieces.append(
                b"\r\n\x1b[1msrc/file%d.c:12:3: \x1b[35mwarning:\x1b[m unused variable \xe2\x80\x98x\xe2\x80\x99\r\n" % number
            )
        if number % 500 == 0:
            pieces.append(b"\x1b]2;build %d\x07\x1b[c" % number)
    return b"".join(pieces)


async def shown(open_session: Open, path: Path, data: bytes, cols: int, rows: int) -> SessionHandle:
    """Open a session that has printed the data."""
    path.write_bytes(data)
    handle = await open_session(command=(*_PRINT, str(path)), pty={"cols": cols, "rows": rows})
    watch = handle.controller.watch(WatchRequest(session_id=handle.session_id, from_offset=0))
    async with asyncio.timeout(PATIENCE_MS / 1000), aclosing(watch) as items:
        async for item in items:
            if item.kind == "output" and (item.raw_offset or 0) >= len(data):
                break
    return handle


@pytest.fixture
async def address(controller: Controller) -> AsyncIterator[str]:
    async def on_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, PtyctlError)
        return JSONResponse({"error": error.payload()}, 404 if error.code == "NOT_FOUND" else 400)

    async def send(_scope: Scope, _receive: Receive, send_response: Callable[[], Awaitable[None]]) -> None:
        await send_response()

    async with stream_server(controller, routes=tuple(routes(controller, send)), on_error=on_error) as served:
        yield served


async def get(address: str, path: str) -> bytes:
    def read() -> bytes:
        with urllib.request.urlopen(f"http://{address}/api/session/{path}", timeout=PATIENCE_MS / 1000) as reply:
            return bytes(reply.read())

    return await asyncio.to_thread(read)


async def get_json(address: str, path: str) -> Any:
    return json.loads(await get(address, path))


def cells(model: ScreenModel) -> tuple[object, ...]:
    found = model.snapshot(attributes=True)
    return found.rows, found.attributes, found.cursor, found.cursor_visible, found.alt_screen


async def painted(controller: Controller, address: str, handle: SessionHandle, at: int) -> ScreenModel:
    """Return an emulator that shows the download of a screen, and check that it shows the server's."""
    screen = await get_json(address, f"{handle.session_id}/screen?at={at}")
    model = ScreenModel(screen["cols"], screen["rows_count"])
    model.feed(b64decode(screen["data_b64"]))
    assert not model.responses
    server = await controller.pty(PtyReadScreen(session_id=handle.session_id, at=at, attributes=True))
    assert isinstance(server, ScreenReply)
    local = model.snapshot()
    assert list(local.rows) == server.rows, at
    assert (local.cursor, local.cursor_visible) == ((server.cursor.row, server.cursor.col), server.cursor_visible), at
    return model


@pytest.mark.parametrize("name", [*names(), "build"])
async def test_replay_at_random_offsets_equals_screen(
    controller: Controller, open_session: Open, address: str, tmp_path: Path, name: str
) -> None:
    capture = None if name == "build" else Capture.load(name)
    data, cols, rows = (build_log(), 100, 30) if capture is None else (capture.raw, capture.cols, capture.rows)
    handle = await shown(open_session, tmp_path / name, data, cols, rows)
    chance = random.Random(name)
    whole = ScreenModel(cols, rows)
    at = 0
    for offset in sorted(chance.sample(range(1, len(data)), _OFFSETS)):
        whole.feed(data[at:offset])
        whole.responses.clear()
        at = offset
        assert cells(await painted(controller, address, handle, offset)) == cells(whole), offset
    whole.feed(data[at:])
    for offset in (0, *chance.sample(range(1, len(data)), 3)):
        model = await painted(controller, address, handle, offset)
        complete = False
        while not complete:
            page = await get_json(address, f"{handle.session_id}/recording?from={offset}&max_bytes={len(data) // 3}")
            for event in page["events"]:
                model.feed(b64decode(event.get("data_b64", "")))
            offset, complete = page["resume_offset"], page["complete"]
        assert not model.responses
        assert cells(model) == cells(whole), offset


@pytest.mark.parametrize("slice_s", [0.005, 0])
async def test_text_and_cast_hold_whole_session(
    open_session: Open, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_s: float
) -> None:
    monkeypatch.setattr(downloads, "_SLICE_S", slice_s)
    data = b"".join(b"line %d\r\n" % number for number in range(50_000)) + b"\x1b[1mbold\x1b[m \x1b[6nend"
    handle = await shown(open_session, tmp_path / "data", data, 80, 24)
    text = (await get(address, f"{handle.session_id}/text")).decode()
    assert text.rstrip("\n") == "".join(f"line {number}\n" for number in range(50_000)) + "bold end"
    header, *events = map(json.loads, (await get(address, f"{handle.session_id}/cast")).splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
    output = "".join(text for _, kind, text in events if kind == "o")
    assert output.encode() == data.replace(b"\x1b[6n", b"")


async def test_removed_session_is_not_found(controller: LocalController, address: str) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=("sh", "-c", "echo text; exec sleep 1000"))
    await handle.read(until_regex="text", timeout_ms=PATIENCE_MS)
    await session(controller, "close", session_id=handle.session_id, force=True)
    assert (await get_json(address, f"{handle.session_id}/screen"))["rows"][0] == "text"
    removed = await controller.gc(GcRequest(max_bytes=1))
    assert [entry.session_id for entry in removed.removed] == [handle.session_id]
    for name in ("screen", "recording", "text", "cast"):
        with pytest.raises(urllib.error.HTTPError) as error:
            await get(address, f"{handle.session_id}/{name}")
        assert error.value.code == 404
        error.value.close()


@pytest.mark.parametrize("query", ["screen?at=-1", "screen?at=99999999", "recording?from=x", "recording?other=1"])
async def test_invalid_query_is_refused(open_session: Open, address: str, query: str) -> None:
    handle = await scripted_program(open_session, b"text")
    with pytest.raises(urllib.error.HTTPError) as error:
        await get(address, f"{handle.session_id}/{query}")
    assert error.value.code in (400, 404)
    assert "error_code" in error.value.read().decode()
    error.value.close()
