"""Which family a device is of, by what it shows: a ratio for each sign, multiplied and shared out (Bayes' rule)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .mode_graph import ModeGraph
from .platform import Platform
from .signs import Sign

#: So much less likely is a family whose prompts a prompt does not fit, or whose own command gave nothing it knows.
_MISSED = 0.02
#: From here on a verdict may be acted upon.
SURE = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """`family` is None while nothing speaks for one. `certainty` 0..1; `why`: the signs that were seen, each in words."""

    family: str | None
    certainty: float
    why: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        return self.certainty >= SURE


class Detection:
    """Feed it what the device showed, in pieces of any size; ask at any time. A line counts when it is whole."""

    def __init__(self, platforms: Mapping[str, Platform]) -> None:
        """`platforms`: the candidates by name. One without signs is none."""
        self._signs = {name: platform.detect for name, platform in platforms.items() if _has_signs(platform)}
        self._graphs = {name: ModeGraph(platforms[name]) for name in self._signs}
        self._banner = ""
        self._outputs: dict[str, str] = {}
        self._prompt: tuple[str, ...] | None = None

    def banner(self, piece: str) -> None:
        """What came before the first prompt."""
        self._banner += piece

    def prompt(self, lines: Sequence[str]) -> None:
        """The settled prompt: its line, and those above it."""
        self._prompt = tuple(lines)

    def output(self, command: str, piece: str) -> None:
        """What `command` printed."""
        self._outputs[command] = self._outputs.get(command, "") + piece

    def command(self) -> str | None:
        """The harmless command that would tell most now; None when all of them were run."""
        shares: dict[str, float] = {}
        for name, share in self._shares().items():
            command = self._signs[name].command
            if command is not None and command not in self._outputs:
                shares[command] = shares.get(command, 0.0) + share
        return max(shares, key=lambda command: shares[command]) if shares else None

    def verdict(self) -> Verdict:
        """The likeliest family. A device of none that is known is thought possible, too."""
        shares = self._shares()
        best = max(shares, key=lambda name: shares[name], default=None)
        why = tuple(words for words, _ in self._seen(best)) if best is not None else ()
        return Verdict(best, shares[best], why) if best is not None and why else Verdict(None, 0.0)

    def _shares(self) -> dict[str, float]:
        """The probability of each; what is missing to 1 is that of a family that nobody told of."""
        odds = {name: prod(ratio for _, ratio in self._seen(name)) * self._missed(name) for name in self._signs}
        whole = sum(odds.values()) + 1.0
        return {name: value / whole for name, value in odds.items()}

    def _seen(self, name: str) -> Iterator[tuple[str, float]]:
        """Each sign once, where it was first seen: in words, and its ratio."""
        signs = self._signs[name]
        yield from _found(signs.banners, _whole_lines(self._banner), "the banner")
        yield from _found(signs.prompts, self._prompt[-1:] if self._prompt else (), "the prompt")
        answered = [(command, _whole_lines(text)) for command, text in self._outputs.items()]
        for sign in signs.outputs:
            told = (found for command, lines in answered for found in _found((sign,), lines, f"the answer to {command!r}"))
            yield from list(told)[:1]

    def _missed(self, name: str) -> float:
        signs, missed = self._signs[name], 0
        if self._prompt is not None:
            missed += self._graphs[name].shown(self._prompt) is None
        if signs.command in self._outputs:
            lines = _whole_lines(self._outputs[signs.command])
            missed += bool(lines) and not any(list(_found((sign,), lines, "")) for sign in signs.outputs)
        return float(_MISSED**missed)


def _has_signs(platform: Platform) -> bool:
    signs = platform.detect
    return bool(signs.banners or signs.prompts or signs.outputs)


def _whole_lines(text: str) -> list[str]:
    """The lines that are ended: one that is cut may look like another family's."""
    return text.split("\n")[:-1]


def _found(signs: Sequence[Sign], lines: Sequence[str], where: str) -> Iterator[tuple[str, float]]:
    for sign in signs:
        line = next((line for line in lines if sign.pattern.matches(line)), None)
        if line is not None:
            yield f"{where} has {sign.pattern.found_in(line)!r}", sign.ratio
