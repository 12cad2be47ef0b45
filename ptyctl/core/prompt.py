"""Way 3 to know a run's end: the device's prompt, at the very end of the output, on its own line (design, section 6)."""

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

#: Prompts of shells and device families, when nothing better is known. A percent behind a digit is a progress, no prompt.
DEFAULT_PROMPT = r"^[^\s].{0,199}?(?:[>#$\]]|[^0-9\s]%) ?$|^[>#$%] ?$"
#: A pager may stand behind the first part of a long line (FRR).
DEFAULT_PAGERS = (
    r"(?i)<?-{2,} ?\(?more(?: ?\d+%)?\)? ?-{2,}>?(?: ?\(\d+%\)|, next page[^\n]{0,80})?\s*$",
    r"(?i)^\s*press any key to continue[^\n]{0,60}$",
    r"(?i)^\s*\[q quit\|[^\n]{0,80}$",
)
#: What a device says of a command it did not take.
DEFAULT_ERRORS = (
    r"(?m)^\s*% ?[A-Z\[].*$",
    r"(?mi)^\s*(?:error:|syntax error|unknown command|invalid input|bad command|unrecognized command|minor:|major:).*$",
)
#: A question that waits for a person: a secret, a name, a confirmation.
QUESTION = (
    r"(?i)(?:(?:pass(?:word|phrase|code)|login|user ?name|secret|pin)[^\n]{0,60}:\s*"
    r"|\[(?:y(?:es)?/no?(?:/cancel)?|confirm)\][^\n]{0,3}|\(y(?:es)?/no?\)[^\n]{0,3})$"
)
#: What may ask for something, whatever its words: "Repeat count [5]: ", "Source filename []?".
POSSIBLE_QUESTION = r"\S[^\n]{0,200}[:?] {0,2}$"
_ENDLESS = 1 << 30
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
#: What devices put in front of their prompt while something is not saved or not committed.
_UNSAVED = frozenset("*!")


@dataclass(frozen=True, slots=True)
class Expectations:
    """Compiled patterns of one session or one run; see `api.session.Expect`. `settle_s`: how long a prompt that is known
    exactly, and a pager, must stay the end of the output."""

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
        """Defaults stand where nothing is given; an empty tuple means none.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a pattern that RE2 refuses, naming it.
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
        """The key that the pager wants which this line shows; None where it is none."""
        found = next((pager for pager in self.pagers if pager.search(line.encode())), None) if line.strip() else None
        return None if found is None else self.profile.key(found.pattern.decode())

    def error_lines(self, text: str) -> list[str]:
        """The lines of `text` that an error pattern matches, in order, each once."""
        data, found = text.encode(), []
        for pattern in self.errors if self.any_error(data) else ():
            for match in pattern.finditer(data):
                begin = data.rfind(b"\n", 0, match.end() - 1 if match.end() else 0) + 1
                end = data.find(b"\n", match.start())
                found.append((begin, data[begin : len(data) if end < begin else end].decode("utf-8", "replace").strip()))
        return list(dict.fromkeys(line for _, line in sorted(found) if line))


class Prompt:
    """What is known of a session's prompt: the mode's pattern, and the exact line once it was seen."""

    def __init__(self) -> None:
        self.learned: str | None = None

    def learn(self, line: str) -> None:
        self.learned = line

    def match(self, line: str, expect: Expectations) -> Certainty | None:
        """How sure it is that `line`, as shown at the end of the output, is the prompt."""
        if line and line == self.learned:
            return "exact"
        if not line.strip() or expect.profile.looks_alike(line) or expect.profile.asks(line):
            return None
        return "regex" if expect.prompt.search(line.encode()) else None

    def text_before(self, line: str) -> str:
        """What precedes the learned prompt in its line: output that ended without a newline. Empty where there is none, and
        where it is a mark of the prompt itself."""
        before = line.removesuffix(self.learned) if self.learned and self.learned.strip() else line
        return before if len(before) < len(line) and not _UNSAVED.issuperset(before) else ""


def render_line(line: bytes) -> str:
    """One line as a terminal shows it: what a pager erased is gone."""
    return render(line, _ENDLESS, alternate=True) if _CONTROL.search(line) else line.decode("utf-8", "replace")


def strip_echo(text: str, prompt: str, command: str) -> str:
    """Rendered output without the line on which the command was typed.

    `text` begins with the prompt, as it stood there. An echo that is not there (a device that echoes nothing) is not missed.
    """
    first, newline, rest = text.partition("\n")
    typed = first.removeprefix(prompt)
    if typed.strip() == command.strip() or first.strip().endswith(command.strip()):
        return rest
    if not typed.strip():
        return rest if newline else ""
    return typed + newline + rest


def strip_prompt(text: str, prompt: str) -> str:
    """Rendered output without the prompt that is its last line."""
    head, _, last = text.rpartition("\n")
    if last == prompt or not last.strip():
        return head + "\n" if head or len(text) > len(last) else ""
    return text
