"""Interface of the descriptor store, which keeps descriptors open beyond the life of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class DescriptorStore(Protocol):
    """Holds duplicates of descriptors by name in another process."""

    @property
    def is_running(self) -> bool:
        """Whether the store's process is up. Descriptors stored before it exited are lost."""
        ...

    def watch(self, on_exit: Callable[[], None]) -> None:
        """Call `on_exit` when the store's process has exited; everything must then be stored again."""
        ...

    def store(self, name: str, descriptor: int) -> None:
        """Store a duplicate of a descriptor; it replaces the one of the same name.

        Raises:
            OSError: the store cannot be started.
        """
        ...

    def remove(self, name: str) -> None:
        """Close the store's duplicate, if there is one."""
        ...

    def retrieve_all(self) -> dict[str, int]:
        """Return duplicates of all descriptors that earlier processes stored."""
        ...
