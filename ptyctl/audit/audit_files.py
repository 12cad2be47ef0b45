"""Files of the audit log, and the requests that read them: a file of JSON lines for each month, and the hash chain's head."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.api.operator import AuditFault, AuditReply, AuditRequest
from ptyctl.files import (
    MAX_JSON_BYTES,
    NotRegularFileError,
    open_file,
    open_for_reading,
    open_for_update,
    read_file,
    replace_file,
)

from .chain import BROKEN, FIRST, Head, Verification, append, encode, end_of, extend, hash_of, parse, verify

_FILE = re.compile(r"\d{4}-\d{2}\.jsonl\Z")
#: More than the longest row: an incomplete one is in this part of a file's end.
_MAX_ROW_BYTES = 32 * 1024 * 1024
#: Fields of a request that a row must have with the same value, by the row's name of the field.
_EQUAL = {"event": "event", "session_id": "session_id", "principal": "principal", "task": "task_id"}


class _Recorded(NamedTuple):
    """The content of head.json: the head, and the file and size at which it is the end."""

    head: Head
    file: str
    size: int


class AuditFiles:
    """Appends rows to the files and reads them; several processes may, each under a lock on the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, rows: Iterable[bytes], month: str) -> None:
        """Append encoded rows to the file of a month, such as "2026-11".

        Rows that a killed process has written after the recorded head are kept and counted in a row `recovered`; an incomplete
        one is removed. After rows that do not fit the recorded head the chain continues with a row `chain_broken`.

        Raises:
            OSError: no row was added.
        """
        if not self.folder.is_dir():
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._locked():
            recorded = self._recorded()
            head, notes = self._recover(recorded)
            # a clock that was set back does not change the order of the files
            name = max([f"{month}.jsonl", *(path.name for path in self._paths())])
            lines, head = append([*notes, *rows], head)
            self._write(self.folder / name, lines, head)

    def verify(self) -> Verification:
        """Verify all rows against each other and the recorded head.

        Raises:
            OSError: a file cannot be read.
        """
        with self._locked(create=False):
            recorded = self._recorded()
            files = [(path, path.stat().st_size) for path in self._paths()]
        lines = ((path.name, _lines(path, size)) for path, size in files)
        return verify(lines, recorded.head if recorded else None)

    def rows(self, first_month: str = "") -> Iterator[dict[str, Any]]:
        """Return the rows from the file of a month on, oldest first. Lines that are not rows are skipped.

        Raises:
            OSError: a file cannot be read.
        """
        for path in (path for path in self._paths() if path.stem >= first_month):
            for line in _lines(path):
                row = parse(line)
                if row is not None:
                    yield row

    def tail(self) -> AuditTail:
        """Return a reader of new rows."""
        return AuditTail(self._paths)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.jsonl") if _FILE.match(path.name))

    def _recorded(self) -> _Recorded | None:
        """Return the content of head.json; None if it is missing or broken, which `verify` reports."""
        try:
            content = from_json(read_file(self.folder / "head.json", MAX_JSON_BYTES))
            return _Recorded(Head(int(content["rows"]), str(content["hash"])), str(content["file"]), int(content["size"]))
        except (FileNotFoundError, NotRegularFileError, ValueError, KeyError, TypeError, OverflowError):
            return None

    def _recover(self, recorded: _Recorded | None) -> tuple[Head, list[bytes]]:
        """Return the head after all rows, and a row that reports uncounted rows or a fault, if there are any."""
        paths = self._paths()
        if paths:
            _cut_incomplete_line(paths[-1])
        if recorded is None and paths:
            return self._broken(paths, "head.json is missing or damaged")
        head, file, size = recorded or _Recorded(Head(), "", 0)
        for path in (path for path in paths if path.name >= file):
            begin = size if path.name == file else 0
            with open_for_reading(path) as opened:
                opened.seek(begin)
                head, added = extend(head, opened)
            if begin + added != path.stat().st_size:
                return self._broken(paths, f"rows of {path.name} do not fit head.json")
        recovered = head.rows - (recorded.head.rows if recorded else 0)
        return head, [encode({"event": "recovered", "rows": recovered})] if recovered else []

    def _broken(self, paths: list[Path], why: str) -> tuple[Head, list[bytes]]:
        head = end_of(line for path in paths for line in _lines(path))
        return head, [encode({"event": BROKEN, "why": why})]

    def _write(self, path: Path, lines: bytes, head: Head) -> None:
        """Append lines to a file and replace the head, both or neither."""
        descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            begin = os.fstat(descriptor).st_size
            try:
                written = 0
                while written < len(lines):
                    written += os.write(descriptor, lines[written:])
                recorded = {**head._asdict(), "file": path.name, "size": begin + written}
                replace_file(self.folder / "head.json", to_json(recorded).decode())
            except OSError:
                os.ftruncate(descriptor, begin)
                raise
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self, *, create: bool = True) -> Iterator[None]:
        if not create and not self.folder.is_dir():
            yield
            return
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class AuditTail:
    """Reads rows in order, beginning after a given row. Keeps its position in the files."""

    def __init__(self, paths: Callable[[], list[Path]]) -> None:
        self._paths = paths
        #: Hash of the row that was returned last, its file, and the end of its line in it.
        self._at: tuple[str, str, int] | None = None

    def next(self, after: str, limit: int) -> list[bytes]:
        """Return the next complete lines, without line breaks.

        Args:
            after: hash of the row before them. If no row has it, the lines begin with the first row.

        Raises:
            OSError: a file cannot be read.
        """
        if self._at is None or self._at[0] != after:
            self._at = self._find(after)
        name, offset = self._at[1:] if self._at is not None else ("", 0)
        lines: list[bytes] = []
        for path in (path for path in self._paths() if path.name >= name):
            with open_for_reading(path) as file:
                end = file.seek(offset if path.name == name else 0)
                for line in file:
                    if len(lines) >= limit or not line.endswith(b"\n"):
                        return lines
                    end += len(line)
                    lines.append(line.removesuffix(b"\n"))
                    self._at = hash_of(lines[-1]), path.name, end
        return lines

    def _find(self, after: str) -> tuple[str, str, int] | None:
        for path in self._paths() if after != FIRST else ():
            end = 0
            for line in _lines(path):
                end += len(line)
                if hash_of(line) == after:
                    return after, path.name, end
        return None


def _lines(path: Path, size: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, or of its first bytes."""
    with open_for_reading(path) as file:
        while line := file.readline(_MAX_ROW_BYTES):
            if size is not None and (size := size - len(line)) < 0:
                return
            yield line


def _cut_incomplete_line(path: Path) -> None:
    """Remove the incomplete line after the last line break."""
    with open_for_update(path) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        if file.read() == b"\n":  # always, unless a process was killed as it wrote
            return
        begin = max(0, end - _MAX_ROW_BYTES)
        file.seek(begin)
        file.truncate(begin + file.read().rfind(b"\n") + 1)


async def query_audit(files: AuditFiles, request: AuditRequest) -> AuditReply:
    """Return the rows that a request asks for, or the result of a verification. Reads in a thread.

    Raises:
        PtyctlError: IO_ERROR if a file cannot be read.
    """
    try:
        return await asyncio.to_thread(_verify_rows if request.action == "verify" else _list_rows, files, request)
    except OSError as error:
        message = f"{error.filename or files.folder} cannot be read: {error.strerror}"
        raise PtyctlError(ErrorCode.IO_ERROR, message, hint="check the file and its folder") from None


def _verify_rows(files: AuditFiles, request: AuditRequest) -> AuditReply:
    verification = files.verify()
    fault = None if verification.fault is None else AuditFault(**verification.fault._asdict())
    return AuditReply(rows=[], verified=verification.head.rows, head=verification.head.hash, first_bad=fault)


def _list_rows(files: AuditFiles, request: AuditRequest) -> AuditReply:
    first_month = time.strftime("%Y-%m", time.gmtime((request.since or 0) / 1000))
    newest: deque[dict[str, Any]] = deque()
    size, truncated = 0, False
    for row in files.rows(first_month):
        if not matches(row, request):
            continue
        newest.append(row)
        size += len(to_json(row))
        while len(newest) > request.limit or (size > MAX_LIST_BYTES and len(newest) > 1):
            size -= len(to_json(newest.popleft()))
            truncated = True
    return AuditReply(rows=list(newest), truncated=truncated or None)


def matches(row: Mapping[str, Any], request: AuditRequest) -> bool:
    """Return whether a row matches the filters of a request."""
    if any(getattr(request, field) not in (None, row.get(name)) for name, field in _EQUAL.items()):
        return False
    ts = row.get("ts", 0)
    if (request.since is not None and ts < request.since) or (request.until is not None and ts >= request.until):
        return False
    return request.device is None or fnmatchcase(str(row.get("device", "")), request.device)
