"""What a session has received: bytes go to disk, become text, and wake whoever waits for them.

channel → raw bytes → output.raw → normaliser → output.spool and the window → pulse
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from ptyctl.core.normalise import Normaliser, Osc
from ptyctl.core.window import Window
from transports.errors import ChannelError
from transports.receiver import Receiver

from .pulse import Pulse
from .transcript import Transcript

#: How long derived text may wait in memory before it is written.
FLUSH_S = 0.05


class Stream(Receiver):
    """One for all incarnations of a session: offsets only grow.

    `end` is the spool's size, `start` the oldest offset that a cursor may have; `last_data` is on the loop's clock.
    """

    def __init__(self, folder: Path, window_bytes: int, quota_bytes: int) -> None:
        self.transcript = Transcript(folder, quota_bytes, self._gap)
        self.window = Window(window_bytes)
        self.normaliser = Normaliser()
        self.pulse = Pulse()
        self.ended: ChannelError | None = None
        self.last_data = 0.0
        self.on_osc: Callable[[Osc], None] = lambda osc: None
        self.on_end: Callable[[ChannelError], None] = lambda reason: None
        self.on_gap: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._flush_timer: asyncio.TimerHandle | None = None
        self.get_buffer = self.transcript.raw.get_buffer  # type: ignore[method-assign]  # straight to the file, no hop

    @property
    def end(self) -> int:
        return self.window.end

    @property
    def start(self) -> int:
        return max(0, self.window.end - self.window.limit)

    def get_buffer(self) -> memoryview:
        return self.transcript.raw.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        data = self.transcript.raw.take(nbytes)
        self.last_data = self._loop.time()
        self.transcript.arrived(self.normaliser.raw, self.end, int(time.time() * 1000))
        self._keep(self.normaliser.feed(data))
        if self.normaliser.osc:
            events, self.normaliser.osc = self.normaliser.osc, []
            for osc in events:
                self.on_osc(osc)
        self.pulse.beat()

    def channel_ended(self, reason: ChannelError) -> None:
        self._keep(self.normaliser.flush())
        self.ended = reason
        self.flush()
        self.on_end(reason)
        self.pulse.beat()

    def begin_incarnation(self, number: int) -> None:
        """The spool goes on with a fresh terminal: nothing torn in the old one reaches into the new."""
        self.normaliser = Normaliser(self.normaliser.raw, self.end)
        self.ended = None
        self.transcript.note("incarnation", int(time.time() * 1000), incarnation=number)

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

    def searchable(self) -> Window:
        """The window, also after a close has freed it: then it is made again from disk."""
        if self.window.start <= self.start:
            return self.window
        again = Window(self.window.limit, self.start)
        again.append(self.transcript.read_spool(self.start, self.end))
        return again

    def last_line(self) -> bytes:
        """What stands behind the last newline of the spool, as far as a prompt could be long."""
        return self.window.read(self.end - 4096, self.end).rpartition(b"\n")[2]

    def flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self.transcript.flush()

    def close(self) -> None:
        """Lets go of files and memory; `read` still works, from disk."""
        self.flush()
        self.transcript.close()
        self.window.release()

    def _keep(self, text: bytes) -> None:
        self.window.append(text)
        self.transcript.append(text)
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_S, self.flush)

    def _gap(self) -> None:
        self.on_gap()
