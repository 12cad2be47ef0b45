"""Newline-delimited JSON."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core import json_lines


def test_encode_returns_one_line() -> None:
    assert json_lines.encode({"text": "größe\n"}) == '{"text":"größe\\n"}\n'.encode()


@given(st.text(st.characters() | st.sampled_from("\u2028\u2029\x85\ud800\\\n\x00"), max_size=20))
def test_encoded_text_has_one_line_end_and_decodes_to_itself(text: str) -> None:
    line = json_lines.encode({text: [text]})
    assert json_lines.decode(line) == {text: [text]}
    assert not any(end in line.decode().removesuffix("\n") for end in "\n\r\u2028\u2029")


@pytest.mark.parametrize("line", [b"nonsense", b"{", b"\xff", b"[" * 100_000])
def test_decode_invalid_line_raises_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_lines.decode(line)


@pytest.mark.parametrize(("line", "expected"), [(b'{"a":1}\n', {"a": 1}), (b"[]", {}), (b"7", {}), (b"{", {}), (b"", {})])
def test_decode_object_returns_empty_object_for_anything_else(line: bytes, expected: dict[str, int]) -> None:
    assert json_lines.decode_object(line) == expected


@given(st.text(), st.integers(-3, 3))
def test_long_structure_counts_bytes_outside_strings(text: str, surplus: int) -> None:
    line = json.dumps(text, ensure_ascii=False).encode() + b"[" * (json_lines.MAX_STRUCTURE_BYTES - 2 + surplus)
    with pytest.raises(json_lines.LongStructureError) if surplus > 0 else nullcontext():
        json_lines.check_structure(line)


def test_long_structure_excludes_long_string_and_counts_quotes() -> None:
    json_lines.check_structure(b'{"data": "' + rb"[]\"\\" * json_lines.MAX_STRUCTURE_BYTES + b'"}')
    with pytest.raises(json_lines.LongStructureError):
        json_lines.check_structure(b'""' * json_lines.MAX_STRUCTURE_BYTES)


def test_request_with_long_structure_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "decode", None)
    with pytest.raises(json_lines.LongStructureError, match="outside its strings"):
        json_lines.decode_request(b"[" * json_lines.MAX_STRUCTURE_BYTES + b"]")


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


def test_decode_returns_infinity_for_integer_that_python_rejects() -> None:
    assert json_lines.decode(b'{"a":%s,"b":-%s,"c":%s}' % (b"9" * 5000, b"9" * 5000, b"9" * 4000)) == {
        "a": math.inf,
        "b": -math.inf,
        "c": int("9" * 4000),
    }


IDS = st.integers(-(2**63), 2**64) | st.text(max_size=100) | st.sampled_from(['"', "\\", "\ud800", '"id":7}'])


@given(
    IDS, st.sampled_from(["[" * 2000 + "]" * 2000, "\xff", "nonsense", "", '{"id":7}', '["id":7']), st.booleans(), st.booleans()
)
def test_id_of_undecodable_message_is_found(call_id: int | str, params: str, first: bool, ascii_only: bool) -> None:
    """Clients put the id first, or after the parameters."""
    encoded = json.dumps(call_id, ensure_ascii=ascii_only or call_id == "\ud800")
    members = [f'"id": {encoded}', '"jsonrpc": "2.0"', '"method": "m"']
    order = [*members, f'"params": {params}'] if first else [members[2], f'"params": {params}', members[1], members[0]]
    message = b"{" + ", ".join(order).encode("utf-8", "surrogateescape") + b"}\n"
    assert json_lines.find_id(message) == call_id


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"nonsense",
        b"[" * 100_000,
        b'{"params":{"id":7',
        b'{"params":{"id":7}}',
        b'{"a":"\\"id":7}',
        b'{"id":[1],"x"',
    ],
)
def test_no_id_is_found_where_there_is_none(line: bytes) -> None:
    assert json_lines.find_id(line) is None
