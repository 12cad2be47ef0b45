"""Words of a shell command after quoting and expansion, as far as they are known from the text.

A word is a str, a `Glob` (its text after expansion is anything that the pattern matches), an `Expansion` (a glob with the value
of a variable or a substitution in it), or None: any number of unknown words.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import translate
from functools import lru_cache

from tree_sitter import Node

from .shell_syntax import decode_source, source

#: A word of a command; see the module's docstring.
Word = str | None


class Glob(str):
    """A word that the shell expands, or that is known in part; `*`, `?` and `[...]` match unknown text.

    It differs from a quoted word with the same text.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str.__eq__(self, other)

    __hash__ = str.__hash__


class Expansion(Glob):
    """A word with unknown values, which are `*` in its text.

    Attributes:
        unset: the text if these values are empty.
        may_split: whether the shell may split the word into several ones.
    """

    __slots__ = ("may_split", "unset")

    unset: str
    may_split: bool

    def __new__(cls, text: str, unset: str, *, may_split: bool) -> Expansion:
        word = super().__new__(cls, text)
        word.unset = unset
        word.may_split = may_split
        return word

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Expansion)
            and str.__eq__(self, other)
            and (self.unset, self.may_split) == (other.unset, other.may_split)
        )

    __hash__ = str.__hash__

    @property
    def begins_known(self) -> bool:
        """Whether the first character of the word is known."""
        return not self.startswith("*")


class FileGlob(Glob):
    """A pattern for names of files without a directory: the shell expands it to names without a slash."""

    __slots__ = ()


class UnknownBraces(Glob):
    """A word of braces that expand to too many words: it may be an option or an operand."""

    __slots__ = ()


#: Longest pattern in a text that is compared; a longer one may be any word.
_MAX_GLOB = 512
_GLOB_CHARACTERS = re.compile(r"[*?\[]")
#: Braces that the shell expands to several words.
_INNER_BRACES = re.compile(r"\{([^{}]*)\}")
#: Most words that braces expand to; with more, they are any text.
_MAX_BRACES = 64
#: Braces of one word, which the shell does not expand.
_PLAIN_BRACES = re.compile(r"\{((?:[^{},.]|\.(?!\.))*)\}")
#: Private characters take the place of what is quoted or expanded in a word with braces.
_FIRST_PRIVATE = 0xF0000
_ESCAPE_OR_PRIVATE = re.compile("\\\\(.)|([\U000f0000-\U0010ffff])", re.DOTALL)
_PRIVATE = re.compile("([\U000f0000-\U0010ffff])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_STRING_ESCAPE = re.compile(r'\\([$`"\\])')
_ANSI_C_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_C_NAMES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HOME = frozenset(("$HOME", "${HOME}"))
#: Operators of expansions with a default value, with an alternative, or with an error in place of a value.
_DEFAULT = re.compile(r":?([-=?+])")
_QUOTES = re.compile(r"[\\'\"]")
#: Operators of expansions that replace a part of the value, and that remove one from its end or its beginning.
_REPLACING = frozenset(("/", "//", "/#", "/%"))
_REMOVING = frozenset(("%", "%%", "#", "##"))
_FIRST_CHARACTER = re.compile(r"\$\{\w+(?:\[[^\]]*\])?:\s*0?\s*:\s*1\s*\}")
#: Longest pattern of a removal that is compared.
_MAX_REMOVED = 64
#: How deep default values may be nested in others.
_MAX_NESTED = 20


class NestedTooDeeplyError(Exception):
    """Default values of expansions are nested too deeply in others for their value to be known."""


def resolve_all(node: Node) -> list[Word]:
    """Return the words of an argument's node: several if it has braces."""
    if node.type not in ("word", "concatenation") or not _may_have_braces(source(node)):
        return [resolve(node)]
    parts: list[str] = []

    def replace_part(part: str) -> str:
        parts.append(part)
        return chr(_FIRST_PRIVATE + len(parts) - 1)

    text = "".join(
        _ESCAPE_OR_PRIVATE.sub(lambda match: replace_part(match[1] or match[2]), source(leaf))
        if leaf.child_count == 0 and leaf.type not in ("raw_string", "ansi_c_string")
        else replace_part(_part(leaf))
        for leaf in _flatten(node)
    )
    text = _PLAIN_BRACES.sub(lambda match: f"{replace_part('{')}{match[1]}{replace_part('}')}", text)
    pieces = [_PRIVATE.split(each) for each in _expand_braces(text, replace_part(UnknownBraces("*"))) if each]
    return [_join([parts[ord(p) - _FIRST_PRIVATE] if _PRIVATE.match(p) else _literal(p) for p in word if p]) for word in pieces]


def _may_have_braces(text: str) -> bool:
    begin, end = text.find("{"), text.rfind("}")
    return 0 <= begin < end and _has_options(text[begin:end])


def _has_options(text: str) -> bool:
    """Return whether braces around a text have several words."""
    return "," in text or ".." in text


def _flatten(node: Node) -> list[Node]:
    """Return the parts of a word, also of concatenations in it."""
    return [part for child in node.children for part in _flatten(child)] if node.type == "concatenation" else [node]


def _expand_braces(text: str, unknown: str) -> list[str]:
    """Return the words that braces expand to; if there are too many, one word that ends with `unknown` from the braces on."""
    done: list[str] = []
    pending = [text]
    for _ in range(4 * _MAX_BRACES):
        if not pending or len(pending) + len(done) > _MAX_BRACES:
            break
        each = pending.pop()
        braces = next((found for found in _INNER_BRACES.finditer(each) if _has_options(found[1])), None)
        if braces is None:
            done.append(each)
            continue
        options = braces[1].split(",") if "," in braces[1] else ["*"]
        pending += [each[: braces.start()] + option + each[braces.end() :] for option in reversed(options)]
    return [text.partition("{")[0] + unknown] if pending else done


def resolve(node: Node, nested: int = 0) -> Word:
    """Return the word of a node of the syntax tree; braces in it are not expanded. `nested`: see `value_if_unset`."""
    return _join([_part(child, nested) for child in node.children] if node.type == "concatenation" else [_part(node, nested)])


def _join(parts: list[str]) -> Word:
    """Join the parts of a word."""
    text = "".join(parts)
    expansions = [part for part in parts if isinstance(part, Expansion)]
    if expansions:
        unset = "".join(part.unset if isinstance(part, Expansion) else part for part in parts)
        may_split = any(part.may_split for part in expansions)
        return None if may_split and not text.strip("*") and not unset else Expansion(text, unset, may_split=may_split)
    if isinstance(parts[0] if parts else "", UnknownBraces):
        return UnknownBraces(text)
    globs = [part for part in parts if isinstance(part, Glob)]
    if "/" not in text and globs and all(isinstance(glob, FileGlob) for glob in globs):
        return FileGlob(text)
    return Glob(text) if globs else text


def _literal(text: str) -> str:
    return FileGlob(text) if _GLOB_CHARACTERS.search(text) else text


def _part(node: Node, nested: int = 0) -> str:
    text = source(node)
    match node.type:
        case "word" | "number" | "extglob_pattern" | "regex" | "variable_name" | "test_operator" | "special_variable_name":
            plain = _ESCAPE.sub("", text)
            literal = _ESCAPE.sub(r"\1", text)
            return FileGlob(literal) if _GLOB_CHARACTERS.search(plain) else literal
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            return _ANSI_C_ESCAPE.sub(_decode_ansi_c, text[2:-1])
        case "string" | "translated_string":
            return _string(node, nested)
        case "simple_expansion" | "expansion" if text in _HOME:
            return "~"
        case "concatenation":
            return resolve(node, nested) or Expansion("*", "", may_split=True)
        case _ if node.child_count == 0:  # a token of a concatenation, such as a brace
            return text
    return Expansion("*", value_if_unset(node, nested), may_split=True)


def value_if_unset(node: Node, nested: int = 0) -> str:
    """Return the value of an expansion whose variable is unset, as far as it is known.

    It is a name if the shell would report an error (`${x:?}`). An alternative for a set variable (`${x:+/}`) and a replacement
    (`${x/#//}`) count if they begin with a path or an option, and the first character (`${x:0:1}`) as that of a path. `nested`
    is the number of default values around it.

    Raises:
        NestedTooDeeplyError
    """
    if nested > _MAX_NESTED:
        raise NestedTooDeeplyError
    operator = node.children[2] if node.type == "expansion" and node.child_count > 3 else None
    if operator is None:
        return ""
    match, parts = _DEFAULT.fullmatch(source(operator)), node.children[3:-1]
    if match is None:
        if operator.type not in _REPLACING:
            return "/" if _FIRST_CHARACTER.fullmatch(source(node)) else ""
        separators = [place for place, child in enumerate(parts) if child.type == "/"]
        parts = parts[separators[0] + 1 :] if separators else []
    elif match[1] == "?":
        return "x"
    value = "".join(_unset(_part(child, nested + 1)) for child in parts if source(child).strip())
    return value if (match is not None and match[1] != "+") or value.startswith(("/", "~", "-")) else ""


def is_computed(node: Node) -> bool:
    """Return whether an expansion makes another text out of a value: `${!x}`, `${x:0:1}`, `${x/a/b}`, `${x@P}`."""
    kinds = [child.type for child in node.children[1:3]]
    return kinds[:1] == ["!"] or (len(kinds) == 2 and (kinds[1] in _REPLACING or kinds[1] in (":", "@")))


def removal(node: Node) -> tuple[str, str] | None:
    """Return operator and pattern of an expansion that removes the end or the beginning of a value: `${x%/*}`."""
    operator = node.children[2].type if len(node.children) > 2 else ""
    return (operator, "".join(source(child) for child in node.children[3:-1])) if operator in _REMOVING else None


def without_part(value: str, operator: str, pattern: str) -> str | None:
    """Return a value after a `removal`; None if it is too long to be compared."""
    if len(value) > _MAX_GLOB or len(pattern) > _MAX_REMOVED:
        return None
    is_prefix, is_longest = operator[0] == "#", len(operator) == 2
    sizes = range(len(value) + 1)
    matches = _regex(_QUOTES.sub("", pattern)).match
    for size in reversed(sizes) if is_longest else sizes:
        if matches(value[:size] if is_prefix else value[len(value) - size :]):
            return value[size:] if is_prefix else value[: len(value) - size]
    return value


def _unset(part: str) -> str:
    return part.unset if isinstance(part, Expansion) else _QUOTES.sub("", part)


def _string(node: Node, nested: int) -> str:
    """Return the text of a double-quoted string; what it expands is unknown text within one word."""
    pieces: list[str] = []
    unset: list[str] = []
    is_known, begin = True, node.start_byte
    raw = node.text or b""
    for child in node.children:
        between = decode_source(raw[begin - node.start_byte : child.start_byte - node.start_byte])
        begin = child.end_byte
        kind = child.type
        if kind == "string":  # the quoted part of $"..."
            return _string(child, nested)
        value = if_unset = ""
        if kind == "string_content":
            value = if_unset = _STRING_ESCAPE.sub(r"\1", source(child))
        elif source(child) in _HOME:
            value = if_unset = "~"
        elif kind not in ('"', '$"', "$"):
            is_known = False
            value, if_unset = "*", value_if_unset(child, nested)
        pieces += (between, value)
        unset += (between, if_unset)
    text = "".join(pieces)
    return text if is_known else Expansion(text, "".join(unset), may_split=False)


def _decode_ansi_c(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "c" and len(code) > 1:
        return chr(ord(code[1]) & 0x1F)
    return _ANSI_C_NAMES.get(code, code)


def could_be(word: Word, pattern: str) -> bool:
    """Return whether the word, when it is known, may be a text that the glob `pattern` matches."""
    if word is None:
        return True
    if isinstance(word, Expansion) and word.may_split:
        return True
    if not isinstance(word, Glob):
        return word == pattern or (_is_glob(pattern) and _regex(pattern).match(word) is not None)
    if isinstance(word, FileGlob) and pattern.startswith("/"):
        return False
    return len(word) > _MAX_GLOB or _intersect(word, _tokens(pattern))


def surely_is(word: Word, pattern: str) -> bool:
    """Return whether the word is known, and the glob `pattern` matches it."""
    return word is not None and not isinstance(word, Glob) and could_be(word, pattern)


def normalised_path(word: str) -> str:
    """Return an absolute path without `.`, `..` and double slashes; the kind of word (`Glob` or not) is kept."""
    if word.startswith("~"):  # of any user; a path that leads out of it may be any
        path = posixpath.normpath(word.partition("/")[2])
        if path.startswith(".."):
            return Glob("/*")
        path = "~" if path == "." else f"~/{path}"
    else:
        path = posixpath.normpath(word)
        path = "/" + path.lstrip("/") if path.startswith("//") else path
    return Glob(path) if isinstance(word, Glob) else path


# a token of a pattern is a character, or one of these
_ANY_TEXT, _ANY_CHARACTER = "**", "??"


@lru_cache(4096)
def _is_glob(pattern: str) -> bool:
    return _GLOB_CHARACTERS.search(pattern) is not None


@lru_cache(4096)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def _tokens(pattern: str) -> list[str]:
    """Return the pattern's tokens; a set of characters counts as any character, which can only match more."""
    found = re.findall(r"\[[!^]?\]?[^\]]*\]|.", pattern, re.DOTALL)
    names = {"*": _ANY_TEXT, "?": _ANY_CHARACTER}
    return [names.get(token, token if len(token) == 1 else _ANY_CHARACTER) for token in found]


def _intersect(left: str, right: list[str]) -> bool:
    """Return whether some text matches both patterns: follow the possible positions in `right` after each token of `left`."""
    positions = _closure({0}, right)
    for token in _tokens(left):
        if token == _ANY_TEXT:
            positions = set(range(min(positions), len(right) + 1)) if positions else positions
            continue
        reached = set()
        for position in positions:
            if position < len(right):
                other = right[position]
                if other == _ANY_TEXT:
                    reached.add(position)
                elif other in (token, _ANY_CHARACTER) or token == _ANY_CHARACTER:
                    reached.add(position + 1)
        positions = _closure(reached, right)
    return len(right) in positions


def _closure(positions: set[int], tokens: list[str]) -> set[int]:
    """Add the positions that are reached without consuming text."""
    reached = set(positions)
    for position in sorted(positions):
        while position < len(tokens) and tokens[position] == _ANY_TEXT:
            position += 1
            reached.add(position)
    return reached
