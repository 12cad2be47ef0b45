"""Evaluation of a policy: the verdict on a request.

How a rule's `command` matches:

- Its words are compared with the first words of a command; a command may have more. `*` in a word matches any text, the word
  `**` any number of words. Case does not matter on devices.
- For `warn`, `ask` and `deny`, a word matches every abbreviation of it, and an unknown word of the text matches all. The rule
  also matches after a word such as `do`, and after a negation (`no`, `undo`) unless it has `negated = false`. Where the
  device accepts the words of a command in several lines, the rule's first words may be absent.
  On a command line of an unknown family, quoted names, `for`, `fi` and single letters are a shell's, and no abbreviations.
- For `allow`, every compared word must be known, and an abbreviation must not be one of a word that another rule, or a rule of
  the preset `guarded`, has in its place.
- A filter (`| include x`, `> file`) is a separate command, whose first word is `|` or `>`.
- In a POSIX shell, the name of the command must match the first word and any arguments the others, in any order; for `allow`,
  the words in order. There are no abbreviations. Where `unparsed` only warns or allows, a rule needs known arguments (`Match`):
  if an unknown one decides, `unparsed` does.

`regex` is searched in the canonical text, in which each command line is a line and `?` stands for an unknown word. For `allow`,
it must match all of a command, whose number of words must be known, and in a program all of each line. It knows no
abbreviations. On devices, the canonical text is in lower case, and the case of the expression does not matter.

A text with several commands gets the strictest of their verdicts. The mode after its first command is not known: there, rules
that name a mode match if they do not allow.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache, lru_cache
from typing import Any, Protocol

from ptyctl.platforms import Platform
from ptyctl.platforms.pattern import encode

from .device_command import DeviceCommand, DeviceGrammar, Reading, Word
from .rules import (
    ANY_WORDS,
    ORIGIN_KEYS,
    SHELL_PLATFORM,
    UNKNOWN_PLATFORM,
    Decision,
    DecisionRequest,
    Match,
    Rule,
    RuleWord,
    Verdict,
    Where,
    strictest,
)

#: Number of verdicts, and of groups of requests to which the same rules apply, that are kept.
_VERDICTS = 2048
_SCOPES = 256
_WORDS = 8192
#: Characters of a word that is not compared literally, on a device or in a shell.
_GLOB = frozenset("*?[")
#: The end of a line of input for a program.
_LINE_END = re.compile(r"\r\n|\r|\n")
#: Longest text whose verdict is kept, in characters.
_CACHED_TEXT = 1000


class ShellCommand(Protocol):
    """A simple command of a POSIX shell."""

    @property
    def words(self) -> tuple[str | None, ...]: ...

    @property
    def text(self) -> str: ...

    @property
    def has_known_words(self) -> bool:
        """Whether the number of words is known: no variable or substitution may be several of them, or none."""
        ...

    def match(self, pattern: tuple[tuple[str, ...], ...], /) -> Match:
        """How certain it is that the command matches the words."""
        ...

    def surely_is(self, pattern: tuple[tuple[str, ...], ...], /) -> bool:
        """Whether the command is known and matches the words."""
        ...


class ShellCommands(Protocol):
    """The commands of a text for a shell. `unparsed` is why they are not known for certain, or empty.

    An `opaque` one is nested too deeply, and may run any command. One that `recalls` runs lines of the shell's history. One
    that `evaluates` is only unparsed because the shell evaluates the value of a variable, as in most arithmetic.
    """

    @property
    def commands(self) -> Sequence[ShellCommand]: ...

    @property
    def text(self) -> str: ...

    @property
    def unparsed(self) -> str: ...

    @property
    def evaluates(self) -> bool: ...

    @property
    def opaque(self) -> bool: ...

    @property
    def recalls(self) -> bool: ...


class ReadShell(Protocol):
    """Finds the commands of a text for a shell, whose dialect may be known."""

    def __call__(self, text: str, shell: str | None = None, /) -> ShellCommands: ...


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The decisions where no rule decides.

    Attributes:
        default: for commands that no rule matches.
        programs: the same in programs that are no command line.
        unparsed: for a shell's text whose commands are not known for certain.
        unreadable: for a line that cannot be read for certain.
    """

    default: Decision = Decision.ALLOW
    programs: Decision = Decision.ALLOW
    unparsed: Decision = Decision.ASK
    unreadable: Decision = Decision.ASK


#: Nothing is decided where no rule decides.
_RULES_ALONE = PolicySettings(unparsed=Decision.ALLOW, unreadable=Decision.ALLOW)


class RuleSet:
    """The rules of a policy. Those that apply to a group of requests are found once, also for several evaluators."""

    def __init__(self, rules: Iterable[Rule], known: Iterable[Rule] = ()) -> None:
        """`known` are rules that do not count, but whose words an allowed abbreviation must not mean."""
        self._rules = tuple(rules)
        self._known = tuple(rule for rule in known if rule.decision is not Decision.ALLOW)
        conditions = [rule.when for rule in (*self._rules, *self._known)]
        unused = [key for key in ORIGIN_KEYS if all(getattr(when, key) is None for when in conditions)]
        self._unused: dict[str, Any] = dict.fromkeys(unused) | {"text": "", "shell": None}
        self._scope_of = lru_cache(_SCOPES)(self._find_scope)

    def scope(self, request: DecisionRequest, names: tuple[str, ...], *, contexts: bool) -> _Scope:
        """Return the rules that apply to requests that differ from this one in their text only.

        Args:
            names: names of the platform.
            contexts: as `CommandLine.contexts`: the last words of a rule's command match alone.
        """
        return self._scope_of(replace(request, **self._unused), names, contexts)

    def _find_scope(self, request: DecisionRequest, names: tuple[str, ...], contexts: bool) -> _Scope:
        """Find the rules. In the shell of a device, only rules for shells allow."""
        strict = [r for r in self._rules if r.decision is not Decision.ALLOW and r.when.applies(request, names, unknown=True)]
        allow = [r for r in self._rules if r.decision is Decision.ALLOW and r.when.applies(request, names[:1], unknown=False)]
        known = [r for r in self._known if r.when.applies(request, names, unknown=True)]
        return _Scope(strict, allow, known, contexts)


class Evaluator:
    """Judges requests by the rules of one policy."""

    def __init__(
        self,
        rules: RuleSet,
        settings: PolicySettings,
        platforms: Mapping[str, Platform],
        read_shell: ReadShell,
    ) -> None:
        self._rules = rules
        self._settings = settings
        self._unknown_matches = strictest((settings.unparsed, Decision.WARN)) is not Decision.WARN
        self._platforms = platforms
        self._read_shell = read_shell
        self._grammar_of = cache(lambda name: DeviceGrammar(platforms[name].command_line))
        self._scopes_of = lru_cache(_SCOPES)(self._find_scopes)
        self._judge = lru_cache(_VERDICTS)(self._verdict)
        self._judge_by_rules = lru_cache(_VERDICTS)(self._verdict_by_rules)

    def verdict(self, request: DecisionRequest) -> Verdict:
        """Return the verdict on a request. Equal requests get the same one."""
        return self._judge(request) if len(request.text) <= _CACHED_TEXT else self._verdict(request)

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        """Return the verdict of the rules alone: without the decisions for what no rule matches, or cannot be parsed or read.

        For a line that is a part of a longer text, such as `do reload now` of a loop. The whole text is judged by `verdict`.

        Args:
            known_only: an unknown word matches no rule, nor does a text that is too long: the line is probably no command.
        """
        judge = self._judge_by_rules if len(request.text) <= _CACHED_TEXT else self._verdict_by_rules
        return judge(request, known_only)

    def _verdict_by_rules(self, request: DecisionRequest, known_only: bool) -> Verdict:
        return self._verdict(request, _RULES_ALONE, known_only=known_only)

    def unreadable(self, request: DecisionRequest) -> Verdict:
        """Return the verdict on a line that cannot be read for certain. The text of the request does not count."""
        return Verdict(self._settings.unreadable, (), "the typed line cannot be read for certain", "", request.mode)

    def _verdict(
        self, request: DecisionRequest, settings: PolicySettings | None = None, *, known_only: bool = False
    ) -> Verdict:
        settings = settings or self._settings
        name = request.platform if request.platform and request.platform in self._platforms else UNKNOWN_PLATFORM
        scopes = self._scopes(request, name, request.mode)
        if request.where == "program":
            return self._of_program(request, scopes, settings)
        if scopes.is_shell:
            return self._of_shell(request, scopes, settings, known_only=known_only)
        return self._of_device(request, name, scopes, settings, known_only=known_only)

    def _of_program(self, request: DecisionRequest, scopes: _Scopes, settings: PolicySettings) -> Verdict:
        findings = _Findings()
        findings.add_text(scopes.here.matching(request.text))
        for line in _LINE_END.split(request.text):
            findings.add_command(scopes.here.matching(line), scopes.here.allowing(line))
        return findings.verdict(request, request.text, settings.programs)

    def _in_shell(self, request: DecisionRequest, text: str, settings: PolicySettings, *, known_only: bool) -> Verdict:
        """Return the verdict on a text that a POSIX shell runs, in place of the command line."""
        scopes = self._scopes(request, SHELL_PLATFORM, None)
        return self._of_shell(replace(request, text=text), scopes, settings, known_only=known_only)

    def _of_shell(self, request: DecisionRequest, scopes: _Scopes, settings: PolicySettings, *, known_only: bool) -> Verdict:
        form, scope = self._read_shell(request.text, request.shell), scopes.here
        findings = _Findings()
        findings.add_text(scope.matching(form.text))
        for command in form.commands:
            if known_only and not all(type(word) is str for word in command.words):
                continue
            name = command.words[0]
            strict = []
            for pattern in scope.strict_commands.named(name):
                match = command.match(pattern.raw)
                if match is Match.FOUND or (match and self._unknown_matches):
                    strict.append(pattern.rule)
                elif match is Match.PARTLY:
                    reason = f"an argument is not known, so that the rule {pattern.rule.id} may match"
                    findings.add_decision(settings.unparsed, reason)
            allow = next((p.rule for p in scope.allow_commands.named(name) if command.surely_is(p.raw)), None)
            if allow is None and command.has_known_words:
                allow = scope.allowing(command.text)
            findings.add_command(strict, allow)
        if form.opaque and not known_only:
            findings.add_opaque(scope, settings, form.unparsed)
        elif form.unparsed and not (form.evaluates and settings.unparsed is Decision.WARN):
            decision = strictest((settings.unparsed, settings.unreadable)) if form.recalls else settings.unparsed
            findings.add_decision(decision, form.unparsed)
        return findings.verdict(request, form.text, settings.default)

    def _of_device(
        self, request: DecisionRequest, name: str, scopes: _Scopes, settings: PolicySettings, *, known_only: bool
    ) -> Verdict:
        findings, text = _Findings(), request.text
        if scopes.may_be_shell and "\t" in text:  # a blank in a script; on a device it completes a word
            text = text.replace("\t", " ")
            joined = replace(request, text=request.text.replace("\t", ""))
            findings.add_verdict(self._verdict(joined, _RULES_ALONE, known_only=known_only))
        form = self._grammar_of(name).read(text)
        if form.opaque and not form.has_controls and scopes.may_be_shell:  # too long for a device
            return self._in_shell(request, request.text, settings, known_only=known_only)
        if form.opaque:
            reason = "the text is too long or has control characters, so its commands are not known"
            if not known_only:
                findings.add_opaque(scopes.anywhere, settings, reason)
            return findings.verdict(request, form.text, settings.default)
        starts = sum(not command.is_filter for command in form.commands)
        findings.add_text((scopes.here if starts == 1 else scopes.anywhere).matching(form.text, any_case=True))
        _add_device_commands(findings, form.commands, name, scopes, known_only=known_only)
        for command in form.commands:
            if command.shell:
                findings.add_verdict(self._in_shell(request, command.shell, settings, known_only=known_only))
        if scopes.may_be_shell or any(command.shell is not None for command in form.commands[:-1]):
            # Text that is no shell command is no reason to ask.
            findings.add_verdict(self._in_shell(request, request.text, _RULES_ALONE, known_only=known_only))
        return findings.verdict(request, form.text, settings.default)

    def _scopes(self, request: DecisionRequest, name: str, mode: str | None) -> _Scopes:
        """Return the rules for requests that differ in their text only."""
        key = (name, mode, request.protocol, request.device, request.kind, request.principal, request.task, request.where)
        return self._scopes_of(key)

    def _find_scopes(
        self, key: tuple[str, str | None, str | None, str | None, str | None, str | None, str | None, Where]
    ) -> _Scopes:
        name, mode_name, protocol, device, kind, principal, task, where = key
        request = DecisionRequest("", name, protocol, device, mode_name, kind, principal, task, where)
        platform = self._platforms[name]
        mode = platform.modes.get(request.mode or "")
        is_shell = platform.posix_shell or (mode is not None and mode.shell)
        names = (SHELL_PLATFORM, name) if is_shell else (name,)
        contexts = platform.command_line.contexts
        here, anywhere, home = (
            self._rules.scope(replace(request, mode=each), names, contexts=contexts)
            for each in (request.mode, None, platform.home[0])
        )
        has_shell_mode = any(mode.shell for mode in platform.modes.values())
        may_be_shell = platform.command_line.may_be_shell or (has_shell_mode and request.mode is None)
        return _Scopes(is_shell, may_be_shell, here, anywhere, home)


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The rules for requests that differ in their text only.

    Attributes:
        is_shell: whether the text is for a POSIX shell.
        may_be_shell: whether it may be for one.
        here: the rules in the mode of the request.
        anywhere: those in a mode that is not known.
        home: those in the platform's mode for running commands.
    """

    is_shell: bool
    may_be_shell: bool
    here: _Scope
    anywhere: _Scope
    home: _Scope


class _Scope:
    """The rules that apply to a group of requests, by the first word of a command."""

    def __init__(self, strict: Sequence[Rule], allow: Sequence[Rule], known: Sequence[Rule], contexts: bool) -> None:
        self.strict = strict
        self._strict_regexes = [rule for rule in strict if rule.regex is not None]
        self._allow_regexes = [rule for rule in allow if rule.regex is not None]
        self.strict_commands = _Index(
            _Pattern(rule, rule.command[begin:])
            for rule in strict
            if rule.command is not None
            for begin in (range(len(rule.command)) if contexts else (0,))
            if begin == 0 or rule.command[begin] != ANY_WORDS
        )
        self.allow_commands = _Index(_Pattern(rule, rule.command) for rule in allow if rule.command is not None)
        self.known_commands = (
            *self.strict_commands.all,
            *self.allow_commands.all,
            *(_Pattern(rule, rule.command) for rule in known if rule.command is not None),
        )

    def matching(self, text: str, *, any_case: bool = False) -> list[Rule]:
        """Return the rules that do not allow and whose regular expressions match the text."""
        if not self._strict_regexes:
            return []
        encoded = encode(text)
        return [rule for rule in self._strict_regexes if rule.finds(encoded, any_case=any_case)]

    def allowing(self, text: str, *, any_case: bool = False) -> Rule | None:
        """Return a rule that allows the whole text by a regular expression."""
        encoded = encode(text) if self._allow_regexes else b""
        return next((rule for rule in self._allow_regexes if rule.matches_whole(encoded, any_case=any_case)), None)


class _Index:
    """Patterns by the abbreviations of their first word."""

    def __init__(self, patterns: Iterable[_Pattern]) -> None:
        self.all = tuple(patterns)
        self._others: list[_Pattern] = []
        self._by_word: dict[str, list[_Pattern]] = defaultdict(list)
        self._by_name: dict[str, list[_Pattern]] = defaultdict(list)
        for pattern in self.all:
            first = pattern.words[0]
            if first is None or _GLOB.intersection("".join(pattern.raw[0])):
                self._others.append(pattern)
            else:
                for word in first.abbreviations:
                    self._by_word[word].append(pattern)
                for name in pattern.raw[0]:
                    self._by_name[name].append(pattern)

    def candidates(self, word: Word) -> Iterable[_Pattern]:
        """Return the patterns whose first word may be an abbreviated word."""
        if word is None:
            return self.all
        found = self._by_word.get(word)
        return [*found, *self._others] if found else self._others

    def named(self, name: Word) -> Iterable[_Pattern]:
        """Return the patterns whose first word may be the name of a shell's command. A subclass of str is a glob."""
        return [*self._by_name.get(name, ()), *self._others] if type(name) is str else self.all


class _PatternWord:
    """The alternatives of a word, and their abbreviations. Those of a glob are abbreviations of its beginning."""

    __slots__ = ("abbreviations", "exact", "globs")

    def __init__(self, alternatives: RuleWord) -> None:
        lowered = [word.lower() for word in alternatives]
        self.exact = frozenset(word for word in lowered if "*" not in word)
        beginnings = [word.partition("*")[0] for word in lowered]
        self.abbreviations = frozenset(word[:end] for word in beginnings for end in range(1, len(word) + 1))
        self.globs = [re.compile(translate(word)) for word in lowered if "*" in word]

    def may_match(self, word: Word) -> bool:
        return word is None or word in self.abbreviations or any(glob.match(word) for glob in self.globs)

    def means_only(self, word: str) -> bool:
        """Return whether the word is not an abbreviation of a glob's beginning."""
        return word in self.exact or any(glob.match(word) for glob in self.globs)


#: The same words are in several rules, and each rule in several scopes.
_pattern_word = lru_cache(_WORDS)(_PatternWord)


class _Pattern:
    """The words of a rule, or the last ones of them. None in `words` means any number of words."""

    __slots__ = ("raw", "rule", "words")

    def __init__(self, rule: Rule, raw: tuple[RuleWord, ...]) -> None:
        self.rule = rule
        self.raw = raw
        self.words = tuple(None if word == ANY_WORDS else _pattern_word(word) for word in raw)

    def may_match(self, words: tuple[Word, ...], at: int = 0, begin: int = 0) -> bool:
        """Return whether the words from `at` on may match the pattern's words from `begin` on."""
        for number in range(begin, len(self.words)):
            expected = self.words[number]
            if expected is None:
                return any(self.may_match(words, later, number + 1) for later in range(at, len(words) + 1))
            if at >= len(words) or not expected.may_match(words[at]):
                return False
            at += 1
        return True

    def may_mean(self, words: tuple[Word, ...], number: int, allowed: _PatternWord) -> bool:
        """Return whether the word of that number may abbreviate the pattern's word there, which `allowed` does not have."""
        if number >= len(self.words) or None in self.words[: number + 1]:
            return False
        expected, word = self.words[number], words[number]
        if expected is None or word is None or word not in expected.abbreviations:
            return False
        names = {name for name in expected.exact if name.startswith(word)}
        return not names <= allowed.exact and all(
            part is not None and part.may_match(words[place]) for place, part in enumerate(self.words[:number])
        )


class _Findings:
    """The rules that match a request, and the decisions of other origin."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._others: list[tuple[Decision, str]] = []
        self._other_rules: list[str] = []
        self._commands = self._undecided = 0
        self._text_decides = False

    def add_text(self, rules: Sequence[Rule]) -> None:
        """Add rules that match the whole text."""
        self._rules.update((rule.id, rule) for rule in rules)
        self._text_decides = any(_decides(rule) for rule in rules)

    def add_command(self, strict: Sequence[Rule], allow: Rule | None) -> None:
        """Add the rules that match one command."""
        self._rules.update((rule.id, rule) for rule in strict)
        if allow is not None:
            self._rules[allow.id] = allow
        self._commands += 1
        self._undecided += allow is None and not any(_decides(rule) for rule in strict)

    def add_decision(self, decision: Decision, reason: str) -> None:
        """Add a decision that no rule made."""
        self._others.append((decision, reason))

    def add_opaque(self, scope: _Scope, settings: PolicySettings, reason: str) -> None:
        """Add the strictest decision for a text that may be any command."""
        self.add_decision(strictest([settings.unreadable, *(rule.decision for rule in scope.strict)]), reason)

    def add_verdict(self, verdict: Verdict) -> None:
        """Add the verdict on a part of the text."""
        self._others.append((verdict.decision, verdict.reason))
        self._other_rules += verdict.rules

    def verdict(self, request: DecisionRequest, canonical: str, default: Decision) -> Verdict:
        """Return the strictest decision. The default counts for each command that no rule allows, asks for or denies."""
        decisions = [(rule.decision, rule.reason) for rule in self._rules.values()] + self._others
        if self._undecided and not (self._text_decides and self._commands == 1):
            decisions.append((default, f"no rule matches, and the default is {default}"))
        strict = strictest(decision for decision, _ in decisions)
        reason = next((reason for decision, reason in decisions if decision is strict), "the text runs nothing")
        return Verdict(strict, tuple(dict.fromkeys((*self._rules, *self._other_rules))), reason, canonical, request.mode)


def _add_device_commands(
    findings: _Findings, commands: Sequence[DeviceCommand], name: str, scopes: _Scopes, *, known_only: bool
) -> None:
    """Add the rules that match the commands of a device, one after the other. `name`: of the platform."""
    # The rules for the next command: one that a rule allows is not expected to change the mode. A filter does not.
    strict_scope = allow_scope = strict_next = allow_next = scopes.here
    for command in commands:
        if not command.is_filter:
            strict_scope, allow_scope = strict_next, allow_next
        strict = [
            rule
            for reading in command.readings
            if not (known_only and None in reading.words)
            for rule in _strict_rules(command, reading, name, scopes.anywhere if reading.other_mode else strict_scope)
        ]
        scope = scopes.home if command.sure.other_mode else allow_scope
        allow = _allowing_rule(command.sure.words, scope) or scope.allowing(command.text, any_case=True)
        findings.add_command(strict, allow)
        if not command.is_filter:
            strict_next, allow_next = scopes.anywhere, allow_scope if allow else scopes.anywhere


def _strict_rules(command: DeviceCommand, reading: Reading, name: str, scope: _Scope) -> Iterator[Rule]:
    """Yield the rules that do not allow and match a reading of a device's command."""
    for pattern in scope.strict_commands.candidates(reading.words[0]):
        counts = (pattern.rule.negated or not reading.negated) and pattern.may_match(reading.words)
        if counts and not (name == UNKNOWN_PLATFORM and _is_of_shell(command, reading.words, pattern)):
            yield pattern.rule


def _decides(rule: Rule) -> bool:
    """Return whether the rule replaces the default: a warning does not."""
    return rule.decision is not Decision.WARN


def _is_of_shell(command: DeviceCommand, words: tuple[Word, ...], pattern: _Pattern) -> bool:
    """Return whether a reading of a command on an unknown command line is that of a shell, and no abbreviation of a pattern.

    That is a quoted name, `for` and `fi`, and a single letter, such as the name of a function: on a device, that is ambiguous.
    """
    plain = command.readings[0].words
    name = plain[1:2] if command.is_filter else plain[:1]
    if None in (*name, words[0]):
        return True
    first = pattern.words[0]
    if first is not None and words[0] in first.exact:
        return False
    if len(words) == 1:
        return words[0] in ("for", "fi") or len(words[0] or "") == 1
    return words[0] == "for" and words[2:3] == ("in",)


def _allowing_rule(words: tuple[Word, ...], scope: _Scope) -> Rule | None:
    for pattern in scope.allow_commands.candidates(words[0]):
        if pattern.may_match(words) and _means_only(pattern, words, scope):
            return pattern.rule
    return None


def _means_only(pattern: _Pattern, words: tuple[Word, ...], scope: _Scope) -> bool:
    """Return whether the words are known, and no abbreviation among them may be a word that another rule has in its place."""
    for number, expected in enumerate(pattern.words):
        word = words[number]
        if word is None:
            return False
        if (
            expected is not None
            and not expected.means_only(word)
            and any(other.may_mean(words, number, expected) for other in scope.known_commands)
        ):
            return False
    return True
