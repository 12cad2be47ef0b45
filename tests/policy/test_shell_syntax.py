"""The syntax tree of a shell text keeps the text, whatever its characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Node, Parser, Tree

from ptyctl.policy import shell_syntax
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.policy.shell_syntax import parse_shell, source


def leaves(node: Node) -> Iterator[Node]:
    if node.child_count == 0:
        yield node
    for child in node.children:
        yield from leaves(child)


@pytest.mark.parametrize("word", ["é", "Å", "à", "日本", "😀", "\u3000", "\u2028", "\xa0", "\x85", "\U00066e6e", "\U0010ffff"])
def test_character_beyond_ascii_is_part_of_a_word(word: str) -> None:
    root = parse_shell(f"rm a{word}b/c '{word}' \"{word}\"")
    assert not root.has_error
    assert [source(leaf) for leaf in leaves(root)] == ["rm", f"a{word}b/c", f"'{word}'", '"', word, '"']


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_source_of_the_root_is_the_text(text: str) -> None:
    assert source(parse_shell(text)) in text


def test_words_of_a_command_keep_their_characters() -> None:
    (command,) = canonical_shell("touch naïve.txt '日本 語' $'\\u00e9'").commands
    assert command.words == ("touch", "naïve.txt", "日本 語", "é")


@given(st.text(st.characters(min_codepoint=0x100), max_size=40), st.sampled_from(["<<", "${", "#", "$((", "[[ ", "`", "=("]))
def test_characters_beyond_the_tables_of_the_c_library_are_parsed(text: str, operator: str) -> None:
    canonical_shell(f"{text}{operator}{text}")


PARTS = [
    "ls -l",
    "|",
    "&&",
    "$(cat x)",
    "'a b'",
    '"q $x"',
    "\n",
    "if true; then y; fi",
    "<<E\nfoo\nE\n",
    "é日本",
    "!;",
    "]",
    "#c\n",
]


@given(st.lists(st.sampled_from(PARTS), min_size=40, max_size=120).map(" ".join))
def test_nodes_of_a_long_text_are_those_of_a_text_that_is_parsed_at_once(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell_syntax, "_PIECE_STEPS", 0)
        in_pieces = parse_shell(text)
        patch.setattr(shell_syntax, "_SHORT_BYTES", 1 << 20)
        at_once = parse_shell(text)
    assert [(node.type, node.text) for node in leaves(in_pieces)] == [(node.type, node.text) for node in leaves(at_once)]


def test_long_text_is_never_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser holds the interpreter lock, except while it asks for the next piece."""
    whole: list[bytes] = []

    class CountingParser:
        def __init__(self, language: Any) -> None:
            self._parser = Parser(language)

        def parse(self, text: bytes | Callable[..., bytes], **fields: Any) -> Tree:
            if isinstance(text, bytes):
                whole.append(text)
            return self._parser.parse(text, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(shell_syntax, "Parser", CountingParser)
    parse_shell("echo short")
    assert source(parse_shell("true; " * 1000)).startswith("true; true")
    assert whole == [b"echo short"]


def test_texts_that_threads_parse_at_the_same_time_have_their_own_forms() -> None:
    texts = [f"for x in {number}; do echo \"$x é\" | tee 'a b'; done" for number in range(600)]  # more than are kept
    with ThreadPoolExecutor(4) as pool:
        forms = list(pool.map(canonical_shell, texts))
    assert forms == [canonical_shell(text) for text in texts]
