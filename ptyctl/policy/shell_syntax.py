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
#: Such pairs in UTF-8, and the hexadecimal digit of the second byte of each letter.
_LETTER_PAIRS = re.compile(rb"(?:\xc3[\xa8-\xaf]\xc3[\xb0-\xbf])+")
_DIGITS = bytes.maketrans(bytes((*range(0xA8, 0xB0), *range(0xB0, 0xC0))), b"89abcdef0123456789abcdef")


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
    return _LETTER_PAIRS.sub(_bytes, text).decode("utf-8", "replace")


def _bytes(pairs: re.Match[bytes]) -> bytes:
    return bytes.fromhex(pairs[0].translate(_DIGITS, b"\xc3").decode("ascii"))


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())
