"""Clocks: seconds since boot, epoch time, the event loop's clock, and what of them continues after a restart of the machine."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

#: Contains an id that changes with each start of the machine (Linux, random(4)).
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
BOOT_ID = BOOT_ID_FILE.read_text().strip()


def epoch_ms(monotonic_s: float) -> int:
    """Return a time of the loop's clock as epoch milliseconds."""
    return int((time.time() + monotonic_s - asyncio.get_running_loop().time()) * 1000)


def stored_deadline(monotonic_s: float, clock_id: str, expires_ms: int) -> float:
    """Return a deadline that an earlier process stored, on this loop's clock.

    The loop's clock is the machine's CLOCK_MONOTONIC, which continues until the machine is restarted. After a restart the
    epoch time applies.
    """
    if clock_id == BOOT_ID:
        return monotonic_s
    return asyncio.get_running_loop().time() + expires_ms / 1000 - time.time()


def boot_time() -> float:
    """Return seconds since boot (CLOCK_BOOTTIME), including suspends: for claims, logins and limits of guesses."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
