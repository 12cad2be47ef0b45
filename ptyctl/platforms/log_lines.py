"""A device prints its log onto the console whenever it likes: in the middle of output, and behind the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .mode_graph import ModeGraph, Shown
from .pattern import any_matches
from .platform import Platform


@dataclass(frozen=True, slots=True)
class Buried:
    """A prompt with log lines behind it: the device waits there, and a single CR brings the prompt back."""

    shown: Shown
    log: tuple[str, ...]


class LogLines:
    """Tells log lines from others, line by line."""

    def __init__(self, platform: Platform) -> None:
        self._syslog = platform.syslog
        self._graph = ModeGraph(platform)

    def is_log(self, line: str) -> bool:
        return any_matches(self._syslog, line)

    def buried_prompt(self, lines: Sequence[str]) -> Buried | None:
        """The prompt behind which only log lines stand, and at least one; the first of them may begin on its very line."""
        log: list[str] = []
        for end in range(len(lines), 0, -1):
            line = lines[end - 1]
            if not line.strip():
                continue
            if self.is_log(line):
                log.append(line)
                continue
            shown = self._graph.shown(lines[:end])
            if shown is None:
                shown = self._with_log_behind(lines[:end], log)
            return Buried(shown, tuple(reversed(log))) if shown is not None and log else None
        return None

    def _with_log_behind(self, lines: Sequence[str], log: list[str]) -> Shown | None:
        found = self._graph.typed_behind(lines)
        if found is None or not self.is_log(found[1].lstrip()):
            return None
        log.append(found[1].lstrip())
        return found[0]
