"""Classifies the end of a device's output: a prompt, a pager, a question, or log lines behind a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ptyctl.platforms import DeviceProfile, ShownPrompt
from ptyctl.platforms.pattern import PagerPattern, Pattern, any_matches

#: "dialog": a question that the caller of `classify` can answer; "confirmation" and "password": questions that the platform
#: names; "question": other words that need a person; "buried_prompt": log lines behind a prompt, where a single CR shows the
#: prompt again.
EndKind = Literal["prompt", "pager", "dialog", "confirmation", "password", "question", "buried_prompt", "unknown"]


@dataclass(frozen=True, slots=True)
class OutputEnd:
    """`prompt` is set for a prompt whose mode is known, `buried` for one behind which log lines follow, `pager` for a pager."""

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
    """What the output ends in, by the modes' prompts. `lines` are as a terminal shows them; the cursor is in the last."""
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
    """Whether a last line is a pager or the prompt of any mode; the learned prompt is one whatever its text.

    It runs for each piece of output, so questions, which only count after a silence, are left to `DeviceProfile.asks`.
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
    """The prompt that only log lines follow, at least one of them."""
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
    """The first of these lines that is neither blank nor a log line: position, text, and whether it follows log lines."""
    has_log = False
    for position, text in lines:
        if profile.is_log_line(text):
            has_log = True
        elif text.strip():
            return position, text, has_log
    return None


def only_blank_or_above(lines: Iterable[str], profile: DeviceProfile) -> bool:
    """Whether these lines are no output: blank, or the line above a prompt."""
    return all(not line.strip() or profile.is_above(line.rstrip()) for line in lines)
