"""The syntax tree of a shell text, by tree-sitter-bash.

The grammar's scanner passes each character to functions of the C library that are defined for bytes only: a character beyond
U+00FF reads memory outside their tables, which can end the process. So each byte of a non-ASCII character is parsed as two
letters of Latin-1. Like a shell, the parser then takes every such character for a part of a word.
"""

from __future__ import annotations

import re
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

#: A byte above 7F as two letters, its upper and its lower half.
_LETTERS = {byte: chr(0xE0 | byte >> 4) + chr(0xF0 | byte & 0x0F) for byte in range(0x80, 0x100)}
_LETTER_PAIR = re.compile("([\xe8-\xef])([\xf0-\xff])")


def parse_shell(text: str) -> Node:
    """Return the root of a text's syntax tree; `source` returns the text of its nodes."""
    source = text.encode("utf-8", "replace")
    if not text.isascii():
        source = source.decode("latin-1").translate(_LETTERS).encode()
    # A parser must not be used by two threads at once; a new one costs a microsecond.
    return Parser(_language()).parse(source).root_node


def source(node: Node) -> str:
    """Return the node's text in the source."""
    return decode_source(node.text or b"")


def decode_source(text: bytes) -> str:
    """Return a part of a node's text as it was before it was parsed."""
    if text.isascii():
        return text.decode("ascii")
    return _LETTER_PAIR.sub(_byte, text.decode("utf-8", "replace")).encode("latin-1", "replace").decode("utf-8", "replace")


def _byte(pair: re.Match[str]) -> str:
    return chr((ord(pair[1]) & 0x0F) << 4 | ord(pair[2]) & 0x0F)


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())
