"""An immutable snapshot of what the policy needs to judge texts, so that a thread can judge them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ptyctl.core.principal import Kind
from ptyctl.policy.rules import SEVERITY, SHELL_PLATFORM, Decision, DecisionRequest, Verdict, Where
from ptyctl.policy.shell_runners import shell_escapes

from .verdict_thread import VERDICT_S, verdict_takes_too_long

#: A longer text for a device is judged line by line only, in characters.
_MAX_JOINED = 16_384
#: Most parts of a text that are judged to find those that a rule is about.
_MAX_PARTS = 400
_LINE, _WORD = re.compile(r"[^\r\n]+"), re.compile(r"\S+")

#: A part of a text: its begin and its end, in characters.
Span = tuple[int, int]


class PolicyDecisionPoint(Protocol):
    """Decides by the policy in force. Its methods may be called in any thread."""

    @property
    def name(self) -> str:
        """The name of its preset or file."""
        ...

    @property
    def identity(self) -> object:
        """An object that is replaced when the policy is loaded again."""
        ...

    def verdict(self, request: DecisionRequest) -> Verdict:
        """Return the verdict on a text. Raises PtyctlError POLICY_DENIED while no policy can be loaded."""
        ...

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        """Return the verdict of the rules that match; ALLOW if none does. `known_only`: an unknown word matches none."""
        ...

    def unreadable(self, request: DecisionRequest) -> Verdict:
        """Return the verdict on a line that cannot be read."""
        ...


class Subject(NamedTuple):
    """The properties of a session that rules compare."""

    session_id: str
    protocol: str
    device: str | None
    program: str | None


class Place(NamedTuple):
    """The program that gets a text. The shell below it may read the text later, so that the rules of the shell count, too.

    `is_ahead`: the program may not read it at all; then also words that are not known count in the shell. `shell`: the
    dialect of the shell there; None if it is not known.
    """

    platform: str | None
    mode: str | None = None
    where: Where = "prompt"
    is_ahead: bool = False
    shell: str | None = None


def stricter(one: Verdict | None, other: Verdict) -> Verdict:
    """Return the stricter verdict; the first one if both are equally strict."""
    return other if one is None or SEVERITY[other.decision] > SEVERITY[one.decision] else one


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judges the texts of one caller. Immutable, except for the policy, which may be loaded again meanwhile.

    Attributes:
        identity: of the policy: two judgements are equal only if the policy was not loaded again between them.
        kind, principal, task_id: of the caller.
        hides_input: whether the program reads without echo something that is not known to be a password.
    """

    policy: PolicyDecisionPoint
    identity: object
    subject: Subject
    kind: Kind
    principal: str
    task_id: str | None
    hides_input: bool

    def verdict(self, text: str, places: Sequence[Place]) -> Verdict:
        """Judge a text in its first place, and by the rules of the other places if it is certainly a command there."""
        verdict = self.policy.verdict(self._request(text, places[0]))
        for place in places[1:]:
            verdict = self.for_shell(verdict, text, place)
        return verdict

    def for_shell(self, verdict: Verdict, text: str, place: Place) -> Verdict:
        """Judge a text for a program by the rules of the shell below, with what the program may run in a shell."""
        known_only = not place.is_ahead or self.hides_input  # a password may look like a variable
        for command in dict.fromkeys((text, *shell_escapes(text))):
            by_rules = self.policy.verdict_by_rules(self._request(command, place), known_only=known_only)
            verdict = stricter(verdict, by_rules)
        return verdict

    def lines(self, lines: Sequence[str], whole: str, places: Sequence[Place]) -> Verdict:
        """Return the verdict on lines and on their whole text, which may begin with earlier lines.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if it takes too long.
        """
        give_up_at = time.thread_time() + VERDICT_S
        verdict: Verdict | None = None
        size = sum(map(len, lines)) + len(lines) - 1
        if places[0].where == "prompt" and (size <= _MAX_JOINED or places[0].platform == SHELL_PLATFORM):
            verdict = self.verdict(whole, places)
        if verdict is None or len(lines) > 1 or len(whole) > size:
            judge = self.verdict if verdict is None else self.part
            for number, line in enumerate(lines):
                verdict = stricter(verdict, judge(line, places))
                if number == 0:  # the first one may change the mode
                    places = tuple(place._replace(mode=None) for place in places)
                if time.thread_time() > give_up_at:
                    raise verdict_takes_too_long()
        assert verdict is not None
        return verdict

    def strictest(self, texts: Sequence[str], places: Sequence[Place]) -> Verdict | None:
        """Return the strictest verdict on texts of which one is submitted; None without one.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if it takes too long.
        """
        give_up_at = time.thread_time() + VERDICT_S
        verdict: Verdict | None = None
        for text in texts:
            verdict = stricter(verdict, self.verdict(text, places))
            if time.thread_time() > give_up_at:
                raise verdict_takes_too_long()
        return verdict

    def part(self, line: str, places: Sequence[Place]) -> Verdict:
        """Judge one of several lines, which alone may be an incomplete command."""
        if places[0].where == "program":
            return self.verdict(line, places)
        return self.policy.verdict_by_rules(self._request(line, places[0]))

    def spans(self, text: str, rules: Sequence[str], places: Sequence[Place]) -> list[Span]:
        """Return the shortest parts of a text about which one of the rules asks: the words that an approver must see.

        Words that are not known count only if no other ones match.
        """
        anywhere, named = [place._replace(mode=None) for place in places], set(rules)

        def is_asked(part: str, *, known_only: bool = False) -> bool:
            requests = (self._request(part, place) for place in anywhere)
            verdicts = (self.policy.verdict_by_rules(request, known_only=known_only) for request in requests)
            return any(
                SEVERITY[verdict.decision] >= SEVERITY[Decision.ASK] and not named.isdisjoint(verdict.rules)
                for verdict in verdicts
            )

        if not named:
            return []
        spans = shortest_spans(text, is_asked)
        return [(begin, end) for begin, end in spans if is_asked(text[begin:end], known_only=True)] or spans

    def programs(self, place: Place) -> Verdict:
        """Return the verdict on input to a program that no rule names."""
        return self.policy.verdict(self._request("", place))

    def unreadable(self, place: Place) -> Verdict:
        """Return the verdict on a line that cannot be read."""
        return self.policy.unreadable(self._request("", place))

    def unknown(self, places: Sequence[Place]) -> Verdict:
        """Return the verdict on input that is not known."""
        is_in_program = places[0].where == "program" and not places[-1].is_ahead
        return self.programs(places[0]) if is_in_program else self.unreadable(places[0])

    def _request(self, text: str, place: Place) -> DecisionRequest:
        subject = self.subject
        return DecisionRequest(
            text,
            platform=place.platform,
            protocol=subject.protocol,
            device=subject.device,
            mode=place.mode,
            kind=self.kind,
            principal=self.principal,
            task=self.task_id,
            where=place.where,
            shell=place.shell,
        )


def shortest_spans(text: str, matches: Callable[[str], bool]) -> list[Span]:
    """Return the shortest parts of a text that match, ascending and separate: words of a line, lines, or the whole text.

    Parts that are not judged, because there are too many, belong to a longer one that matches.
    """
    found: list[Span] = []
    calls = 0

    def is_match(begin: int, end: int) -> bool:
        nonlocal calls
        calls += 1
        return calls <= _MAX_PARTS and matches(text[begin:end])

    def search(lines: Sequence[Span]) -> bool:
        if not lines or not is_match(begin := lines[0][0], end := lines[-1][1]):
            return False
        if len(lines) == 1:
            search_words([(begin + word.start(), begin + word.end()) for word in _WORD.finditer(text[begin:end])])
        else:
            middle = len(lines) // 2
            in_halves = [search(lines[:middle]), search(lines[middle:])]
            if not any(in_halves):
                found.append((begin, end))
        return True

    def search_words(words: Sequence[Span]) -> None:
        at = 0
        while at < len(words) and is_match(words[at][0], words[-1][1]):
            low, last = at, len(words) - 1
            while low < last:  # the words up to `last` match
                middle = (low + last) // 2
                low, last = (low, middle) if is_match(words[at][0], words[middle][1]) else (middle + 1, last)
            first, high = at, last
            while first < high:  # the words from `first` on match
                middle = (first + high + 1) // 2
                first, high = (middle, high) if is_match(words[middle][0], words[last][1]) else (first, middle - 1)
            found.append((words[first][0], words[last][1]))
            at = last + 1

    search([line.span() for line in _LINE.finditer(text)])
    return found
