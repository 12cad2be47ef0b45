"""The log of input to the far end (input.jsonl), with time and writer.

Its last rows have the state from which the next server restores the unfinished line.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptyctl.core.lease import Owner
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.session.transcript.append_file import AppendFile, json_line

from .gate import Writer

#: Largest size of a row. A file with less free room may lack the last row.
_ROW_BYTES = 128 * 1024


class InputLog:
    """Writes one row per write: `ts` (epoch ms), `by` (a task, "system" or null), `bytes`, and `data` (text) or `data_b64`.

    A row of a caller also has its `principal`, and `line`, the state of the typed line after it (`UnfinishedLine.state`). A
    secret is recorded with its length only.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Open the file; `max_bytes` is its largest size."""
        self._file = AppendFile(folder / "input.jsonl", max_bytes)
        self._max_bytes = max_bytes

    def record(self, writer: Writer, data: bytes, secret: bool, line: Mapping[str, int]) -> None:
        """Write a row for bytes that the channel took; `line` is the state of the typed line then."""
        row: dict[str, Any] = {
            "ts": int(time.time() * 1000),
            "by": "system" if writer.system else writer.task_id,
            "bytes": len(data),
        }
        if not writer.system:
            row["principal"], row["line"] = writer.principal, line
        if secret:
            row["sensitive"] = True
        else:
            try:
                row["data"] = data.decode()
            except UnicodeDecodeError:
                row["data_b64"] = base64.b64encode(data).decode()
        self._file.append(json_line(row))
        self._file.flush()  # input cannot be rebuilt from any other file

    @property
    def has_room(self) -> bool:
        """Whether the file is far from its largest size, so that no row was refused."""
        return self._file.size <= self._max_bytes - _ROW_BYTES

    @property
    def growing(self) -> bool:
        """Whether new input is stored."""
        return self._file.growing

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class LastInputs:
    """The last rows of callers in the input log of an earlier process."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    def restore(self, line: UnfinishedLine) -> bool:
        """Restore the line that was typed last; return False if the last row is damaged, or of an earlier version."""
        if not self._rows:
            return True
        row = self._rows[-1]
        try:
            if row["line"]:
                line.restore(row["line"], Owner(row["principal"], row["by"] or ""))
        except (KeyError, TypeError):
            return False
        return True

    def text(self) -> str | None:
        """Return the text since the last Enter; None if it has keys of a line editor, bytes that are no text, or a secret."""
        text = re.split(r"[\r\n]", "".join(row.get("data", "\0") for row in self._rows))[-1]
        return text if text.isprintable() else None
