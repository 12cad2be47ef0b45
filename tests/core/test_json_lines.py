"""Newline-delimited JSON."""

from __future__ import annotations

import pytest

from ptyctl.core import json_lines


def test_encode_returns_one_line() -> None:
    assert json_lines.encode({"text": "größe\n"}) == b'{"text":"gr\\u00f6\\u00dfe\\n"}\n'


@pytest.mark.parametrize("line", [b"nonsense", b"{", b"\xff", b"[" * 100_000])
def test_decode_invalid_line_raises_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_lines.decode(line)


@pytest.mark.parametrize(("line", "expected"), [(b'{"a":1}\n', {"a": 1}), (b"[]", {}), (b"7", {}), (b"{", {}), (b"", {})])
def test_decode_object_returns_empty_object_for_anything_else(line: bytes, expected: dict[str, int]) -> None:
    assert json_lines.decode_object(line) == expected


def test_line_buffer_is_independent_of_segmentation() -> None:
    text = b'{"a": 1}\n\n{"b": 2}\nrest'
    for cut in range(len(text) + 1):
        lines = json_lines.LineBuffer()
        assert lines.feed(text[:cut]) + lines.feed(text[cut:]) == [b'{"a": 1}\n', b"\n", b'{"b": 2}\n']
        assert lines.feed(b"\n") == [b"rest\n"]


def test_line_buffer_finish_returns_last_line_without_newline() -> None:
    lines = json_lines.LineBuffer()
    assert lines.feed(b"one\ntwo") == [b"one\n"]
    assert lines.finish() == [b"two\n"]
    assert lines.finish() == []
