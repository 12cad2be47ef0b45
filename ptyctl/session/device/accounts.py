"""Who the session is on a device: what it answers where the terminal asks. TranscriptState in memory only."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from ptyctl.platforms import Answer

#: For all of a login; every tool call returns within 55 s (design, section 6).
LOGIN_LIMIT_S = 45.0


@dataclass(frozen=True, slots=True)
class Account:
    """What a username and a password prompt are answered with; None: nothing is known to answer."""

    username: str | None = None
    password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class Accounts:
    """`layers` are asked for one after the other: a console server's, then the device's; none leaves the login to the caller.

    `enable_secret` is for the way into the privileged mode, `answers` are to questions before the first prompt, as a platform's
    file has them. `prepare` says that paging is turned off and the terminal made wide after the login. `timeout_s` is for all
    of that.
    """

    layers: tuple[Account, ...] = ()
    enable_secret: SecretStr | None = None
    answers: tuple[Answer, ...] = ()
    prepare: bool = True
    timeout_s: float = LOGIN_LIMIT_S


#: Nothing is known, and nothing is typed.
NOBODY = Accounts()
