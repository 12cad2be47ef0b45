"""What a run printed, as text for a reply: rendered from the raw bytes, without echo and prompt, head and tail when long."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.core.echo import strip_echo, strip_prompt
from ptyctl.core.renderer import render
from ptyctl.session.io.output_stream import OutputStream

from .run import Run

#: Colours and repaints make raw bytes more than their text: so many times the limit is rendered at each end.
_RAW_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Output:
    """`omitted_bytes` counts what was left out between head and tail, in bytes as received; 0 where nothing was."""

    text: str
    omitted_bytes: int = 0


def shown_between(stream: OutputStream, begin: int, end: int, before: str = "", *, device: bool = False) -> str:
    """The text of raw bytes behind a prompt, as the terminal showed it: with the widths that it had then. Of a `device` also
    what its pager has put on the alternate screen (vtysh does, with less)."""
    widths, size = stream.widths, len(before.encode())
    resizes = [(size + offset, columns) for offset, columns in widths.changes_between(begin, end)]
    return render(before.encode() + stream.read_raw(begin, end), widths.width_at(begin), resizes, alternate=device)


def output_of(run: Run, stream: OutputStream, limit: int) -> Output:
    """The output so far, or the whole where the run has ended; `limit` bytes of UTF-8 at most."""
    if run.raw_begin is None:
        return Output("")
    end = stream.raw_size if run.raw_end is None else run.raw_end
    if stream.raw_kept < end:
        return _not_kept(run, stream, limit)
    part = _RAW_FACTOR * limit
    if end - run.raw_begin <= 2 * part:
        return _shortened(_rendered(run, stream, run.raw_begin, end, head=True, tail=True), limit, run)
    head = _rendered(run, stream, run.raw_begin, run.raw_begin + part, head=True, tail=False)
    line = end - part + stream.read_raw(end - part, end).find(b"\n") + 1
    tail = _rendered(run, stream, line, end, head=False, tail=True)
    between = end - run.raw_begin - 2 * part
    return _joined(head, tail, limit, between + len(head.encode()) + len(tail.encode()), run)


def _not_kept(run: Run, stream: OutputStream, limit: int) -> Output:
    """Past the quota: the spool's text, of which the disk has the begin and the window the end."""
    begin, end = run.spool_begin or 0, stream.spool_end if run.spool_end is None else run.spool_end
    if begin >= stream.window.start:
        return _shortened(stream.read(begin, end).decode("utf-8", "replace"), limit, run)
    head = stream.read_spool_file(begin, min(begin + limit, end))
    tail = stream.window.read(max(begin + len(head), end - limit), end)
    return _joined(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), limit, end - begin, run)


def _rendered(run: Run, stream: OutputStream, begin: int, end: int, *, head: bool, tail: bool) -> str:
    # an echo begins behind the prompt, and wraps there: rendered without it, it would wrap elsewhere
    before = run.prompt_before if head and run.echoed else ""
    text = shown_between(stream, begin, end, before, device=run.device)
    if head and run.echoed and "\n" not in run.command:  # among several lines, the echo tells which is which
        text = strip_echo(text, before, run.command)
    if tail and run.prompt_after:
        text = strip_prompt(text, run.prompt_after)
    return text


def _shortened(text: str, limit: int, run: Run) -> Output:
    size = len(text.encode())
    return Output(text) if size <= limit else _joined(text, text, limit, size, run)


def _joined(head: str, tail: str, limit: int, size: int, run: Run) -> Output:
    """Whole lines of both ends, as far as half of the room takes them, and between them what is missing and where it is."""
    half = (limit - len(_left_out(size, run))) // 2
    first = head.encode()[:half].decode("utf-8", "ignore")
    last = tail.encode()[-half:].decode("utf-8", "ignore")
    first = first[: first.rfind("\n") + 1] or first
    last = last[last.find("\n") + 1 :]
    omitted = max(size - len(first.encode()) - len(last.encode()), 0)
    return Output(f"{first}{_left_out(omitted, run)}{last}", omitted)


def _left_out(omitted: int, run: Run) -> str:
    where = f"read it with ptyctl_session_io action=read cursor={run.spool_begin or 0}"
    return f"[... {omitted} bytes left out here; {where} ...]\n"
