"""The bytes that a session receives: kept on disk, normalised to text, and published to subscribers.

channel -> secret masking -> output.raw -> normaliser -> output.spool and window -> subscribers, signal
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ptyctl.api.session import LimitUse
from ptyctl.core.hidden_ranges import HiddenRange, TypedLines, modes_of
from ptyctl.core.limits import LIMITS, Limit, UseCounter
from ptyctl.core.marks import Mark, MarkReader, PlacedMark, with_line
from ptyctl.core.normaliser import Normaliser, passes_unchanged
from ptyctl.core.renderer import WidthHistory
from ptyctl.core.secret_masker import SecretMasker
from ptyctl.core.spool import SpoolWindow
from ptyctl.session.clients import SearchTurns
from ptyctl.session.transcript.raw_log import read_range
from ptyctl.session.transcript.recovery import TranscriptState, new_folder
from ptyctl.session.transcript.transcript import Transcript
from transports.errors import ChannelError
from transports.receiver import Receiver

from .publisher import Publisher, Unsubscribe
from .signal import COALESCE_BYTES, Signal

DEFAULT_COLUMNS = 80
#: Longest time that spool text waits in memory before it is written to disk (seconds).
FLUSH_S = 0.05
#: A prompt or question is searched for in at most this many bytes before the end.
LINE_BYTES = 4096
#: Receive buffer while secrets are masked. Shared by all streams: each emptying is synchronous.
_UNMASKED = bytearray(64 * 1024)


@dataclass(frozen=True, slots=True)
class OutputNotPersisted:
    """Bytes were received that are not persisted, because the quota or the disk is full."""

    data: bytes


@dataclass(frozen=True, slots=True)
class GapStarted:
    """Output is no longer persisted, from the current offset on. Published once."""


@dataclass(frozen=True, slots=True)
class SpoolFlushed:
    """Buffered text was written to disk: output is paused or slow enough for background work."""


@dataclass(frozen=True, slots=True)
class MarksHandled:
    """All marks of a received chunk were published."""


@dataclass(frozen=True, slots=True)
class PersistentSecretsChanged:
    """The secrets that are masked wherever they appear, one per line."""

    secrets: bytes


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The channel has ended."""

    reason: ChannelError


#: Called for each received chunk with its raw offset and its bytes, once its text and marks are in the spool.
OutputHandler = Callable[[int, bytes], None]


class OutputWatch(Protocol):
    """Examines output before it is stored, and may call `OutputStream.remember_secret`."""

    @property
    def active(self) -> bool:
        """Whether output is to be examined."""
        ...

    def received(self, data: bytes) -> None:
        """Examine output."""
        ...


class OutputStream(Receiver):
    """The output of one session across all its incarnations: offsets only grow.

    Attributes:
        folder: the session's folder.
        raw_size: number of raw bytes received: the offset of the next byte.
        spool_end: size of the spool: the offset of the next byte of text.
        signal: wakes waiters when output arrives, the terminal is resized or the stream ends.
        wait: waits for a change of the stream; see `Signal.wait`.
        notify_waiters: wakes all waiters after a change of other state that they check.
        subscribe: calls a handler for each event of a type; see `Publisher.subscribe`. The types are those above, and
            `PlacedMark`: a shell mark that was read; its text, if any, is in the spool.
        read_raw: returns the raw bytes between two offsets; fewer if some are neither on disk nor in memory.
        holds_raw: returns whether all bytes between two offsets can be read.
        read_spool_file: returns the spool text between two offsets that is on disk.
        disk_bytes: returns the size of the output on disk, in bytes.
        search_turn: held by the session's searches in threads.
        ended: why the channel ended, or None.
        handling_marks: whether the marks of a received chunk are being published.
        last_data: when the last byte arrived, on the loop's clock.
        prompts: the spool ranges of prompt marks' lines.
        has_prompt_marks: whether a shell has sent a prompt mark.
        last_prompt: the last prompt mark, with the text of the line mark that followed it.
        incarnation_raw: the raw offset at which the current incarnation began.
    """

    def __init__(
        self,
        folder: Path,
        window_bytes: int,
        quota_bytes: int,
        state: TranscriptState | None = None,
        *,
        columns: int = DEFAULT_COLUMNS,
        searches: Limit = LIMITS["max_session_searches"],
    ) -> None:
        """Create the stream.

        Args:
            state: the state that recovery found in the folder; without it the folder is created.
            columns: width of the terminal when it was opened.
            searches: the limit of searches in threads.
        """
        state = state or new_folder(folder, quota_bytes)
        self.folder = folder
        self.transcript = Transcript(
            folder, state, on_gap=lambda: self._publisher.publish(GapStarted()), resume_state=self._resume_state
        )
        self.window = SpoolWindow(window_bytes, state.spool_size)
        self.normaliser = state.normaliser or Normaliser(state.raw.size, state.spool_size)
        self._reader = self.normaliser.reader
        self.raw_size, self.spool_end = self.normaliser.raw, self.window.end
        self.prompts = state.prompts
        self.has_prompt_marks = state.prompts.count > 0
        self.last_prompt: Mark | None = state.last_prompt
        self.widths = WidthHistory(columns, state.resizes)
        self.signal = Signal(min(COALESCE_BYTES, window_bytes // 2))  # waiters see all text before it leaves the window
        self.search_turn = SearchTurns(UseCounter(searches))
        self.ended: ChannelError | None = None
        self.handling_marks = False
        self.last_data = 0.0
        self.incarnation_raw = 0
        self._command_typed_raw = -1
        self._shell_returned_raw, self._command_begun_raw = state.returned_raw, state.begun_raw
        self._incarnation = state.incarnation
        self._loop = asyncio.get_running_loop()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._masking = SecretMasker()
        self._masked = False
        self._watch: OutputWatch | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._typed_lines: TypedLines | None = None
        self._examined_raw = 0
        self._output_handlers: tuple[OutputHandler, ...] = ()
        self._publisher = Publisher()
        self.wait, self.notify_waiters, self.subscribe = self.signal.wait, self.signal.notify, self._publisher.subscribe
        self._raw = self.transcript.raw
        self.read_raw, self.read_spool_file = self._raw.read, self.transcript.read_spool
        self.holds_raw = self._raw.holds
        self.disk_bytes = self.transcript.disk_bytes
        self.get_buffer = self._raw.get_buffer  # type: ignore[method-assign]  # avoids a call per read

    # Offsets and content

    @property
    def raw_kept(self) -> int:
        """Number of raw bytes on disk."""
        return self._raw.persisted_size

    @property
    def persisting(self) -> bool:
        """Whether received bytes are written to disk."""
        return self._raw.persisting

    @property
    def raw_path(self) -> Path:
        """The file output.raw."""
        return self._raw.path

    @property
    def has_gap(self) -> bool:
        """Whether text is missing on disk: some output was not persisted."""
        return self.transcript.gap_at is not None

    def raw_size_on_disk(self) -> int:
        """Return the size of output.raw now, including preallocated room; 0 if it was removed."""
        return self._raw.size_on_disk()

    @property
    def spool_start(self) -> int:
        """The start of the window; a cursor before it has expired."""
        return max(0, self.spool_end - self.window.limit)

    @property
    def terminal_modes(self) -> set[int]:
        """The DEC private modes that the far end has set."""
        return self.normaliser.modes

    @property
    def line_feeds(self) -> int:
        """Counter that increases with each received chunk that has a line feed."""
        return self.normaliser.line_feeds

    @property
    def reader_changed_raw(self) -> int:
        """The raw offset at which another program last began to read the terminal; -1 if unknown.

        It grows when a command is typed and when a shell returns to its prompt.
        """
        return max(self._command_typed_raw, self._shell_returned_raw)

    @property
    def shell_returned_raw(self) -> int:
        """The raw offset of the last mark with which a shell returned from a command; -1 if none was received."""
        return self._shell_returned_raw

    @property
    def command_begun(self) -> bool:
        """Whether a shell has sent a begin mark, and no end or prompt mark since."""
        return self._command_begun_raw > self._shell_returned_raw

    @property
    def line_follows(self) -> bool:
        """Whether the shell of this incarnation is at its prompt, and has announced a line mark that has not arrived yet."""
        last, is_current = self.last_prompt, self._shell_returned_raw >= self.incarnation_raw
        return last is not None and last.line_follows and is_current and not self.command_begun

    def command_typed(self) -> None:
        """Record that a command is being typed; see `reader_changed_raw`."""
        self._command_typed_raw = self.raw_size

    def searches_in_use(self) -> LimitUse:
        """Return the limit of the session's searches in threads with its current use."""
        return self.search_turn.use()

    def read(self, begin: int, end: int) -> bytes:
        """Return spool text between two offsets, from memory or from disk."""
        if begin >= self.window.start:
            return self.window.read(begin, end)
        return self.transcript.read_spool(begin, end)

    async def read_in_thread(self, begin: int, end: int) -> bytes:
        """Return spool text as `read` does; read text that is not in memory in a thread."""
        if begin >= self.window.start:
            return self.window.read(begin, end)
        self.flush()
        try:
            return await asyncio.to_thread(read_range, -1, self.folder / "output.spool", begin, end)
        except FileNotFoundError:  # the folder was removed
            return self.read(begin, end)

    def first_readable(self, offset: int) -> int:
        """Return the first offset at or after `offset` whose text can be read from memory or, after a close, from disk."""
        begin = max(offset, self.spool_start)
        lost = begin < self.window.start and begin >= self.transcript.spool_persisted
        return self.window.start if lost else begin

    def searchable_window(self) -> SpoolWindow:
        """Return the window; after a close, which frees it, return one rebuilt from disk."""
        if self.window.start <= self.spool_start:
            return self.window
        rebuilt = SpoolWindow(self.window.limit, self.spool_start)
        rebuilt.append(self.transcript.read_spool(self.spool_start, self.spool_end))
        return rebuilt

    def spool_offset(self, raw: int) -> int:
        """Convert a raw offset to a spool offset. It must not be within blanks, a line end or a control sequence."""
        following, reader = self.read_raw(raw, self.raw_size), self._reader
        size = len(following)
        if not passes_unchanged(following):
            in_line = self.read_raw(max(raw - 1, 0), raw) not in (b"", b"\n")
            normaliser = Normaliser(reader=None if reader is None else MarkReader(*reader.counters()), in_line=in_line)
            size = len(normaliser.feed(following, self.transcript.row_ts)) + normaliser.held
        return self.spool_end + self.normaliser.held - size

    def last_line(self) -> bytes:
        """Return the text after the last newline of the spool."""
        readable = 0 if self.transcript.gap_at is None else self.window.start
        return self.read(max(self.spool_end - LINE_BYTES, readable), self.spool_end).rpartition(b"\n")[2]

    def last_raw_line(self) -> bytes:
        """Return the raw bytes after the last line feed."""
        last = self._raw.last_received
        if b"\n" not in last:
            last = self.read_raw(max(self.raw_size - LINE_BYTES, self._raw.readable_from()), self.raw_size)
        return last[last.rfind(b"\n") + 1 :][-LINE_BYTES:]

    def next_counter(self, nonce: str) -> int:
        """Return the counter for a mark that ptyctl types."""
        assert self._reader is not None
        return self._reader.next_counter(nonce)

    def subscribe_output(self, handler: OutputHandler) -> Unsubscribe:
        """Call `handler(raw_offset, data)` for each received chunk, in the order of subscription.

        Plain bytes have this separate path: a flood creates no event objects.
        """
        self._output_handlers = (*self._output_handlers, handler)

        def unsubscribe() -> None:
            self._output_handlers = tuple(each for each in self._output_handlers if each is not handler)

        return unsubscribe

    # Incarnations and size

    def begin_incarnation(self, number: int, nonces: tuple[str, ...]) -> None:
        """Start a new terminal in the same transcript. Incomplete sequences and marks of the previous terminal are dropped."""
        if self.transcript.gap_at is None:
            self.window = self.searchable_window()  # recovery leaves the text on disk
        in_line = self.spool_end > 0 and self.read(self.spool_end - 1, self.spool_end) != b"\n"
        self._reader = MarkReader(*nonces)
        self.normaliser = Normaliser(self.raw_size, self.spool_end, self._reader, in_line=in_line)
        self.ended = None
        self.release()
        self._incarnation = number
        self.incarnation_raw = self.raw_size
        self.transcript.note("incarnation", int(time.time() * 1000), incarnation=number, nonces=list(nonces))

    def resume_incarnation(self) -> tuple[str, ...] | None:
        """Continue the incarnation of an earlier process whose terminal is still open.

        Returns:
            The nonces of its marks; None if they are not known, so that a new incarnation must begin.
        """
        if self._reader is None:
            return None
        if self.transcript.gap_at is None:
            self.window = self.searchable_window()
        self.ended = None
        return tuple(self._reader.counters())

    def end_without_channel(self, reason: ChannelError) -> None:
        """Record why there is no channel: it did not open, or it ended with an earlier process. Publishes no event."""
        reason.__cause__ = reason.__context__ = None  # like its own traceback, theirs have frames that refer to the session
        self.ended = reason.with_traceback(None)

    def resized(self, cols: int, rows: int) -> None:
        """Record the terminal's new size."""
        self.widths.add(self._raw.size, cols)
        self.transcript.note("resize", int(time.time() * 1000), cols=cols, rows=rows)
        self.signal.notify()

    # What viewers see

    def hold(self, prompt: str) -> TypedLines:
        """Show viewers no further echo of the lines that ptyctl types at a prompt, until `show` or `release`.

        They see all other output when it arrives. The caller adds the lines to the ones returned.
        """
        if self._typed_lines is None:
            self._typed_lines = TypedLines(prompt)
            self.transcript.held_from = self._examined_raw = self.raw_size
        return self._typed_lines

    def expect_echo(self, typed: str, *, answers: Iterable[str] = ()) -> None:
        """Expect the echo of a line, and rows with one of the answers, if such lines are held."""
        if self._typed_lines is not None:
            self._typed_lines.expect(typed, answers=answers)

    def show(self, shown: bytes | None = None, *, end: int | None = None, mark: int | None = None) -> None:
        """End the hold: show viewers these bytes in place of the held output, by default those of the typed lines.

        Args:
            end: raw offset of the end of the held output, by default its end.
            mark: raw offset at which a mark begins that ends there.
        """
        end = self.raw_size if end is None else end
        if self._typed_lines is not None:
            self._examine(end if mark is None else mark)
            self._hide(end, shown)
        self.release()

    def release(self) -> None:
        """End the hold: show viewers the held output as it was received."""
        self._typed_lines = None
        if self.transcript.held_from is not None:
            self.transcript.held_from = None
            self.signal.notify()

    def _examine(self, end: int) -> None:
        """Show viewers the output up to a raw offset that is not the echo of a typed line."""
        begin, typed = self._examined_raw, self._typed_lines
        if typed is None or begin >= end:
            return
        self._examined_raw = end
        for other_begin, other_end in typed.feed(begin, self.read_raw(begin, end)):
            self._hide(other_begin)
            self.transcript.held_from = other_end

    def _hide(self, end: int, shown: bytes | None = None) -> None:
        """Hide the held output up to a raw offset."""
        begin, typed = self.transcript.held_from, self._typed_lines
        if begin is None or begin >= end or typed is None:
            return
        if shown is None:
            shown, typed.shown = typed.shown, b""
        shown = self._masking.mask(shown) + modes_of(self.read_raw(begin, end))
        self.transcript.hide(HiddenRange(begin, end, shown), int(time.time() * 1000))

    def read_shown(self, begin: int, end: int) -> bytes:
        """Return what viewers see for the raw bytes between two offsets."""
        return self.transcript.hidden.show(begin, self.read_raw(begin, end))

    # Secrets

    def watch_with(self, watch: OutputWatch) -> None:
        """Pass output to `watch` before it is stored, while the watch is active."""
        self._watch = watch

    def remember_secret(self, secret: bytes) -> None:
        """Mask a secret that was typed without echo in all further output, if it is distinctive."""
        before = self.persistent_secrets
        self._masking.remember(secret)
        if self.persistent_secrets != before:
            self._publisher.publish(PersistentSecretsChanged(self.persistent_secrets))

    def watch_begun(self) -> None:
        """Begin to pass output to the watch."""
        self._start_masking()

    @property
    def persistent_secrets(self) -> bytes:
        """The secrets that are masked wherever they appear, one per line."""
        return self._masking.persistent

    def mask_typed(self, secret: bytes) -> None:
        """Mask a secret that is being typed, in its echo and, if it is distinctive, in all further output."""
        before = self.persistent_secrets
        self._masking.arm(secret, self._loop.time())
        self._start_masking()
        if self.persistent_secrets != before:
            self._publisher.publish(PersistentSecretsChanged(self.persistent_secrets))

    def mask(self, secrets: bytes) -> None:
        """Mask secrets of an earlier process, one per line, in all further output."""
        self._masking.remember(secrets)
        self._start_masking()

    def _start_masking(self) -> None:
        if not self._masked and (self._masking.armed or self._is_watched):
            self._masked = True
            del self.get_buffer  # bytes go through memory instead of straight to the file

    @property
    def _is_watched(self) -> bool:
        return self._watch is not None and self._watch.active

    def release_held(self) -> None:
        """Publish bytes that were held back as the possible start of a secret."""
        self._cancel_hold_timer()
        self._receive(self._masking.flush())
        if not (self._masking.armed or self._is_watched):
            self._stop_masking()

    def _stop_masking(self) -> None:
        if self._masked:
            self._cancel_hold_timer()
            self._receive(self._masking.clear())
            self._masked = False
            self.get_buffer = self._raw.get_buffer  # type: ignore[method-assign]

    def _cancel_hold_timer(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None

    # Receiver

    def get_buffer(self) -> memoryview:
        """Return the file's mapped buffer, or memory while secrets are masked: an unmasked secret must not reach the disk."""
        return memoryview(_UNMASKED) if self._masked else self._raw.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._masked:
            self._received(nbytes)
            return
        self._cancel_hold_timer()
        now, data = self._loop.time(), bytes(memoryview(_UNMASKED)[:nbytes])
        if self._watch is not None and self._watch.active:
            self._watch.received(data)
        self._receive(self._masking.feed(data, now) if self._masking.armed else data)
        hold_s = self._masking.hold_s
        if hold_s is not None:
            self._hold_timer = self._loop.call_later(hold_s, self.release_held)
        elif not (self._masking.armed or self._is_watched):
            self._stop_masking()

    def drained(self) -> None:
        self.signal.notify_drained()

    def channel_ended(self, reason: ChannelError) -> None:
        self._cancel_hold_timer()
        self.release()
        try:
            self._receive(self._masking.flush())  # the masking stays armed: the next channel may show the secret too
            self._append_text(self.normaliser.flush())
            self.flush()
        finally:  # the session must end also after an unexpected exception
            self.ended = reason
            self._publisher.publish(StreamEnded(reason))
            self.signal.notify()

    def _receive(self, data: bytes) -> None:
        """Receive bytes that are not in the file's own buffer yet."""
        rest = memoryview(data)
        while rest:
            buffer = self._raw.get_buffer()
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self._received(size)
            rest = rest[size:]

    def _received(self, nbytes: int) -> None:
        data, begin = self._raw.take(nbytes), self.raw_size
        if not self._raw.persisting:
            self._publisher.publish(OutputNotPersisted(data))
        self.last_data = self._loop.time()
        self.transcript.received(begin, self.spool_end, int(time.time() * 1000))
        self.raw_size = begin + nbytes
        self._append_text(self.normaliser.feed(data, self.transcript.row_ts))
        if self.normaliser.marks:
            placed = self.normaliser.take_marks()
            self.handling_marks = True
            try:
                for mark in placed:
                    self._mark_received(mark)
            finally:
                self.handling_marks = False
            self._publisher.publish(MarksHandled())
        if self._typed_lines is not None:
            self._examine(self.raw_size)
        for handler in self._output_handlers:
            handler(begin, data)
        self.signal.notify_received(nbytes)

    def _mark_received(self, placed: PlacedMark) -> None:
        reader = self._reader
        is_of_shell = reader is not None and reader.is_of_shell(placed.mark)  # another program can forge typed marks
        if placed.mark.kind == "begin":
            if is_of_shell:
                self._command_begun_raw = placed.raw_begin
        elif placed.mark.kind == "line":
            self.last_prompt = with_line(self.last_prompt, placed.mark)
        elif is_of_shell or self.last_prompt is None:
            self._shell_returned_raw = placed.raw_begin
        if placed.mark.kind == "prompt":
            self.prompts.add(placed.spool_begin, placed.spool_end)
            self.has_prompt_marks = True
            self.transcript.add_prompt(self.prompts.packed(self.prompts.count - 1))
            self.last_prompt = placed.mark
        self._publisher.publish(placed)

    def _append_text(self, text: bytes) -> None:
        self.window.append(text)
        self.spool_end = self.window.end
        self.transcript.append(text)
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_S, self.flush)

    # Files

    def flush(self) -> None:
        """Write buffered text to disk."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self.transcript.flush()
        self._publisher.publish(SpoolFlushed())

    def close(self) -> None:
        """Release the files and the window; `read` still works, from disk."""
        self._stop_masking()
        self.flush()
        self.transcript.close()
        self.window.release()

    def _resume_state(self) -> dict[str, Any]:
        """Return what `SpoolReplay` needs to continue here; nothing while the normaliser holds an incomplete sequence."""
        normaliser, reader = self.normaliser, self._reader
        if not normaliser.settled or reader is None:
            return {}
        state: dict[str, Any] = {"incarnation": self._incarnation, "prompts": self.prompts.count, "in_line": normaliser.in_line}
        if normaliser.blanks:
            state["blanks"] = normaliser.blanks
        if self.last_prompt is not None and self.last_prompt.line is not None:
            state["line"] = self.last_prompt.line.decode("latin-1")
        if self.line_follows:
            state["line_follows"] = True
        state |= {"returned_raw": self._shell_returned_raw, "begun_raw": self._command_begun_raw}
        return {"resume": {**state, "modes": sorted(normaliser.modes), "marks": reader.counters()}}
