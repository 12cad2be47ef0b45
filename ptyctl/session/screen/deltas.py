"""screen.jsonl: what changes on a screen, while somebody reads it (specification of the screen model, screen_delta)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.screen import DeltaRow, Position, ScreenDelta
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.line.pulse import Pulse
from ptyctl.session.line.stream import Stream
from ptyctl.session.transcript.appender import Appender

from .screen import Screen, View

#: At most 20 deltas a second.
INTERVAL_S = 0.05
#: The snapshot on disk is as old as that at most while the screen is recorded.
SNAPSHOT_S = 0.25
#: No more than that is recorded of one session.
LIMIT_BYTES = 256 << 20
#: A recording that nobody reads for so long ends.
UNREAD_S = 30.0


class Deltas:
    """The recording of one session's screen. A cursor is a byte offset into screen.jsonl; `pulse` beats at each delta."""

    def __init__(self, folder: Path, screen: Screen, stream: Stream) -> None:
        self.pulse = Pulse()
        self.session_id = self.conversation_id = folder.name
        self._path = folder / "screen.jsonl"
        self._screen = screen
        self._stream = stream
        self._file: Appender | None = None
        self._task: asyncio.Task[None] | None = None
        self._shown: ScreenSnapshot | None = None
        self._readers = 0
        self._read_at = 0.0

    @property
    def cursor(self) -> int:
        """The end of what is recorded."""
        if self._file is not None:
            return self._file.size
        return self._path.stat().st_size if self._path.exists() else 0

    @property
    def full(self) -> bool:
        """Whether there is no room for more: past the limit, or on a full disk."""
        return self._file is not None and (self.cursor >= LIMIT_BYTES or not self._file.growing)

    @property
    def recording(self) -> bool:
        return self._task is not None

    async def record(self) -> None:
        """Somebody reads: from now on changes are recorded. The first delta, of all rows, is there when this returns.

        Raises:
            PtyctlError: BUSY as Screen.looking.
        """
        self._read_at = asyncio.get_running_loop().time()
        if self._task is not None or self.full:
            return
        view = await self._screen.view()
        if self._task is None:  # nobody else was first, meanwhile
            self._file = self._file or Appender(self._path)
            self._shown = None
            self._tell(view.picture)
            self._task = asyncio.create_task(self._record(view), name=f"screen of {self.session_id}")

    @contextmanager
    def subscribed(self) -> Iterator[None]:
        """As long as somebody is within, the recording does not end, once it has begun."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def since(self, cursor: int, limit: int) -> tuple[list[ScreenDelta], int]:
        """At most so many deltas from a cursor on, and the cursor behind them.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a cursor that is past the end, or is none.
        """
        end = self.cursor
        if cursor > end:
            raise invalid(
                f"cursor {cursor} lies past the end of the deltas, {end}; take a resume_cursor as it is", field="cursor"
            )
        lines: list[bytes] = []
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(max(cursor - 1, 0))
            if cursor and file.read(1) != b"\n":
                raise invalid(f"cursor {cursor} is no delta's begin; take a resume_cursor as it is", field="cursor")
            while file.tell() < end and len(lines) < limit and (line := file.readline()).endswith(b"\n"):
                lines.append(line)
        return [ScreenDelta.model_validate(json.loads(line)) for line in lines], cursor + sum(map(len, lines))

    async def close(self) -> None:
        """Ends the recording; what was recorded can still be read."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _record(self, view: View) -> None:
        try:
            written_at, prompt = 0.0, self._stream.last_prompt
            while not self.full and await self._due(view):
                with contextlib.suppress(PtyctlError):  # too far behind: the next look goes on from there
                    view = await self._screen.view()
                    self._tell(view.picture)
                now = asyncio.get_running_loop().time()
                if now - written_at >= SNAPSHOT_S or prompt is not self._stream.last_prompt:
                    written_at, prompt = now, self._stream.last_prompt
                    await self._screen.write_snapshot()
        finally:
            self._task = None
        await self._screen.write_snapshot()

    async def _due(self, view: View) -> bool:
        """Waits until there may be a change, and the time for one more delta; False when nobody reads any more."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(INTERVAL_S)
        while not self._screen.behind(view):
            unread = self._read_at + UNREAD_S
            if not self._readers and loop.time() >= unread:
                return False
            await self._stream.pulse.wait(loop.time() + UNREAD_S if self._readers else unread)
        return True

    def _tell(self, picture: ScreenSnapshot) -> None:
        """One more delta, if anything is to be seen of the change."""
        before, self._shown = self._shown, picture
        if picture == before:
            return
        whole = before is None or (before.cols, before.rows_count) != (picture.cols, picture.rows_count)
        old = before.rows if before is not None and not whole else ()
        changed = [row for row, text in enumerate(picture.rows) if whole or text != old[row]]
        delta = ScreenDelta(
            conversation_id=self.conversation_id,
            session_id=self.session_id,
            rows=[DeltaRow(row=row, text=picture.rows[row]) for row in changed],
            cursor=Position(row=picture.cursor[0], col=picture.cursor[1]),
            title=picture.title,
            alt_screen=picture.alt_screen,
            cols=picture.cols if whole else None,
            rows_count=picture.rows_count if whole else None,
            ts=int(time.time() * 1000),
        )
        assert self._file is not None
        self._file.append(delta.json_line())
        self._file.flush()
        self.pulse.beat()
