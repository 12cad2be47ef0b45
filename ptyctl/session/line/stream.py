"""What a session has received: bytes go to disk, become text, and wake whoever waits for them.

channel → raw bytes → output.raw → normaliser → output.spool and the window → pulse
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptyctl.core.marks import Mark, MarkReader, PlacedMark
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.renderer import WidthHistory
from ptyctl.core.secret_masker import SecretMasker
from ptyctl.core.spool import SpoolWindow
from ptyctl.session.transcript.recovery import Kept, new_folder
from ptyctl.session.transcript.transcript import Transcript
from transports.errors import ChannelError
from transports.receiver import Receiver

from .pulse import GATHER_BYTES, Pulse
from .queries import Queries

DEFAULT_COLUMNS = 80
#: How long derived text may wait in memory before it is written.
FLUSH_S = 0.05
#: What may be the begin of a secret waits so long for the rest: just after that was typed, and later.
HOLD_S = 0.2
LATE_HOLD_S = 0.02
#: Where what is not masked yet is read into. One for all: it is emptied in the same step.
_UNMASKED = bytearray(64 * 1024)


class Stream(Receiver):
    """One for all incarnations of a session: offsets only grow.

    `end` is the spool's size, `start` the oldest offset that a cursor may have; `last_data` is on the loop's clock.
    `kept` is what an earlier process left in the folder; without it the folder is made.
    """

    def __init__(self, folder: Path, window_bytes: int, quota_bytes: int, kept: Kept | None = None) -> None:
        kept = kept or new_folder(folder, quota_bytes)
        self.transcript = Transcript(folder, kept, self._gap)
        self.window = SpoolWindow(window_bytes, kept.spool)
        self.normaliser = kept.normaliser or Normaliser(kept.raw.size, kept.spool)
        self.transcript.resumable = self._resumable
        self.prompts = kept.prompts
        self.last_prompt: Mark | None = kept.last_prompt
        self.run_typed_at = -1  # where it stood when the last command was typed
        self.run_ended_at = -1  # where the last mark stands by which a shell tells that it is in front again
        self.widths = WidthHistory(DEFAULT_COLUMNS)
        self.pulse = Pulse(min(GATHER_BYTES, window_bytes // 4))  # nothing is lost from the window meanwhile
        self.ended: ChannelError | None = None
        self.last_data = 0.0
        self.on_mark: Callable[[PlacedMark], None] = lambda placed: None
        self.watchers: list[Callable[[], None]] = []
        self.on_text: Callable[[], None] = lambda: None
        self.on_flush: Callable[[], None] = lambda: None
        self.on_unkept: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[ChannelError], None] = lambda reason: None
        self.on_gap: Callable[[], None] = lambda: None
        self.on_lasting: Callable[[bytes], None] = lambda secrets: None
        #: Where the output of the present incarnation begins in output.raw.
        self.incarnation_raw = 0
        self._incarnation = kept.incarnation
        self._loop = asyncio.get_running_loop()
        self._flush_timer: asyncio.TimerHandle | None = None
        self.queries = Queries()
        self._masker = SecretMasker()
        self._masked = False
        self._hold_timer: asyncio.TimerHandle | None = None
        self.get_buffer = self.transcript.raw.get_buffer  # type: ignore[method-assign]  # straight to the file, no hop

    @property
    def end(self) -> int:
        return self.window.end

    @property
    def start(self) -> int:
        return max(0, self.window.end - self.window.limit)

    @property
    def lasting(self) -> bytes:
        """The secrets that are masked each time, a line each."""
        return self._masker.persistent

    def get_buffer(self) -> memoryview:
        """While a secret may be shown it is memory: what was not masked yet must not be on disk, should we be killed now."""
        return memoryview(_UNMASKED) if self._masked else self.transcript.raw.get_buffer()

    def arm(self, secret: bytes) -> None:
        """This is typed now, and nobody may see it: where the far end shows it, it is masked."""
        before = self.lasting
        self.mask(secret)
        if self.lasting != before:
            self.on_lasting(self.lasting)

    def mask(self, secrets: bytes) -> None:
        """As `arm`, for what was typed before: whoever keeps it knows it."""
        self._masker.arm(secrets, self._loop.time())
        if not self._masked and self._masker.armed:
            self._masked = True
            del self.get_buffer  # no longer straight to the file

    def buffer_updated(self, nbytes: int) -> None:
        if not self._masked:
            self._received(nbytes)
            return
        self._stop_holding()
        now = self._loop.time()
        self._put(self._masker.feed(bytes(memoryview(_UNMASKED)[:nbytes]), now))
        if self._masker.held:
            hold = HOLD_S if self._masker.expects_echo(now) else LATE_HOLD_S
            self._hold_timer = self._loop.call_later(hold, self.release_held)
        elif not self._masker.armed:
            self._unmask()

    def _received(self, nbytes: int) -> None:
        data, begin = self.transcript.raw.take(nbytes), self.normaliser.raw
        if not self.transcript.raw.keeping:
            self.on_unkept(data)
        self.last_data = self._loop.time()
        now_ms = int(time.time() * 1000)
        self.transcript.arrived(begin, self.end, now_ms)
        self._keep(self.normaliser.feed(data, self.transcript.row_ts))
        if self.normaliser.marks:
            placed, self.normaliser.marks = self.normaliser.marks, []
            for mark in placed:
                if mark.mark.kind != "begin":
                    self.run_ended_at = mark.raw_begin
                if mark.mark.kind == "prompt":
                    self.prompts.add(mark.spool_begin, mark.spool_end)
                    self.transcript.add_prompt(self.prompts.packed(len(self.prompts) - 1))
                    self.last_prompt = mark.mark
                self.on_mark(mark)
        for watch in list(self.watchers):
            watch()
        self.queries.received(begin, data)
        self.on_text()
        self.pulse.received(nbytes)

    def drained(self) -> None:
        self.pulse.drained()

    def channel_ended(self, reason: ChannelError) -> None:
        self._stop_holding()
        self._put(self._masker.flush())  # what is typed in secret stays so: the next channel may show it too
        self._keep(self.normaliser.flush())
        self.ended = reason
        self.flush()
        self.on_end(reason)
        self.pulse.beat()

    def go_on(self) -> tuple[str, ...]:
        """The terminal of an earlier process is still there: its output goes on. Returns the nonces of its marks."""
        assert self.normaliser.reader is not None
        if self.transcript.gap_at is None:
            self.window = self.searchable()
        self.ended = None
        return tuple(self.normaliser.reader.counters())

    def begin_incarnation(self, number: int, nonces: tuple[str, ...]) -> None:
        """The spool goes on with a fresh terminal: nothing torn in the old one reaches into the new, nor any of its marks."""
        if self.transcript.gap_at is None:
            self.window = self.searchable()  # after a recovery it was left on disk
        in_line = self.end > 0 and self.read(self.end - 1, self.end) != b"\n"  # a first prompt still gets a line of its own
        self.normaliser = Normaliser(self.normaliser.raw, self.end, MarkReader(*nonces), in_line=in_line)
        self.queries.forget()
        self.ended = None
        self._incarnation = number
        self.incarnation_raw = self.normaliser.raw
        self.transcript.note("incarnation", int(time.time() * 1000), incarnation=number, nonces=list(nonces))

    def resized(self, cols: int, rows: int) -> None:
        """The terminal has this size from here on."""
        self.widths.add(self.transcript.raw.size, cols)
        self.transcript.note("resize", int(time.time() * 1000), cols=cols, rows=rows)
        self.pulse.beat()

    def read(self, begin: int, end: int) -> bytes:
        """Spool text between two offsets: from the window, or from disk where that holds it no longer."""
        if begin >= self.window.start:
            return self.window.read(begin, end)
        return self.transcript.read_spool(begin, end)

    def readable(self, offset: int) -> int:
        """The first offset from there on whose text can be read: in the window, or after a close on disk, as far as it was
        kept."""
        begin = max(offset, self.start)
        lost = begin < self.window.start and begin >= self.transcript.spool_kept
        return self.end if lost else begin

    def searchable(self) -> SpoolWindow:
        """The window, also after a close has freed it: then it is made again from disk."""
        if self.window.start <= self.start:
            return self.window
        again = SpoolWindow(self.window.limit, self.start)
        again.append(self.transcript.read_spool(self.start, self.end))
        return again

    def next_counter(self, nonce: str) -> int:
        """For a mark that is typed."""
        assert self.normaliser.reader is not None
        return self.normaliser.reader.next_counter(nonce)

    def last_line(self) -> bytes:
        """What stands behind the last newline of the spool, as far as a prompt could be long."""
        return self.read(max(self.end - 4096, 0), self.end).rpartition(b"\n")[2]

    def flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self.transcript.flush()
        self.on_flush()

    def close(self) -> None:
        """Lets go of files and memory; `read` still works, from disk."""
        self._unmask()
        self.flush()
        self.queries.forget()
        self.transcript.close()
        self.window.release()

    def _keep(self, text: bytes) -> None:
        self.window.append(text)
        self.transcript.append(text)
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_S, self.flush)

    def _resumable(self) -> dict[str, Any]:
        """See Replay: nothing where the normaliser holds something back."""
        normaliser = self.normaliser
        if not normaliser.settled or normaliser.reader is None:
            return {}
        state = {"incarnation": self._incarnation, "prompts": len(self.prompts), "in_line": normaliser.in_line}
        return {"resume": {**state, "modes": sorted(normaliser.modes), "marks": normaliser.reader.counters()}}

    def _put(self, data: bytes) -> None:
        """Takes bytes that were not read into the file's own buffer."""
        rest = memoryview(data)
        while rest:
            buffer = self.transcript.raw.get_buffer()
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self._received(size)
            rest = rest[size:]

    def release_held(self) -> None:
        """The rest of what may have been an echo did not come, or nobody waits for it any more."""
        self._stop_holding()
        self._put(self._masker.flush())
        if not self._masker.armed:
            self._unmask()

    def _unmask(self) -> None:
        """There is nothing to mask (any more): bytes go straight to the file again."""
        if self._masked:
            self._stop_holding()
            self._put(self._masker.clear())
            self._masked = False
            self.get_buffer = self.transcript.raw.get_buffer  # type: ignore[method-assign]

    def _stop_holding(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None

    def _gap(self) -> None:
        self.on_gap()
