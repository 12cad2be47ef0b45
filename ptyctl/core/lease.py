"""The write lease of a session: holder, expiry, fencing token, and the queue of waiting tasks.

Time is monotonic seconds and is passed in. An expired lease counts as no lease; expiry needs no action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError

#: How long the queue keeps the place of a task between two calls (seconds).
GRACE_S = 2.0
#: Number of tasks whose last lease is remembered after its end.
_MAX_ENDS = 256

EndReason = Literal["expired", "taken_over", "released"]


class Owner(NamedTuple):
    """The owner of a lease, a place in the queue or typed text: a task of a principal. A `task_id` of "" means no task.

    Tasks of two principals with the same `task_id` are two owners.
    """

    principal: str
    task_id: str

    def describe(self, to: Owner | None) -> str:
        """Return the name in a message to another owner, with the principal if it differs from the reader's."""
        task = f"task {self.task_id}" if self.task_id else "a caller without a task"
        return task if to is None or to.principal == self.principal else f"{task} of {self.principal}"

    def label(self, principal: str) -> str:
        """Return the name in a list for a principal, with the owner's principal if it is a different one."""
        return self.task_id if self.principal == principal else f"{self.task_id} ({self.principal})".lstrip()


@dataclass(frozen=True, slots=True)
class Lease:
    """An exclusive right to write. `expires_at`: monotonic seconds. `fence`: fencing token, greater for each new lease."""

    holder: Owner
    expires_at: float
    fence: int


class LeaseEnd(NamedTuple):
    """How and when the last lease of the owner `of` ended. `by`: the owner that took it over. `not_held`: there was none."""

    reason: EndReason | Literal["not_held"]
    at: float = 0.0
    by: Owner | None = None
    of: Owner | None = None

    @property
    def is_loss(self) -> bool:
        """Whether the lease ended without a release by its owner."""
        return self.reason in ("expired", "taken_over")

    def describe(self, now: float) -> str:
        """Return the end as the predicate of a sentence about the lock."""
        ago = f"{max(0, round((now - self.at) * 1000))} ms ago"
        match self.reason:
            case "taken_over":
                return f"was taken over by {self.by.describe(self.of) if self.by else 'another task'} {ago}"
            case "expired" | "released":
                return f"{'was ' if self.reason == 'released' else ''}{self.reason} {ago}"
        return "was not held"


class Leases:
    """The leases of one session, at most one of them active, and the queue."""

    def __init__(
        self,
        store: Callable[[Lease], None] | None = None,
        on_grant: Callable[[Lease, float], None] = lambda lease, ttl_s: None,
        on_end: Callable[[Lease, LeaseEnd], None] = lambda lease, end: None,
    ) -> None:
        """Create the leases.

        Args:
            store: makes a lease durable before it is granted; if it raises, nothing changes.
            on_grant: called with each new lease and its TTL in seconds, not when it is extended.
            on_end: called when a lease has ended; after an expiry, at the next use of this object.
        """
        self.queue = LeaseQueue()
        self._store = store
        self._on_grant = on_grant
        self._on_end = on_end
        #: The fence of the newest lease, active or not.
        self.fence = 0
        self._lease: Lease | None = None
        self._ends: dict[Owner, LeaseEnd] = {}

    def restore(self, lease: Lease | None, fence: int, losses: Iterable[LeaseEnd] = ()) -> None:
        """Restore the state of an earlier process: its lease, the last fence, and the result of its `losses()`."""
        self._lease, self.fence = lease, fence
        for end in losses:
            self._remember(end)

    def renew_fence(self, fence: int, now: float) -> None:
        """Make the fences of the active lease and of all further leases greater than `fence`. Unchanged if `store` raises."""
        lease, fence = self.current(now), max(self.fence, fence)
        if lease is not None:
            self._lease = self._stored(Lease(lease.holder, lease.expires_at, fence + 1))
            fence += 1
        self.fence = fence

    def revoke(self, now: float) -> None:
        """End the lease, if any, because another process grants leases from now on."""
        self.current(now)
        self._end("taken_over", now)

    def current(self, now: float) -> Lease | None:
        """Return the active lease."""
        if self._lease is not None and self._lease.expires_at <= now:
            self._end("expired", self._lease.expires_at)
        return self._lease

    @property
    def any(self) -> bool:
        """Whether there is a lease, active or expired."""
        return self._lease is not None

    def waiting(self, now: float) -> list[Owner]:
        """Return the tasks that wait for the lease, in order of arrival."""
        return self.queue.waiting(now)

    def end_of(self, owner: Owner, now: float) -> LeaseEnd:
        """Return how the owner's last lease ended."""
        self.current(now)
        return self._ends.get(owner, LeaseEnd("not_held"))

    def losses(self) -> list[LeaseEnd]:
        """Return the last expiries and take-overs, oldest first, at most one for each owner."""
        return [end for end in self._ends.values() if end.is_loss]

    def _end(self, reason: EndReason, at: float, by: Owner | None = None) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        end = LeaseEnd(reason, at, by, lease.holder)
        self._remember(end)
        self._on_end(lease, end)

    def _remember(self, end: LeaseEnd) -> None:
        if end.of is not None:
            self._ends.pop(end.of, None)
            self._ends[end.of] = end
            if len(self._ends) > _MAX_ENDS:
                del self._ends[next(iter(self._ends))]

    def acquire(self, owner: Owner, ttl_s: float, now: float) -> Lease:
        """Acquire the lease, or extend the caller's own lease, which keeps its fence.

        Raises:
            PtyctlError: LOCKED, naming the holder or the first task in the queue.
        """
        lease = self.current(now)
        if lease is not None and lease.holder == owner:
            self._lease = self._stored(Lease(owner, now + ttl_s, lease.fence))
            return self._lease
        if lease is not None:
            raise _locked(lease, owner, now)
        waiting = self.waiting(now)
        if waiting and waiting[0] != owner:
            raise _reserved(waiting[0], owner)
        return self._grant(owner, ttl_s, now)

    def take_over(self, owner: Owner, ttl_s: float, now: float) -> tuple[Lease, Owner | None]:
        """Acquire the lease regardless of holder and queue. Also return the previous holder, if it is a different owner."""
        lease = self.current(now)
        if lease is not None and lease.holder == owner:
            return self.acquire(owner, ttl_s, now), None
        granted = self._grant(owner, ttl_s, now)
        return granted, lease.holder if lease is not None else None

    def _grant(self, owner: Owner, ttl_s: float, now: float) -> Lease:
        ends = dict(self._ends)
        if self._lease is not None:  # stored together with the new lease
            self._remember(LeaseEnd("taken_over", now, owner, self._lease.holder))
        try:
            lease = self._stored(Lease(owner, now + ttl_s, self.fence + 1))
        except BaseException:
            self._ends = ends
            raise
        self._end("taken_over", now, owner)
        self.fence, self._lease = lease.fence, lease
        self.queue.leave(owner)
        self._on_grant(lease, ttl_s)
        return lease

    def _stored(self, lease: Lease) -> Lease:
        if self._store is not None:
            self._store(lease)
        return lease

    def heartbeat(self, owner: Owner, ttl_s: float, now: float) -> Lease:
        """Extend the caller's lease without storing it: after a crash it may expire earlier, but never later.

        Raises:
            PtyctlError: LOCKED if another task holds it, LOCK_LOST if no task does.
        """
        lease = self.current(now)
        if lease is None:
            end = self.end_of(owner, now)
            message = f"task {owner.task_id} does not hold the lock of this session: it {end.describe(now)}"
            hint = NextStep.RETAKE_LOCK if end.is_loss else NextStep.TAKE_LOCK
            raise PtyctlError(ErrorCode.LOCK_LOST, message, {"reason": end.reason}, hint=hint)
        if lease.holder != owner:
            raise _locked(lease, owner, now)
        self._lease = Lease(owner, now + ttl_s, lease.fence)
        return self._lease

    def release(self, owner: Owner, now: float) -> None:
        """Release the lease. Without an active lease, do nothing.

        Raises:
            PtyctlError: LOCKED if another task holds it.
        """
        lease = self.current(now)
        if lease is not None and lease.holder != owner:
            raise _locked(lease, owner, now)
        self._end("released", now)

    def check(self, owner: Owner, required: bool, now: float) -> int | None:
        """Check that `owner` may write. Return the fence of its lease, or None if no lease is active and none is required.

        Raises:
            PtyctlError: LOCKED if another task holds the lease. If a lease is required and none is active: LOCK_LOST if the
                owner's last lease expired or was taken over, LOCK_REQUIRED otherwise.
        """
        lease = self.current(now)
        if lease is not None:
            if lease.holder != owner:
                raise _locked(lease, owner, now)
            return lease.fence
        if required:
            raise _missing(self.end_of(owner, now), now)
        return None


@dataclass(slots=True)
class _QueuePlace:
    """A place in the queue. `calls`: number of waiting calls of the task; with 0, the place is kept until `kept_until`."""

    calls: int = 0
    kept_until: float = 0.0


class LeaseQueue:
    """FIFO queue of the tasks that wait for a session's lease.

    A task keeps its place for `GRACE_S` after a call returned without the lease, so that a task with short calls can continue
    to wait. Only a task with a waiting call is granted the lease.
    """

    def __init__(self) -> None:
        self._places: dict[Owner, _QueuePlace] = {}  # in order of arrival

    def join(self, owner: Owner, now: float) -> None:
        """Add a waiting call, at the owner's place or at the end."""
        self._expire(now)
        self._places.setdefault(owner, _QueuePlace()).calls += 1

    def pause(self, owner: Owner, now: float) -> None:
        """End a call without the lease; keep the place for `GRACE_S`."""
        place = self._places.get(owner)
        if place is not None:
            place.calls -= 1
            place.kept_until = now + GRACE_S

    def withdraw(self, owner: Owner) -> None:
        """Cancel a call; the owner leaves the queue unless other calls of it wait."""
        place = self._places.get(owner)
        if place is not None:
            place.calls -= 1
            if place.calls <= 0:
                self.leave(owner)

    def leave(self, owner: Owner) -> None:
        """Remove the owner with all its calls."""
        self._places.pop(owner, None)

    def waiting(self, now: float) -> list[Owner]:
        """Return the owners in order; the first is the next holder."""
        self._expire(now)
        return list(self._places)

    def next_change(self) -> float | None:
        """Return when the first place expires, or None if its task is waiting or the queue is empty."""
        first = next(iter(self._places.values()), None)
        return None if first is None or first.calls else first.kept_until

    def _expire(self, now: float) -> None:
        self._places = {owner: place for owner, place in self._places.items() if place.calls > 0 or now < place.kept_until}


def _locked(lease: Lease, to: Owner, now: float) -> PtyctlError:
    remaining_ms = max(0, round((lease.expires_at - now) * 1000))
    return PtyctlError(
        ErrorCode.LOCKED,
        f"Session locked by {lease.holder.describe(to)} for another {remaining_ms} ms at most",
        {"lock_holder": lease.holder.task_id, "lock_principal": lease.holder.principal, "expires_in_ms": remaining_ms},
        hint=NextStep.WAIT_FOR_LOCK,
    )


def _missing(end: LeaseEnd, now: float) -> PtyctlError:
    rule = "a console session accepts input only from the holder of its lock"
    if not end.is_loss:
        return PtyctlError(ErrorCode.LOCK_REQUIRED, rule, hint=NextStep.TAKE_LOCK)
    message = f"the lock {end.describe(now)}: {rule}"
    return PtyctlError(ErrorCode.LOCK_LOST, message, {"reason": end.reason}, hint=NextStep.RETAKE_LOCK)


def _reserved(first: Owner, to: Owner) -> PtyctlError:
    return PtyctlError(
        ErrorCode.LOCKED,
        f"the lock is free, but {first.describe(to)} is first in its queue",
        {"lock_holder": None, "next_in_line": first.task_id},
        hint=NextStep.WAIT_FOR_LOCK,
    )
