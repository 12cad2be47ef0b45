"""Who waits for a lease: first come, first served (design, section 7).

A task keeps its place for a moment after its call came back without the lease, so that one whose calls must be short asks
again and goes on waiting. Nobody is given a lease who is not in a call. Time is monotonic seconds and is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def step_out(self, task_id: str, now: float) -> None:
        """A call ends without the lease; its task may come again for `GRACE_S`."""
        place = self._places.get(task_id)
        if place is not None:
            place.calls -= 1
            place.kept_until = now + GRACE_S

    def give_up(self, task_id: str) -> None:
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
