"""Who may type: a lease with a holder, an expiry and a fencing token (design, section 7).

Time is monotonic seconds and is passed in. A lease that has run out is no lease: nothing needs to happen for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.api.errors import ErrorCode, PtyctlError


@dataclass(frozen=True, slots=True)
class Lease:
    """`expires_at` is in the clock's seconds; `fence` is larger for each new lease of the session."""

    holder: str
    expires_at: float
    fence: int


class Leases:
    """The leases of one session, of which at most one is alive."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._fence = 0

    def current(self, now: float) -> Lease | None:
        if self._lease is not None and self._lease.expires_at <= now:
            self._lease = None
        return self._lease

    def acquire(self, task_id: str, ttl_s: float, now: float) -> Lease:
        """Takes the lease, or extends the caller's own (the fence stays).

        Raises:
            PtyctlError: LOCKED, naming the holder.
        """
        lease = self.current(now)
        if lease is None:
            self._fence += 1
            lease = Lease(task_id, now + ttl_s, self._fence)
        elif lease.holder == task_id:
            lease = Lease(task_id, now + ttl_s, lease.fence)
        else:
            raise _locked(lease, now)
        self._lease = lease
        return lease

    def heartbeat(self, task_id: str, ttl_s: float, now: float) -> Lease:
        """Extends the caller's lease.

        Raises:
            PtyctlError: LOCKED by another, or LOCK_LOST where the caller holds none (any more).
        """
        self._own(task_id, now)
        return self.acquire(task_id, ttl_s, now)

    def release(self, task_id: str, now: float) -> None:
        """Gives the lease back. Where nobody holds one, nothing happens.

        Raises:
            PtyctlError: LOCKED, when another holds it.
        """
        lease = self.current(now)
        if lease is not None and lease.holder != task_id:
            raise _locked(lease, now)
        self._lease = None

    def check(self, task_id: str | None, required: bool, now: float) -> int | None:
        """Whether `task_id` may write now: the fence of its lease, or None where none is needed.

        Raises:
            PtyctlError: LOCKED by another task; LOCK_REQUIRED where only a holder may write.
        """
        lease = self.current(now)
        if lease is not None:
            if lease.holder != task_id:
                raise _locked(lease, now)
            return lease.fence
        if required:
            raise PtyctlError(
                ErrorCode.LOCK_REQUIRED,
                "a console session takes input only from the holder of its lock; lock it first (ptyctl_session action=lock)",
            )
        return None

    def _own(self, task_id: str, now: float) -> None:
        lease = self.current(now)
        if lease is None:
            raise PtyctlError(ErrorCode.LOCK_LOST, f"task {task_id} holds no lock here (any more); lock again before writing")
        if lease.holder != task_id:
            raise _locked(lease, now)


def _locked(lease: Lease, now: float) -> PtyctlError:
    left_ms = max(0, round((lease.expires_at - now) * 1000))
    return PtyctlError(
        ErrorCode.LOCKED,
        f"Session locked by task {lease.holder} for another {left_ms} ms at most; "
        "read along without a lock, and lock when it is free",
        {"lock_holder": lease.holder, "expires_in_ms": left_ms},
    )
