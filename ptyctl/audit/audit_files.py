"""The audit log's files: one of JSON lines for each month, and the head of their chain."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ptyctl.session.transcript.append_file import replace_file

from .chain import Head, Verdict, append, encode, extend, parse, verify

_FILE = re.compile(r"\d{4}-\d{2}\.jsonl\Z")


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

        Rows that a killed process has written behind the recorded head are kept and counted in a row `recovered`; an incomplete
        one is removed.

        Raises:
            OSError: no row was added.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            recorded = self._recorded() or _Recorded(Head(), "", 0)
            head, recovered = self._recover(recorded)
            notes = [encode({"event": "recovered", "rows": recovered})] if recovered else []
            name = max(f"{month}.jsonl", recorded.file)  # a clock that was set back does not change the order of the files
            lines, head = append([*notes, *rows], head)
            size = self._write(self.folder / name, lines)
            replace_file(self.folder / "head.json", to_json({**head._asdict(), "file": name, "size": size}).decode())

    def verify(self) -> Verdict:
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
        """Return the rows, oldest first, from the file of a month on; lines that are none are left out.

        Raises:
            OSError: a file cannot be read.
        """
        for path in (path for path in self._paths() if path.stem >= first_month):
            for line in _lines(path):
                row = parse(line)
                if row is not None:
                    yield row

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.jsonl") if _FILE.match(path.name))

    def _recorded(self) -> _Recorded | None:
        """Return what head.json says; None if it is missing or broken, which `verify` reports."""
        try:
            content = from_json((self.folder / "head.json").read_bytes())
            return _Recorded(Head(int(content["rows"]), str(content["hash"])), str(content["file"]), int(content["size"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _recover(self, recorded: _Recorded) -> tuple[Head, int]:
        """Return the head behind the rows that the recorded one does not count, and their number."""
        head = recorded.head
        for path in self._paths():
            if path.name >= recorded.file:
                begin = recorded.size if path.name == recorded.file else 0
                with path.open("rb") as file:
                    file.seek(begin)
                    head, size = extend(head, file)
                if path.stat().st_size > begin + size:
                    os.truncate(path, begin + size)
        return head, head.rows - recorded.head.rows

    def _write(self, path: Path, lines: bytes) -> int:
        """Append lines to a file, all or none. Returns its size."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            begin = os.fstat(descriptor).st_size
            try:
                written = 0
                while written < len(lines):
                    written += os.write(descriptor, lines[written:])
            except OSError:
                os.ftruncate(descriptor, begin)
                raise
            return begin + written
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


def _lines(path: Path, size: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, or of its first bytes."""
    with path.open("rb") as file:
        for line in file:
            if size is not None and (size := size - len(line)) < 0:
                return
            yield line
