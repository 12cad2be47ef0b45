"""The compiled form of a platform: the patterns that the CLI engine (`ptyctl/session/device/`) matches on output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from ptyctl.api.model import Value
from ptyctl.core.search import compile_all, program_size

from .pattern import LINE_STEPS, PagerPattern, Pattern, any_matches, encode, line_patterns

#: Prompts of shells and device families. A percent sign after a digit is a progress report, not a prompt.
DEFAULT_PROMPT = r"^[^\s].{0,199}?(?:[>#$\]]|[^0-9\s]%) ?$|^[>#$%] ?$"
#: A pager may follow the first part of a long line (FRR).
DEFAULT_PAGERS = (
    r"(?i)<?-{2,} ?\(?more(?: ?\d+%)?\)? ?-{2,}>?(?: ?\(\d+%\)|, next page[^\n]{0,80})?\s*$",
    r"(?i)^\s*press any key to continue[^\n]{0,60}$",
    r"(?i)^\s*\[q quit\|[^\n]{0,80}$",
    # FASTPATH, AireOS and packet platforms: the keys in brackets behind it
    r"(?i)^\s*<?-{2,} ?\(?more\)? ?-{2,}>? ?(?:or )?[(\[][^\n]{1,60}$",
    # SmartAX: the keys within it
    r"(?i)^\s*-{2,} ?more ?[(\[][^()\[\]\n]{1,60}[)\]] ?-{2,}\s*$",
    # SG and OmniSwitch AOS: a legend that names the space bar
    r"(?i)^\s*more ?[:?] ?[^\n]{0,40}\b(?:space|sp)\b[^\n]{0,120}$",
    # D-Link
    r"(?i)^\s*ctrl\+c\b[^\n]{0,40}\bquit\b[^\n]{0,40}\bspace\b[^\n]{0,80}$",
    r"(?i)^\s*press (?:the )?[<\['\"]?space(?: ?bar)?[>\]'\"]?(?: key)?"
    r" (?:to continue|for (?:the )?(?:more|next))\b[^\n]{0,80}$",
    # SR OS
    r"(?i)^\s*press q to quit, enter to print next line\b[^\n]{0,80}$",
)
#: Messages with which devices refuse a command.
DEFAULT_ERRORS = (
    r"(?m)^\s*% ?[A-Z\[].*$",
    r"(?mi)^\s*(?:error:|syntax error|unknown command|invalid input|bad command|unrecognized command|minor:|major:).*$",
)
#: Questions that need a person: a secret, a name, a confirmation.
QUESTION = Pattern.of(
    r"(?i)(?:(?:pass(?:word|phrase|code)|login|user ?name|secret|pin|\botp|one[- ]time|\btoken|(?:verification|security) code)"
    r"[^\n]{0,60}[:：]\s*"
    r"|\[(?:y(?:es)?/no?(?:/cancel)?|confirm)\][^\n]{0,3}|\(y(?:es)?/no?\)[^\n]{0,3})$"
)
#: Text that may be a question in other words: "Repeat count [5]: ", "Source filename []?".
POSSIBLE_QUESTION = Pattern.of(r"\S[^\n]{0,200}[:?：？] {0,2}$")
#: Text in any language, or the sign of less alone, at which a program without a line feed may wait for a key.
_UNFINISHED = Pattern.of(r"\pL[^\n]{0,8}\pL|\p{Lo}|^\s*[:?>]\s*$")
#: The start of a pager: some show their keys after it, as "next page: Space".
_PAGER_BEGIN = Pattern.of(r"(?i)^\s*-{2,} ?\(?more\b")
#: The last line of less, more and man on a host: ":", "(END)", "--More--(12%)", "lines 1-23/40", "Manual page ls(1) line 1".
PAGER_LINE = Pattern.of(
    r"^ ?(?::|[^\n]{0,200}\(END\)|--More--[^\n]{0,80}|lines \d+-\d+[^\n]{0,80}|Manual page [^\n]{1,100} line \d+[^\n]{0,80}) ?$"
)
#: The key that goes to the end of a half-typed line; the platform's key to clear the line deletes what precedes the cursor.
END_OF_LINE = "\x05"
#: Errors of a platform are searched for in the event loop in a text of this size.
ERROR_TEXT_BYTES = 4096
#: Last characters of prompts; text after one of them was typed.
_PROMPT_ENDS = ">#$%]"
#: Prompts that are followed by text have at most this many characters: each place of such a line where one may end is searched.
_PROMPT_CHARACTERS = 300


def pager_pattern(text: str) -> PagerPattern:
    """Return a pager with this text and the usual keys."""
    return PagerPattern(pattern=Pattern.of(text))


class LineAbove(Value):
    """The line above a prompt that belongs to it: `[edit]` on Junos, `[/]` on SR OS. `required`: the prompt needs it."""

    pattern: Pattern
    required: bool = True


class ModePrompt(NamedTuple):
    """The prompt of one mode, and the line above it that belongs to it."""

    mode: str
    prompt: Pattern
    above: LineAbove | None


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A prompt in the output: its mode, its last line, and the number of its lines (1 or 2)."""

    mode: str
    prompt: str
    lines: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class DeviceProfile:
    """The command line of a device. Patterns are matched on one line as a terminal shows it.

    `modes` are the prompts by mode, `prompt` is the prompt in any mode. `look_alikes` are never prompts, `above` are lines
    that belong to the prompt below them, `log_lines` may be printed at any time. `questions` and `confirmations` need a
    person; `usernames` and `passwords` are the questions of a login. `errors_at_once` is the largest size of a text in which
    errors are searched for in the event loop. `free_text` announces that the device reads lines without a prompt between
    them; the group is the terminator. `clear_line` are the keys that empty a half-typed line. `settle_s` is the settle time of
    prompts and pagers that a caller has requested, None without one; `family_settle_s` is that of the platform, for prompts
    that are known by their pattern alone.
    `guesses_prompts`: nobody has described the prompts, and `prompt` matches what many devices show.
    """

    prompt: Pattern
    pagers: tuple[PagerPattern, ...]
    errors: tuple[Any, ...]
    errors_at_once: int = ERROR_TEXT_BYTES
    modes: tuple[ModePrompt, ...] = ()
    look_alikes: tuple[Pattern, ...] = ()
    above: tuple[Pattern, ...] = ()
    log_lines: tuple[Pattern, ...] = ()
    questions: tuple[Pattern, ...] = ()
    confirmations: tuple[Pattern, ...] = ()
    usernames: tuple[Pattern, ...] = ()
    passwords: tuple[Pattern, ...] = ()
    free_text: tuple[Pattern, ...] = ()
    clear_line: str = END_OF_LINE + "\x15"
    family_settle_s: float = 0.0
    settle_s: float | None = None
    guesses_prompts: bool = False

    @lru_cache(maxsize=512)  # noqa: B019 - profiles live as long as their platforms
    def with_overrides(
        self,
        prompt: str | None = None,
        pagers: tuple[str, ...] | None = None,
        errors: tuple[str, ...] | None = None,
        settle_ms: int | None = None,
    ) -> DeviceProfile:
        """Return the profile with `expect` patterns of a session or call. None keeps a list, an empty tuple clears it.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects, LIMIT_EXCEEDED for one that is too complex.
        """
        changed: dict[str, Any] = {"settle_s": None if settle_ms is None else settle_ms / 1000}
        if prompt and prompt != self.prompt.text:
            changed["prompt"] = line_patterns((prompt,), "expect.prompt_regex")[0]
            changed["guesses_prompts"] = False
        if pagers is not None:
            changed["pagers"] = self._pagers_of(pagers)
        if errors is not None and [encode(text) for text in errors] != [pattern.pattern for pattern in self.errors]:
            changed["errors"] = compiled = tuple(compile_all(errors, "expect.error_regexes"))
            changed["errors_at_once"] = min(ERROR_TEXT_BYTES, LINE_STEPS // max(sum(map(program_size, compiled)), 1))
        return replace(self, **changed)

    def _pagers_of(self, texts: tuple[str, ...]) -> tuple[PagerPattern, ...]:
        """Return pagers for these patterns. A pattern already in the profile keeps its keys."""
        known = {pager.pattern.text: pager for pager in self.pagers}
        return tuple(
            known.get(pattern.text) or PagerPattern(pattern=pattern, erased_by="carriage_return")
            for pattern in line_patterns(texts, "expect.pager_regexes")
        )

    def is_prompt(self, line: str) -> bool:
        """Return whether a line looks like the prompt of any mode."""
        looks_so = bool(line.strip()) and self.prompt.matches(line)
        return looks_so and not any_matches(self.look_alikes, line) and not self.asks(line) and self.pager(line) is None

    def shown_prompt(self, lines: Sequence[str]) -> ShownPrompt | None:
        """Return the prompt in the last line with its mode: the first match in the platform file, or None."""
        line = lines[-1] if lines else ""
        if not line.strip() or any_matches(self.look_alikes, line):
            return None
        above = lines[-2].rstrip() if len(lines) > 1 else ""
        for mode in self.modes:
            has_above = mode.above is not None and mode.above.pattern.matches(above)
            if (has_above or mode.above is None or not mode.above.required) and mode.prompt.matches(line):
                return ShownPrompt(mode.mode, line, 2 if has_above else 1)
        return None

    def prompt_before_text(self, lines: Sequence[str]) -> tuple[ShownPrompt, str] | None:
        """Return the prompt at the start of the last line, and the text after it: a half-typed command, or a log line."""
        line = lines[-1] if lines else ""
        for begin in _possible_prompts(line):
            shown = self.shown_prompt([*lines[:-1], begin])
            rest = line[len(begin) :]
            if shown is not None and rest.strip():
                return shown, rest
        return None

    def pager(self, line: str) -> PagerPattern | None:
        """Return the pager in a line, or None."""
        if not line.strip():
            return None
        data = encode(line)
        return next((pager for pager in self.pagers if pager.pattern.search(data)), None)

    @lru_cache(maxsize=64)  # noqa: B019 - as for `asks_password`
    def asks(self, line: str) -> bool:
        """Return whether a line is a question that needs a person."""
        kinds = (self.questions, self.confirmations, self.usernames, self.passwords)
        return bool(line.strip()) and any(any_matches(patterns, line) for patterns in kinds)

    @lru_cache(maxsize=64)  # noqa: B019 - as above; before each command the line is mostly the same prompt
    def asks_password(self, line: str) -> bool:
        """Return whether a line asks for a password."""
        return bool(line.strip()) and any_matches(self.passwords, line)

    @lru_cache(maxsize=64)  # noqa: B019 - as above
    def may_ask(self, line: str) -> bool:
        """Return whether a line may be a question, judged by its last character: not a log line, nor the start of a pager."""
        pager = _PAGER_BEGIN.matches(line) and not QUESTION.matches(line)
        return POSSIBLE_QUESTION.matches(line) and not pager and not self.is_log_line(line)

    def is_unfinished(self, line: str) -> bool:
        """Return whether a device that is silent at this line may wait for a key: text of any wording, and no log line."""
        return _UNFINISHED.matches(line) and not self.is_log_line(line)

    def is_log_line(self, line: str) -> bool:
        return any_matches(self.log_lines, line)

    def is_above(self, line: str) -> bool:
        """Return whether a line may belong to the prompt below it."""
        return any_matches(self.above, line)

    def text_terminator(self, line: str) -> str | None:
        """Return the terminator of the text that a line requests; None if the line requests no text."""
        matches = (pattern.search(encode(line)) for pattern in self.free_text)
        return next((match.group(1).decode() for match in matches if match is not None), None)


def _possible_prompts(line: str) -> Iterator[str]:
    """Yield the beginnings of a line that may be a prompt, shortest first, with and without a final blank."""
    for index, character in enumerate(line[:_PROMPT_CHARACTERS]):
        if character in _PROMPT_ENDS:
            if line[index + 1 : index + 2] == " ":
                yield line[: index + 2]
            yield line[: index + 1]


#: The profile of an unknown program.
UNKNOWN_DEVICE = DeviceProfile(
    prompt=Pattern.of(DEFAULT_PROMPT),
    pagers=tuple(pager_pattern(text) for text in DEFAULT_PAGERS),
    errors=tuple(compile_all(DEFAULT_ERRORS, "errors")),
    guesses_prompts=True,
)
