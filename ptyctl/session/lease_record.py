"""Lost leases as rows of meta.json, so that the next server can report them to the tasks that held them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ptyctl.core.lease import LeaseEnd, Owner

from .clock import epoch_ms

#: Number of lost leases in meta.json, which is written often.
MAX_STORED = 32


def encode_losses(losses: Sequence[LeaseEnd]) -> list[dict[str, Any]]:
    """Return the rows of the last `MAX_STORED` losses. Times are epoch milliseconds."""
    return [_encode(end, end.of) for end in losses[-MAX_STORED:] if end.of is not None]


def decode_losses(rows: object) -> list[LeaseEnd]:
    """Return the losses of an earlier process on this loop's clock. A damaged row is left out."""
    return [end for row in rows if (end := _decode(row)) is not None] if isinstance(rows, list) else []


def _encode(end: LeaseEnd, of: Owner) -> dict[str, Any]:
    by = {"by": end.by.task_id, "by_principal": end.by.principal} if end.by is not None else {}
    return {"principal": of.principal, "task_id": of.task_id, "reason": end.reason, "at": epoch_ms(end.at), **by}


def _decode(row: Any) -> LeaseEnd | None:
    try:
        at = asyncio.get_running_loop().time() + row["at"] / 1000 - time.time()
        of, by = Owner(str(row["principal"]), str(row["task_id"])), None
        if "by" in row:
            by = Owner(str(row["by_principal"]), str(row["by"]))
        end = LeaseEnd(row["reason"], at, by, of)
    except (TypeError, KeyError):
        return None
    return end if end.is_loss else None
