"""Rules, requests and verdicts of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from ptyctl.api.model import Value
from ptyctl.core.search import compile_pattern, line_pattern
from ptyctl.platforms import COMMON
from ptyctl.platforms.pattern import Pattern

#: The platform of a session without one.
UNKNOWN_PLATFORM = COMMON
#: The platform of a POSIX shell; rules for it also apply in the shell of a device.
SHELL_PLATFORM = "linux"
#: The dialect of a shell whose grammar is not known: text for it is unparsed.
OTHER_SHELL = "other"


class Decision(StrEnum):
    """Effect on a text: type it, type it with a warning, type it after an approval, or do not type it."""

    ALLOW = "allow"
    WARN = "warn"
    ASK = "ask"
    DENY = "deny"


#: The rank of each decision; a stricter one has a greater rank.
SEVERITY = {decision: severity for severity, decision in enumerate(Decision)}


def strictest(decisions: Iterable[Decision]) -> Decision:
    """Return the strictest of the decisions; ALLOW if there are none."""
    return max(decisions, key=SEVERITY.__getitem__, default=Decision.ALLOW)


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _check_regex(text: str) -> str:
    """Raise ValueError for a pattern that RE2 rejects, so that the validation names the rule."""
    Pattern.of(text)
    return text


#: A glob or a list of them. A list needs at least one.
Globs = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
#: A word of a rule: its alternatives. `*` in one matches any text, the word `**` any number of words (not to allow).
RuleWord = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_tuple), Field(min_length=1)]
#: An RE2 expression; `^` and `$` are the ends of a line of the canonical text.
Regex = Annotated[str, Field(min_length=1), AfterValidator(_check_regex)]
#: The word of a rule that means any number of words.
ANY_WORDS: RuleWord = ("**",)
Where = Literal["prompt", "program"]


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Input to a decision: a text that a caller wants to type, and where. None: not known, or absent.

    Attributes:
        text: one or several lines, without the final end of line.
        mode: the mode of the command line (`config`).
        device: the name in the inventory.
        kind: of the principal: person or agent.
        where: at a prompt of the platform, or in another program.
        shell: the dialect of the shell that reads the text (`fish`), or `OTHER_SHELL`; None if it is not known, or none reads
            it.
    """

    text: str
    platform: str | None = None
    protocol: str | None = None
    device: str | None = None
    mode: str | None = None
    kind: str | None = None
    principal: str | None = None
    task: str | None = None
    where: Where = "prompt"
    shell: str | None = None


#: Keys of `When` that name where a request comes from.
ORIGIN_KEYS = ("protocol", "device", "kind", "principal", "task")


class When(Value):
    """The decision requests that a rule applies to. A key is a glob or a list of globs; an absent key matches all requests."""

    platform: Globs | None = None
    protocol: Globs | None = None
    device: Globs | None = None
    mode: Globs | None = None
    kind: Globs | None = None
    principal: Globs | None = None
    task: Globs | None = None
    where: Globs | None = None

    def applies(self, request: DecisionRequest, platforms: tuple[str, ...], *, unknown: bool) -> bool:
        """Return whether the request is one of these.

        Args:
            platforms: names of the platform; one must match.
            unknown: whether a key matches if the request's mode is not known.
        """
        if self.platform is not None and not any(glob_matches(self.platform, name) for name in platforms):
            return False
        if self.mode is not None and not (unknown if request.mode is None else glob_matches(self.mode, request.mode)):
            return False
        return all(
            globs is None or glob_matches(globs, value)
            for globs, value in (
                (self.where, request.where),
                (self.device, request.device),
                (self.kind, request.kind),
                (self.protocol, request.protocol),
                (self.principal, request.principal),
                (self.task, request.task),
            )
        )


class Rule(Value):
    """A decision for the commands that match.

    `command` has the words of a command, or `regex` is searched in its canonical text; `evaluate.py` describes both. To allow,
    `regex` must match a whole command.
    `negated`: whether `command` also matches after a negation (`no`, `undo`).
    `matches` and `passes` are texts that the rule must match, and must not match.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\z")
    when: When = When()
    command: Annotated[tuple[RuleWord, ...], Field(min_length=1)] | None = None
    regex: Regex | None = None
    negated: bool = True
    decision: Decision
    reason: str = Field(min_length=1)
    matches: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()

    @field_validator("command")
    @classmethod
    def _check_words(cls, command: tuple[RuleWord, ...] | None) -> tuple[RuleWord, ...] | None:
        for alternatives in command or ():
            for word in alternatives:
                if word.split() != [word]:
                    raise ValueError(f"{word!r} is not one word: write each word as its own item")
                if word == "**" and len(alternatives) > 1:
                    raise ValueError("'**' has no alternatives: write it as a word of its own")
        if command and all(alternatives == ANY_WORDS for alternatives in command):
            raise ValueError("needs a word other than '**'; ['*'] matches every command")
        if command and command.count(ANY_WORDS) > 1:
            raise ValueError("'**' may be in it once")
        return command

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.command is None) == (self.regex is None):
            raise ValueError("needs command or regex, and not both")
        if self.decision is Decision.ALLOW and self.command is not None and ANY_WORDS in self.command:
            raise ValueError("'**' is for rules that do not allow; use regex")
        if self.command is not None and self.when.where is not None and not glob_matches(self.when.where, "prompt"):
            raise ValueError("command is for prompts; in programs use regex")
        return self

    def finds(self, text: bytes, *, any_case: bool) -> bool:
        """Return whether the regular expression matches a part of encoded text."""
        search = self._search_any_case if any_case else self._search
        return search is not None and search(text) is not None

    def matches_whole(self, text: bytes, *, any_case: bool) -> bool:
        """Return whether the regular expression matches all of an encoded text; `^` and `$` are the ends of the text."""
        match = self._match_any_case if any_case else self._match
        return match is not None and match(text) is not None

    @cached_property
    def _search(self) -> Callable[[bytes], Any] | None:
        return None if self.regex is None else line_pattern(self.regex, "regex").search

    @cached_property
    def _search_any_case(self) -> Callable[[bytes], Any] | None:
        return None if self.regex is None else line_pattern(f"(?i){self.regex}", "regex").search

    @cached_property
    def _match(self) -> Callable[[bytes], Any] | None:
        return None if self.regex is None else compile_pattern(self.regex, "regex").fullmatch

    @cached_property
    def _match_any_case(self) -> Callable[[bytes], Any] | None:
        return None if self.regex is None else compile_pattern(f"(?i){self.regex}", "regex").fullmatch


class Match(IntEnum):
    """How certain it is that a pattern matches a command.

    Values:
        CONCEIVABLE: only if unknown arguments have certain values.
        PARTLY: the same, but other arguments match.
        FOUND: by what is known; an unknown value is empty, or a text that is elsewhere in the input.
    """

    NONE = 0
    CONCEIVABLE = 1
    PARTLY = 2
    FOUND = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a text.

    Attributes:
        rules: the ids of all rules that matched.
        reason: of the strictest of them, or why no rule decided.
        canonical: the commands that were found in the text, one a line.
        mode: the mode that the text was judged in.
    """

    decision: Decision
    rules: tuple[str, ...]
    reason: str
    canonical: str
    mode: str | None = None


def glob_matches(globs: tuple[str, ...], value: str | None) -> bool:
    """Return whether a value is known and matches one of the globs; a glob `*` also matches an unknown value."""
    return any(glob == "*" or (value is not None and fnmatchcase(value, glob)) for glob in globs)
