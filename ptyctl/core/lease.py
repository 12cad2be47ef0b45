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
    """The leases of one session, of which at most one is alive, and the queue of those who wait for one."""

    def __init__(self) -> None:
        self.queue = LeaseQueue()
        self._lease: Lease | None = None
        self._fence = 0

    @property
    def fence(self) -> int:
        """The newest lease's, also when it has ended."""
        return self._fence

    def restore(self, lease: Lease | None, fence: int) -> None:
        """What an earlier process of the same session had given out; fences go on from there."""
        self._lease, self._fence = lease, fence

    def current(self, now: float) -> Lease | None:
        if self._lease is not None and self._lease.expires_at <= now:
            self._lease = None
        return self._lease

    def acquire(self, task_id: str, ttl_s: float, now: float) -> Lease:
        """Takes the lease, or extends the caller's own (the fence stays).

        Raises:
            PtyctlError: LOCKED, naming the holder, or who is the next in the queue.
        """
        lease = self.current(now)
        if lease is not None and lease.holder == task_id:
            self._lease = Lease(task_id, now + ttl_s, lease.fence)
            return self._lease
        if lease is not None:
            raise _locked(lease, now)
        waiting = self.queue.waiting(now)
        if waiting and waiting[0] != task_id:
            raise _not_next(waiting[0])
        return self._give(task_id, ttl_s, now)

    def take_over(self, task_id: str, ttl_s: float, now: float) -> tuple[Lease, str | None]:
        """Takes the lease whoever holds it, before all who wait. Also says from whom it was taken, if from another."""
        lease = self.current(now)
        if lease is not None and lease.holder == task_id:
            return self.acquire(task_id, ttl_s, now), None
        return self._give(task_id, ttl_s, now), lease.holder if lease is not None else None

    def _give(self, task_id: str, ttl_s: float, now: float) -> Lease:
        self._fence += 1
        self._lease = Lease(task_id, now + ttl_s, self._fence)
        self.queue.leave(task_id)
        return self._lease

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
        "read along without a lock, and lock with wait_ms to be the next",
        {"lock_holder": lease.holder, "expires_in_ms": left_ms},
    )


def _not_next(task_id: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.LOCKED,
        f"the lock is free, and task {task_id} has waited for it; lock with wait_ms to wait in the queue",
        {"lock_holder": None, "next_in_line": task_id},
    )


#: How long a place is kept for a task that is between two calls.
GRACE_S = 2.0


@dataclass(slots=True)
class _Place:
    """`calls` of the task wait now; without any the place is kept until `kept_until`."""

    calls: int = 0
    kept_until: float = 0.0


class LeaseQueue:
    """The tasks that wait for one session's lease, in their order."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}  # in the order of coming

    def join(self, task_id: str, now: float) -> None:
        """A call waits: at the end, or where its task has a place."""
        self._forget(now)
        self._places.setdefault(task_id, _Place()).calls += 1

    def pause(self, task_id: str, now: float) -> None:
        """A call ends without the lease; its task may come again for `GRACE_S`."""
        place = self._places.get(task_id)
        if place is not None:
            place.calls -= 1
            place.kept_until = now + GRACE_S

    def withdraw(self, task_id: str) -> None:
        """A call goes away; the place stays for others of its task."""
        place = self._places.get(task_id)
        if place is not None:
            place.calls -= 1
            if place.calls <= 0:
                self.leave(task_id)

    def leave(self, task_id: str) -> None:
        """The task has the lease, or wants it no more."""
        self._places.pop(task_id, None)

    def waiting(self, now: float) -> list[str]:
        """The tasks in their order; the first is the next holder."""
        self._forget(now)
        return list(self._places)

    def next_change(self) -> float | None:
        """When the first place will be given up, should its task not come again."""
        first = next(iter(self._places.values()), None)
        return None if first is None or first.calls else first.kept_until

    def _forget(self, now: float) -> None:
        self._places = {task: place for task, place in self._places.items() if place.calls > 0 or now < place.kept_until}
