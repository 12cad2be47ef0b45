"""The lease and the lost leases of a session as fields of meta.json, for the next server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ptyctl.core.lease import Lease, LeaseEnd, Leases, Owner

from .clients import user
from .clock import BOOT_ID, epoch_ms, stored_deadline

#: Number of lost leases in meta.json, which is written often.
_MAX_STORED_LOSSES = 32


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
