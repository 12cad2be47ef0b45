"""`GET /api/session/ID/...`: a screen, the recording by pages, and the whole session as text or as an asciicast.

The whole session is drawn in one thread for all downloads, in slices of some milliseconds, as the client reads it.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ptyctl.api.controller import Controller
from ptyctl.api.handle import call_pty
from ptyctl.api.history import RecordingEvent, RecordingReply, RecordingRequest
from ptyctl.api.screen import PtyReadRaw, PtyReadScreen, RawReply, ScreenReply
from ptyctl.core.renderer import Renderer
from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.session_export import RESET, AsciicastWriter, RecordingFrame

from .errors import json_response

#: Output before a page of a recording, read to find a control sequence that crosses the start of the page.
_CONTEXT_BYTES = 64 * 1024
_PAGE_BYTES = 256 * 1024
#: A slice ends after this processor time (seconds) and one more piece: drawing a piece takes at most some milliseconds.
_SLICE_S = 0.005
_PIECE_BYTES = 2048
_thread = ThreadPoolExecutor(1, "download")
_TERM = "xterm-256color"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")

_Frames = AsyncGenerator[list[RecordingFrame], None]
#: Sends a response by its function while the login is valid, within the limit of downloads.
Run = Callable[[Scope, Receive, Callable[[], Awaitable[None]]], Awaitable[None]]


class _TextExport(Protocol):
    """Makes the text of a download from frames of the recording."""

    def feed(self, frame: RecordingFrame) -> None: ...

    def take(self) -> str:
        """Return the text that is final."""
        ...

    def finish(self) -> str:
        """Return the rest of the text."""
        ...


def routes(controller: Controller, run_download: Run) -> list[Route]:
    """Return the routes. They raise PtyctlError. `run_download` sends the response for a whole session."""

    def route(name: str, serve: Callable[[Controller, str, Request], Awaitable[Response]]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await serve(controller, request.path_params["session"], request)

        return Route(f"/api/session/{{session}}/{name}", endpoint, methods=["GET"])

    text, cast = partial(_text, run_download), partial(_cast, run_download)
    return [route("screen", _screen), route("recording", _recording), route("text", text), route("cast", cast)]


async def _screen(controller: Controller, session_id: str, request: Request) -> Response:
    """Send the screen now or `at` an offset or block, with the bytes that paint it."""
    at = request.query_params.get("at")
    fields = {"session_id": session_id, "paint": True}
    screen = await call_pty(controller, PtyReadScreen.of({**fields, **({"at": _number(at)} if at else {})}), ScreenReply)
    painted = TerminalSanitizer().feed(b64decode(screen.data_b64 or ""))
    return json_response(screen.model_copy(update={"data_b64": b64encode(painted).decode()}).payload())


async def _recording(controller: Controller, session_id: str, request: Request) -> Response:
    """Send a page of the recording. Its output is sanitized; a control sequence belongs to the page that has its end."""
    names = {"from": "from_offset", "max_bytes": "max_bytes"}
    given = {names.get(name, name): _number(value) for name, value in request.query_params.items()}
    page = await controller.recording(RecordingRequest.of({"session_id": session_id, **given}))
    begin = given.get("from_offset", 0)
    sanitizer = TerminalSanitizer()
    if isinstance(begin, int) and begin > 0:
        first = max(begin - _CONTEXT_BYTES, 0)
        before = PtyReadRaw(session_id=session_id, from_offset=first, max_bytes=begin - first)
        context = await call_pty(controller, before, RawReply)
        sanitizer.feed(b64decode(context.data_b64))
    events = await asyncio.to_thread(lambda: [_sanitized(event, sanitizer) for event in page.events])
    return json_response(page.model_copy(update={"events": events}).payload())


async def _text(run: Run, controller: Controller, session_id: str, request: Request) -> Response:
    """Send the rendered text of the whole session."""
    first = await _first_screen(controller, session_id)
    pieces = _pieces(controller, session_id, _Text(first.cols))
    return _Download(run, pieces, f"{session_id}.txt", "text/plain; charset=utf-8")


async def _cast(run: Run, controller: Controller, session_id: str, request: Request) -> Response:
    """Send the whole session as an asciicast."""
    first = await _first_screen(controller, session_id)
    pieces = _pieces(controller, session_id, _Cast(first, session_id))
    return _Download(run, pieces, f"{session_id}.cast", "application/x-asciicast")


async def _first_screen(controller: Controller, session_id: str) -> ScreenReply:
    """Return the screen before the first byte. Raises PtyctlError, before a response has begun."""
    return await call_pty(controller, PtyReadScreen(session_id=session_id, at=0), ScreenReply)


async def _frames(controller: Controller, session_id: str) -> _Frames:
    """Yield the recording so far, page by page."""
    page: RecordingReply | None = None
    while page is None or not page.complete:
        begin = 0 if page is None else page.resume_offset
        page = await controller.recording(RecordingRequest(session_id=session_id, from_offset=begin, max_bytes=_PAGE_BYTES))
        yield [_frame(event) for event in page.events]


def _frame(event: RecordingEvent) -> RecordingFrame:
    if event.cols is not None and event.rows is not None:
        return RecordingFrame(event.ts, size=(event.cols, event.rows))
    if event.incarnation is not None:
        return RecordingFrame(event.ts, RESET if event.offset else b"")
    return RecordingFrame(event.ts, b64decode(event.data_b64 or ""))


class _Text:
    """The rendered text."""

    def __init__(self, cols: int) -> None:
        self._renderer = Renderer(cols)
        self.take, self.finish = self._renderer.take, self._renderer.finish

    def feed(self, frame: RecordingFrame) -> None:
        if frame.size is not None:
            self._renderer.resize(frame.size[0])
        self._renderer.feed(frame.data)


class _Cast:
    """The lines of an asciicast, which begins at the time of the first frame."""

    def __init__(self, first: ScreenReply, title: str) -> None:
        self._first = first
        self._title = title
        self._writer: AsciicastWriter | None = None
        self._lines: list[str] = []

    def feed(self, frame: RecordingFrame) -> None:
        self._lines += self._started(frame.ts).lines(frame)

    def take(self) -> str:
        lines, self._lines = self._lines, []
        return "".join(f"{line}\n" for line in lines)

    def finish(self) -> str:
        self._lines += self._started(self._first.ts).finish()
        return self.take()

    def _started(self, ts: int) -> AsciicastWriter:
        if self._writer is None:
            self._writer, first = AsciicastWriter(ts), self._first
            self._lines.append(self._writer.header(first.cols, first.rows_count, _TERM, self._title))
        return self._writer


async def _pieces(controller: Controller, session_id: str, writer: _TextExport) -> AsyncGenerator[str, None]:
    """Yield the text of a session, piece by piece."""
    run_in_thread = partial(asyncio.get_running_loop().run_in_executor, _thread)
    async with aclosing(_frames(controller, session_id)) as pages:
        async for frames in pages:
            rest = _cut(frames)
            while (text := await run_in_thread(_next_slice, rest, writer)) is not None:
                yield text
    yield await run_in_thread(writer.finish)


def _next_slice(frames: Iterator[RecordingFrame], writer: _TextExport) -> str | None:
    """Return the text of the next frames, as many as there is time for; None if there are none."""
    frame, end = next(frames, None), time.thread_time() + _SLICE_S
    if frame is None:
        return None
    while frame is not None:
        writer.feed(frame)
        frame = next(frames, None) if time.thread_time() < end else None
    return writer.take()


def _cut(frames: list[RecordingFrame]) -> Iterator[RecordingFrame]:
    """Yield the frames with at most `_PIECE_BYTES` of data each."""
    for frame in frames:
        yield replace(frame, data=frame.data[:_PIECE_BYTES])
        for begin in range(_PIECE_BYTES, len(frame.data), _PIECE_BYTES):
            yield RecordingFrame(frame.ts, frame.data[begin : begin + _PIECE_BYTES])


def _sanitized(event: RecordingEvent, sanitizer: TerminalSanitizer) -> RecordingEvent:
    if event.data_b64 is None:
        return event
    return event.model_copy(update={"data_b64": b64encode(sanitizer.feed(b64decode(event.data_b64))).decode()})


def _number(text: str) -> int | str:
    """Return a numeric query parameter as a number; other text is validated by the request."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else text


class _Download(StreamingResponse):
    """A response with a file that is generated while it is sent. HEAD generates nothing."""

    def __init__(self, run: Run, pieces: AsyncGenerator[str, None], name: str, media_type: str) -> None:
        disposition = f'attachment; filename="{_NOT_IN_NAME.sub("_", name)}"'
        super().__init__(pieces, media_type=media_type, headers={"Content-Disposition": disposition})
        self._run = run
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._pieces):
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body"})
            else:
                await self._run(scope, receive, lambda: StreamingResponse.__call__(self, scope, receive, send))
