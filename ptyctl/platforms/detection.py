"""Recognises a device's family from its output: each sign has a likelihood ratio, combined by Bayes' rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .platform import Platform, Sign

#: Likelihood factor of a family whose prompts do not fit, or whose own command printed nothing known.
_MISMATCH = 0.02
#: A family of at least this certainty is acted upon.
SURE = 0.9


@dataclass(frozen=True, slots=True)
class DetectedFamily:
    """`family` is None if no sign was found. `certainty` is 0..1; `why` describes the signs found."""

    family: str | None
    certainty: float
    why: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        return self.certainty >= SURE


class Detection:
    """Collects output in chunks of any size; `result` may be asked at any time. Only complete lines count."""

    def __init__(self, platforms: Mapping[str, Platform]) -> None:
        """Create the detection. `platforms` are the candidates by name; families without signs are ignored."""
        self._platforms = {name: platform for name, platform in platforms.items() if platform.detect}
        self._banner = ""
        self._outputs: dict[str, str] = {}
        self._prompt: tuple[str, ...] | None = None

    def banner(self, chunk: str) -> None:
        """Add output from before the first prompt."""
        self._banner += chunk

    def prompt(self, lines: Sequence[str]) -> None:
        """Set the settled prompt: its line, and the lines above it."""
        self._prompt = tuple(lines)

    def output(self, command: str, chunk: str) -> None:
        """Add output of `command`."""
        self._outputs[command] = self._outputs.get(command, "") + chunk

    def command(self) -> str | None:
        """Return the harmless command that distinguishes best among the candidates; None if all were run."""
        shares: dict[str, float] = {}
        for name, share in self._shares().items():
            command = self._platforms[name].detect.command
            if command is not None and command not in self._outputs:
                shares[command] = shares.get(command, 0.0) + share
        return max(shares, key=lambda command: shares[command]) if shares else None

    def result(self) -> DetectedFamily:
        """Return the likeliest family, which may be an unknown one."""
        shares = self._shares()
        best = max(shares, key=lambda name: shares[name], default=None)
        why = tuple(words for words, _ in self._found(best)) if best is not None else ()
        return DetectedFamily(best, shares[best], why) if best is not None and why else DetectedFamily(None, 0.0)

    def _shares(self) -> dict[str, float]:
        """Return the probability of each family. The remainder to 1 is the probability of an unknown family."""
        odds = {name: prod(ratio for _, ratio in self._found(name)) * self._mismatch(name) for name in self._platforms}
        whole = sum(odds.values()) + 1.0
        return {name: value / whole for name, value in odds.items()}

    def _found(self, name: str) -> Iterator[tuple[str, float]]:
        """Yield a description and the likelihood ratio of each sign found; each sign counts once."""
        signs = self._platforms[name].detect
        yield from _signs_in(signs.banners, _complete_lines(self._banner), "the banner")
        yield from _signs_in(signs.prompts, self._prompt[-1:] if self._prompt else (), "the prompt")
        answered = [(command, _complete_lines(text)) for command, text in self._outputs.items()]
        for sign in signs.outputs:
            found = (one for command, lines in answered for one in _signs_in((sign,), lines, f"the answer to {command!r}"))
            yield from list(found)[:1]

    def _mismatch(self, name: str) -> float:
        platform, count = self._platforms[name], 0
        if self._prompt is not None:
            count += platform.profile.shown_prompt(self._prompt) is None
        if platform.detect.command in self._outputs:
            lines = _complete_lines(self._outputs[platform.detect.command])
            count += bool(lines) and not any(list(_signs_in((sign,), lines, "")) for sign in platform.detect.outputs)
        return float(_MISMATCH**count)


def _complete_lines(text: str) -> list[str]:
    """Return the lines with a line end. An incomplete line may look like a line of another family."""
    return text.split("\n")[:-1]


def _signs_in(signs: Sequence[Sign], lines: Sequence[str], where: str) -> Iterator[tuple[str, float]]:
    for sign in signs:
        line = next((line for line in lines if sign.pattern.matches(line)), None)
        if line is not None:
            yield f"{where} has {sign.pattern.find(line)!r}", sign.ratio
