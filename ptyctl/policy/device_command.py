"""The commands in a line for a device's command line, as its platform describes it.

A device accepts abbreviations, and its commands are not all known: `evaluate.py` compares a word with the words of rules, and
nothing is expanded here. Words are in lower case. A word that the device may read differently is unknown (None); a text
that it may read as any command is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ptyctl.platforms.platform import CommandLine

#: Longest line that is read, in characters. Devices read up to 4,000.
MAX_LINE = 4096
#: Most lines and commands of a text; longer texts take more than 50 ms to judge.
MAX_COMMANDS = 4000
#: Most ways to read a command that begins with words such as `do`.
_MAX_READINGS = 8
#: A word in lower case, or None if it is not known.
Word = str | None
#: Keys that edit or complete a line, so that the line is not the text: all control characters.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BLANKS = " \t"
_LINE_END = re.compile(r"[\r\n]+")
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'[^\']*\''
_TOKEN = re.compile(rf"(?:{_QUOTED})(?![^ ])|[^ ]+")
#: Only characters without a meaning on any device: no quote, backslash, or help key (?).
_PLAIN = re.compile(r"[ !#-&(->@-\[\]-~]*")
_PATH = re.compile(r"[:/]\S*|[A-Za-z.-]+(?:/[A-Za-z.-]+)+")


class Reading(NamedTuple):
    """One interpretation of a command by the device.

    Attributes:
        other_mode: whether the command runs in another mode, for a word such as `do`.
        negated: whether a negation was removed.
    """

    words: tuple[Word, ...]
    other_mode: bool = False
    negated: bool = False


class DeviceCommand(NamedTuple):
    """A command.

    Attributes:
        readings: all ways to read it; the first has the words as they are.
        sure: the reading for rules that allow it.
        is_filter: whether it takes the output of the command before; its first word is then `|` or `>`.
        shell: the text that a POSIX shell runs; "" if the command opens a shell, None if it is not for a shell.
    """

    readings: tuple[Reading, ...]
    sure: Reading
    is_filter: bool = False
    shell: str | None = None

    @property
    def text(self) -> str:
        """The words, with `?` for unknown ones."""
        return " ".join("?" if word is None else word for word in self.readings[0].words)


class DeviceText(NamedTuple):
    """The commands of a text. If it is opaque, the device may read any command: it is too long, or has control characters."""

    commands: tuple[DeviceCommand, ...]
    text: str
    opaque: bool = False
    has_controls: bool = False


class DeviceGrammar:
    """Finds the commands of a text for one platform."""

    def __init__(self, rules: CommandLine) -> None:
        self._rules = rules
        self._operators = (*rules.separators, *rules.filters)
        self._prefixes = [tuple(prefix.split()) for prefix in rules.exec_prefixes]
        self._shells = sorted((tuple(shell.split()) for shell in rules.shells), key=len, reverse=True)
        #: The first words that may have another reading, abbreviated ones included.
        names = [*rules.negations, *(words[0] for words in (*self._prefixes, *self._shells))]
        self._starts = {name[:end] for name in names for end in range(1, len(name) + 1)} | {None}

    def read(self, text: str) -> DeviceText:
        """Return the commands of one or several lines."""
        lines = [line.strip(_BLANKS) for line in _LINE_END.split(text)]
        operators = sum(text.count(operator) for operator in self._operators)
        has_controls = any(_CONTROL.search(line) for line in lines)
        if has_controls or len(lines) + operators > MAX_COMMANDS or any(len(line) > MAX_LINE for line in lines):
            return DeviceText((), _CONTROL.sub("?", "\n".join(lines)), opaque=True, has_controls=has_controls)
        commands: list[DeviceCommand] = []
        canonical: list[str] = []
        for line in filter(None, lines):
            for operator, part, rest in self._parts(line):
                words = self._words(part)
                is_filter = operator in self._rules.filters
                if is_filter:
                    words = (operator, *words)
                elif not words or part.startswith(self._rules.comments):
                    continue
                command = self._command(words, is_filter, rest)
                commands.append(command)
                if is_filter and canonical:
                    canonical[-1] += " " + command.text
                else:
                    canonical.append(command.text)
        return DeviceText(tuple(commands), "\n".join(canonical))

    def _parts(self, line: str) -> Iterator[tuple[str, str, str]]:
        """Yield the parts of a line between operators: the operator before the part, the part, and the rest of the line."""
        if not any(operator in line for operator in self._operators):
            yield "", line, line
            return
        operator, begin, place, pattern = "", 0, 0, self._quoted_or_operator
        while match := pattern.search(line, place):
            place = match.end()
            if match.lastgroup == "operator":
                yield operator, line[begin : match.start()].strip(), line[begin:].strip()
                operator, begin = match.group(), place
            elif match.lastgroup == "unclosed":
                # Not every device knows quotes: after one that is not closed, they are no quotes.
                pattern = self._operator
        yield operator, line[begin:].strip(), line[begin:].strip()

    @cached_property
    def _operator(self) -> Any:
        return re.compile(f"(?P<operator>{'|'.join(map(re.escape, self._operators))})")

    @cached_property
    def _quoted_or_operator(self) -> Any:
        quoted = rf"{_QUOTED}|(?P<unclosed>[\"'])|" if self._rules.quotes else ""
        return re.compile(quoted + self._operator.pattern)

    def _words(self, part: str) -> tuple[Word, ...]:
        if _PLAIN.fullmatch(part) and not self._rules.contexts and not self._rules.expansions:
            return tuple(part.lower().split())
        words: list[Word] = []
        for token in _TOKEN.findall(part):
            word = self._word(token)
            if word is not None and self._rules.contexts and _PATH.fullmatch(word):
                words += [name for name in re.split(r"[/:]", word) if name not in ("", ".", "..")]
            elif word != "":
                words.append(word)
        return tuple(words)

    def _word(self, token: str) -> Word:
        """Return a word without its quotes and without `?`, which shows help and is not part of the line."""
        if len(token) > 1 and token[0] == token[-1] and token[0] in "\"'":
            token = token[1:-1] or " "
        word = token.replace("?", "").lower()
        if not word:
            return ""
        if not _PLAIN.fullmatch(word) or any(character in word for character in self._rules.expansions):
            return None
        return word

    def _command(self, words: tuple[Word, ...], is_filter: bool, rest: str) -> DeviceCommand:
        plain = Reading(words)
        if words[0] not in self._starts:
            return DeviceCommand((plain,), plain, is_filter)
        readings, sure = [plain], plain
        for reading in readings:  # those that are appended too: `do admin reload`
            if len(readings) > _MAX_READINGS:  # it may be any command
                readings.append(Reading((None,), other_mode=True))
                break
            for prefix in self._prefixes:
                inner = Reading(reading.words[len(prefix) :], other_mode=True)
                if inner.words and inner not in readings and all(map(_may_be, reading.words, prefix)):
                    readings.append(inner)
                    if reading is sure and reading.words[0] == prefix[0]:
                        sure = inner
        shell = self._shell_text(words, readings, rest) if self._shells else None
        for reading in tuple(readings):
            if len(reading.words) > 1 and any(_may_be(reading.words[0], negation) for negation in self._rules.negations):
                readings.append(Reading(reading.words[1:], reading.other_mode, negated=True))
        return DeviceCommand(tuple(readings), sure, is_filter, shell)

    def _shell_text(self, words: tuple[Word, ...], readings: list[Reading], rest: str) -> str | None:
        """Return the text after the longest name in `shells` at the beginning of a reading."""
        for shell in self._shells:
            for reading in readings:
                if len(reading.words) >= len(shell) and all(map(_may_be, reading.words, shell)):
                    before = len(words) - len(reading.words) + len(shell)
                    return _unquoted("".join(rest.split(None, before)[before:]))
        return None


def _may_be(word: Word, name: str) -> bool:
    """Return whether a word may be an abbreviation of a name. `*` is any name."""
    return word is None or name == "*" or (word != "" and name.startswith(word))


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
