"""Progress notifications received by a client during a `progress SECONDS...` command of the stub controller."""

from __future__ import annotations

from itertools import pairwise


class ProgressLog:
    """An SDK progress callback. A client that reads slowly receives fewer notifications."""

    def __init__(self) -> None:
        self.received: list[tuple[float, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        self.received.append((progress, message))

    def check(self) -> None:
        """Check that there is at least one, the first after a second, one second apart, each with its byte count."""
        assert self.received
        seconds = [at for at, _ in self.received]
        assert seconds[0] >= 1
        assert all(later - earlier >= 1 for earlier, later in pairwise(seconds))
        assert [text for _, text in self.received] == [f"{int(at * 100)} bytes in {at:.0f} s" for at in seconds]
