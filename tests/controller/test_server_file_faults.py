"""Each operation on files that all sessions share fails in turn: acknowledged changes, and the next change, are stored."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptyctl.audit.audit_files import AuditFiles
from ptyctl.audit.chain import encode
from ptyctl.controller.call_memory import CallJournal
from ptyctl.files import replace_file
from tests.session.file_faults import FileFaults, intercept

#: More than the operations of each scenario; checked below.
OPERATIONS = 60
FAULTS = pytest.mark.parametrize(
    ("error", "lasting"),
    [(error, lasting) for error in (errno.ENOSPC, errno.EIO, errno.EMFILE, None) for lasting in (False, True)],
    ids=lambda value: errno.errorcode.get(value, value) if isinstance(value, int) and value > 1 else str(value),
)


def each_fault(folder: Path, error: int | None, lasting: bool) -> Iterator[tuple[Path, FileFaults]]:
    """Yield a folder for each operation that is to fail, until a scenario has fewer operations."""
    for first in range(OPERATIONS):
        faults, place = FileFaults(first, error, lasting), folder / str(first)
        place.mkdir()
        yield place, faults
        if faults.count <= first:
            return
    pytest.fail(f"more than {OPERATIONS} operations")


def attempt(change: Callable[..., Any], *arguments: Any, **fields: Any) -> bool:
    """Return whether a change was acknowledged."""
    try:
        change(*arguments, **fields)
    except OSError:
        return False
    return True


@FAULTS
@pytest.mark.parametrize("sync", [False, True])
def test_replaced_file_is_the_old_or_the_new_one(tmp_path: Path, error: int | None, lasting: bool, sync: bool) -> None:
    for folder, faults in each_fault(tmp_path, error, lasting):
        path = folder / "file"
        path.write_text("old")
        with intercept(faults.perform, folder):
            stored = attempt(replace_file, path, "new", sync=sync)
        assert path.read_text() in (("new",) if stored else ("old", "new"))
        replace_file(path, "newer", sync=sync)
        assert (path.read_text(), [file.name for file in folder.iterdir()]) == ("newer", ["file"])


def row(name: str) -> bytes:
    return json.dumps({"key": ["principal", name, "hash"], "at": 1}).encode() + b"\n"


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["key"][1] for row in rows]


@FAULTS
def test_recorded_calls_survive_a_failed_operation_of_their_file(tmp_path: Path, error: int | None, lasting: bool) -> None:
    for folder, faults in each_fault(tmp_path, error, lasting):
        path = folder / "calls.jsonl"
        before, recorded = CallJournal(path), ["before"]
        before.open()
        before.append(row("before"), sync=True)
        before.close()
        journal = CallJournal(path)
        with intercept(faults.perform, folder):
            if attempt(journal.open):
                recorded += [name for name in ("a", "b") if attempt(journal.append, row(name), sync=name == "b")]
                attempt(journal.replace, b"".join(map(row, recorded)))
                recorded += [name for name in ("c", "d") if attempt(journal.append, row(name), sync=name == "d")]
        journal.close()
        again = CallJournal(path)
        found = names(again.open())
        # A row that was refused is only there if it could not be removed.
        assert found == recorded or ("ftruncate" in faults.failed and [name for name in found if name in recorded] == recorded)
        again.append(row("after"))
        again.close()
        assert names(CallJournal(path).open()) == [*found, "after"]


def test_row_after_a_torn_one_that_could_not_be_removed_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    journal = CallJournal(path)
    journal.open()
    journal.append(row("a"))
    failing = ["write", "ftruncate"]

    def perform(name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name in failing:
            failing.remove(name)
            if name == "ftruncate":
                raise OSError(errno.EIO, "Input/output error")
            return operation(arguments[0], arguments[1][:5])
        return operation(*arguments)

    with intercept(perform, tmp_path):
        assert not attempt(journal.append, row("torn"))
        assert attempt(journal.append, row("b"))
    journal.close()
    assert (failing, names(CallJournal(path).open())) == ([], ["a", "b"])


@FAULTS
def test_audit_rows_survive_a_failed_operation_of_their_files(tmp_path: Path, error: int | None, lasting: bool) -> None:
    for parent, faults in each_fault(tmp_path, error, lasting):
        files = AuditFiles(parent / "audit")
        recorded = ["before"]
        files.append([encode({"event": "before"})], "2026-11")
        with intercept(faults.perform, files.folder):
            for name, month in (("a", "2026-11"), ("b", "2026-12")):
                if attempt(files.append, [encode({"event": name})], month):
                    recorded.append(name)
        files.append([encode({"event": "after"})], "2026-12")
        events = [row["event"] for row in files.rows()]
        kept = [event for event in events if event in (*recorded, "after")]
        assert kept == [*recorded, "after"], faults.failed
        # A row that was refused is only there if it could not be removed again, and is counted then.
        assert ("recovered" in events) == (len(events) > len(kept)), events
        assert files.verify().fault is None
