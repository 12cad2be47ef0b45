"""The syntax tree of a shell text, by tree-sitter-bash.

The grammar's scanner passes each character to functions of the C library that are defined for bytes only: a character beyond
U+00FF reads memory outside their tables, which can end the process. So each byte of a non-ASCII character is parsed as two
letters of Latin-1. Like a shell, the parser then takes every such character for a part of a word.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

#: A byte above 7F as two letters, its upper and its lower half.
_LETTERS = {byte: chr(0xE0 | byte >> 4) + chr(0xF0 | byte & 0x0F) for byte in range(0x80, 0x100)}
#: Such pairs in UTF-8, and the hexadecimal digit of the second byte of each letter.
_LETTER_PAIRS = re.compile(rb"(?:\xc3[\xa8-\xaf]\xc3[\xb0-\xbf])+")
#: The budget of a text: for an empty one, for each character, and the largest one. A script of 2,000 words needs half of that.
_MIN_STEPS, _STEPS_PER_CHARACTER, _MAX_STEPS = 4000, 12, 50_000
#: A longer text is parsed in pieces of this size (bytes). A piece costs this number of steps.
_SHORT_BYTES, _PIECE_BYTES, _PIECE_STEPS = 128, 256, 8
#: The text of a node is read in pieces of this size.
_TEXT_BYTES = 4096
_DIGITS = bytes.maketrans(bytes((*range(0xA8, 0xB0), *range(0xB0, 0xC0))), b"89abcdef0123456789abcdef")


class TooComplexError(Exception):
    """Reading a text takes more work than its budget allows."""


class Budget:
    """The work that reading one text may take, in steps of about a microsecond.

    It is counted and not timed, so that a verdict does not depend on the load of the machine.
    """

    def __init__(self, text: str, largest: int = _MAX_STEPS) -> None:
        """Set the budget of a text: in proportion to its size, but no more than `largest`."""
        self._left = min(_MIN_STEPS + _STEPS_PER_CHARACTER * len(text), largest)

    @property
    def left(self) -> int:
        """The number of steps that are left."""
        return self._left

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooComplexError if no more are left."""
        self._left -= steps
        if self.is_spent:
            raise TooComplexError


def parse_shell(text: str, budget: Budget | None = None) -> Node:
    """Return the root of a text's syntax tree; `source` returns the text of its nodes.

    In a text with errors, the parser reads the same parts again and again, for as long as the square of their number. It is
    stopped once it has read more than the budget allows.

    Raises:
        TooComplexError
    """
    budget = budget or Budget(text)
    source = text.encode("utf-8", "replace")
    if not text.isascii():
        source = source.decode("latin-1").translate(_LETTERS).encode()

    # A parser must not be used by two threads at once; a new one costs a microsecond.
    tree = Parser(_language()).parse(source) if len(source) <= _SHORT_BYTES else _parse_in_pieces(source, budget)
    return tree.root_node


def _parse_in_pieces(source: bytes, budget: Budget) -> Tree:
    """Parse a text until the parser has read more of it than the budget allows. Raises TooComplexError.

    Other threads may run between two pieces. The nodes of the tree read their text by the same function.
    """
    is_parsing = True

    def read(offset: int, _point: object) -> bytes:
        if not is_parsing:
            return source[offset : offset + _TEXT_BYTES]
        with suppress(TooComplexError):  # the parser cannot pass it on
            budget.spend(_PIECE_STEPS)
            return source[offset : offset + _PIECE_BYTES]
        return b""

    tree = None
    with suppress(ValueError):  # it was stopped
        tree = Parser(_language()).parse(read, progress_callback=lambda _offset, _has_error: budget.is_spent)
    if tree is None or budget.is_spent:
        raise TooComplexError
    is_parsing = False
    return tree


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
