"""The meta.json file of one session, and the format of its fields about the lock, for the next server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptyctl.api.session import GivenUp, PtyOptions
from ptyctl.clock import BOOT_ID, epoch_ms, stored_deadline
from ptyctl.core.lease import Lease, LeaseEnd, Leases, Owner
from ptyctl.files import read_json, replace_file
from ptyctl.session.clients import user

#: A postponed write starts this long after the first request for it.
DELAY_S = 1.0
#: Number of lost leases in meta.json, which is written often.
_MAX_STORED_LOSSES = 32
_NAME = "meta.json"
#: The field with the size that the end of the lock restores.
SIZE_BEFORE_LOCK = "lock_size_before"
#: Fields of the session's options by which it is found.
_KEYS = ("device", "device_id", "conversation_id", "client_id", "session_type", "program")
#: The largest number in meta.json: larger ones are damage, and no JavaScript client could read them.
MAX_NUMBER = (1 << 53) - 1


def read_meta(folder: Path) -> dict[str, Any]:
    """Return the content of a session's meta.json.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON object, or the fields by which sessions are found have another type.
    """
    meta = read_json(folder / _NAME)
    if not isinstance(meta, dict):
        raise ValueError("not a JSON object")
    spec = meta.get("spec", {})
    keys = [spec.get(name) for name in _KEYS] if isinstance(spec, dict) else [0]
    keys += [meta.get("device"), meta.get("device_id"), meta.get("state")]
    if not all(key is None or isinstance(key, str) for key in keys) or not is_number(meta.get("created_at", 0)):
        raise ValueError("a field has another type")
    return meta


def is_number(value: object) -> bool:
    """Return whether a value is a number that a size, a time or a counter can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


class MetaFile:
    """Replaces meta.json atomically. The previous file is kept if that fails.

    Attributes:
        stored: the content of the last successful write by this process, or None.
        failure: why the last write failed, or None.
    """

    def __init__(self, folder: Path) -> None:
        self.stored: dict[str, Any] | None = None
        self.failure: str | None = None
        self._path = folder / _NAME
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
        self._version += 1  # a thread that has not begun the write before would replace this content with an older one
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


def read_given_up(meta: Mapping[str, Any]) -> GivenUp | None:
    """Return `Session.given_up` from the content of meta.json. An unreadable value counts as given up: no login is tried."""
    if "given_up" not in meta:
        return None
    try:
        return GivenUp.model_validate(meta["given_up"])
    except ValueError:
        return GivenUp(reason="meta.json does not hold why", at=0)


def read_size_before_lock(meta: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the size that the end of the lock restores (columns, rows); None if there is none, or if it is damaged."""
    try:
        cols, rows = meta[SIZE_BEFORE_LOCK]
        size = PtyOptions(cols=cols, rows=rows)
    except (KeyError, TypeError, ValueError):
        return None
    return size.cols, size.rows


def encode_leases(leases: Leases, lease: Lease | None) -> dict[str, Any]:
    """Return the fields that `restore_leases` needs in addition to the lock fields of a session list.

    `lease`: the lease in force, or the one that is granted once it is stored.
    """
    fields: dict[str, Any] = {"fence": max(leases.fence, lease.fence if lease else 0)}
    if lease is not None:
        fields |= {"lock_clock": BOOT_ID, "lock_until": lease.expires_at}
    if rows := _encode_losses(leases.losses()):
        fields["lock_losses"] = rows
    return fields


def restore_leases(leases: Leases, meta: Mapping[str, Any]) -> None:
    """Restore the leases from the meta.json of an earlier process. A lease without a principal belongs to the server's user."""
    lease = None
    if "lock_holder" in meta:
        expires_at = stored_deadline(float(meta["lock_until"]), meta["lock_clock"], meta["lock_expires_at"])
        lease = Lease(Owner(meta.get("lock_principal", user().name), meta["lock_holder"]), expires_at, meta["fence"])
    leases.restore(lease, meta["fence"], _decode_losses(meta.get("lock_losses")))


def _encode_losses(losses: Sequence[LeaseEnd]) -> list[dict[str, Any]]:
    """Return the rows of the last `_MAX_STORED_LOSSES` losses. Times are epoch milliseconds."""
    return [_encode_loss(end, end.of) for end in losses[-_MAX_STORED_LOSSES:] if end.of is not None]


def _decode_losses(rows: object) -> list[LeaseEnd]:
    """Return the losses of an earlier process on this loop's clock. A damaged row is left out."""
    return [end for row in rows if (end := _decode_loss(row)) is not None] if isinstance(rows, list) else []


def _encode_loss(end: LeaseEnd, of: Owner) -> dict[str, Any]:
    by = {"by": end.by.task_id, "by_principal": end.by.principal} if end.by is not None else {}
    return {"principal": of.principal, "task_id": of.task_id, "reason": end.reason, "at": epoch_ms(end.at), **by}


def _decode_loss(row: Any) -> LeaseEnd | None:
    try:
        at = asyncio.get_running_loop().time() + row["at"] / 1000 - time.time()
        of, by = Owner(str(row["principal"]), str(row["task_id"])), None
        if "by" in row:
            by = Owner(str(row["by_principal"]), str(row["by"]))
        end = LeaseEnd(row["reason"], at, by, of)
    except (TypeError, KeyError):
        return None
    return end if end.is_loss else None
