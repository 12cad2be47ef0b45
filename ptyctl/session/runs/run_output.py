"""The output of a run as text for a reply: rendered from the raw bytes, without echo and prompt, shortened if it is long."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.core.echo import strip_echo, strip_prompt
from ptyctl.core.renderer import render
from ptyctl.session.io.output_stream import OutputStream

from .run import Run

#: Raw bytes exceed their text because of colours and redraws: this many times the limit is rendered at each end.
_RAW_FACTOR = 4


@dataclass(frozen=True, slots=True)
class RunOutput:
    """The text, and how many bytes of it are omitted between head and tail."""

    text: str
    omitted_bytes: int = 0


def render_between(stream: OutputStream, begin: int, end: int, before: str = "", *, on_device: bool = False) -> str:
    """Return the text of raw bytes that follow the text `before` in their line, in the terminal's widths at that time.

    With `on_device`, what a pager put on the alternate screen is included (vtysh uses less).
    """
    widths, size = stream.widths, len(before.encode())
    resizes = [(size + offset, columns) for offset, columns in widths.changes_between(begin, end)]
    return render(before.encode() + stream.read_raw(begin, end), widths.width_at(begin), resizes, alternate=on_device)


def run_output(run: Run, stream: OutputStream, limit: int) -> RunOutput:
    """Return the output so far, or all of it if the run has ended, in at most `limit` bytes of UTF-8."""
    if run.raw_begin is None:
        return RunOutput("")
    end = stream.raw_size if run.result is None else run.result.raw_end
    if stream.raw_kept < end:
        return _from_spool(run, stream, limit)
    part = _RAW_FACTOR * limit
    if end - run.raw_begin <= 2 * part:
        return _shortened(_rendered(run, stream, run.raw_begin, end, head=True, tail=True), limit, run)
    head = _rendered(run, stream, run.raw_begin, run.raw_begin + part, head=True, tail=False)
    line = end - part + stream.read_raw(end - part, end).find(b"\n") + 1
    tail = _rendered(run, stream, line, end, head=False, tail=True)
    between = end - run.raw_begin - 2 * part
    return _joined(head, tail, limit, between + len(head.encode()) + len(tail.encode()), run)


def _from_spool(run: Run, stream: OutputStream, limit: int) -> RunOutput:
    """Return the spool's text, for raw bytes that were not persisted: its start is on disk and its end in memory."""
    begin, end = run.spool_begin or 0, stream.spool_end if run.result is None else run.result.spool_end
    if begin >= stream.window.start:
        return _shortened(stream.read(begin, end).decode("utf-8", "replace"), limit, run)
    head = stream.read_spool_file(begin, min(begin + limit, end))
    tail = stream.window.read(max(begin + len(head), end - limit), end)
    return _joined(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), limit, end - begin, run)


def _rendered(run: Run, stream: OutputStream, begin: int, end: int, *, head: bool, tail: bool) -> str:
    # the echo follows the prompt and wraps there; without the prompt it would wrap elsewhere
    before = run.prompt_before if head and run.echoed else ""
    text = render_between(stream, begin, end, before, on_device=run.on_device)
    if head and run.echoed and "\n" not in run.command:  # the echoes of several lines tell their outputs apart
        text = strip_echo(text, before, run.command)
    if tail and run.result is not None and run.result.prompt_after:
        text = strip_prompt(text, run.result.prompt_after)
    return text


def _shortened(text: str, limit: int, run: Run) -> RunOutput:
    size = len(text.encode())
    return RunOutput(text) if size <= limit else _joined(text, text, limit, size, run)


def _joined(head: str, tail: str, limit: int, size: int, run: Run) -> RunOutput:
    """Return whole lines of both ends, as many as fit, with a line between them that tells what is omitted."""
    half = (limit - len(_omission(size, run))) // 2
    first = head.encode()[:half].decode("utf-8", "ignore")
    last = tail.encode()[-half:].decode("utf-8", "ignore")
    first = first[: first.rfind("\n") + 1] or first
    last = last[last.find("\n") + 1 :]
    omitted = max(size - len(first.encode()) - len(last.encode()), 0)
    return RunOutput(f"{first}{_omission(omitted, run)}{last}", omitted)


def _omission(omitted: int, run: Run) -> str:
    return f"[... {omitted} bytes left out here; they can be read from cursor {run.spool_begin or 0} on ...]\n"
