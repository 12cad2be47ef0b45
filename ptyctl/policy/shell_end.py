"""Whether typed lines end within a command of a POSIX shell, so that the shell asks for the rest before it shows its prompt."""

from __future__ import annotations

import re

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
