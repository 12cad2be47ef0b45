"""`GET /api/session/ID/...`: a screen, the recording by pages, and the whole session as text or as an asciicast."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ptyctl.api.controller import Controller
from ptyctl.api.history import RecordingEvent, RecordingReply, RecordingRequest
from ptyctl.api.pty import PtyReplyBase, PtyRequest, decode_error
from ptyctl.api.screen import PtyReadRaw, PtyReadScreen, RawReply, ScreenReply
from ptyctl.core.renderer import Renderer
from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.session_export import RESET, AsciicastWriter, RecordingFrame

from .errors import json_response

#: Output before a page of a recording that is read to find the sequence in which the page may begin.
_CONTEXT_BYTES = 64 * 1024
_PAGE_BYTES = 256 * 1024
_TERM = "xterm-256color"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")

_Frames = AsyncGenerator[list[RecordingFrame], None]


def routes(controller: Controller) -> list[Route]:
    """Return the routes. They raise PtyctlError."""

    def route(name: str, serve: Callable[[Controller, str, Request], Awaitable[Response]]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await serve(controller, request.path_params["session"], request)

        return Route(f"/api/session/{{session}}/{name}", endpoint, methods=["GET"])

    return [route("screen", _screen), route("recording", _recording), route("text", _text), route("cast", _cast)]


async def _screen(controller: Controller, session_id: str, request: Request) -> Response:
    """Send the screen now or `at` an offset or block, with the bytes that paint it."""
    at = request.query_params.get("at")
    fields = {"session_id": session_id, "paint": True}
    screen = await _read(controller, PtyReadScreen.of({**fields, **({"at": _number(at)} if at else {})}))
    assert isinstance(screen, ScreenReply)
    painted = TerminalSanitizer().feed(b64decode(screen.data_b64 or ""))
    return json_response(screen.model_copy(update={"data_b64": b64encode(painted).decode()}).payload())


async def _recording(controller: Controller, session_id: str, request: Request) -> Response:
    """Send a page of the recording. Its output is sanitized; a sequence is part of the page in which it ends."""
    names = {"from": "from_offset", "max_bytes": "max_bytes"}
    given = {names.get(name, name): _number(value) for name, value in request.query_params.items()}
    page = await controller.recording(RecordingRequest.of({"session_id": session_id, **given}))
    begin = given.get("from_offset", 0)
    sanitizer = TerminalSanitizer()
    if isinstance(begin, int) and begin > 0:
        first = max(begin - _CONTEXT_BYTES, 0)
        context = await _read(controller, PtyReadRaw(session_id=session_id, from_offset=first, max_bytes=begin - first))
        assert isinstance(context, RawReply)
        sanitizer.feed(b64decode(context.data_b64))
    events = await asyncio.to_thread(lambda: [_sanitized(event, sanitizer) for event in page.events])
    return json_response(page.model_copy(update={"events": events}).payload())


async def _text(controller: Controller, session_id: str, request: Request) -> Response:
    """Send the rendered text of the whole session."""
    first = await _first_screen(controller, session_id)
    renderer = Renderer(first.cols)

    def render(frames: list[RecordingFrame]) -> str:
        for frame in frames:
            if frame.size is not None:
                renderer.resize(frame.size[0])
            renderer.feed(frame.data)
        return renderer.take()

    async def pieces() -> AsyncGenerator[str, None]:
        async with aclosing(_frames(controller, session_id)) as pages:
            async for frames in pages:
                yield await asyncio.to_thread(render, frames)
        yield await asyncio.to_thread(renderer.finish)

    return _download(pieces(), f"{session_id}.txt", "text/plain; charset=utf-8")


async def _cast(controller: Controller, session_id: str, request: Request) -> Response:
    """Send the whole session as an asciicast."""
    first = await _first_screen(controller, session_id)

    async def pieces() -> AsyncGenerator[str, None]:
        writer: AsciicastWriter | None = None
        async with aclosing(_frames(controller, session_id)) as pages:
            async for frames in pages:
                if writer is None:
                    writer = AsciicastWriter(frames[0].ts if frames else first.ts)
                    yield f"{writer.header(first.cols, first.rows_count, _TERM, session_id)}\n"
                yield await asyncio.to_thread(_lines, writer, frames)
        if writer is not None:
            yield "".join(f"{line}\n" for line in writer.finish())

    return _download(pieces(), f"{session_id}.cast", "application/x-asciicast")


async def _first_screen(controller: Controller, session_id: str) -> ScreenReply:
    """Return the screen before the first byte. Raises PtyctlError, before a response has begun."""
    screen = await _read(controller, PtyReadScreen(session_id=session_id, at=0))
    assert isinstance(screen, ScreenReply)
    return screen


async def _frames(controller: Controller, session_id: str) -> _Frames:
    """Yield the recording up to now, page by page."""
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


def _lines(writer: AsciicastWriter, frames: list[RecordingFrame]) -> str:
    return "".join(f"{line}\n" for frame in frames for line in writer.lines(frame))


def _sanitized(event: RecordingEvent, sanitizer: TerminalSanitizer) -> RecordingEvent:
    if event.data_b64 is None:
        return event
    return event.model_copy(update={"data_b64": b64encode(sanitizer.feed(b64decode(event.data_b64))).decode()})


async def _read(controller: Controller, request: PtyRequest) -> PtyReplyBase:
    """Return the reply of a pty_* call. Raises PtyctlError."""
    reply = await controller.pty(request)
    if not reply.ok:
        raise decode_error(reply)
    return reply


def _number(text: str) -> int | str:
    """Return a number of a query; other text is left for the request's own check."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else text


def _download(pieces: AsyncGenerator[str, None], name: str, media_type: str) -> Response:
    disposition = f'attachment; filename="{_NOT_IN_NAME.sub("_", name)}"'
    return StreamingResponse(pieces, media_type=media_type, headers={"Content-Disposition": disposition})
