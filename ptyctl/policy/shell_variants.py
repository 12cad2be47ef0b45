"""Other ways to write a shell text, for what the parser does not read as a shell does.

The commands of all of them count: a text may be read in one way by bash, and in another one by zsh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CONTINUATION = re.compile(r"\\\n")
#: Comments after a continued line: fish skips them, and continues the line after them.
_COMMENTS_WITHIN = re.compile(r"\\\n(?:[ \t]*#[^\n]*\n)+")
#: What may have the backslash of a continued line in it, so that it continues nothing: an escape, quotes, a comment, the body
#: of a here-document.
_MAY_KEEP_BACKSLASH = re.compile(r"\\\\\n|['#]|<<")
#: Text whose quotes all shells read in the same way, and in which each backslash at the end of a line continues that line.
#: It has no here-document, history expansion, arithmetic or nested quotes, and only plain comments. No comment follows a
#: continued line: fish would skip it, and read on.
_CONTINUED_FOR_CERTAIN = re.compile(
    r"""(?>
      [^\\'"`$<\#!^(]+
    | \\(?:[^\\\n]|\n(?![ \t]*\#|\Z)|\\(?!\n))
    | '(?>[^'\\]+|\\[^'\\\n])*+'
    | "(?>[^"\\`$!]+|\\(?:[^\\]|\\(?!\n))|\$(?![({\[\\])|\$\{\w+\}|!(?=[\s="]))*+"
    | \$(?:(?![({\['\\])|\{[^\s'"`$\\{}<]*\}|(?=\())
    | <(?![<\\])
    | \((?![(\\])
    | !(?=[\s=])
    | \^(?<=[^\n]\^)
    | \#(?:(?<=[\w"'.,:/=%+-]\#)|[^\\'"`$<(\n]*(?=\n|\Z))
    )*+\Z""",
    re.DOTALL | re.VERBOSE,
)
#: Text that fish splits into the same words and commands as bash. In fish a backslash escapes also in single quotes, and
#: before letters it is a code (`\\x72m` is `rm`); backquotes, here-documents, `$'...'`, `${...}` and `((` mean something else.
_AS_IN_FISH = re.compile(
    r"""(?>
      [^\\'"`$<>\#(]+
    | \\(?:[^\w\n]|\n(?![ \t]*\#))
    | '(?>[^'\\]+|\\[^'\\])*+'
    | "(?>[^"\\`$]+|\\.|\$(?![({])|\$\([^()'"\\`$]*\))*+"
    | \$(?!['"{]|\(\()
    | <(?!<)
    | >(?!\|)
    | \((?!\()
    | \#(?:(?<=[\w"'.,:/=%+-]\#)|(?<![^\s]\#)[^\\'"\n]*(?=\n|\Z))
    )*+\Z""",
    re.DOTALL | re.VERBOSE,
)
#: What separates words in some shell, the codes of characters of fish, and quotes.
_BETWEEN_WORDS = re.compile(r"[\s;&|<>(){}`$#]+")
_FISH_CODE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|([^\w]))", re.DOTALL)
_QUOTES = re.compile(r"['\"]")
#: The beginning of a substitution of fish, or text that has none.
_FISH_SUBSTITUTION = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s])\#[^\n]*|\$\(|\(""", re.DOTALL)
#: The name of a coprocess, or nothing, in front of a compound command (bash).
_COPROCESS = re.compile(r"\bcoproc[ \t]+(?:[A-Za-z_]\w*[ \t]+)?(?=[{(]|\[\[|(?:while|until|for|if|case|select)\b)")
#: An escaped character, or text in backquotes.
_BACKQUOTED = re.compile(r"\\.|`((?:\\.|[^\\`])*)`", re.DOTALL)
_ESCAPED_IN_BACKQUOTES = re.compile(r"\\([\\`$])")
#: A command that begins with braces, which the parser does not expand.
_BRACED_COMMAND = re.compile(
    r"(^|[;&|(\n]|\b(?:if|then|elif|else|while|until|do|time)[ \t\n])[ \t]*"
    r"(?=\{[^\s;&|]{0,400}?(?:,|\.\.))(?=\{[^\s;&|]{0,400}\})"
)
#: The descriptor of a here-document or here-string.
_DESCRIPTOR = re.compile(r"(?<=\s)\d+(?=<<)")
#: The beginning of an expansion of zsh, which the parser does not read: with flags, of another one, or with an option.
_ZSH_EXPANSION = re.compile(r"\$\{(?:\([^()\s]{1,32}\)|\$\{(?=[^{}]{1,64}\}))|\$\{[=~^]{1,4}(?=\w)|\$[=~^]{1,4}(?=\w)")
#: Text between operators, with quoted text in it, and without.
_PLAIN_PART = re.compile(r"[^\n\r;&|(){}]+")
_PART = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\n\r;&|(){}])+""", re.DOTALL)
#: Quoted text, or a redirection with its descriptor and its target.
_QUOTED = r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\""""
_REDIRECTION = re.compile(
    rf"""{_QUOTED}|((?:(?<![^\s;&|(){{}}])(?:\d+|\{{\w+\}}))?(?:<<<|<<-?|<>|&>>|&>|>>|>\||[<>]&|[<>](?!\())"""
    rf"""[ \t]*(?:{_QUOTED}|[^\s;&|<>()'"\\])*+)""",
    re.DOTALL,
)
#: The beginning of a here-document, and its delimiter.
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|<>()'\"]+))")


def variants(text: str) -> Iterator[str]:
    """Yield the ways to write a text whose lines end in line feeds: the usual one first, with continued lines joined."""
    joined = _CONTINUATION.sub("", text)
    yield joined
    if joined != text and _may_keep_backslash(text):
        yield text  # the parser joins words on either side of a continuation only
    if _COMMENTS_WITHIN.search(text):
        yield _CONTINUATION.sub("", _COMMENTS_WITHIN.sub("", text))
    if _COPROCESS.search(joined):
        yield _COPROCESS.sub("", joined)
    if "\\`" in joined:  # the parser takes backquotes within others for text
        yield _with_nested_substitutions(joined)


def variants_with_error(text: str) -> Iterator[str]:
    """Yield the ways to write a text that the parser cannot read.

    It does not know what bash or zsh expands, nor several redirections after a here-document.
    """
    if _BRACED_COMMAND.search(text):
        yield _BRACED_COMMAND.sub(r"\1 command ", text)
    if _DESCRIPTOR.search(text):
        yield _DESCRIPTOR.sub("", text)
    if _ZSH_EXPANSION.search(text):
        yield _ZSH_EXPANSION.sub(_plain_expansion, text)
    if "<" in text or ">" in text:
        yield _REDIRECTION.sub(_without_redirection, "\n".join(_lines_of_commands(text)))


def _without_redirection(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else " "


def is_read_as_in_fish(text: str) -> bool:
    """Return whether fish certainly splits a text into the same words and commands as bash does."""
    return _AS_IN_FISH.match(text) is not None


def fish_as_posix(text: str) -> str:
    """Return a text that `is_read_as_in_fish` with its substitutions as bash writes them: `(x)` of fish is `$(x)`."""
    return _FISH_SUBSTITUTION.sub(lambda match: "$(" if match[0] == "(" else match[0], text)


def words_anywhere(text: str) -> list[str]:
    """Return the different words that a text may have, whatever its quotes and escapes mean."""
    decoded = _FISH_CODE.sub(_decoded, text)
    found: dict[str, None] = {}
    for reading in dict.fromkeys((text, decoded, text.replace("\\", ""))):
        for mark in ("", " "):
            found.update(dict.fromkeys(_BETWEEN_WORDS.split(_QUOTES.sub(mark, reading))))
    return [word for word in found if word]


def _decoded(match: re.Match[str]) -> str:
    if match[5] is not None:
        return "" if match[5] == "\n" else match[5]
    code = match[1] or match[2] or match[3]
    return chr(min(int(code, 16), 0x10FFFF) if code else int(match[4], 8))


def _may_keep_backslash(text: str) -> bool:
    """Return whether a backslash at the end of a line may not continue the line."""
    return _MAY_KEEP_BACKSLASH.search(text) is not None and _CONTINUED_FOR_CERTAIN.match(text) is None


def parts(text: str) -> Iterator[str]:
    """Yield the parts between the operators of a text, without the bodies of its here-documents."""
    for match in _PART.finditer("\n".join(_lines_of_commands(text))):
        yield match[0]


def plain_parts(text: str) -> Iterator[str]:
    """Yield the parts between the operators of a text, also those in quotes and in here-documents."""
    for match in _PLAIN_PART.finditer(text):
        yield match[0]


def _lines_of_commands(text: str) -> Iterator[str]:
    """Yield the lines of a text that are no part of a here-document."""
    delimiters: list[str] = []
    for line in text.split("\n"):
        if delimiters:
            del delimiters[: line.strip("\t") == delimiters[0]]
            continue
        delimiters = [found[1] or found[2] or found[3] or "" for found in _HERE_DOCUMENT.finditer(line)]
        yield line


def _plain_expansion(match: re.Match[str]) -> str:
    """Return the beginning of an expansion of zsh as one of bash: of another variable if the value is computed."""
    if match[0].endswith((")", "{$", "${")) and len(match[0]) > 2:
        return "${!"
    return "${" if match[0].startswith("${") else "$"


def _with_nested_substitutions(text: str) -> str:
    """Return a text with `$(...)` for backquotes, whose text may have escaped backquotes in it.

    A backquote in single quotes, which is literal, may be treated as the start of a substitution.
    """
    return _BACKQUOTED.sub(_nested_substitution, text)


def _nested_substitution(match: re.Match[str]) -> str:
    if match[1] is None:  # an escaped character
        return match[0]
    inner = _ESCAPED_IN_BACKQUOTES.sub(r"\1", match[1])
    return f"$({_with_nested_substitutions(inner)})"
