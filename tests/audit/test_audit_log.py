"""The writer of the audit log: no caller waits for the disk, and no row is lost while the disk takes none."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.audit import audit_log
from ptyctl.audit.audit_files import AuditFiles
from ptyctl.audit.audit_log import AuditLog


class UnreliableFiles(AuditFiles):
    """Files on a disk that takes rows only while `works` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.works = threading.Event()
        self.attempted = threading.Event()

    def append(self, rows: Iterable[bytes], month: str) -> None:
        if not self.works.is_set():
            self.attempted.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(rows, month)


def test_rows_are_written_in_order_with_time_and_event(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    log = AuditLog(files)
    for number in range(300):
        log.record("text", number=number, session_id=None)
    log.close()
    rows = list(files.rows())
    assert [row["number"] for row in rows] == list(range(300))
    assert all("session_id" not in row and row["ts"] > 0 for row in rows)
    assert files.verify().fault is None


def test_closed_log_without_rows_leaves_no_folder(tmp_path: Path) -> None:
    AuditLog(AuditFiles(tmp_path / "audit")).close()
    assert not (tmp_path / "audit").exists()


def test_full_disk_denies_input_until_the_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_S", 0.01)
    files = UnreliableFiles(tmp_path / "audit")
    log = AuditLog(files)
    log.record("a")
    assert files.attempted.wait(30)
    log.record("b")
    with pytest.raises(PtyctlError, match="No space left") as raised:
        _wait_for_failure(log, files)
    assert raised.value.code is ErrorCode.IO_ERROR
    files.works.set()
    log.close()
    log.check()
    assert [row["event"] for row in files.rows()] == ["a", "b"]


def _wait_for_failure(log: AuditLog, files: UnreliableFiles) -> None:
    """Wait for two attempts: the failure of the first one is set after it, and before the second one begins."""
    for _ in range(2):
        files.attempted.clear()
        assert files.attempted.wait(30)
    log.check()


def test_full_disk_allows_input_if_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_S", 0.01)
    files = UnreliableFiles(tmp_path / "audit")
    log = AuditLog(files, "allow")
    log.record("a")
    _wait_for_failure(log, files)
    assert log.failure == "No space left on device"
    log.close()


def test_rows_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_RETRY_S", 0.01)
    monkeypatch.setattr(audit_log, "MAX_WAITING_BYTES", 110)
    files = UnreliableFiles(tmp_path / "audit")
    log = AuditLog(files, "allow")
    for _ in range(5):
        log.record("a")
    files.works.set()
    log.close()
    rows = list(files.rows())
    assert [row["event"] for row in rows] == ["a", "a", "a", "rows_lost"]
    assert rows[-1]["rows"] == 2


def test_text_that_is_no_unicode_is_recorded(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit")
    log = AuditLog(files)
    log.record("text", text="a\ud800b", rows=1)
    log.close()
    assert [row["text"] for row in files.rows()] == ["a\\ud800b"]


def test_fault_of_any_kind_denies_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = UnreliableFiles(tmp_path / "audit")
    monkeypatch.setattr(files, "append", lambda rows, month: 1 / 0)
    log = AuditLog(files)
    log.record("a")
    log.close()
    with pytest.raises(PtyctlError, match="ZeroDivisionError"):
        log.check()


class SlowFiles(AuditFiles):
    """Files on a disk that takes rows once `ends` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began, self.ends = threading.Event(), threading.Event()

    def append(self, rows: Iterable[bytes], month: str) -> None:
        self.began.set()
        assert self.ends.wait(60)
        super().append(rows, month)


@pytest.fixture
def slow_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowFiles:
    monkeypatch.setattr(audit_log, "_QUERY_S", 0.001)
    return SlowFiles(tmp_path)


def test_query_waits_for_the_rows_before_it_also_if_the_disk_is_slow(
    slow_files: SlowFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_LATE_S", 3600)
    log = AuditLog(slow_files)
    log.record("a")
    assert slow_files.began.wait(60)
    query = threading.Thread(target=log.wait_written)
    query.start()
    query.join(0.05)
    assert query.is_alive()
    slow_files.ends.set()
    query.join()
    assert [row["event"] for row in slow_files.rows()] == ["a"]
    log.close()


def test_query_does_not_wait_for_a_disk_that_hangs(slow_files: SlowFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_LATE_S", 0.01)
    log = AuditLog(slow_files)
    log.record("a")
    log.wait_written()
    assert log.failure is not None
    slow_files.ends.set()
    log.close()


def test_rows_are_in_the_file_after_waiting_for_them(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path)
    log = AuditLog(files)
    for number in range(3):
        log.record("x", number=number)
        log.wait_written()
        assert sum(file.read_text().count('"event"') for file in tmp_path.glob("*.jsonl")) == number + 1
    log.close()
