"""The output of a run: its text without echo and prompt, shortened for a reply, and the lines that report errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from ptyctl.core.control_sequences import ESC, SGR_BODY, compile_bytes, sequence_end
from ptyctl.core.echo import strip_echo, strip_prompt
from ptyctl.core.normaliser import spool_size
from ptyctl.core.renderer import Renderer, plain_text
from ptyctl.core.search import LOOP_STEPS, AnyPattern
from ptyctl.core.spool import whole_characters, whole_line_ends
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.pattern_search import search_with
from ptyctl.session.io.time_slice import TimeSlice

from .run import Run

#: Raw bytes exceed their text because of colours and redraws: at each end, up to this multiple of the limit is rendered.
_RAW_FACTOR = 4
#: Head and tail are extended until less than this fraction of their limit is free.
_ROOM_PART = 16
#: Rendering may yield to the event loop between pieces: of plain text, and of text with control functions, which cost up to a
#: row of cells each. Attributes (SGR) are removed before anything is drawn.
_PLAIN_BYTES = 64 * 1024
_CONTROLS_BYTES = 1024
#: Bytes at which the tail of a line must not begin: the rest of a character, and blanks or line ends of the preceding text.
_WITHIN = bytes(range(0x80, 0xC0)) + b" \r\n"
_CONTROL = compile_bytes(rf"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\x1b(?!{SGR_BODY})|\r(?!\r*\n)")
#: Size of the pieces in which a long output is searched.
_SEARCH_PIECE_CHARACTERS = 1024 * 1024
#: Limits of the error lines in a block: their number, and the characters of each.
_KEPT_ERROR_LINES = 5
_KEPT_ERROR_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class RunOutput:
    """The text, and the size of the part of the spool that is omitted between head and tail."""

    text: str
    omitted_bytes: int = 0


class OutputRenderer:
    """Renders raw bytes from an offset on, piece by piece and in bounded memory, in the terminal's widths at that time.

    The bytes follow the text `before` in their line. With `on_device`, text that a pager draws on the alternate screen is
    included (vtysh uses less).

    Attributes:
        raw: the raw offset up to which bytes are rendered.
        renderer: the renderer, which holds the text that is not final yet.
        time_slice: the time slice of the task that renders.
    """

    def __init__(self, stream: OutputStream, begin: int, before: str = "", *, on_device: bool = False) -> None:
        self.raw = begin
        self.renderer = Renderer(stream.widths.width_at(begin), alternate=on_device)
        self.renderer.feed(before.encode())
        self._stream = stream
        self._widths = stream.widths
        self.time_slice = TimeSlice()

    async def next_text(self, end: int) -> str:
        """Render a piece of the bytes before `end`, and return the text that became final. Yields to the event loop."""
        await self.time_slice.yield_if_over()
        self._feed(end)
        return self.renderer.take()

    def _feed(self, end: int) -> None:
        end = min(end, self.raw + _PLAIN_BYTES)
        data, at = self._stream.read_raw(self.raw, end), 0
        control = _CONTROL.search(data)
        if control is not None:
            data = data[: max(control.start(), _CONTROLS_BYTES)]
            end = self.raw + len(data)
        for offset, columns in self._widths.changes_between(self.raw, end):
            self.renderer.feed(data[at:offset])
            self.renderer.resize(columns)
            at = offset
        self.renderer.feed(data[at:])
        self.raw = end


async def run_output(run: Run, stream: OutputStream, limit: int) -> RunOutput:
    """Return the output so far, or all of it if the run has ended, in at most `limit` bytes of UTF-8."""
    if run.raw_begin is None:
        return RunOutput("")
    if not stream.holds_raw(run.raw_begin, stream.raw_size if run.result is None else run.result.raw_end):
        return _from_spool(run, stream, limit)
    return await _RawOutput(run, stream).shortened(limit)


def _from_spool(run: Run, stream: OutputStream, limit: int) -> RunOutput:
    """Return the text from the spool if raw bytes were not persisted. Its start is on disk and its end in memory."""
    begin, end = run.spool_begin or 0, stream.spool_end if run.result is None else run.result.output_end
    prompt = run.result.prompt_after if run.result is not None else ""
    if end - begin <= limit and begin >= stream.window.start:
        text = stream.read(begin, end).decode("utf-8", "replace")
        return RunOutput(strip_prompt(text, prompt) if prompt else text)
    half = (limit - len(omission_note(end - begin, end))) // 2
    read = stream.read if begin >= stream.window.start else stream.read_spool_file
    tail = stream.window.read(max(begin, end - half), end)
    head, tail = whole_line_ends(read(begin, min(begin + half, end)), tail)
    omitted = max(end - begin - len(head) - len(tail), 0)
    omission = omission_note(omitted, begin + len(head))
    text = f"{head.decode('utf-8', 'replace')}{omission}{tail.decode('utf-8', 'replace')}"
    return RunOutput(strip_prompt(text, prompt) if prompt else text, omitted)


class _RawOutput:
    """The raw output of a run up to its current end."""

    def __init__(self, run: Run, stream: OutputStream) -> None:
        assert run.raw_begin is not None
        self._run = run
        self._stream = stream
        self._begin = run.raw_begin
        self._end = stream.raw_size if run.result is None else run.result.raw_end

    async def shortened(self, limit: int) -> RunOutput:
        """Return all text, or whole lines of both ends, and between them a line with the number of omitted bytes."""
        if self._end - self._begin <= 2 * _RAW_FACTOR * limit:
            text = await self._text(self._begin, self._end)
            if _utf8_size(text) <= limit:
                return RunOutput(text)
        stream, result = self._stream, self._run.result
        spool_end = stream.spool_end + stream.normaliser.held if result is None else result.output_end
        half = (limit - len(omission_note(self._end, spool_end))) // 2
        head, head_end = await self._head(half)
        tail, tail_begin = await self._tail(half, head_end)
        after_begin = not (self._run.echoed or self._run.on_device)
        cursor = self._spool_begin() + spool_size(stream.read_raw(self._begin, head_end), after_begin=after_begin)
        omitted = spool_end - spool_size(stream.read_raw(tail_begin, self._end)) - cursor
        return RunOutput(f"{head}{omission_note(omitted, cursor)}{tail}", omitted) if omitted > 0 else RunOutput(head + tail)

    async def _head(self, size: int) -> tuple[str, int]:
        """Return whole lines of the start that fit in `size` bytes, and the raw offset after them."""
        text, at, stop = "", self._begin, min(self._begin + _RAW_FACTOR * size, self._end)
        while (room := size - _utf8_size(text)) > size // _ROOM_PART and at < stop:
            data = self._stream.read_raw(at, stop)
            cut = data.rfind(b"\n", 0, room) + 1 or data.find(b"\n") + 1
            longer = await self._text(self._begin, at + cut) if cut else ""
            if not cut or _utf8_size(longer) > size:
                if at == self._begin:  # a part of a long line, without blanks that the spool may lack
                    at += len(data[: whole_characters(data[:room])].rstrip(b" \r"))
                    text = await self._text(self._begin, at)
                break
            text, at = longer, at + cut
        return text, at

    async def _tail(self, size: int, start: int) -> tuple[str, int]:
        """Return whole lines of the end that fit in `size` bytes, and the raw offset at which they begin."""
        text, at, start = "", self._end, max(self._end - _RAW_FACTOR * size, start)
        while (room := size - _utf8_size(text)) > size // _ROOM_PART and at > start:
            data = self._stream.read_raw(start, at)
            cut = data.find(b"\n", max(len(data) - room, 0), len(data) - 1) + 1 or data.rfind(b"\n", 0, len(data) - 1) + 1
            longer = await self._text(start + cut, self._end) if cut else ""
            if not cut or _utf8_size(longer) > size:
                if at == self._end:
                    at -= len(data) - _first_readable(data, max(len(data) - room, 0))
                    text = await self._text(at, self._end)
                break
            text, at = longer, start + cut
        return text, at

    async def _text(self, begin: int, end: int) -> str:
        run, head = self._run, begin == self._begin
        # the echo follows the prompt and wraps there; without the prompt it would wrap elsewhere
        before = run.prompt_before if head and run.echoed else ""
        text = None
        if end - begin <= _PLAIN_BYTES:
            text = plain_text(before.encode() + self._stream.read_raw(begin, end))
        if text is None:
            text = await self._drawn(begin, end, before)
        if head and run.echoed and "\n" not in run.command:  # the echoes of several lines separate their outputs
            text = strip_echo(text, before, run.command)
        if end == self._end and run.result is not None and run.result.prompt_after:
            text = strip_prompt(text, run.result.prompt_after)
        return text

    async def _drawn(self, begin: int, end: int, before: str) -> str:
        output = OutputRenderer(self._stream, begin, before, on_device=self._run.on_device)
        pieces = []
        while output.raw < end:
            pieces.append(await output.next_text(end))
        if end - begin > _PLAIN_BYTES:
            await output.time_slice.yield_now()  # a long text is copied several times
        return "".join([*pieces, output.renderer.finish()])

    def _spool_begin(self) -> int:
        """Return the offset in the spool of the first raw byte."""
        return self._run.typed_spool if self._run.echoed else self._run.spool_begin or 0


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _first_readable(data: bytes, at: int) -> int:
    """Return the first offset from `at` on that is not in a character, a control sequence, a run of blanks or a line end."""
    escape = data.rfind(ESC, 0, at)
    if escape >= 0:
        at = max(at, sequence_end(data, escape))
    return len(data) - len(data[at:].lstrip(_WITHIN))


def omission_note(omitted: int, cursor: int) -> str:
    """Return the line shown in place of omitted text; `cursor` is the spool offset at which it begins."""
    return f"[... {omitted} bytes left out here; they can be read from cursor {cursor} on ...]\n"


async def error_lines(stream: OutputStream, profile: DeviceProfile, text: str) -> list[str]:
    """Return the lines of `text` that an error pattern matches, in order, each once.

    Raises:
        PtyctlError: LIMIT_EXCEEDED if the search takes too long.
    """
    data = text.encode("utf-8", "replace")
    if not profile.errors or len(data) <= profile.errors_at_once:
        found = _error_matches_at_once(data, profile)
    else:
        await asyncio.sleep(0)  # continues in a task, which is required to wait for a thread
        found = await search_with(stream.search_turn, AnyPattern(profile.errors), LOOP_STEPS + 1, partial(_error_matches, data))
    return list(dict.fromkeys(line for _, line in sorted(found) if line))


async def error_lines_between(stream: OutputStream, profile: DeviceProfile, begin: int, end: int) -> list[str]:
    """Return the error lines in the output between two raw offsets; see `error_lines`."""
    output, text, found = OutputRenderer(stream, begin), "", list[str]()
    while output.raw < end:
        text += await output.next_text(end)
        if len(text) > _SEARCH_PIECE_CHARACTERS:
            cut = text.rfind("\n") + 1 or len(text)
            found += await error_lines(stream, profile, text[:cut])
            text = text[cut:]
    found += await error_lines(stream, profile, text + output.renderer.finish())
    return list(dict.fromkeys(found))


def kept_error_lines(stream: OutputStream, run: Run, spool_end: int) -> list[str]:
    """Return the first error lines of a run on a device, for its block.

    Of a long output only head and tail are searched, so that the search does not delay the end of the run.
    """
    if not run.on_device or run.spool_begin is None:
        return []
    found = [line for failed in run.failed_lines for line in failed.said]
    if not found:
        profile, begin = run.profile, min(stream.first_readable(run.spool_begin), spool_end)
        half = profile.errors_at_once // 2
        text = stream.read(begin, min(begin + 2 * half, spool_end))
        if spool_end - begin > 2 * half:
            tail = stream.read(spool_end - half, spool_end)
            text = text[: text.rfind(b"\n", 0, half) + 1] + tail[tail.find(b"\n") + 1 :]
        found = [line for _, line in sorted(_error_matches_at_once(text, profile))]
    return [line[:_KEPT_ERROR_CHARACTERS] for line in dict.fromkeys(found) if line][:_KEPT_ERROR_LINES]


@lru_cache(maxsize=4)  # the block and the reply of a command search the same text
def _error_matches_at_once(text: bytes, profile: DeviceProfile) -> list[tuple[int, str]]:
    return _error_matches(text, AnyPattern(profile.errors))


def _error_matches(text: bytes, patterns: Any) -> list[tuple[int, str]]:
    """Return the line where each match ends, with its offset."""
    lines = []
    for pattern in patterns.parts:
        position = 0
        while position <= len(text) and (found := pattern.search(text, position)) is not None:
            begin = text.rfind(b"\n", 0, max(found.end() - 1, found.start())) + 1
            end = text.find(b"\n", begin)
            position = len(text) + 1 if end < 0 else end + 1
            lines.append((begin, text[begin : position - 1].decode("utf-8", "replace").strip()))
    return lines
