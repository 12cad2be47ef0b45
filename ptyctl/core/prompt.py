"""Prompt detection: the device's prompt on its own line at the end of the output; pagers, errors and questions by pattern."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from .device_profile import PLAIN, DeviceProfile
from .renderer import render
from .search import any_of, compile_all, compile_pattern

Certainty = Literal["exact", "regex"]

#: Prompts of shells and device families, for sessions without a better pattern. A percent sign after a digit is progress.
DEFAULT_PROMPT = r"^[^\s].{0,199}?(?:[>#$\]]|[^0-9\s]%) ?$|^[>#$%] ?$"
#: A pager prompt may follow the first part of a long line (FRR).
DEFAULT_PAGERS = (
    r"(?i)<?-{2,} ?\(?more(?: ?\d+%)?\)? ?-{2,}>?(?: ?\(\d+%\)|, next page[^\n]{0,80})?\s*$",
    r"(?i)^\s*press any key to continue[^\n]{0,60}$",
    r"(?i)^\s*\[q quit\|[^\n]{0,80}$",
)
#: Messages for a rejected command.
DEFAULT_ERRORS = (
    r"(?m)^\s*% ?[A-Z\[].*$",
    r"(?mi)^\s*(?:error:|syntax error|unknown command|invalid input|bad command|unrecognized command|minor:|major:).*$",
)
#: A question for a person: a secret, a name, a confirmation.
QUESTION = (
    r"(?i)(?:(?:pass(?:word|phrase|code)|login|user ?name|secret|pin)[^\n]{0,60}:\s*"
    r"|\[(?:y(?:es)?/no?(?:/cancel)?|confirm)\][^\n]{0,3}|\(y(?:es)?/no?\)[^\n]{0,3})$"
)
#: A line that may be a question of any wording: "Repeat count [5]: ", "Source filename []?".
POSSIBLE_QUESTION = r"\S[^\n]{0,200}[:?] {0,2}$"
_UNLIMITED_WIDTH = 1 << 30
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
#: Characters that devices put before the prompt while changes are not saved or not committed.
_UNSAVED_MARKS = frozenset("*!")


@dataclass(frozen=True, slots=True)
class Expectations:
    """Compiled patterns of a session or a run (see `api.session.Expect`).

    `settle_s` is how long an exactly known prompt, or a pager prompt, must remain the end of the output.
    """

    prompt: Any
    pagers: list[Any]
    errors: list[Any]
    any_error: Callable[[bytes], bool]
    settle_s: float = 0.0
    profile: DeviceProfile = PLAIN

    @classmethod
    @lru_cache(maxsize=512)
    def of(
        cls,
        prompt: str | None,
        pagers: tuple[str, ...] | None,
        errors: tuple[str, ...] | None,
        settle_ms: int | None = None,
        profile: DeviceProfile = PLAIN,
    ) -> Expectations:
        """Compile patterns; None selects the default patterns, an empty tuple none.

        Raises:
            PtyctlError: INVALID_ARGUMENT for an invalid pattern, naming it.
        """
        return cls(
            compile_pattern(prompt or DEFAULT_PROMPT, "expect.prompt_regex"),
            compile_all(DEFAULT_PAGERS if pagers is None else pagers, "expect.pager_regexes"),
            compile_all(DEFAULT_ERRORS if errors is None else errors, "expect.error_regexes"),
            any_of(DEFAULT_ERRORS if errors is None else errors),
            (settle_ms or 0) / 1000,
            profile,
        )

    def pager(self, line: str) -> str | None:
        """Return the key for the next page if the line is a pager prompt."""
        found = next((pager for pager in self.pagers if pager.search(line.encode())), None) if line.strip() else None
        return None if found is None else self.profile.key(found.pattern.decode())

    def error_lines(self, text: str) -> list[str]:
        """Return the distinct lines of `text` that match an error pattern, in order."""
        data, found = text.encode(), []
        for pattern in self.errors if self.any_error(data) else ():
            for match in pattern.finditer(data):
                begin = data.rfind(b"\n", 0, match.end() - 1 if match.end() else 0) + 1
                end = data.find(b"\n", match.start())
                found.append((begin, data[begin : len(data) if end < begin else end].decode("utf-8", "replace").strip()))
        return list(dict.fromkeys(line for _, line in sorted(found) if line))


class Prompt:
    """The prompt of a session; `learned` is its exact text once it was seen."""

    def __init__(self) -> None:
        self.learned: str | None = None

    def learn(self, line: str) -> None:
        self.learned = line

    def match(self, line: str, expect: Expectations) -> Certainty | None:
        """Return how certain it is that the last rendered line is the prompt, or None."""
        if line and line == self.learned:
            return "exact"
        if not line.strip() or expect.profile.looks_alike(line) or expect.profile.asks(line):
            return None
        return "regex" if expect.prompt.search(line.encode()) else None

    def text_before(self, line: str) -> str:
        """Return the output before the learned prompt in its line: output that ended without a newline.

        Empty if the line is not the learned prompt, or if the text is a mark for unsaved changes.
        """
        before = line.removesuffix(self.learned) if self.learned and self.learned.strip() else line
        return before if len(before) < len(line) and not _UNSAVED_MARKS.issuperset(before) else ""


def render_line(line: bytes) -> str:
    """Return one line as a terminal shows it, for example without an erased pager prompt."""
    return render(line, _UNLIMITED_WIDTH, alternate=True) if _CONTROL.search(line) else line.decode("utf-8", "replace")


def strip_echo(text: str, prompt: str, command: str) -> str:
    """Return rendered output without the line on which the command was typed.

    `text` begins with the prompt. Without an echo of the command, only the prompt is removed.
    """
    first, newline, rest = text.partition("\n")
    typed = first.removeprefix(prompt)
    if typed.strip() == command.strip() or first.strip().endswith(command.strip()):
        return rest
    if not typed.strip():
        return rest if newline else ""
    return typed + newline + rest


def strip_prompt(text: str, prompt: str) -> str:
    """Return rendered output without the prompt in its last line."""
    head, _, last = text.rpartition("\n")
    if last == prompt or not last.strip():
        return head + "\n" if head or len(text) > len(last) else ""
    return text
