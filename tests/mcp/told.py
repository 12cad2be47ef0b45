"""The progress that a client was told of during a `progress SECONDS...` of the stub controller."""

from __future__ import annotations

from itertools import pairwise


class Told:
    """An SDK progress callback. How many there are depends on how fast the client reads: the rest are replaced."""

    def __init__(self) -> None:
        self.news: list[tuple[float, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        self.news.append((progress, message))

    def check(self) -> None:
        """At least one; none before the first second; at least a second apart; each with the bytes of its time."""
        assert self.news
        seconds = [at for at, _ in self.news]
        assert seconds[0] >= 1
        assert all(later - earlier >= 1 for earlier, later in pairwise(seconds))
        assert [text for _, text in self.news] == [f"{int(at * 100)} bytes in {at:.0f} s" for at in seconds]
