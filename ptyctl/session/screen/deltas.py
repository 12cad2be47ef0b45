"""screen.jsonl: the changes of a screen, recorded while a client reads them (docs/contracts.md, Screen)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.api.screen import DeltaRow, Position, ScreenDelta
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.files import open_for_reading, parse_json
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.transcript.append_file import AppendFile

from .screen import Screen, ScreenState, run_for
from .screen_replay import cells_of

#: At most 20 deltas per second.
INTERVAL_S = 0.05
#: Longest time between two snapshots on disk while the screen is recorded (seconds).
SNAPSHOT_S = 0.25
#: The recording of one session ends at this size.
LIMIT_BYTES = 256 << 20
#: The recording ends this long after the last read (seconds).
UNREAD_S = 30.0

_CURSOR_HINT = "pass the resume_cursor of an earlier reply unchanged"


class Deltas:
    """The recording of one session's screen. A cursor is a byte offset into screen.jsonl."""

    def __init__(self, folder: Path, screen: Screen, stream: OutputStream, conversation_id: str) -> None:
        self._session_id = folder.name
        self._conversation_id = conversation_id
        self._path = folder / "screen.jsonl"
        self._screen = screen
        self._stream = stream
        self._file: AppendFile | None = None
        self._task: asyncio.Task[None] | None = None
        self._read_at = 0.0

    @property
    def cursor(self) -> int:
        """The end of the recording."""
        if self._file is not None:
            return self._file.size
        return self._path.stat().st_size if self._path.exists() else 0

    @property
    def full(self) -> bool:
        """Whether the recording has reached its size limit or the disk is full."""
        return self._file is not None and (self.cursor >= LIMIT_BYTES or not self._file.growing)

    @property
    def recording(self) -> bool:
        """Whether changes are being recorded."""
        return self._task is not None

    async def record(self) -> None:
        """Start recording, or continue. The first delta, with all rows, is written when this returns.

        Raises:
            PtyctlError: BUSY as `Screen.current`.
        """
        self._read_at = asyncio.get_running_loop().time()
        if self._task is not None or self.full:
            return
        state = await self._screen.state()
        line = await self._delta_line(None, state.snapshot)
        if self._task is None:  # another caller may have started meanwhile
            self._file = self._file or AppendFile(self._path)
            self._write(line)
            self._task = asyncio.create_task(self._record(state), name=f"screen of {self._session_id}")

    def since(self, cursor: int, limit: int) -> tuple[list[ScreenDelta], int]:
        """Return at most `limit` deltas from a cursor on, and the cursor after them.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a cursor past the end, or not at the start of a delta.
        """
        end = self.cursor
        if cursor > end:
            raise invalid(f"cursor {cursor} is past the end of the deltas, {end}", hint=_CURSOR_HINT, field="cursor")
        lines: list[bytes] = []
        with contextlib.suppress(FileNotFoundError), open_for_reading(self._path) as file:
            file.seek(max(cursor - 1, 0))
            if cursor and file.read(1) != b"\n":
                raise invalid(f"cursor {cursor} is not the start of a delta", hint=_CURSOR_HINT, field="cursor")
            while (
                file.tell() < min(end, cursor + MAX_LIST_BYTES)
                and len(lines) < limit
                and (line := file.readline()).endswith(b"\n")
            ):
                lines.append(line)
        return [ScreenDelta.model_validate(parse_json(line)) for line in lines], cursor + sum(map(len, lines))

    async def close(self) -> None:
        """Stop recording; recorded deltas can still be read."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _record(self, state: ScreenState) -> None:
        try:
            written_at, prompt = 0.0, self._stream.last_prompt
            while not self.full and await self._next_change(state):
                with contextlib.suppress(PtyctlError):  # the screen is too far behind; the next look continues
                    before, state = state, await self._screen.state()
                    self._write(await self._delta_line(before.snapshot, state.snapshot))
                now = asyncio.get_running_loop().time()
                if now - written_at >= SNAPSHOT_S or prompt is not self._stream.last_prompt:
                    written_at, prompt = now, self._stream.last_prompt
                    await self._screen.write_snapshot()
        finally:
            self._task = None
        await self._screen.write_snapshot()

    async def _next_change(self, state: ScreenState) -> bool:
        """Wait for the next possible change, at least one interval; return False once no client reads the recording."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(INTERVAL_S)
        while not self._screen.is_outdated(state):
            unread_at = self._read_at + UNREAD_S
            if loop.time() >= unread_at:
                return False
            await self._stream.wait(unread_at)
        return True

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        self._file.append(line)
        self._file.flush()

    async def _delta_line(self, before: ScreenSnapshot | None, snapshot: ScreenSnapshot) -> bytes:
        """Return the line of a delta, or nothing if nothing visible has changed."""
        return await run_for(cells_of((snapshot.cols, snapshot.rows_count)), lambda: self._line(before, snapshot))

    def _line(self, before: ScreenSnapshot | None, snapshot: ScreenSnapshot) -> bytes:
        if snapshot == before:
            return b""
        whole = before is None or (before.cols, before.rows_count) != (snapshot.cols, snapshot.rows_count)
        old = before.rows if before is not None and not whole else ()
        changed = [row for row, text in enumerate(snapshot.rows) if whole or text != old[row]]
        delta = ScreenDelta(
            conversation_id=self._conversation_id,
            session_id=self._session_id,
            rows=[DeltaRow(row=row, text=snapshot.rows[row]) for row in changed],
            cursor=Position(row=snapshot.cursor[0], col=snapshot.cursor[1]),
            title=snapshot.title,
            alt_screen=snapshot.alt_screen,
            cols=snapshot.cols if whole else None,
            rows_count=snapshot.rows_count if whole else None,
            ts=int(time.time() * 1000),
        )
        return delta.json_line()
