"""The limit of guesses: per address, for a minute, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ptyctl.http import bearer
from ptyctl.http.bearer import GUESS_PERIOD_S, MAX_ADDRESSES, MAX_GUESSES, GuessLimit


@pytest.fixture
def set_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the clock of the limit, which is 0 before."""

    def set_to(now: float) -> None:
        monkeypatch.setattr(bearer, "boot_time", lambda: now)

    set_to(0.0)
    return set_to


def guess(limit: GuessLimit, address: str, times: int = MAX_GUESSES) -> None:
    for _ in range(times):
        limit.count(address)


def test_address_with_ten_guesses_waits_for_the_rest_of_the_minute(set_time: Callable[[float], None]) -> None:
    limit = GuessLimit()
    guess(limit, "192.0.2.1", 9)
    assert limit.wait_s("192.0.2.1") == 0
    set_time(20.5)
    guess(limit, "192.0.2.1", 1)
    assert (limit.wait_s("192.0.2.1"), limit.wait_s("192.0.2.2")) == (40, 0)
    set_time(GUESS_PERIOD_S)
    assert limit.wait_s("192.0.2.1") == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("unknown", "unknown", True),
    ],
)
def test_addresses_of_one_network_share_a_count(one: str, other: str, same: bool, set_time: Callable[[float], None]) -> None:
    limit = GuessLimit()
    guess(limit, one)
    assert (limit.wait_s(other) > 0) is same


def test_addresses_beyond_the_table_share_one_count(set_time: Callable[[float], None]) -> None:
    limit = GuessLimit()
    guess(limit, "victim")
    for number in range(3 * MAX_ADDRESSES):
        limit.count(f"10.0.{number // 256}.{number % 256}")
    assert len(limit._guesses) == MAX_ADDRESSES + 1
    assert limit.wait_s("victim") > 0, "an entry that counts was given up"
    assert limit.wait_s("10.0.0.1") == 0, "an address with a single guess has to wait"
    assert limit.wait_s("192.0.2.1") > 0, "an address that cannot be counted is not limited"
    set_time(GUESS_PERIOD_S)
    assert limit.wait_s("192.0.2.1") == 0
    assert not limit._guesses
