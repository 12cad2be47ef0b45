"""Whether a terminal is a POSIX shell's, and how it speaks: by its program's name, or by asking it once (design, section 6)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ptyctl.core.marker import FISH_ERROR_PREFIX, AsciiMarker, Marker, shell_probe
from ptyctl.core.shells import Dialect
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import MarkReceived
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

#: How long a shell may take to answer the probe.
PROBE_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Shell:
    """`marker` is None where no POSIX shell was found; then `why` says so."""

    marker: Marker | None
    why: str | None = None


async def ask(terminal: TerminalState, profile: DeviceProfile, nonce: str, writer: Writer) -> Shell:
    """Types a harmless arithmetic echo at the prompt that is there; only a POSIX shell does the sum, and fish says who it is.

    A second line tells whether the private OSC sequence comes through, or the ASCII form is needed.
    """
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    line, answer = shell_probe(left, right)
    said = await answer_to(terminal, profile, line, writer)
    dialect = _speaker(said, answer)
    if dialect is None:
        return Shell(None, "no POSIX shell answered here")
    marker = Marker(nonce, dialect)
    seen: list[MarkReceived] = []
    unsubscribe = terminal.stream.subscribe(MarkReceived, seen.append)
    try:
        await answer_to(terminal, profile, marker.line(":", terminal.stream.next_counter(nonce)), writer)
    finally:
        unsubscribe()
    return Shell(marker if seen else AsciiMarker(nonce, dialect))


def _speaker(said: list[str], answer: str) -> Dialect | None:
    first = next((text for text in said if text.startswith(answer)), None)
    if first is None:
        return "fish" if any(text.startswith(FISH_ERROR_PREFIX) for text in said) else None
    return "zsh" if len(first) > len(answer) else "posix"


async def answer_to(terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer) -> list[str]:
    """The lines that come back for a typed line, until the prompt is there again."""
    stream = terminal.stream
    begin, feeds = stream.spool_end, stream.line_feeds
    deadline = terminal.now() + PROBE_WAIT_S
    await terminal.gate.type(line + "\n", writer)
    while stream.ended is None and terminal.now() < deadline:
        certainty = terminal.prompt.match(terminal.last_line(), profile)
        due = deadline
        if stream.line_feeds > feeds and certainty is not None:
            due = stream.last_data + (0 if certainty == "exact" else SETTLE_S)
            if terminal.now() >= due and await terminal.nothing_more():
                break
        await stream.signal.wait(min(due, deadline))
    return stream.read(begin, stream.spool_end).decode("utf-8", "replace").split("\n")
