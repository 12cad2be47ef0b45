"""Quirks with long waits, which run first, and a shorter wait for the answer to a password."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ptyctl.session.device import login

#: The prompt of another host must stay for two seconds; a login waits for the answer to its password.
_SLOW = ("renamed_every", "bare_cr_after_password")
#: The simulated switch answers a password within milliseconds.
_PASSWORD_SILENCE_S = 5.0


def slow_first(quirks: Iterable[str]) -> list[str]:
    """Return the quirks, the slow ones first: the others run meanwhile."""
    return sorted(quirks, key=lambda quirk: quirk not in _SLOW)


@pytest.fixture
def short_password_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login presses Enter 5 s after a password without an answer, instead of 35 s."""
    monkeypatch.setattr(login, "LAST_ENTER_S", login.LOGIN_LIMIT_S - _PASSWORD_SILENCE_S)
