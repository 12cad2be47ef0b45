"""Whether a terminal is a POSIX shell's, and how it speaks: by its program's name, or by asking it once (design, section 6)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ptyctl.core.marker import FISH_ERROR_PREFIX, AsciiMarker, Marker, shell_probe
from ptyctl.core.prompt import Expectations
from ptyctl.core.shells import Dialect
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import MarkReceived
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

#: How long a shell or a device may take to show its first prompt, and to answer the probe.
PROMPT_WAIT_S = 5.0
PROBE_WAIT_S = 5.0
#: A terminal that has been silent for so long is asked for its prompt with one Enter.
SILENT_S = 0.5


@dataclass(frozen=True, slots=True)
class Shell:
    """`marker` is None where no POSIX shell was found; then `why` says so."""

    marker: Marker | None
    why: str | None = None


async def settled_prompt(terminal: TerminalState, expect: Expectations, deadline: float, writer: Writer | None) -> bool:
    """Waits until the terminal shows a prompt at its end, and nothing follows. A silent one gets one Enter from `writer`.

    False when none came: a question (a login, a confirmation) is none, and is left alone.
    """
    stream, asked = terminal.stream, writer is None
    while stream.ended is None and terminal.now() < deadline:
        line = terminal.last_line()
        certainty = terminal.prompt.match(line, expect)
        if certainty == "exact":
            return True
        due = stream.last_data + SETTLE_S
        if certainty == "regex":
            if terminal.now() >= due:
                terminal.prompt.learn(line)
                return True
        elif expect.profile.asks(line):
            return False
        else:
            due = stream.last_data + SILENT_S
            if not asked and terminal.now() >= due:
                asked = True
                assert writer is not None
                await terminal.gate.type("\n", writer)
                deadline = min(deadline, terminal.now() + PROBE_WAIT_S)
            if asked:
                due = deadline
        await stream.signal.wait(min(due, deadline))
    return False


async def ask(terminal: TerminalState, expect: Expectations, nonce: str, writer: Writer) -> Shell:
    """Types a harmless arithmetic echo at the prompt that is there; only a POSIX shell does the sum, and fish says who it is.

    A second line tells whether the private OSC sequence comes through, or the ASCII form is needed.
    """
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    line, answer = shell_probe(left, right)
    said = await answer_to(terminal, expect, line, writer)
    dialect = _speaker(said, answer)
    if dialect is None:
        return Shell(None, "no POSIX shell answered here")
    marker = Marker(nonce, dialect)
    seen: list[MarkReceived] = []
    unsubscribe = terminal.stream.subscribe(MarkReceived, seen.append)
    try:
        await answer_to(terminal, expect, marker.line(":", terminal.stream.next_counter(nonce)), writer)
    finally:
        unsubscribe()
    return Shell(marker if seen else AsciiMarker(nonce, dialect))


def _speaker(said: list[str], answer: str) -> Dialect | None:
    first = next((text for text in said if text.startswith(answer)), None)
    if first is None:
        return "fish" if any(text.startswith(FISH_ERROR_PREFIX) for text in said) else None
    return "zsh" if len(first) > len(answer) else "posix"


async def answer_to(terminal: TerminalState, expect: Expectations, line: str, writer: Writer) -> list[str]:
    """The lines that come back for a typed line, until the prompt is there again."""
    stream = terminal.stream
    begin, feeds = stream.spool_end, stream.line_feeds
    deadline = terminal.now() + PROBE_WAIT_S
    await terminal.gate.type(line + "\n", writer)
    while stream.ended is None and terminal.now() < deadline:
        certainty = terminal.prompt.match(terminal.last_line(), expect)
        due = deadline
        if stream.line_feeds > feeds and certainty is not None:
            due = stream.last_data + (0 if certainty == "exact" else SETTLE_S)
            if terminal.now() >= due and await terminal.nothing_more():
                break
        await stream.signal.wait(min(due, deadline))
    return stream.read(begin, stream.spool_end).decode("utf-8", "replace").split("\n")
