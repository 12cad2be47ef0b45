"""Readers of JSON Lines files: rows of any size, forwards and backwards."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.session.transcript import jsonl

#: Sizes for the property test: lines of several pieces, and ones that are too long.
PIECE_BYTES, MAX_ROW_BYTES = 16, 64


@given(
    st.lists(st.integers(0, 3 * MAX_ROW_BYTES).map(lambda size: json.dumps({"text": "x" * size}).encode()), max_size=8),
    st.sampled_from([b"", b"\n", b"{"]),
)
def test_readers_skip_exactly_the_lines_that_are_too_long(lines: list[bytes], end: bytes) -> None:
    rows = [json.loads(line) for line in lines if len(line) < MAX_ROW_BYTES]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "PIECE_BYTES", PIECE_BYTES)
        patch.setattr(jsonl, "MAX_ROW_BYTES", MAX_ROW_BYTES)
        (path := Path(folder) / "rows.jsonl").write_bytes(b"".join(line + b"\n" for line in lines) + end)
        backwards = list(jsonl.read_rows_backwards(path))
        assert [row for _, row in backwards] == rows[::-1]
        content = path.read_bytes()
        assert all(json.loads(content[begin:].partition(b"\n")[0]) == row for begin, row in backwards)
        assert list(jsonl.read_rows_containing(path, b'"text"')) == rows
        assert jsonl.count_rows(path) == len(lines) + (end == b"\n")


def test_long_line_is_read_once(tmp_path: Path) -> None:
    """A line of 100 MB took minutes, as each piece was joined to all later ones."""
    with (path := tmp_path / "rows.jsonl").open("wb") as file:
        file.write(b'{"first": 1}\n"')
        file.truncate(100_000_000)
        file.seek(0, 2)
        file.write(b'"\n{"last": 1}\n')
    assert [row for _, row in jsonl.read_rows_backwards(path)] == [{"last": 1}, {"first": 1}]
    assert jsonl.count_rows(path) == 3
