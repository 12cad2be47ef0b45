"""The clock of claims and announcements."""

from __future__ import annotations

import time


def boot_time() -> float:
    """Return seconds of CLOCK_BOOTTIME: a node that was suspended finds its claims expired."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
