"""Classifies the end of a device's output: a prompt, a pager, a question, or log lines behind a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ptyctl.platforms import DeviceProfile, ShownPrompt
from ptyctl.platforms.pattern import PagerPattern, Pattern, any_matches

#: "dialog": a question that the caller of `classify` can answer; "confirmation" and "password": questions that the platform
#: names; "question": other words that need a person; "buried_prompt": log lines behind a prompt, where a single CR shows the
#: prompt again.
EndKind = Literal["prompt", "pager", "dialog", "confirmation", "password", "question", "buried_prompt", "unknown"]


@dataclass(frozen=True, slots=True)
class OutputEnd:
    """`prompt` is set for a prompt whose mode is known, `pager` for a pager."""

    kind: EndKind
    prompt: ShownPrompt | None = None
    pager: PagerPattern | None = None


@dataclass(frozen=True, slots=True)
class BuriedPrompt:
    """A prompt and the log lines behind it; the first of them may begin in the prompt's own line."""

    prompt: ShownPrompt
    log: tuple[str, ...]


_UNKNOWN = OutputEnd("unknown")


def classify(lines: Sequence[str], profile: DeviceProfile, dialog: Iterable[Pattern] = ()) -> OutputEnd:
    """What the output ends in, by the modes' prompts. `lines` are as a terminal shows them; the cursor is in the last."""
    line = lines[-1] if lines else ""
    shown = profile.shown_prompt(lines)
    end = _classify(line, profile, shown is not None, dialog)
    if end.kind == "prompt":
        return OutputEnd("prompt", prompt=shown)
    if end.kind == "unknown" and find_buried_prompt(lines, profile) is not None:
        return OutputEnd("buried_prompt")
    return end


def classify_line(line: str, profile: DeviceProfile, learned_prompt: str | None) -> OutputEnd:
    """What a last line is, by the prompt of any mode; the prompt that was learned is one whatever its text."""
    if line and line == learned_prompt:
        return OutputEnd("prompt")
    return _classify(line, profile, profile.is_prompt(line))


def _classify(line: str, profile: DeviceProfile, is_prompt: bool, dialog: Iterable[Pattern] = ()) -> OutputEnd:
    if not line.strip():
        return _UNKNOWN
    pager = profile.pager(line)
    if pager is not None:
        return OutputEnd("pager", pager=pager)
    if is_prompt and not profile.asks(line):
        return OutputEnd("prompt")
    kinds: dict[EndKind, Iterable[Pattern]] = {
        "dialog": dialog,
        "confirmation": profile.confirmations,
        "password": profile.passwords,
        "question": profile.questions,
    }
    return next((OutputEnd(kind) for kind, patterns in kinds.items() if any_matches(patterns, line)), _UNKNOWN)


def find_buried_prompt(lines: Sequence[str], profile: DeviceProfile) -> BuriedPrompt | None:
    """The prompt that only log lines follow, at least one of them."""
    found = skip_log_lines(reversed(list(enumerate(lines))), profile)
    if found is None:
        return None
    at, _, log = found
    shown = profile.shown_prompt(lines[: at + 1])
    if shown is None and (before := profile.prompt_before_text(lines[: at + 1])) is not None:
        shown, behind = before
        if not profile.is_log_line(behind.lstrip()):
            return None
        log.append(behind.lstrip())
    return BuriedPrompt(shown, tuple(reversed(log))) if shown is not None and log else None


def skip_log_lines(lines: Iterable[tuple[int, str]], profile: DeviceProfile) -> tuple[int, str, list[str]] | None:
    """The first of these lines that is neither blank nor a log line: its position and text, and the log lines skipped."""
    log: list[str] = []
    for position, text in lines:
        if profile.is_log_line(text):
            log.append(text)
        elif text.strip():
            return position, text, log
    return None


def only_blank_or_above(lines: Iterable[str], profile: DeviceProfile) -> bool:
    """Whether these lines are no output: blank, or the line above a prompt."""
    return all(not line.strip() or profile.is_above(line.rstrip()) for line in lines)
