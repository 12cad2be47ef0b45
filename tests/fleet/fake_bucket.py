"""A bucket in memory, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from ptyctl.fleet.buckets import ConflictError, Entry


@dataclass
class FakeBucket:
    """Compare-and-set with a life of the keys."""

    ttl_s: float
    now: float = 100.0
    created_s: int = 1
    revision: int = 0
    values: dict[str, tuple[Entry, float]] = field(default_factory=dict)

    def _current(self, key: str) -> Entry | None:
        entry, at = self.values.get(key, (None, 0.0))
        return entry if entry is not None and self.now < at + self.ttl_s else None

    def _write(self, key: str, value: bytes) -> int:
        self.revision += 1
        self.values[key] = Entry(value, self.revision), self.now
        return self.revision

    async def get(self, key: str) -> Entry | None:
        return self._current(key)

    async def create(self, key: str, value: bytes) -> int:
        if self._current(key) is not None:
            raise ConflictError
        return self._write(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        current = self._current(key)
        if current is None or current.revision != revision:
            raise ConflictError
        return self._write(key, value)

    async def delete(self, key: str, revision: int | None = None) -> None:
        current = self._current(key)
        if revision is not None and (current is None or current.revision != revision):
            raise ConflictError
        self.values.pop(key, None)

    async def watch(self) -> AsyncGenerator[tuple[str, Entry | None] | None]:
        yield None

    async def put(self, key: str, value: bytes) -> int:
        return self._write(key, value)
