"""The limit of guesses: how many wrong tokens and tickets one address may send."""

from __future__ import annotations

import ipaddress
import math
import time

#: Wrong tokens and tickets of one address in this time (seconds).
MAX_GUESSES = 10
GUESS_PERIOD_S = 60.0
#: Addresses that are counted. While there are more, the others share one count.
MAX_ADDRESSES = 1000
#: A user of IPv6 has at least this network, and all addresses in it (RFC 6177).
_IPV6_PREFIX = 64
_OTHERS = "others"


class GuessLimit:
    """Counts the guesses of each address in periods that begin with the first one."""

    def __init__(self) -> None:
        #: Begin of the period and number of guesses, in the order of the begins.
        self._guesses: dict[str, tuple[float, int]] = {}

    def wait_s(self, address: str) -> int:
        """Return how long an address must wait before its next attempt (seconds, rounded up), or 0."""
        now = _now()
        self._forget_past(now)
        begin, count = self._guesses.get(self._key(address), (now, 0))
        return math.ceil(begin + GUESS_PERIOD_S - now) if count >= MAX_GUESSES else 0

    def count(self, address: str) -> None:
        """Count a guess."""
        now = _now()
        self._forget_past(now)
        key = self._key(address)
        begin, count = self._guesses.get(key, (now, 0))
        self._guesses[key] = begin, count + 1

    def _forget_past(self, now: float) -> None:
        """Forget the periods that have ended."""
        while self._guesses:
            oldest = next(iter(self._guesses))
            if now - self._guesses[oldest][0] < GUESS_PERIOD_S:
                break
            del self._guesses[oldest]

    def _key(self, address: str) -> str:
        """Return the key under which an address is counted. Addresses that a full table lacks share one key."""
        key = _network(address)
        return key if key in self._guesses or len(self._guesses) < MAX_ADDRESSES else _OTHERS


def _network(address: str) -> str:
    """Return the address of an IPv4 client, or the network of an IPv6 client."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_PREFIX), strict=False))


def _now() -> float:
    """Return seconds since boot. They include the time for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
