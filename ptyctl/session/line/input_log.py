"""input.jsonl: what was sent to the far end, when and by whom; of a secret the length only (design, section 10)."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

from ptyctl.session.transcript.appender import Appender, json_line

from .gate import Writer


class InputLog:
    """One row a write: `ts` epoch ms, `by` a task, "system" or null, `bytes`, and `data` (text) or `data_b64`."""

    def __init__(self, folder: Path) -> None:
        self._file = Appender(folder / "input.jsonl")

    def record(self, writer: Writer, data: bytes, secret: bool) -> None:
        row: dict[str, Any] = {
            "ts": int(time.time() * 1000),
            "by": "system" if writer.system else writer.task_id,
            "bytes": len(data),
        }
        if secret:
            row["sensitive"] = True
        else:
            row.update(_shown(data))
        self._file.append(json_line(row))
        self._file.flush()  # at once: it cannot be made again from anything

    def close(self) -> None:
        self._file.close()


def _shown(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_b64": base64.b64encode(data).decode()}
