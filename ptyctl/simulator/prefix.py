"""How far two texts agree."""

from __future__ import annotations

from itertools import takewhile


def common_prefix_length(one: str, other: str) -> int:
    """The number of characters that both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
