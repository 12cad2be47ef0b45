"""The log of input to the far end (input.jsonl), with time and writer.

Its last rows have the state from which the next server restores the unfinished line.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ptyctl.core.echo_watch import TypedPiece
from ptyctl.core.lease import Owner
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.session.transcript.append_file import AppendFile, json_line
from ptyctl.session.transcript.input_rows import MAX_INPUT_ROW_BYTES, hidden_end, shown_end
from ptyctl.session.transcript.recovery import MAX_LAST_INPUTS

from .gate import Writer


class InputLog:
    """Writes one row per write: `ts` (epoch ms), `by` (a task, "system" or null), `bytes`, and `data` (text) or `data_b64`.

    A row of a caller also has its `principal`, and `line`, the state of the typed line after it (`UnfinishedLine.state`), which
    a row that erases a refused line has too. A secret is recorded with its length only, and so is text until it is known that
    the far end shows it (`EchoWatch`): then `decided` adds it to its row (`input_rows`). Input is on disk at once, so a server
    that dies loses no state of the line.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Open the file; `max_bytes` is its largest size."""
        self._file = AppendFile(folder / "input.jsonl", max_bytes)
        self._max_bytes = max_bytes
        #: Place and content of the ends of the rows of text that may be shown.
        self._undecided: dict[TypedPiece, tuple[int, bytes]] = {}

    def record(self, writer: Writer, pieces: Iterable[TypedPiece], line: Mapping[str, int]) -> None:
        """Write a row for each piece of what the channel took; `line` is the state of the typed line then."""
        for piece in pieces:
            row: dict[str, Any] = {
                "ts": int(time.time() * 1000),
                "by": "system" if writer.system else writer.task_id,
                "bytes": len(piece.data),
            }
            if not writer.system:
                row["principal"] = writer.by.name
            if not writer.system or writer.erases is not None:
                row["line"] = line
            if piece.shown is None:
                fixed, end = json_line(row)[:-2], hidden_end(len(piece.data))
                self._undecided[piece] = self._file.size_with_batch + len(fixed), end
                self._file.append(fixed + end)
                continue
            if not piece.shown:
                row["sensitive"] = True
            else:
                try:
                    row["data"] = piece.data.decode()
                except UnicodeDecodeError:
                    row |= _binary_field(piece.data)
            self._file.append(json_line(row))
        self._file.flush()  # input cannot be rebuilt from any other file

    def decided(self, piece: TypedPiece) -> None:
        """Add the text of a piece to its row if the far end shows it."""
        undecided = self._undecided.pop(piece, None)
        if undecided is None or not piece.shown:
            return
        at, old = undecided
        end = None
        with suppress(UnicodeDecodeError):
            end = shown_end({"data": piece.data.decode()}, len(old))
        end = end or shown_end(_binary_field(piece.data), len(old))
        if end is not None:
            self._file.replace(at, old, end)

    @property
    def has_room(self) -> bool:
        """Whether the file is so far from its largest size that no row was refused."""
        return self._file.size <= self._max_bytes - MAX_INPUT_ROW_BYTES

    @property
    def growing(self) -> bool:
        """Whether new input is stored."""
        return self._file.growing

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _binary_field(data: bytes) -> dict[str, str]:
    return {"data_b64": base64.b64encode(data).decode()}


class LastInputs:
    """The last rows that changed the typed line in the input log of an earlier process.

    They reach back to a row after which no line was entered and nothing was typed, unless there are too many.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    def restore(self, line: UnfinishedLine) -> bool:
        """Restore the line that was typed last; return False if the last row is damaged, or of an earlier version."""
        if not self._rows:
            return True
        row = self._rows[-1]
        try:
            if row["line"]:
                by = next(each for each in reversed(self._rows) if "principal" in each)
                line.restore(row["line"], Owner(by["principal"], by["by"] or ""))
        except (KeyError, TypeError, StopIteration):
            return False
        return True

    def text(self) -> str | None:
        """Return the text since the last Enter; None if it has keys of a line editor, bytes that are no text, or a secret."""
        if self._rows and (line := self._rows[-1].get("line")) is not None and _is_empty(line):
            return ""
        text = re.split(r"[\r\n]", "".join(row.get("data", "\0") for row in self._rows))[-1]
        return text if text.isprintable() else None

    def unanswered(self, returned_raw: int) -> list[tuple[bytes, bool]] | None:
        """Return the input since the far end's line was last known to be empty; None if a part of it is not known.

        It was empty when the command of a run was typed, and at a shell's prompt after complete lines.

        Args:
            returned_raw: the raw offset of the last mark of a shell that returned from a command; -1 without one.

        Returns:
            Pieces of input, and whether the lines up to the end of the piece are the beginning of a command.
        """
        inputs: list[tuple[bytes, bool]] = []
        for row in reversed(self._rows):
            line, data = row.get("line"), _data(row)
            if line is None:  # of an earlier version
                return None
            if not line or (_is_empty(line) and line["entered_raw"] < returned_raw and "incomplete" not in line):
                return inputs[::-1]
            if data is None:
                return None
            inputs.append((data, "incomplete" in line))
        return inputs[::-1] if len(self._rows) < MAX_LAST_INPUTS else None


def _is_empty(line: Mapping[str, int]) -> bool:
    """Return whether a state of the typed line has no text."""
    return not line or line["raw"] < 0


def _data(row: Mapping[str, Any]) -> bytes | None:
    """Return the input of a row; None for a secret."""
    if "data" in row:
        return str(row["data"]).encode()
    return base64.b64decode(row["data_b64"]) if "data_b64" in row else None
