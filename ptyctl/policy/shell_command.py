"""The canonical form of a POSIX shell's command: every simple command that it runs, at any depth.

The text is parsed with tree-sitter-bash. Lists, pipelines, substitutions, here-documents into a shell, and the commands in
the arguments of sudo, xargs, bash -c and similar programs are included. Unknown parts make the text `unparsed`: syntax
errors, an unknown command word, history expansion, control characters, programs in other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice

from tree_sitter import Node

from .rules import OTHER_SHELL, Match
from .shell_arithmetic import assigned_variables, evaluates_arguments, evaluates_value, is_evaluated
from .shell_runners import PROGRAMS_WITH_ESCAPES, SHELLS, UNKNOWN_TEXT, inner_command, shell_escapes, starts_shell
from .shell_syntax import Budget, TooComplexError, parse_shell, source
from .shell_variants import fish_as_posix, is_read_as_in_fish, parts, plain_parts, variants, variants_with_error, words_anywhere
from .shell_words import (
    Expansion,
    Glob,
    NestedTooDeeplyError,
    UnknownBraces,
    Word,
    could_be,
    is_computed,
    normalised_path,
    removal,
    resolve,
    resolve_all,
    surely_is,
    value_if_unset,
    without_part,
)

#: Longest text that is parsed, in characters.
MAX_TEXT = 65_536
#: Most operators and words, outside of the body of a first here-document. The parser needs up to 20 ms for this number:
#: its time grows with their square in text with errors.
_MAX_OPERATORS, _MAX_WORDS = 800, 2000
#: A longer text is read in fragments between operators: most different fragments, and most characters of each.
_MAX_FRAGMENTS, _FRAGMENT = 2000, 2000
#: The largest budget for all fragments: 2,000 lines of text need a quarter of it, or four fifths if each has substitutions.
_FRAGMENTS_STEPS = 400_000
_OPERATOR = re.compile(r"[|&;<>(){}\[$`'\"]")
#: A here-document in the first line whose body is text: its delimiter is quoted, or it has nothing to expand.
_TEXT_BODY = re.compile(
    r"[^'\"#`\\(<\n]*<<-?[ \t]*(?:'(\w+)'[^\n]*\n(.*?)\n\1$|(\w+)\b[^\n]*\n([^$`\\]*?)\n\3$)", re.DOTALL | re.MULTILINE
)
#: A delimiter that the parser does not find again, because of a character beyond ASCII.
_UNREAD_DELIMITER = re.compile(r"<<-?[ \t]*[^\s;&|<>()]*[^\x00-\x7f]")
#: Canonical forms that are kept, and the longest text of one, in characters: one text is judged in several places and modes.
_FORMS, _KEPT_TEXT = 256, 1000
#: The same for fragments.
_FRAGMENTS, _KEPT_FRAGMENT = 1024, 200
#: What begins a substitution, in text that the parser does not read as one.
_SUBSTITUTION = re.compile(r"(?<!\\)(?:\$\(|`)")
_SUBSTITUTED = re.compile(r"[$<>]\(|`")
_SUBSTITUTION_TOKENS = frozenset(("$(", "`", "$(("))
#: Longest path of a working directory that is followed, in characters.
_MAX_DIRECTORY = 256
#: Steps of a budget for a node that is visited, for a command that is added, and for a word.
_VISIT_STEPS, _COMMAND_STEPS, _WORD_STEPS = 4, 8, 2
#: Most nodes that are visited for the value of an expansion, whose depth is limited.
_VALUE_NODES = 100
#: How deep commands may be nested in arguments of others, such as `bash -c "bash -c ..."`.
_MAX_DEPTH = 8
_SHELL_WITH_VERSION = re.compile(r"(?:/(?:usr/(?:local/)?)?bin/)?(bash|zsh|ksh|mksh|fish)-?\d[\d.]*\Z")
_SYSTEM_DIRECTORIES = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/")
#: Characters that a terminal's line editor interprets, so that the line is not the text.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
#: History expansion (bash, zsh); `!` before a blank, `=`, `(`, `"` or the end is none, nor is the parameter `$!`.
_HISTORY = re.compile(r"!(?<!\$!)[^\s=(\"]|\$![\w!?#$*:^{-]|\^(?<![^\n]\^)")
#: Text without history expansion, or with a quote that ends nothing: escaped characters, text in double quotes, which is
#: expanded, and single quotes, comments, `[!...]` and `${!...}`.
_UNEXPANDED = re.compile(
    r"""\\.|"((?:\\.|[^"\\])*(?:"|\Z))|'[^']*'|\#(?<![^\s;&|(]\#)([^\n]*)|\[!(?=[^\s\]]{1,64}\])|\$\{!(?=[^\s}]{1,64}\})""",
    re.DOTALL,
)
_NOT_EXPANDED_IN_QUOTES = re.compile(r"\\.|\[!(?=[^\s\]]{1,64}\])|\$\{!(?=[^\s}]{1,64}\})", re.DOTALL)
#: Types of nodes of simple commands.
_COMMANDS = frozenset(("command", "declaration_command", "unset_command", "test_command"))
#: Types of nodes whose last one is a command that the redirections after them belong to.
_ENDING_WITH_COMMAND = frozenset(("list", "pipeline", "negated_command"))
#: Redirections without a target: each word after them is an argument.
_CLOSING = frozenset((">&-", "<&-"))
_NAMED_DESCRIPTOR = re.compile(r"\{\w+\}")
#: Builtins that run lines of the history again (bash, zsh, ksh).
_RECALLING = frozenset(("fc", "r", "hist"))
#: Commands that put their input into variables or arguments.
_READS_VALUES = frozenset(("read", "mapfile", "readarray", "xargs"))
#: Commands that print their arguments, and commands of the shell that run a file; fish runs the input without one.
_PRINTS = frozenset(("echo", "printf", "print"))
_READS_FILE = frozenset(("source", "."))
_DESCRIPTOR = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/[^/]+/(?:task/[^/]+/)?fd/\d+")
#: Commands whose output is another text than their input.
_DECODES = frozenset(("base64", "base32", "basenc", "openssl", "xxd", "rev", "tr", "uudecode"))
#: What runs if a shell without comments, such as an interactive zsh, reads a comment as words.
_ACTIVE = re.compile(r"[;&|<>$`(){}\n]")
#: Variables that change which program a command runs, or that a shell runs as text.
_HARMLESS_VARIABLE = re.compile(r"(?:LANG|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|[a-z_][a-z0-9_]*|DEBIAN_FRONTEND|CI)\Z")
_RUNNING_VARIABLE = re.compile(
    r"(?:PATH|PROMPT_COMMAND|PS[0-4]|BASH_ENV|ENV|ZDOTDIR|LD_\w+|\w*PAGER|\w*EDITOR|VISUAL|IFS|(?:READ)?NULLCMD|SHELLOPTS|BASHOPTS|\w+_COMMAND|LESSOPEN|LESSCLOSE"
    r"|INPUTRC|\w+_functions|R?PROMPT[2-4]?|RPS[12])\Z"
)
_PROMPT_VARIABLE = re.compile(r"(?:PS[0-4]|R?PROMPT[2-4]?)\Z")
#: Variables with a command that other programs run, and those that name start-up files or programs.
_COMMAND_VARIABLE = re.compile(
    r"(?:\w*PAGER|\w*EDITOR|VISUAL|FCEDIT|\w+_COMMAND|LESSOPEN|LESSCLOSE|BROWSER|GIT_SSH|GIT_EXTERNAL_DIFF|\w+_RSH|\w+_ASKPASS"
    r"|(?:READ)?NULLCMD)\Z"
)
_STARTUP_VARIABLE = re.compile(
    r"(?:HOME|XDG_CONFIG_(?:HOME|DIRS)|INPUTRC|SHELL|FPATH|VIMINIT|EXINIT|GIT_CONFIG\w*|GIT_EXEC_PATH|TAR_OPTIONS|MAKEFLAGS|LESSKEY\w*"
    r"|PYTHONSTARTUP|PYTHONPATH|PERL5\w*|RUBYOPT|RUBYLIB|NODE_OPTIONS|JAVA_TOOL_OPTIONS|LUA_INIT\w*|GCONV_PATH)\Z"
)
#: A shell defines a function from a variable with such a name (bash: `BASH_FUNC_ls%%`).
_FUNCTION_VARIABLE = re.compile(r"[%(]")
_NAME_REFERENCE = re.compile(r"-[A-Za-z]*n")
_SUBSCRIPT = re.compile(r"^\[[^\]]*\]=")
#: Builtins that evaluate subscripts in their arguments, substitutions included.
_EVALUATES = frozenset(
    ("let", "test", "[", "[[", "declare", "typeset", "local", "export", "readonly", "printf", "read", "unset", "wait")
)
#: Programs that run their input; a version may follow the name.
_INPUT_INTERPRETERS = frozenset("python perl ruby node php lua tclsh expect osascript ed ex at batch parallel".split())  # noqa: SIM905
#: Most values of unknown words that are compared; with more, these words may be anything.
_MAX_VALUES = 32
#: Most words that unknown arguments of a command are compared as; with more, these arguments may be anything.
_MAX_LIKELY = 1000
#: Most words of a text that may be read in another way; with more, it may be any command.
_MAX_WORDS_ANYWHERE = 128
_HARMLESS_TARGETS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"))


@dataclass(frozen=True)
class Command:
    """A simple command.

    Attributes:
        words: its name, without the directory of a system program, and its arguments. A redirection into a file is the
            command `>`.
        directory: the working directory, if the text itself changes into one.
        values: texts that the unknown words among the arguments may have, as far as the text has them.
        is_computed: whether the text makes values that are not in it, so that an unknown word may be any.
    """

    words: tuple[Word, ...]
    directory: str | None = None
    values: tuple[Word, ...] = ()
    is_computed: bool = False

    @property
    def is_known(self) -> bool:
        """Whether all words are known: no variable, substitution or glob."""
        return all(type(word) is str for word in self.words)

    @property
    def has_known_words(self) -> bool:
        """Whether the number of words is known: no variable or substitution may be several of them, or none."""
        return not any(word is None or (isinstance(word, Expansion) and word.may_split) for word in self.words)

    @property
    def text(self) -> str:
        """The words, with `?` for unknown ones."""
        return " ".join("?" if word is None else word for word in self.words)

    def match(self, pattern: tuple[tuple[str, ...], ...]) -> Match:
        """Return whether the name may match the pattern's first word, and some argument each of the others, in any order.

        A word of the pattern has alternatives, which are globs. Grouped options count as single ones too: `-rf` as `-r`
        and `-f`.
        """
        name, *others = pattern
        if not any(could_be(self.words[0], glob) for glob in name):
            return Match.NONE
        if not all(any(_may_mean(word, glob) for word in self._arguments for glob in alternatives) for alternatives in others):
            return Match.NONE
        if self.is_known:
            return Match.FOUND
        found = [any(_is_likely(word, glob) for word in self._likely for glob in alternatives) for alternatives in others]
        if all(found):
            return Match.FOUND
        has_unknown = any(word is None or isinstance(word, Expansion) for word in self.words[1:])
        if not any(found) or not has_unknown:
            return Match.CONCEIVABLE
        return Match.FOUND if self.is_computed else Match.PARTLY

    @property
    def if_unset(self) -> tuple[Word, ...] | None:
        """The words if unknown values at the beginning of paths are empty; None if there are none."""
        if not any(_is_path_after_unknown(word) for word in self.words):
            return None
        return tuple(
            word.unset if isinstance(word, Expansion) and _is_path_after_unknown(word) else word for word in self.words
        )

    @cached_property
    def _arguments(self) -> list[Word]:
        return self._forms(self.words[1:])

    @cached_property
    def _likely(self) -> list[Word]:
        return self._forms(self._likely_arguments())

    def _likely_arguments(self) -> Iterable[Word]:
        """Return the arguments with the values that the text has for unknown words; an unknown word if there are too many."""
        likely: dict[Word, None] = {}
        for word in dict.fromkeys(self.words[1:]):
            if word is not None and not isinstance(word, Expansion):
                likely[word] = None
                continue
            if word is None:
                likely.update(dict.fromkeys(self.values))
            else:
                suffix = word.unset if word.strip("*") else ""
                values: list[Word] = (
                    [Glob(word)] if word.begins_known else [value and f"{value}{suffix}" for value in self.values]
                )
                if self.is_computed and word.unset and not word.begins_known:
                    values.append(f"/{word.unset.lstrip('/')}")
                unset = word.unset.split() if word.may_split else [word.unset]
                values += [Glob(text) if "*" in text else text for text in unset if text]
                likely.update(dict.fromkeys(values))
            if len(likely) > _MAX_LIKELY:
                return (None,)
        return likely

    def surely_is(self, pattern: tuple[tuple[str, ...], ...]) -> bool:
        """Return whether all words are known, and the first ones match the pattern's in order."""
        if any(word is None for word in self.words) or len(self.words) < len(pattern):
            return False
        return all(
            any(surely_is(word, glob) for glob in alternatives) for word, alternatives in zip(self.words, pattern, strict=False)
        )

    def _forms(self, arguments: Iterable[Word]) -> list[Word]:
        """Return the arguments and other texts with the same meaning."""
        forms: list[Word] = []
        for word in arguments:
            forms.append(word)
            if word is None:
                continue
            if re.fullmatch(r"-[A-Za-z]{2,}", word):
                forms += [f"-{letter}" for letter in dict.fromkeys(word[1:])]
            elif word.startswith(("/", "~")):
                path = normalised_path(word)
                forms.append(path)
                if isinstance(word, Glob) and path.endswith("/*"):
                    forms.append(path[:-2] or "/")  # deleting the content of a folder counts as deleting the folder
            elif set(word.split("/")) <= {"..", ".", ""} and ".." in word:
                forms.append(Glob("/*"))
            elif self.directory is not None and not word.startswith("-"):
                path = f"{self.directory}/{word}"
                forms.append(normalised_path(Glob(path) if isinstance(word, Glob) else path))
            if not word.startswith("-") and "=" in word:
                prefix, _, value = word.partition("=")
                if value.startswith("/") or (value and self.directory is not None):
                    path = value if value.startswith("/") else f"{self.directory}/{value}"
                    joined = f"{prefix}={normalised_path(path)}"
                    forms.append(Glob(joined) if isinstance(word, Glob) else joined)
        return list(dict.fromkeys(forms))


def _is_path_after_unknown(word: Word) -> bool:
    return isinstance(word, Expansion) and not word.begins_known and word.unset.startswith("/")


def _may_mean(word: Word, glob: str) -> bool:
    """Return whether an argument may match a glob; GNU programs accept abbreviations of long options."""
    is_abbreviation = word is not None and len(word) > 2 and word.startswith("--") and glob.startswith(word.partition("=")[0])
    return is_abbreviation or could_be(word, glob)


def _is_likely(word: Word, glob: str) -> bool:
    """Return whether an argument may match a glob, if the shell expands no pattern to an option."""
    is_operand = isinstance(word, Glob) and not isinstance(word, UnknownBraces) and not word.startswith("-")
    return _may_mean(word, glob) and not (glob.startswith("-") and is_operand)


@dataclass(frozen=True, slots=True)
class ShellText:
    """A text in canonical form.

    Attributes:
        commands: every simple command, also those in arguments and substitutions.
        text: the pipelines and commands as one line each; for regular expressions.
        unparsed: why the commands are not known for certain; "" if they are.
        evaluates: whether the only reason is that the shell evaluates the value of a variable.
        opaque: whether the text is nested too deeply, so that it may run any command.
        recalls: whether a command runs lines of the history, which are not in the text.
    """

    commands: tuple[Command, ...]
    text: str
    unparsed: str = ""
    opaque: bool = False
    recalls: bool = False
    evaluates: bool = False


def text_run_from(variable: str, value: str) -> str | None:
    """Return the commands that a shell or a program runs because an environment variable has a value; None if none."""
    if _COMMAND_VARIABLE.match(variable):  # less runs the command after `|` and `-`
        return value.lstrip("|- ") if variable.startswith("LESS") else value
    if _PROMPT_VARIABLE.match(variable) and ("$(" in value or "`" in value):  # expanded like a word in double quotes
        return ': "' + value.replace("\\", "").replace('"', '\\"') + '"'
    return None


def changes_programs(variable: str) -> bool:
    """Return whether an environment variable changes which programs, functions or start-up files run, such as PATH."""
    if _FUNCTION_VARIABLE.search(variable):
        return True
    if _PROMPT_VARIABLE.match(variable) or _COMMAND_VARIABLE.match(variable):
        return False
    return _RUNNING_VARIABLE.match(variable) is not None or _STARTUP_VARIABLE.match(variable) is not None


def expands_history(text: str) -> bool:
    """Return whether an interactive bash or zsh puts a part of its history into a typed text."""
    return ("!" in text or "^" in text) and _HISTORY.search(_UNEXPANDED.sub(_expanded_part, text)) is not None


def runs_history(text: str) -> bool:
    """Return whether an interactive shell that reads a text runs lines of its history, by an expansion or a builtin."""
    return expands_history(text) or canonical_shell(text).recalls


def _expanded_part(match: re.Match[str]) -> str:
    """Return the text of a match that history expansion applies to. A comment is one to bash only."""
    expanded = match[0] if match.lastindex else "''"
    return _NOT_EXPANDED_IN_QUOTES.sub("''", expanded)


def canonical_shell(text: str, shell: str | None = None) -> ShellText:
    """Return the canonical form of what is typed at a shell's prompt, one or several lines.

    Of a text that is too long to be parsed, only commands whose words are all known are found, and it is unparsed.

    Args:
        shell: the dialect of the shell; None is a POSIX shell or zsh. A text for another shell, or that fish may read in
            another way, is unparsed: then each word may also be a command, with all others as its arguments.
    """
    form = _kept_form(text) if len(text) <= _KEPT_TEXT else _form(text)
    if shell not in ("fish", OTHER_SHELL):
        return form
    if shell == OTHER_SHELL or not is_read_as_in_fish(text):
        return _read_anyhow(text, form)
    return form if (posix := fish_as_posix(text)) == text else _joined(form, canonical_shell(posix))


def _joined(one: ShellText, certain: ShellText) -> ShellText:
    """Add the commands of a reading to those of the one that is certain."""
    commands = tuple(dict.fromkeys((*certain.commands, *one.commands)))
    return replace(
        certain, commands=commands, text="\n".join(dict.fromkeys((*certain.text.split("\n"), *one.text.split("\n"))))
    )


def _read_anyhow(text: str, form: ShellText) -> ShellText:
    """Add a command for each word of a text that may be read in another way; an `opaque` one has too many words."""
    words = words_anywhere(text)
    reason = form.unparsed or "the shell may read this text otherwise than bash"
    if len(words) > _MAX_WORDS_ANYWHERE:
        return replace(form, unparsed=reason, evaluates=False, opaque=True)
    commands = dict.fromkeys(form.commands)
    lines = [form.text]
    for place, name in enumerate(words):
        commands[Command(_named((name, *words[:place], *words[place + 1 :])))] = None
        lines.append(" ".join(words[place:]))
    return replace(form, commands=tuple(commands), text="\n".join(lines), unparsed=reason, evaluates=False)


def _form(text: str) -> ShellText:
    walk = _Walk(Budget(text))
    try:
        walk.read(text, 0)
    except TooComplexError:
        walk.give_up()
    if walk.runs_values:
        walk.read_values(Budget(text))
    if walk.too_long and not walk.opaque:
        return _read_fragments(text, plain_parts(text), walk.unparsed)
    for unread in walk.unread:
        walk.commands += _read_fragments(text, unread, "", is_read=True).commands
    values = walk.known_values()
    commands = dict.fromkeys(
        command if command.is_known else replace(command, values=values, is_computed=walk.is_computed)
        for command in walk.commands
    )
    unparsed, evaluates = walk.unparsed or walk.evaluated, not walk.unparsed and walk.evaluated != ""
    form = ShellText(tuple(commands), "\n".join(walk.lines), unparsed, walk.opaque, walk.recalls, evaluates)
    return _read_anyhow(text, form) if walk.has_error and len(words_anywhere(text)) <= _MAX_WORDS_ANYWHERE else form


_kept_form = lru_cache(_FORMS)(_form)


def _read_fragments(text: str, parts_of_text: Iterable[str], unparsed: str, *, is_read: bool = False) -> ShellText:
    """Read the parts of a text, each alone. `is_read`: the text as a whole was read before."""
    fragments: dict[str, None] = {}
    whole = text.strip() if is_read else ""
    for part in parts_of_text:
        if (fragment := part.strip()[:_FRAGMENT]) not in ("", whole):
            fragments[fragment] = None
        if len(fragments) >= _MAX_FRAGMENTS:
            break
    commands: dict[Command, None] = {}
    budget, opaque = Budget(text, _FRAGMENTS_STEPS), False
    try:
        for fragment in fragments:
            commands.update(dict.fromkeys(_read_fragment(fragment, budget)))
    except TooComplexError:
        opaque = True
    lines = (*(command.text for command in commands), text[:MAX_TEXT])
    return ShellText(tuple(commands), "\n".join(lines), unparsed, opaque)


#: Known commands of fragments, and the steps that reading them takes. A text that is typed line by line repeats its fragments.
_kept_fragments: dict[str, tuple[tuple[Command, ...], int]] = {}


def _read_fragment(fragment: str, budget: Budget) -> tuple[Command, ...]:
    """Return the commands of a fragment whose words are known. Kept ones count in the budget as if they were read again."""
    if (kept := _kept_fragments.get(fragment)) is not None:
        budget.spend(kept[1])
        return kept[0]
    begin, walk = budget.left, _Walk(budget)
    walk.read(fragment, 0)
    commands = tuple(command for command in walk.commands if command.is_known)
    if len(fragment) <= _KEPT_FRAGMENT:
        if len(_kept_fragments) >= _FRAGMENTS:
            _kept_fragments.clear()
        _kept_fragments[fragment] = commands, begin - budget.left
    return commands


@dataclass
class _Walk:
    """Collects the commands of a syntax tree. Its methods raise TooComplexError once the budget is spent."""

    budget: Budget
    commands: list[Command] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Word] = field(default_factory=list)
    #: Parts of texts that are read each alone, because they are not parsed as a whole.
    unread: list[Iterable[str]] = field(default_factory=list)
    unparsed: str = ""
    #: Why the value of a variable is evaluated; "" if none is.
    evaluated: str = ""
    too_long: bool = False
    #: Whether a text, or a part that a shell runs, has a syntax error in each of its variants.
    has_error: bool = False
    opaque: bool = False
    recalls: bool = False
    is_computed: bool = False
    #: Whether a shell runs text that is not known: a value, or what a command prints.
    runs_values: bool = False
    directory: str | None = None
    _removals: dict[tuple[str, str], None] = field(default_factory=dict)
    #: What commands such as `echo` print.
    _printed: list[str] = field(default_factory=list)
    _operators: int = 0
    _words: int = 0
    #: Caches of the words of a command and of the commands below a node, which several nodes need.
    _words_of_node: dict[Node, tuple[Word, ...]] = field(default_factory=dict)
    _commands_of_node: dict[Node, list[tuple[Word, ...]]] = field(default_factory=dict)

    def give_up(self) -> None:
        """Treat the text as too long to parse."""
        self._cannot("the text is too complex to be parsed as a whole")
        self.too_long = True

    def read(self, text: str, depth: int) -> None:
        """Parse a text and collect its commands."""
        if depth > _MAX_DEPTH:
            self._is_too_deep()
            return
        if not self._is_short(text):
            self._cannot("the text is too long to be parsed as a whole")
            self.too_long = True
            return
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._check_characters(text)
        for variant in variants(text):
            root = parse_shell(variant, self.budget)
            if root.has_error:
                self._cannot("the text is no complete command of a POSIX shell")
                has_error = True
                for other in variants_with_error(variant):
                    other_root = parse_shell(other, self.budget)
                    has_error = has_error and other_root.has_error
                    self._visit_all(other_root, depth)
                self.has_error = self.has_error or has_error
                self.unread.append(parts(variant))
            self._visit_all(root, depth)
        if _UNREAD_DELIMITER.search(text):
            self._cannot("the delimiter of a here-document is not parsed")
            self.unread.append(plain_parts(text))

    def read_values(self, budget: Budget) -> None:
        """Read the values that the text has as text for a shell. The others are not read once the budget is spent."""
        self.budget = budget
        scripts = dict.fromkeys(str(value) for value in (*self.values, *self._printed) if value)
        with suppress(TooComplexError):
            for script in islice(scripts, _MAX_VALUES):
                lines = len(self.lines)
                self.read(script, 1)
                if len(script.split()) < 2:  # its command is enough, if it is one
                    del self.lines[lines:]

    def known_values(self) -> tuple[Word, ...]:
        """Return the values that unknown words may have, also after removals; an unknown word if there are too many."""
        values = dict.fromkeys(self.values)
        if len(values) * (1 + len(self._removals)) > _MAX_VALUES:
            return (None,) if self._removals or len(values) > _MAX_VALUES else tuple(values)
        for value in list(values):
            removed = [value and without_part(value, *each) for each in self._removals]
            values.update(dict.fromkeys(rest for rest in removed if rest != ""))
        return tuple(values)

    def _is_short(self, text: str) -> bool:
        """Return whether the text, with all that was read before, can be parsed in a short time."""
        if len(text) > MAX_TEXT or self.too_long:
            return False
        body = _TEXT_BODY.match(text)
        if body is not None:
            text = text[: body.start(body.lastindex or 0)] + text[body.end() :]
        self._operators += len(_OPERATOR.findall(text))
        self._words += len(text.split())
        return self._operators <= _MAX_OPERATORS and self._words <= _MAX_WORDS

    def _check_characters(self, text: str) -> None:
        if _CONTROL.search(text):
            self._cannot("the text has control characters")
        if expands_history(text):
            self._cannot("the text has a history expansion")
        if any("#" in line and line.endswith("\\") for line in text.split("\n")[:-1]):
            self._cannot("a backslash may continue a line or end a comment")

    def _is_too_deep(self) -> None:
        self._cannot("commands or values are nested too deeply in others")
        self.opaque = True

    def _cannot(self, reason: str) -> None:
        self.unparsed = self.unparsed or reason

    def _visit_all(self, root: Node, depth: int) -> None:
        """Visit the nodes in order of the source, without recursion: the depth of a tree is not limited."""
        self.budget.spend(_VISIT_STEPS * root.descendant_count)
        stack = [root]
        while stack:
            node = stack.pop()
            try:
                self._visit(node, depth)
            except NestedTooDeeplyError:
                self._is_too_deep()
            stack.extend(reversed(node.children))

    def _visit(self, node: Node, depth: int) -> None:
        if not (self.unparsed or self.evaluated) and is_evaluated(node):
            self.evaluated = "arithmetic evaluates the value of a variable"
        match node.type:
            case "pipeline":
                self._pipeline(node)
            case kind if kind in _COMMANDS:
                self._command(node, depth)
            case "variable_assignment":
                self._assignment(node)
            case "for_statement":
                listed = [word for value in node.children_by_field_name("value") for word in resolve_all(value)]
                self._note_values(listed)
                names = [source(each) for each in node.children_by_field_name("variable")]
                self._note_variables(names)
                self._note_integers(names)
                self._add_values((None, *listed))
            case "command_substitution":
                for words in self._commands_in(node):
                    self._add_values(words)
            case "process_substitution" if source(node).startswith(">("):
                if any(words[0] is None or reads_program(words) for words in map(_effective, self._commands_in(node))):
                    self._cannot("a shell or an interpreter runs the output of another command")
                    self.runs_values = True
            case "redirected_statement":
                self._check_words_after(node.children_by_field_name("redirect"), _last_command(node), depth)
            case "file_redirect":
                if node.parent is None or not node.parent.type.endswith(("redirected_statement", "_redirect")):
                    self._check_words_after([node], node.parent, depth)
                self._redirect(node)
            case "heredoc_redirect" | "herestring_redirect":
                self._input_text(node, depth)
            case "comment" if _ACTIVE.search(source(node)):
                self._cannot("a shell without comments would run the comment")
                self.unread.append(islice(parts(source(node)), 1, None))
            case "extglob_pattern" if "(" in source(node):
                self._cannot("a pattern may run commands")
            case "word" if "\n" in source(node):
                self._cannot("a word has a line break without quotes")
            case "expansion" | "heredoc_body":
                self._note_expansion(node)
                if any(child.type in ("=", ":=") for child in node.children):  # assigned, and so a value of other words
                    self.budget.spend(_VISIT_STEPS * min(node.descendant_count, _VALUE_NODES))
                    self.values.append(value_if_unset(node))
                    names = [source(child) for child in node.named_children[:1]]
                    self._note_variables(names)
                    self._note_integers(names)
                self._unseen_substitutions(node, depth)
            case "function_definition":
                self._cannot("a function is defined")
                self._recursion(node)

    def _note_expansion(self, node: Node) -> None:
        """Note how an expansion changes the value of its variable."""
        self.is_computed = self.is_computed or is_computed(node)
        if (removed := removal(node)) is not None:
            self._removals[removed] = None

    def _unseen_substitutions(self, node: Node, depth: int) -> None:
        """Read the substitutions that the parser takes for text, such as backquotes in `${x:-...}` and in here-documents."""
        siblings = node.parent.children if node.parent is not None else []
        delimiter = next((source(child) for child in siblings if child.type == "heredoc_start"), "")
        if node.type == "heredoc_body" and delimiter.startswith(("'", '"', "\\")):
            return
        text = source(node)
        self.budget.spend(node.descendant_count + len(text) // 64)
        starts = list(_SUBSTITUTION.finditer(text))
        seen, stack = 0, list(node.children)
        while starts and stack:
            child = stack.pop()
            seen += child.type in _SUBSTITUTION_TOKENS
            stack += child.children
        if len(starts) <= seen:
            return
        self._cannot("a substitution is in a place that is not parsed")
        for start in starts:
            end = text.find("`", start.end()) if start[0] == "`" else len(text)
            known = len(self.commands)
            self.read(text[start.end() : end if end >= 0 else len(text)], depth + 1)
            for command in self.commands[known:]:
                self._add_values(command.words)

    def _recursion(self, node: Node) -> None:
        """Add the command `()` for a function that starts itself in a pipeline or in the background."""
        name = node.child_by_field_name("name")
        body = source(node.child_by_field_name("body") or node)
        if name is not None and ("|" in body or "&" in body):
            words = (source(name),)
            if any(command[:1] == words for command in self._commands_in(node)):
                self.commands.append(Command(("()", *words)))

    def _command(self, node: Node, depth: int) -> None:
        words = self._words_of(node)
        if not words:
            return
        if isinstance(words[0], Glob) or _may_substitute(words[0]) or str(words[0]).startswith("="):
            self._cannot("a command's name is not known")
        if (name := node.child_by_field_name("name")) is not None and _names_descriptor(name):
            self.read(" ".join(map(source, _arguments(node))), depth + 1)  # also what follows an assignment
        if words[0] in _DECODES or (words[0] == "printf" and any(word is None or "\\" in word for word in words[1:2])):
            self.is_computed = True
        if words[0] in _RECALLING and not any(word is not None and re.fullmatch(r"-\w*l\w*", word) for word in words[1:]):
            self._cannot(f"{words[0]} runs lines of the history again")
            self.recalls = True
        for part in (node, *_words_after_redirections(node)):
            if _SUBSTITUTED.search(source(part)):
                self._substituted_program(part, _effective(words)[0])
        line = self._add(words, depth)
        if node.parent is None or node.parent.type != "pipeline":
            self.lines.append(line)

    def _substituted_program(self, node: Node, name: Word) -> None:
        """A shell that runs the output of a substitution is a pipeline: `bash -c "$(curl x)"` as `curl x | bash`."""
        if name is None or (name not in SHELLS and name not in ("eval", "source", ".")):
            return
        self.budget.spend(node.descendant_count)
        stack = list(node.children)
        while stack:
            child = stack.pop()
            if child.type in ("command_substitution", "process_substitution"):
                self.runs_values = True
                commands = [" ".join("?" if word is None else word for word in words) for words in self._commands_in(child)]
                self.lines.append(" | ".join((*commands, name)))
            stack += child.children

    def _add(self, words: tuple[Word, ...], depth: int) -> str:
        """Add a command and what it runs. Returns the text of the innermost command that reads its input."""
        self.budget.spend(_COMMAND_STEPS + _WORD_STEPS * len(words))
        if self.directory is not None and words[0] is not None and words[0].startswith(("./", "../")):
            words = _named((f"{self.directory}/{words[0]}", *words[1:]))
        command = Command(words, self.directory)
        self.commands.append(command)
        if words[0] in _EVALUATES and any(word is not None and _may_substitute(word) for word in words[1:]):
            self._cannot(f"{words[0]} may evaluate its arguments")
        is_unknown = words[0] in _EVALUATES and None in words[1:]
        if not (self.unparsed or self.evaluated) and (is_unknown or evaluates_arguments(words)):
            self.evaluated = f"{words[0]} may evaluate its arguments"
        self._note_variables(assigned_variables(words))
        if (if_unset := command.if_unset) is not None:
            self.lines.append(Command(if_unset).text)
        if words[0] in ("declare", "typeset", "local") and any(map(_NAME_REFERENCE.match, filter(None, words[1:]))):
            self._cannot("a variable is another name of one that may change what runs")
        if words[0] in ("find", "set", *SHELLS) or words[:2] == ("printf", "-v"):
            self._add_values(words)
        self._change_directory(words)
        if words[0] in _PRINTS and None not in words:
            self._printed += [" ".join(map(str, words[begin:])).replace("\\n", "\n") for begin in range(1, min(len(words), 3))]
        inner = inner_command(words)
        if inner.unknown:
            self._cannot(inner.unknown)
            if inner.unknown == UNKNOWN_TEXT:
                self.runs_values = True
                self._printed.append(" ".join(filter(None, map(_if_unset, words[1:]))))
        if inner.script is not None:
            self.read(inner.script, depth + 1)
        if not inner.words:
            return command.text
        if depth >= _MAX_DEPTH:
            self._is_too_deep()
            return command.text
        if inner.words[0] is None or isinstance(inner.words[0], Glob):
            self._cannot("a command's name is not known")
        line = self._add(_named(inner.words), depth + 1)
        if not inner.follows:
            self.lines.append(line)
        self.lines += [self._add(_named(words), depth + 1) for words in inner.also if words]
        return line if inner.follows else command.text

    def _add_values(self, words: tuple[Word, ...]) -> None:
        """Add the arguments of a command whose output may be in unknown words."""
        self.budget.spend(len(words))
        for word in words[1:]:
            if not isinstance(word, Expansion):
                self.values += [] if word is None else [word]
            elif not word.strip("*") and word.unset:
                self.values.append(word.unset)

    def _change_directory(self, words: tuple[Word, ...]) -> None:
        if words[0] in ("cd", "pushd"):
            target = next((word for word in words[1:] if word is None or not word.startswith("-")), "~")
            if target is None or isinstance(target, Glob):
                self.directory = "*"
            elif target.startswith(("/", "~")) or self.directory is not None:
                directory = str(normalised_path(target if target[0] in "/~" else f"{self.directory}/{target}"))
                self.directory = directory if len(directory) <= _MAX_DIRECTORY else "*"

    def _pipeline(self, node: Node) -> None:
        stages = [[_effective(words) for words in self._stage(child)] for child in node.named_children]
        everything = [words for stage in stages for words in stage]
        self.budget.spend(_WORD_STEPS * sum(map(len, everything)))
        for words in everything:
            self._add_values(words)
        self.lines.append(" | ".join(" ".join("?" if word is None else word for word in words) for words in everything))
        is_fed = node.parent is not None and node.parent.type == "heredoc_redirect"
        for stage in stages if is_fed else stages[1:]:
            if not stage or any(words[0] is None or reads_program(words) for words in stage):
                self._cannot("a shell or an interpreter runs the output of another command")
                self.runs_values = True

    def _note_variables(self, names: list[str]) -> None:
        """Note the names of variables that get a value."""
        for name in names:
            if _RUNNING_VARIABLE.match(name):
                self._cannot(f"the variable {name} may change what runs")

    def _note_integers(self, names: list[str], value: str | None = None) -> None:
        """Note the names of variables that get a value, which may be unknown."""
        if any(evaluates_value(name, value) for name in names):
            self.evaluated = self.evaluated or "an assignment evaluates the value"

    def _note_values(self, values: list[Word]) -> None:
        """Note the values of a variable: arithmetic runs a substitution in them, also in a later line."""
        if any(word is not None and _may_substitute(word) for word in values):
            self._cannot("the value of a variable has a substitution")

    def _assignment(self, node: Node) -> None:
        name = source(node.child_by_field_name("name") or node)
        value = node.child_by_field_name("value")
        if value is not None and value.type == "array":
            words = [word for element in value.named_children for word in _element(element)]
            self._note_values(words)
            self._add_values((None, *words))
        elif value is not None and (word := resolve(value)) is not None:
            self._note_values([word])
            self._add_values((None, *([*word.split(), word] if type(word) is str else [word])))
        is_prefix = node.parent is not None and node.parent.type == "command"
        self._note_variables([name.partition("[")[0]])
        self._note_integers([name.partition("[")[0]], None if value is None else source(value))
        if is_prefix and not _HARMLESS_VARIABLE.match(name):
            self._cannot(f"the variable {name} may change what runs")

    def _check_words_after(self, redirections: list[Node], command: Node | None, depth: int) -> None:
        """Read words after redirections as a command of its own if they are no arguments of a known one.

        So the parser reads a command that begins with two redirections and ends with another one.
        """
        words = [word for redirection in redirections for word in _words_in_redirection(redirection)]
        if not words:
            return
        if command is None or command.type not in _COMMANDS or not set(words).issubset(_words_after_redirections(command)):
            self._cannot("words follow redirections that belong to no command, or to a compound one")
            self.read(" ".join(map(source, words)), depth + 1)

    def _redirect(self, node: Node) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        target = None if operator in _CLOSING else node.child_by_field_name("destination")
        for word in resolve_all(target) if target is not None else [None]:
            self._redirect_to(operator, word)
        if target is not None and operator == "<" and self._reads_values(node):
            for words in self._commands_in(target):
                self._add_values(words)

    def _redirect_to(self, operator: str, word: Word) -> None:
        is_input = operator == "<" and not could_be(word, "/dev/[tu]??/*")
        is_copy = operator in (">&", "<&", ">&-", "<&-") and word is not None and re.fullmatch(r"\d*-?", word)
        if not is_input and not is_copy and word not in _HARMLESS_TARGETS:
            self.commands.append(Command((">", word), self.directory))
            self.lines.append(self.commands[-1].text)

    def _input_text(self, node: Node, depth: int) -> None:
        """Text that a command reads: a shell runs it. In a list or pipeline, any of the commands may be the one."""
        if node.type == "herestring_redirect":
            word = resolve(node.named_children[-1]) if node.named_children else None
        else:
            body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
            word = source(body) if body is not None else ""
        if self._reads_values(node):
            self._add_values((None, word, *(word.split() if type(word) is str else ())))
        self.budget.spend(len(self._commands_in(node.parent)) if node.parent is not None else 0)
        outer = [_effective(words) for words in self._commands_in(node.parent)] if node.parent is not None else []
        readers = [words for words in outer if reads_program(words)]
        if word is not None and any(words[0] in PROGRAMS_WITH_ESCAPES for words in outer):
            self.unread.append(shell_escapes(word))
        if not readers:
            return
        is_shell = all(words[0] in _READS_FILE or words[0] in SHELLS or starts_shell(words) for words in readers)
        if word is None or isinstance(word, Glob) or not is_shell:
            self._cannot("a shell or an interpreter runs text that is not known")
            self.runs_values = self.runs_values or is_shell
        else:
            self.read(word, depth + 1)

    def _commands_in(self, root: Node) -> list[tuple[Word, ...]]:
        """Return the words of all commands below a node, or of the node itself."""
        if (known := self._commands_of_node.get(root)) is not None:
            self.budget.spend(len(known))
            return known
        self.budget.spend(root.descendant_count)
        found, stack = [], [root]
        while stack:
            node = stack.pop()
            if node.type in ("command", "declaration_command"):
                found.append(self._words_of(node))
            stack.extend(node.children)
        commands = self._commands_of_node[root] = [words for words in found if words]
        return commands

    def _words_of(self, node: Node) -> tuple[Word, ...]:
        """Return the words of a command's node, as `_words`."""
        if (words := self._words_of_node.get(node)) is None:
            self.budget.spend(_WORD_STEPS * node.descendant_count)
            words = self._words_of_node[node] = _words(node)
        return words

    def _stage(self, node: Node) -> list[tuple[Word, ...]]:
        """Return the words of the commands of a pipeline's stage. Any of these commands may read its input."""
        if node.type in ("command", "declaration_command"):
            words = self._words_of(node)
            return [words] if words else []
        return self._commands_in(node)

    def _reads_values(self, redirection: Node) -> bool:
        """Return whether a command that may read the redirected input puts it into variables or arguments."""
        outer = self._commands_in(redirection.parent) if redirection.parent is not None else []
        return any(words[0] in _READS_VALUES for words in outer)


def _if_unset(word: Word) -> str:
    return word.unset if isinstance(word, Expansion) else word or ""


def _may_substitute(word: Word) -> bool:
    return word is None or "$(" in word or "`" in word


def _element(node: Node) -> list[Word]:
    """Return the words of an array's element, without its subscript."""
    return [word if word is None or isinstance(word, Expansion) else _SUBSCRIPT.sub("", word) for word in resolve_all(node)]


def reads_program(words: tuple[Word, ...]) -> bool:
    """Return whether a command may run what it reads from its input as a program."""
    name = words[0] if words else None
    if name in SHELLS or name in _READS_FILE:
        operands = [word for word in words[1:] if word is None or not word.startswith("-")]
        return not operands or "-s" in words or "-" in words[1:] or any(map(_is_input, operands))
    if starts_shell(words):
        return True
    if name is not None and name.rstrip("0123456789.") in _INPUT_INTERPRETERS:
        return all(word is not None and word.startswith("-") for word in words[1:])
    return False


def _is_input(word: Word) -> bool:
    """Return whether a file may be a descriptor of the command, such as its input."""
    return word is not None and _DESCRIPTOR.match(str(normalised_path(word))) is not None


def _words(node: Node) -> tuple[Word, ...]:
    """Return the words of a command's node: name and arguments, without assignments and redirections."""
    if node.type in ("declaration_command", "unset_command"):
        children = [*node.children, *_words_after_redirections(node)]
        return tuple(word for child in children for word in _source_or_words(child))
    if node.type == "test_command":
        return ("[", source(node), *(word for each in _words_after_redirections(node) for word in resolve_all(each)))
    name = node.child_by_field_name("name")
    if name is None:
        return ()
    arguments = _arguments(node)
    if _names_descriptor(name):
        return (None, *(word for each in arguments for word in resolve_all(each)))
    words = tuple(word for each in (*(name.children[:1] or (name,)), *arguments) for word in resolve_all(each))
    if arguments and arguments[0].start_byte == name.end_byte:  # the parser ends the word before the shell does
        return (None, *words[1:])
    return _named(words)


def _arguments(command: Node) -> list[Node]:
    """Return the words after a command's name, also those after its redirections."""
    words = [*command.children_by_field_name("argument"), *_words_after_redirections(command)]
    return [word for word in words if not _names_descriptor(word)]


def _words_after_redirections(command: Node) -> list[Node]:
    """Return the words of a command that follow its redirections: the parser takes them for parts of these.

    It also takes a redirection at the end of a list or pipeline for one of the whole.
    """
    words: list[Node] = []
    node, parent = command, command.parent
    while parent is not None:
        if parent.type == "redirected_statement" and parent.child_by_field_name("body") == node:
            for redirection in parent.children_by_field_name("redirect"):
                words += _words_in_redirection(redirection)
        elif parent.type not in _ENDING_WITH_COMMAND or parent.named_children[-1] != node:
            break
        node, parent = parent, parent.parent
    return words


def _last_command(node: Node | None) -> Node | None:
    """Return the command at the end of a list, a pipeline or a negated command; any other node itself."""
    while node is not None and (node.type in _ENDING_WITH_COMMAND or node.type == "redirected_statement"):
        is_whole = node.type in _ENDING_WITH_COMMAND
        node = (node.named_children or (None,))[-1] if is_whole else node.child_by_field_name("body")
    return node


def _words_in_redirection(redirection: Node) -> list[Node]:
    """Return the words in the node of a redirection that are arguments of the command, in their order."""
    words: list[Node] = []
    if redirection.type == "file_redirect":
        operator = next((child.type for child in redirection.children if not child.is_named), "")
        targets = redirection.children_by_field_name("destination")
        words += targets if operator in _CLOSING else targets[1:]
    for child in redirection.named_children:
        if child.type == "file_redirect":
            words += _words_in_redirection(child)
    if redirection.type == "heredoc_redirect":
        words += redirection.children_by_field_name("argument")
    return sorted(words, key=lambda word: word.start_byte)


def _names_descriptor(word: Node) -> bool:
    """Return whether a word is the name in `{name}>file`, a variable for a descriptor."""
    if not _NAMED_DESCRIPTOR.fullmatch(source(word)):
        return False
    node: Node | None = word
    while node is not None and node.end_byte == word.end_byte and node.next_sibling is None:
        node = node.parent
    following = None if node is None else node.next_sibling
    return following is not None and following.type.endswith("_redirect") and following.start_byte == word.end_byte


def _source_or_words(node: Node) -> list[Word]:
    if node.type == "variable_assignment":
        text = source(node)
        return [text if "$" not in text and "`" not in text else None]
    return resolve_all(node) if node.is_named else [source(node)]


def _named(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words with the name of a system program without its directory."""
    name = words[0]
    if type(name) is str and name.startswith("=") and len(name) > 1:  # zsh: the path of this program
        return _named((name[1:], *words[1:]))
    if name is not None and (shell := _SHELL_WITH_VERSION.match(name)):
        return (shell[1], *words[1:])
    if name is None or "/" not in name:
        return words
    if isinstance(name, Glob):
        return (Glob(name.rpartition("/")[2]), *words[1:])
    path = normalised_path(name)
    if path.startswith("/proc/"):  # a link to any program
        return (None, *words[1:])
    for directory in _SYSTEM_DIRECTORIES:
        if path.startswith(directory) and "/" not in path[len(directory) :]:
            return (path[len(directory) :], *words[1:])
    return words


def _effective(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command that runs in the end, in place of sudo and similar programs."""
    for _ in range(_MAX_DEPTH):
        inner = inner_command(words) if words else None
        if inner is None or not inner.words or not inner.follows:
            return words
        words = _named(inner.words)
    return words
