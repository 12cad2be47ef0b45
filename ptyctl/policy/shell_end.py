"""Whether typed lines end within a command of a POSIX shell, so that the shell asks for the rest before it shows its prompt."""

from __future__ import annotations

import re

from ptyctl.core.shells import Dialect

from .shell_command import expands_history
from .shell_syntax import TooComplexError, parse_shell

#: What matters for the end: an escaped character, a comment, a here-document, a quote, a bracket.
_PART = re.compile(
    rb"\\(?:[\s\S]|\Z)|(?:^|(?<=[\s;&|(]))#[^\n]*|<<<|<<-?[ \t]*['\"\\]?(?P<word>\w+)['\"]?|\$'|[\"'`(){}]", re.MULTILINE
)
#: What follows a quote, up to the one that closes it.
_QUOTED = {
    b"'": re.compile(rb"[^']*'"),
    b"$'": re.compile(rb"(?:[^'\\]|\\[\s\S])*'"),
    b'"': re.compile(rb'(?:[^"\\]|\\[\s\S])*"'),
    b"`": re.compile(rb"(?:[^`\\]|\\[\s\S])*`"),
}
#: What may expand history or repeat a line, whatever is known about quotes: `^` at the start, and `!` before a word.
_HISTORY_CHARACTER = re.compile(r"^\s*\^|![^\s=]", re.MULTILINE)
#: What may begin a comment: zsh takes it for a word unless `interactivecomments` is set.
_COMMENT = re.compile(r"(?:^|[\s;&|()`])#", re.MULTILINE)
#: Part of an address, in which a widget of zsh quotes characters as they are typed or pasted (url-quote-magic).
_QUOTED_BY_WIDGET = re.compile(r"\w:/")
_OPERATOR = re.compile(rb"(?:\||&&)\s*\Z")


def is_incomplete(text: bytes | bytearray) -> bool:
    """Return whether text ends after a backslash or an operator, or in quotes, brackets or a here-document.

    It does not know reserved words: each line between `do` and `done` is a command.
    """
    at = depth = 0
    while (part := _PART.search(text, at)) is not None:
        found, at = part[0], part.end()
        if found[:1] == b"\\":
            if at == len(text):
                return True
        elif (quoted := _QUOTED.get(found)) is not None:
            if (end := quoted.match(text, at)) is None:
                return True
            at = end.end()
        elif part["word"] is not None:
            end = re.compile(rb"\n\t*" + part["word"] + rb"\s*?(?:\n|\Z)").search(text, at)
            if end is None:
                return True
            at = end.end()
        elif found in (b"(", b"{"):
            depth += 1
        elif found in (b")", b"}"):
            depth = max(depth - 1, 0)
    return depth > 0 or _OPERATOR.search(text) is not None


def is_read_as_given(text: str, dialect: Dialect) -> bool:
    """Return whether an interactive bash or zsh that gets a text at its prompt runs all of it, as it runs a script.

    The text is complete and has no syntax error, no history expansion, and no word that a widget of zsh quotes. bash reads
    comments, zsh takes them for words by default.
    """
    if text != text.strip("\n") or _QUOTED_BY_WIDGET.search(text) or _HISTORY_CHARACTER.search(text):
        return False
    if expands_history(text) or is_incomplete(text.encode("utf-8", "surrogateescape")):
        return False
    try:
        root = parse_shell(text)
    except TooComplexError:
        return False
    if root.has_error or all(node.type == "comment" for node in root.children):
        return False
    return dialect != "zsh" or _COMMENT.search(text) is None
