"""What happened to a session behind its users' backs: each notice is told once to each task (CONTRACTS)."""

from __future__ import annotations

#: Older ones are of no use to anybody.
_KEPT = 32
#: Tasks are remembered up to this number; one that was forgotten hears old notices again.
_TASKS = 1024


class Notices:
    def __init__(self) -> None:
        self._first = 0
        self._told: dict[str, int] = {}
        self._notices: list[str] = []

    def post(self, notice: str) -> None:
        self._notices.append(notice)
        if len(self._notices) > _KEPT:
            del self._notices[0]
            self._first += 1

    def take(self, task_id: str | None) -> list[str] | None:
        """What this task was not told yet, or None. Calls without a task share one place."""
        key = task_id or ""
        seen = self._told.pop(key, 0)
        end = self._first + len(self._notices)
        self._told[key] = end
        if len(self._told) > _TASKS:
            self._told.pop(next(iter(self._told)))
        return self._notices[max(seen - self._first, 0) :] or None
