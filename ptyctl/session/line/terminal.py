"""What a run sees of its session: the stream, the gate, the prompt, and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marks import PlacedMark
from ptyctl.core.prompt import Prompt, render_line
from transports.channel import Channel

from .gate import Gate, Writer
from .stream import Stream

if TYPE_CHECKING:
    from ptyctl.session.runs.run import Run

#: A prompt that only its pattern tells must stay the end for so long (design, section 6).
SETTLE_S = 0.15
#: And what stands directly below the whole echo of a line, its answer, for so long: line editors repaint, and some devices
#: empty their input just behind a question.
ANSWER_S = 0.02
_ENDLESS = 1 << 30
_LINE_BYTES = 4096


class Terminal:
    """`prompts` says whether one is to be expected: a shell without a terminal shows none. `mark_seen` is told of each mark.
    `width` is the columns of the screen."""

    def __init__(self, stream: Stream, gate: Gate, *, prompts: bool = True) -> None:
        self.stream = stream
        self.gate = gate
        self.now = asyncio.get_running_loop().time
        self._last_line = (-1, "")
        self.prompt = Prompt()
        self.prompts = prompts
        self.width: Callable[[], int] = lambda: _ENDLESS
        self.channel: Callable[[], Channel | None] = lambda: None
        self.mark_seen: Callable[[PlacedMark], object] = lambda placed: None

    def last_line(self) -> str:
        """The line that the cursor is in, as far as it was printed. Where marks tell prompts, output may end in the same line:
        the spool, which parts them, has it then."""
        raw = self.stream.normaliser.raw
        if self._last_line[0] != raw:
            marked = len(self.stream.prompts) or not self.stream.transcript.raw.keeping
            self._last_line = raw, render_line(self.stream.last_line() if marked else self.raw_line())
        return self._last_line[1]

    def raw_line(self) -> bytes:
        """The bytes behind the last line feed, as far as a line could be long."""
        log = self.stream.transcript.raw
        return log.read(max(log.kept - _LINE_BYTES, 0), log.kept).rpartition(b"\n")[2]

    def shell_in_front(self) -> bool | None:
        """See Channel.leads_foreground."""
        channel = self.channel()
        return channel.leads_foreground() if channel is not None else None

    def line_editor(self) -> bool:
        """Whether a line editor reads: the kernel hands it each key, and one far away has asked for bracketed paste."""
        channel = self.channel()
        canonical = channel.canonical if channel is not None else None
        return BRACKETED_PASTE in self.stream.normaliser.modes if canonical is None else not canonical

    def finish(self, run: Run, reason: DoneReason, raw_end: int | None = None) -> None:
        """`raw_end`: where its output ends, if not with all that came."""
        end = self.stream.normaliser.raw if raw_end is None else raw_end
        run.finish(reason, self.now(), raw_end=end, spool_end=self.stream.end)

    async def type(self, run: Run, text: str, writer: Writer) -> None:
        """Types for a run. When its lock is lost in the middle the rest is dropped, and the run goes on (design, section 7)."""
        self.stream.run_typed_at = self.stream.normaliser.raw
        try:
            await self.gate.type(text, writer)
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCK_LOST:
                raise
        run.sent = True

    async def nothing_more(self) -> bool:
        """Whether the loop finds nothing more to read: two turns, since a turn runs what is ready before what it finds."""
        if self.stream.pulse.settled:
            return True
        end = self.stream.normaliser.raw
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.stream.normaliser.raw == end

    async def quiet(self, seconds: float, deadline: float) -> bool:
        """Waits until something came and then nothing for so long; False when the deadline or the end came first."""
        while self.stream.ended is None and self.now() < deadline:
            due = self.stream.last_data + seconds if self.stream.normaliser.raw else deadline
            if self.now() >= due:
                return True
            await self.stream.pulse.wait(min(due, deadline))
        return False
