"""The files of the audit log: months, locks, and recovery after a killed process."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.audit import audit_files
from ptyctl.audit.audit_files import AuditFiles
from ptyctl.audit.chain import encode


def events(files: AuditFiles) -> list[object]:
    return [row["event"] for row in files.rows()]


def test_rows_of_several_months_are_one_chain(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-11")
    files.append([encode({"event": "b"}), encode({"event": "c"})], "2026-12")
    assert sorted(path.name for path in files.folder.glob("2*")) == ["2026-11.jsonl", "2026-12.jsonl"]
    assert events(files) == ["a", "b", "c"]
    assert files.verify().fault is None


def changed(lines: list[bytes], row: int) -> list[bytes]:
    return [*lines[:row], lines[row].replace(b'"text":"', b'"text":"\xc3\xa4'), *lines[row + 1 :]]


def removed(lines: list[bytes], row: int) -> list[bytes]:
    return lines[:row] + lines[row + 1 :]


def inserted(lines: list[bytes], row: int) -> list[bytes]:
    return [*lines[:row], lines[row].replace(b'"text":"', b'"text":"\xc3\xa4'), *lines[row:]]


@pytest.mark.parametrize("edit", [changed, removed, inserted])
@given(texts=st.lists(st.text(max_size=3), min_size=1, max_size=6), months=st.integers(1, 3), data=st.data())
def test_any_one_row_that_was_changed_removed_or_inserted_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    edit: Callable[[list[bytes], int], list[bytes]],
    texts: list[str],
    months: int,
    data: st.DataObject,
) -> None:
    files = AuditFiles(tmp_path_factory.mktemp("audit"))
    for number, text in enumerate(texts):
        files.append([encode({"event": "text", "text": text})], f"2026-{number * months // len(texts) + 1:02}")
    assert files.verify().fault is None
    path = data.draw(st.sampled_from(sorted(files.folder.glob("*.jsonl"))))
    lines = path.read_bytes().splitlines(keepends=True)
    row = data.draw(st.integers(0, len(lines) - 1))
    path.write_bytes(b"".join(edit(lines, row)))
    assert files.verify().fault is not None


def test_verification_of_a_large_log_needs_the_memory_of_a_few_rows(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    row = encode({"event": "text", "text": "x" * 1000})
    files.append([row] * 10_000, "2026-11")
    tracemalloc.start()
    try:
        assert files.verify().head.rows == 10_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # of 11 MB
    finally:
        tracemalloc.stop()


def test_clock_that_was_set_back_keeps_the_order(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-12")
    files.append([encode({"event": "b"})], "2026-01")
    assert events(files) == ["a", "b"]
    assert files.verify().fault is None


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-11")
    modes = [path.stat().st_mode & 0o777 for path in (files.folder, *files.folder.iterdir())]
    assert modes == [0o700, *[0o600] * (len(modes) - 1)]


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_row_of_a_killed_process_is_removed_if_it_is_incomplete(tmp_path: Path, cut: int) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-11")
    head = (files.folder / "head.json").read_bytes()
    files.append([encode({"event": "b", "text": "x" * 300})], "2026-11")
    path = files.folder / "2026-11.jsonl"
    os.truncate(path, path.read_bytes().index(b"\n") + 1 + cut)
    (files.folder / "head.json").write_bytes(head)
    files.append([encode({"event": "c"})], "2026-11")
    assert events(files) == ["a", "c"]
    assert files.verify().fault is None


def test_complete_row_of_a_killed_process_is_kept_and_reported(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-11")
    head = (files.folder / "head.json").read_bytes()
    files.append([encode({"event": "b"})], "2026-12")
    (files.folder / "head.json").write_bytes(head)
    assert files.verify().fault is not None
    files.append([encode({"event": "c"})], "2026-12")
    assert events(files) == ["a", "b", "recovered", "c"]
    assert files.verify().fault is None


@pytest.mark.parametrize("content", [None, "", "{", '{"rows": Infinity}'])
def test_rows_without_a_head_are_kept_and_reported(tmp_path: Path, content: str | None) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-10")
    files.append([encode({"event": "b"})], "2026-11")
    head = files.folder / "head.json"
    head.unlink() if content is None else head.write_text(content)
    assert files.verify().fault is not None
    files.append([encode({"event": "c"})], "2026-11")
    assert events(files) == ["a", "b", "chain_broken", "c"]
    assert files.verify().fault is not None


def test_rows_after_a_changed_row_are_kept_and_reported(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": event}) for event in "abc"], "2026-11")
    path = files.folder / "2026-11.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"long"'))
    files.append([encode({"event": "d"})], "2026-11")
    assert events(files) == ["long", "b", "c", "chain_broken", "d"]
    assert files.verify().fault is not None


def test_rows_are_not_kept_if_the_head_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = AuditFiles(tmp_path / "audit")
    files.append([encode({"event": "a"})], "2026-11")
    with monkeypatch.context() as broken:
        broken.setattr(audit_files, "replace_file", _no_room)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                files.append([encode({"event": "b"})], "2026-11")
    files.append([encode({"event": "b"})], "2026-11")
    assert events(files) == ["a", "b"]
    assert files.verify().fault is None


def _no_room(path: Path, text: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _append_many(folder: Path) -> None:
    for number in range(50):
        AuditFiles(folder).append([encode({"event": "row", "number": number})], "2026-11")


def test_several_processes_append_to_one_chain(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    with ProcessPoolExecutor(3, mp_context=get_context("fork")) as processes:
        for result in [processes.submit(_append_many, folder) for _ in range(3)]:
            result.result()
    assert len(events(AuditFiles(folder))) == 150
    assert AuditFiles(folder).verify().fault is None


def test_folder_that_does_not_exist_has_no_rows(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    assert files.verify().fault is None
    assert events(files) == []
