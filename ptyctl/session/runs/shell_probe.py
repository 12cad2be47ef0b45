"""Probe for a POSIX shell and its dialect, by harmless commands whose output only a shell can produce."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ptyctl.core.marker import FISH_ERROR_PREFIX, FUNCTION, AsciiMarker, Marker, shell_probes
from ptyctl.core.marks import PlacedMark
from ptyctl.core.shells import Dialect
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

#: How long a shell may take to answer a probe (seconds).
PROBE_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ProbedShell:
    """The result of a probe: a marker that the shell understands, or why there is none.

    `defined`: the shell has the marker's function already.
    """

    marker: Marker | None
    why: str | None = None
    defined: bool = False


async def probe_shell(
    terminal: TerminalState, profile: DeviceProfile, nonce: str, writer: Writer, *, reinstall: Dialect | None = None
) -> ProbedShell:
    """Probe the program whose prompt is shown.

    An arithmetic echo is typed: only a POSIX shell prints the sum, and fish prints an error. A program that answers otherwise
    gets a line without words that a function can replace. A last line shows whether the private OSC sequence passes through,
    or the ASCII form is needed. `reinstall` is the dialect of a shell that has lost its prompt hooks: it installs them again.
    """
    left, right = random.randrange(10_000, 50_000), random.randrange(10_000, 50_000)
    (by_echo, sum_text), (by_error, error_text) = shell_probes(left, right)
    if reinstall is not None:
        by_echo = f" {FUNCTION}_install 2>/dev/null;{by_echo}"
    prompts = terminal.stream.prompts.count
    dialect = _dialect(await output_of(terminal, profile, by_echo, writer), sum_text)
    has_marks = terminal.stream.prompts.count > prompts
    if dialect is None and has_marks:
        dialect = reinstall
    if dialect is None and terminal.prompt_certainty(profile) is not None:
        dialect = _dialect(await output_of(terminal, profile, by_error, writer), error_text)
    if dialect is None:
        return ProbedShell(None, "no POSIX shell answered here")
    marker = Marker(nonce, dialect)
    if has_marks:
        return ProbedShell(marker)
    marks: list[PlacedMark] = []
    unsubscribe = terminal.stream.subscribe(PlacedMark, marks.append)
    try:
        await output_of(terminal, profile, marker.line(":", terminal.stream.next_counter(nonce)), writer)
    finally:
        unsubscribe()
    return ProbedShell(marker, defined=True) if marks else ProbedShell(AsciiMarker(nonce, dialect))


async def output_of(terminal: TerminalState, profile: DeviceProfile, line: str, writer: Writer) -> list[str]:
    """Type a line and return the lines that are printed until the prompt is shown again."""
    stream = terminal.stream
    begin, line_feeds = stream.spool_end, stream.line_feeds
    deadline = terminal.now() + PROBE_WAIT_S
    await terminal.gate.type(line + "\n", writer)
    while stream.ended is None and terminal.now() < deadline:
        certainty = terminal.prompt_certainty(profile)
        due = deadline
        if stream.line_feeds > line_feeds and certainty is not None:
            due = stream.last_data + (0 if certainty == "exact" else SETTLE_S)
            if terminal.now() >= due and await terminal.nothing_more():
                break
        await stream.wait(min(due, deadline))
    return stream.read(begin, stream.spool_end).decode("utf-8", "replace").split("\n")


def _dialect(lines: list[str], sum_text: str) -> Dialect | None:
    # bash prints PS0, which may have no line end, before the sum, and the reason of an error after it
    after = next((text.partition(sum_text)[2] for text in lines if sum_text in text), None)
    if after is None:
        return "fish" if any(text.startswith(FISH_ERROR_PREFIX) for text in lines) else None
    return "zsh" if after[:1].isdigit() else "posix"
