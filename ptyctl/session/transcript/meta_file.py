"""The meta.json file of one session."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptyctl.files import replace_file

#: A postponed write starts this long after the first request for it.
DELAY_S = 1.0


class MetaFile:
    """Replaces meta.json atomically. The previous file is kept if that fails.

    Attributes:
        stored: the content of the last successful write by this process, or None.
        failure: why the last write failed, or None.
    """

    def __init__(self, folder: Path) -> None:
        self.stored: dict[str, Any] | None = None
        self.failure: str | None = None
        self._path = folder / "meta.json"
        self._lock = threading.Lock()
        self._version = 0
        self._timer: asyncio.TimerHandle | None = None

    def write(self, meta: dict[str, Any]) -> None:
        """Write now. A postponed write is dropped, since this content is newer."""
        self.cancel_postponed()
        with self._lock:
            self._replace(meta)

    def write_postponed(self, build: Callable[[], dict[str, Any]]) -> None:
        """Write in a worker thread within about `DELAY_S`. Further requests until then cause no further write.

        `build` returns the content. It is called in the event loop when the write starts.
        """
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self._start_write, build)

    def cancel_postponed(self) -> None:
        """Drop a postponed write. When this returns, no thread writes the file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            self._version += 1

    def _start_write(self, build: Callable[[], dict[str, Any]]) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._write_if_current, self._version, build())

    def _write_if_current(self, version: int, meta: dict[str, Any]) -> None:
        with self._lock:
            if version == self._version:
                self._replace(meta)

    def _replace(self, meta: dict[str, Any]) -> None:
        try:
            replace_file(self._path, _encode(meta))
        except OSError as error:
            self.failure = error.strerror or str(error)
        else:
            self.stored, self.failure = meta, None


def _encode(meta: dict[str, Any]) -> str:
    """Return the content of the file, one field per line. An `indent` of json.dumps leaves cyclic garbage, and is slower."""
    fields = ",\n ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in meta.items())
    return f"{{\n {fields}\n}}"
