"""What outlives this process, should it be killed: descriptors, held by another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Keeper(Protocol):
    """Holds descriptors by name, beyond the end of this process."""

    @property
    def up(self) -> bool:
        """Whether it holds what it was given: it may have ended."""
        ...

    def watch(self, on_end: Callable[[], None]) -> None:
        """`on_end` is called when it has ended, and all that it held is to be given again."""
        ...

    def keep(self, name: str, descriptor: int) -> None:
        """Raises OSError where it cannot."""
        ...

    def drop(self, name: str) -> None: ...

    def kept(self) -> dict[str, int]:
        """What an earlier process has given, each a duplicate of our own."""
        ...
