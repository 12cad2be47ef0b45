"""Classifies the end of a device's output: a prompt, a pager, a question, or a prompt that log lines follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ptyctl.platforms import DeviceProfile, ShownPrompt
from ptyctl.platforms.pattern import PagerPattern, Pattern, any_matches

#: "dialog": a question that the caller of `classify` can answer; "confirmation" and "password": questions that the platform
#: names; "question": other text that needs a person; "buried_prompt": a prompt that log lines follow, which a single CR shows
#: again.
EndKind = Literal["prompt", "pager", "dialog", "confirmation", "password", "question", "buried_prompt", "unknown"]


@dataclass(frozen=True, slots=True)
class OutputEnd:
    """The end of the output. `prompt`: a prompt of a known mode. `buried`: a prompt that log lines follow."""

    kind: EndKind
    prompt: ShownPrompt | None = None
    pager: PagerPattern | None = None
    buried: ShownPrompt | None = None


class BuriedPrompt(NamedTuple):
    """A prompt that log lines follow, and the number of its line; the first log line may begin in that line."""

    prompt: ShownPrompt
    line: int


_UNKNOWN = OutputEnd("unknown")
_ANY_PROMPT = OutputEnd("prompt")


def classify(lines: Sequence[str], profile: DeviceProfile, dialog: Iterable[Pattern] = ()) -> OutputEnd:
    """Classify the end of the output by the prompts of the modes. `lines`: rendered lines up to the cursor."""
    line = lines[-1] if lines else ""
    pager = profile.pager(line)
    if pager is not None:
        return OutputEnd("pager", pager=pager)
    shown = profile.shown_prompt(lines)
    if shown is not None and not profile.asks(line):
        return OutputEnd("prompt", prompt=shown)
    question = _question(line, profile, dialog)
    if question is None and (buried := find_buried_prompt(lines, profile)) is not None:
        return OutputEnd("buried_prompt", buried=buried.prompt)
    return _UNKNOWN if question is None else OutputEnd(question)


def classify_line(line: str, profile: DeviceProfile, learned_prompt: str | None) -> OutputEnd:
    """Classify a last line as a pager, a prompt of any mode or the learned prompt, or unknown.

    Called for each piece of output. Questions count only after a silence; see `DeviceProfile.asks`.
    """
    if line and line == learned_prompt:
        return _ANY_PROMPT
    pager = profile.pager(line)
    if pager is not None:
        return OutputEnd("pager", pager=pager)
    return _ANY_PROMPT if profile.is_prompt(line) else _UNKNOWN


def _question(line: str, profile: DeviceProfile, dialog: Iterable[Pattern]) -> EndKind | None:
    kinds: dict[EndKind, Iterable[Pattern]] = {
        "dialog": dialog,
        "confirmation": profile.confirmations,
        "password": profile.passwords,
        "question": profile.questions,
    }
    return next((kind for kind, patterns in kinds.items() if line.strip() and any_matches(patterns, line)), None)


def find_buried_prompt(lines: Sequence[str], profile: DeviceProfile) -> BuriedPrompt | None:
    """Return the prompt that is followed by log lines only, at least one; None without one."""
    found = skip_log_lines(reversed(list(enumerate(lines))), profile)
    if found is None:
        return None
    at, _, has_log = found
    shown = profile.shown_prompt(lines[: at + 1])
    if shown is None and (before := profile.prompt_before_text(lines[: at + 1])) is not None:
        shown, behind = before
        has_log = profile.is_log_line(behind.lstrip())
    return BuriedPrompt(shown, at) if shown is not None and has_log else None


def skip_log_lines(lines: Iterable[tuple[int, str]], profile: DeviceProfile) -> tuple[int, str, bool] | None:
    """Return the first line that is neither blank nor a log line: position, text, and whether a log line precedes it."""
    has_log = False
    for position, text in lines:
        if profile.is_log_line(text):
            has_log = True
        elif text.strip():
            return position, text, has_log
    return None


def only_blank_or_above(lines: Iterable[str], profile: DeviceProfile) -> bool:
    """Return whether these lines are not output: blank, or the line above a prompt."""
    return all(not line.strip() or profile.is_above(line.rstrip()) for line in lines)
