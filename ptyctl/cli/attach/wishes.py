"""What a person wants of an attachment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wishes:
    """`write` takes the lock, for `ttl_s` at a time: by `force` with that reason, or after a `wait`; `status` is whether a row
    tells who types."""

    name: str
    task: str | None
    ttl_s: float = 30.0
    write: bool = False
    wait: bool = False
    force: str | None = None
    status: bool = True
