"""Which mode a prompt shows, and the shortest way from one mode to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ptyctl.api.errors import unsupported

from .mode import Move
from .pattern import any_matches
from .platform import Platform

#: What a prompt ends with; what follows one of these was typed.
_PROMPT_ENDS = ">#$%]"


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt that is there: its mode, its last line, and how many lines it has (1 or 2)."""

    mode: str
    prompt: str
    lines: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One move on the way."""

    source: str
    target: str
    move: Move


class ModeGraph:
    """The modes of one family. Where a line fits two of them, it shows the one that stands first in the file."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def shown(self, lines: Sequence[str]) -> Shown | None:
        """The prompt that the last of these lines is. Lines are as a terminal shows them; the one above may belong to it."""
        if not lines or not lines[-1].strip() or any_matches(self._platform.look_alikes, lines[-1]):
            return None
        above = lines[-2].rstrip() if len(lines) > 1 else ""
        for name, mode in self._platform.modes.items():
            belongs = mode.above is not None and mode.above.pattern.matches(above)
            if (belongs or mode.above is None or not mode.above.required) and mode.prompt.matches(lines[-1]):
                return Shown(name, lines[-1], 2 if belongs else 1)
        return None

    def typed_behind(self, lines: Sequence[str]) -> tuple[Shown, str] | None:
        """The prompt that the last line begins with, and what stands behind it: a half-typed command, or a log line."""
        for begin in _prefixes(lines[-1] if lines else ""):
            shown = self.shown([*lines[:-1], begin])
            rest = lines[-1][len(begin) :]
            if shown is not None and rest.strip():
                return shown, rest
        return None

    def path(self, source: str, target: str) -> tuple[Step, ...]:
        """The fewest moves from one mode to another; none where they are the same.

        Raises:
            PtyctlError: UNSUPPORTED for a mode that the family has not, or that no moves lead to.
        """
        for name in (source, target):
            if name not in self._platform.modes:
                known = ", ".join(self._platform.modes)
                raise unsupported(f"mode {name!r} is not known on {self._platform.title}; use one of: {known}", field="mode")
        steps = self._shortest(source, (target,))
        if steps is None:
            raise unsupported(
                f"no way is known from mode {source} to {target} on {self._platform.title}; go there by its own commands, "
                "or name the way in a platform file of your own",
                field="mode",
            )
        return steps

    def way_home(self, source: str) -> tuple[Step, ...] | None:
        """The fewest moves to a mode where commands run; None where there is no way."""
        return self._shortest(source, self._platform.home)

    def nearest(self, source: str, targets: Sequence[str]) -> str | None:
        """The one that the fewest moves lead to, if any does."""
        steps = self._shortest(source, targets)
        return None if steps is None else steps[-1].target if steps else source

    def _shortest(self, source: str, targets: Sequence[str]) -> tuple[Step, ...] | None:
        came: dict[str, Step | None] = {source: None}
        queue = deque([source])
        while queue:
            mode = queue.popleft()
            if mode in targets:
                return tuple(reversed(list(_back(came, mode))))
            for target, move in self._platform.modes[mode].to.items():
                if target not in came:
                    came[target] = Step(mode, target, move)
                    queue.append(target)
        return None


def _back(came: dict[str, Step | None], mode: str) -> Iterator[Step]:
    while (step := came[mode]) is not None:
        yield step
        mode = step.source


def _prefixes(line: str) -> Iterator[str]:
    """What a prompt could be, shortest first; with and without the blank that many prompts end in."""
    for index, character in enumerate(line):
        if character in _PROMPT_ENDS:
            if line[index + 1 : index + 2] == " ":
                yield line[: index + 2]
            yield line[: index + 1]
