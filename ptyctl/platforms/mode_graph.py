"""The shortest way from one command mode to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptyctl.api.errors import unsupported

from .platform import ModeTransition, Platform


@dataclass(frozen=True, slots=True)
class ModeStep:
    """One transition of a path."""

    source: str
    target: str
    transition: ModeTransition


class ModeGraph:
    """The modes of one family, and the transitions between them."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def path(self, source: str, target: str) -> tuple[ModeStep, ...]:
        """Return the path with the fewest transitions; empty if both modes are the same.

        Raises:
            PtyctlError: UNSUPPORTED for a mode that the family does not have, or if no path leads from `source` to `target`.
        """
        self.check(source)
        self.check(target)
        steps = self._shortest(source, (target,))
        if steps is None:
            raise unsupported(
                f"no path is known from mode {source} to {target} on {self._platform.title}",
                hint="type the device's own commands, or define the transition in your own platform file",
                field="mode",
            )
        return steps

    def check(self, mode: str) -> None:
        """Raises PtyctlError UNSUPPORTED for a mode that the family does not have."""
        if mode not in self._platform.modes:
            known = ", ".join(self._platform.modes)
            raise unsupported(
                f"mode {mode!r} is not known on {self._platform.title}", hint=f"use one of: {known}", field="mode"
            )

    def path_home(self, source: str) -> tuple[ModeStep, ...] | None:
        """Return the path with the fewest transitions to a home mode; None if there is none."""
        return self._shortest(source, self._platform.home)

    def nearest(self, source: str, targets: Sequence[str]) -> str | None:
        """Return the target with the fewest transitions; None if no target can be reached."""
        steps = self._shortest(source, targets)
        return None if steps is None else steps[-1].target if steps else source

    def _shortest(self, source: str, targets: Sequence[str]) -> tuple[ModeStep, ...] | None:
        paths: dict[str, tuple[ModeStep, ...]] = {source: ()}
        queue = [source]
        for mode in queue:
            if mode in targets:
                return paths[mode]
            for target, transition in self._platform.modes[mode].to.items():
                if target not in paths:
                    paths[target] = (*paths[mode], ModeStep(mode, target, transition))
                    queue.append(target)
        return None
