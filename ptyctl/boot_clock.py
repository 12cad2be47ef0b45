"""Seconds since boot, which continue while the machine is suspended: for claims, logins and limits of guesses."""

from __future__ import annotations

import time


def boot_time() -> float:
    """Return seconds since boot (CLOCK_BOOTTIME), including the time for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
