"""Notices: messages about a session that each task receives once, with its next reply (`notices` in docs/contracts.md)."""

from __future__ import annotations

from ptyctl.core.lease import Owner

from .clients import lock_owner

#: Number of notices kept; older ones are dropped unread.
_MAX_NOTICES = 32
#: Number of tasks remembered. A forgotten task receives old notices again.
_MAX_TASKS = 1024


class Notices:
    """The last notices, and how far each task has read them."""

    def __init__(self) -> None:
        self._first = 0
        self._positions: dict[Owner, int] = {}
        self._notices: list[str] = []

    def post(self, notice: str) -> None:
        """Add a notice for all tasks. Control characters, also bidirectional ones, are replaced: it is shown on terminals."""
        self._notices.append("".join(letter if letter.isprintable() else " " for letter in notice))
        if len(self._notices) > _MAX_NOTICES:
            del self._notices[0]
            self._first += 1

    def take(self, task_id: str | None) -> list[str] | None:
        """Return the task's unread notices, or None. All calls without a task_id count as one task."""
        key = lock_owner(task_id)
        position = self._positions.pop(key, 0)
        end = self._first + len(self._notices)
        self._positions[key] = end
        if len(self._positions) > _MAX_TASKS:
            self._positions.pop(next(iter(self._positions)))
        return self._notices[max(position - self._first, 0) :] or None
