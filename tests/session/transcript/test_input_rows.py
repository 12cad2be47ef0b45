"""Text that is added to a row of input.jsonl in place: no reader sees a part of it, whenever the server dies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.echo_watch import TypedPiece
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.input_log import InputLog
from ptyctl.session.transcript.append_file import AppendFile
from ptyctl.session.transcript.input_rows import hidden_end, repair_rows, shown_end

LINE = {"characters": 3}
WRITER = Writer('a"line":{b')
TEXTS = st.one_of(st.text(min_size=1, max_size=40), st.text('abc"\\,{}: sensitive"line":{', min_size=1, max_size=60))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def written(folder: Path, texts: list[bytes]) -> tuple[InputLog, list[TypedPiece], Path]:
    log, pieces = InputLog(folder, 1 << 20), [TypedPiece(text) for text in texts]
    log.record(WRITER, pieces, LINE)
    return log, pieces, folder / "input.jsonl"


@given(st.lists(TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")), min_size=1, max_size=3), st.data())
def test_text_torn_at_any_byte_is_a_row_with_the_length_after_recovery(texts: list[bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        log, pieces, path = written(Path(name), texts)
        before, chosen = path.read_bytes(), data.draw(st.sampled_from(pieces))
        chosen.shown = True
        log.decided(chosen)
        after = path.read_bytes()
        log.close()
        assert len(after) == len(before)
        cut = data.draw(st.integers(0, len(before)))
        for torn in (after[:cut] + before[cut:], before[:cut] + after[cut:]):
            path.write_bytes(torn)
            repair_rows(path)
            assert path.read_bytes().splitlines() == [
                new if line == new else old
                for line, old, new in zip(torn.splitlines(), before.splitlines(), after.splitlines(), strict=True)
            ]
            assert [row["bytes"] for row in rows_of(path)] == [len(text) for text in texts]


@given(st.binary(min_size=1, max_size=80))
def test_any_bytes_have_room_in_their_row(data: bytes) -> None:
    with TemporaryDirectory() as name:
        log, (piece,), path = written(Path(name), [data])
        (row,) = rows_of(path)
        assert (row["bytes"], row["sensitive"], row["line"]) == (len(data), True, LINE)
        piece.shown = True
        log.decided(piece)
        (row,) = rows_of(path)
        assert ("sensitive" in row, "data" in row or "data_b64" in row, row["line"]) == (False, True, LINE)
        log.close()


def test_rows_that_no_text_was_added_to_are_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    content = b'{"ts":1,"by":null,"bytes":1,"data":"a"}\n{"ts":2 garbage\n\0\0\0\n{"ts":3,"by":"system","bytes":1,"da\n'
    path.write_bytes(content)
    repair_rows(path)
    repair_rows(tmp_path / "missing")
    assert path.read_bytes() == content


def test_size_of_the_end_depends_on_the_number_of_bytes_only() -> None:
    for text in ("abcdefgh", '"\\"\\"\\"\\', "\u00e4\u00e4\u00e4\u00e4"):
        size = len(text.encode())
        end = shown_end({"data": text}, len(hidden_end(size)))
        assert end is None or len(end) == len(hidden_end(size)) == len(hidden_end(8))


@pytest.mark.parametrize("failure", [OSError(5, "I/O error"), 3])
def test_failed_replacement_leaves_the_old_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    file, write, calls = AppendFile(tmp_path / "f"), os.pwrite, list[bytes]()
    file.append(b"before\n")
    file.flush()

    def pwrite(fd: int, data: bytes, at: int) -> int:
        calls.append(data)
        if len(calls) > 1:
            return write(fd, data, at)
        written = write(fd, data[:3], at)
        if isinstance(failure, OSError):
            raise failure
        return written

    monkeypatch.setattr(os, "pwrite", pwrite)
    file.replace(0, b"before\n", b"behind\n")
    file.append(b"after\n")
    file.close()
    assert (tmp_path / "f").read_bytes() == b"before\nafter\n"


def test_replacement_keeps_the_place_of_later_rows(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "f")
    file.append(b"before\n")
    file.flush()
    file.replace(0, b"before\n", b"behind\n")
    file.replace(7, b"nothing", b"is here")
    file.append(b"after\n")
    file.close()
    assert (tmp_path / "f").read_bytes() == b"behind\nafter\n"
