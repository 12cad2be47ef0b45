"""Recorded sessions for the replay: programs with a full screen, a switch with a pager, and a build log of any size."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from fixtures.captures.store import FOLDER, Capture
from ptyctl.api import SessionRequest
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.api.history import RecordingEvent, RecordingRequest
from ptyctl.api.operator import WatchRequest
from ptyctl.api.screen import PtyReadScreen, ScreenReply
from ptyctl.core.screen import ScreenModel, ScreenSnapshot
from ptyctl.core.session_export import RESET
from ptyctl.simulator import SimulatedSwitch

PATIENCE_S = 600
_PAGER_OR_PROMPT = ("--More--", r"#\s*$")
#: The attributes of a cell besides its colours.
FLAGS = ("bold", "faint", "italics", "underline", "blink", "reverse", "hidden", "strikethrough")


def build_log(size: int) -> Iterator[bytes]:
    """Yield about `size` bytes of a build: coloured progress, a line that is redrawn, warnings, and titles."""
    number = written = 0
    while written < size:
        piece = b"\x1b[32m[%3d%%] Building C object src/lib.dir/file%d.c.o\x1b[0m\r\n" % (100 * written // size, number)
        if number % 500 == 0:
            piece += (
                b"".join(b"\r\x1b[K[%d/50] linking \x1b[1;34mlib%d.so\x1b[m" % (done, number) for done in range(50)) + b"\r\n"
            )
        if number % 7 == 0:
            piece += (
                b"\x1b[1msrc/file%d.c:12:3: \x1b[1;35mwarning: \x1b[mvariable \xe2\x80\x98x\xe2\x80\x99 set but not used\r\n"
                b"   12 |   int x = 1;  // \xe5\x8f\x98\xe6\x95\xb0\r\n      |       \x1b[35m^\x1b[m\r\n" % number
            )
        if number % 500 == 0:
            piece += b"\x1b]2;build %d\x07\x1b[c" % number
        yield piece
        number, written = number + 1, written + len(piece)


async def print_file(controller: Controller, path: Path, cols: int, rows: int) -> str:
    """Let a session print a file unchanged; return its id once it has."""
    command = ("sh", "-c", 'stty raw -echo; cat "$0"; exec sleep 1000', str(path))
    request = SessionRequest(action="open", protocol="local", command=command, pty={"cols": cols, "rows": rows})
    session = (await controller.session(request)).session_id
    assert session is not None
    size = path.stat().st_size
    watch = controller.watch(WatchRequest(session_id=session, from_offset=0))
    async with asyncio.timeout(PATIENCE_S), aclosing(watch) as items:
        async for item in items:
            if item.kind == "output" and (item.raw_offset or 0) >= size:
                break
    return session


async def print_capture(controller: Controller, name: str) -> str:
    capture = Capture.load(name)
    return await print_file(controller, FOLDER / f"{name}.raw", capture.cols, capture.rows)


async def print_build(controller: Controller, folder: Path, size: int) -> str:
    path = folder / "build.log"
    with path.open("wb") as file:
        file.writelines(build_log(size))
    return await print_file(controller, path, 100, 30)


async def page_through_switch(controller: Controller) -> str:
    """Let a session read a configuration on a switch page by page, with a resize in between."""
    async with SimulatedSwitch(password="secret", enable_secret="secret") as switch:
        fields: Any = {
            "protocol": "telnet",
            "host": switch.host,
            "port": switch.telnet_port,
            "session_type": "console",
            "device_id": "core-1",
            "acquire_lock": True,
            "task_id": "night",
            "platform": "cisco_ios",
            "username": "admin",
            "auth": {"method": "password", "password": "secret", "enable_secret": "secret"},
            "pty": {"cols": 80, "rows": 24},
        }
        async with await SessionHandle.open(controller, **fields) as handle:
            for rows, command in ((24, "show running-config"), (12, "show tech-support")):
                await handle.resize(80, rows)
                await handle.send(f"terminal length {rows}\n", until_regex=r"#\s*$", timeout_ms=PATIENCE_S * 1000)
                reply = await handle.send(f"{command}\n", until_any=_PAGER_OR_PROMPT, timeout_ms=PATIENCE_S * 1000)
                while reply.match_index == 0:
                    reply = await handle.send(" ", until_any=_PAGER_OR_PROMPT, timeout_ms=PATIENCE_S * 1000)
                assert reply.match_index == 1
            return handle.session_id


async def recorded_screens(controller: Controller, session: str, places: Sequence[int]) -> dict[int, ScreenSnapshot]:
    """Return the screens at places of a recording, of an emulator that is fed all output from the start."""
    first = await controller.pty(PtyReadScreen(session_id=session, at=0))
    assert isinstance(first, ScreenReply)
    model, at, found = ScreenModel(first.cols, first.rows_count), 0, dict[int, ScreenSnapshot]()
    remaining = sorted(places, reverse=True)
    async with aclosing(_recording(controller, session)) as events:
        async for event in events:
            data = b64decode(event.data_b64 or "")
            begin = event.offset - len(data)
            while remaining and remaining[-1] <= event.offset and data:
                place = remaining.pop()
                model.feed(data[at - begin : place - begin])
                at, found[place] = place, model.snapshot(attributes=True)
            model.feed(data[at - begin :] if data else b"")
            at = event.offset
            if event.cols is not None and event.rows is not None:
                model.resize(event.cols, event.rows)
            elif event.incarnation is not None and event.offset:
                model.feed(RESET)
            model.responses.clear()
    assert not remaining
    return found


async def _recording(controller: Controller, session: str) -> AsyncGenerator[RecordingEvent, None]:
    begin, complete = 0, False
    while not complete:
        page = await controller.recording(RecordingRequest(session_id=session, from_offset=begin))
        for event in page.events:
            yield event
        begin, complete = page.resume_offset, page.complete


def described(screen: ScreenSnapshot) -> dict[str, Any]:
    """Return a screen in the form that the page's script returns."""
    assert screen.attributes is not None
    runs = [
        [[run.begin, run.end, run.fg, run.bg, *(name for name in FLAGS if getattr(run, name))] for run in row]
        for row in screen.attributes
    ]
    rows = [*screen.rows, *[""] * (screen.rows_count - len(screen.rows))]
    return {"size": [screen.cols, screen.rows_count], "cursor": list(screen.cursor), "rows": rows, "runs": runs}
