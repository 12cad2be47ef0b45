"""A device with its secrets at hand: all that an open needs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from ptyctl.api.errors import invalid
from ptyctl.api.session import Auth, Pace, SessionRequest

from .model import LoginOptions

#: What the inventory decides alone. Were a caller to change it, the device's credentials would go to a place of the caller's.
_DECIDED = frozenset(
    {"protocol", "host", "port", "username", "auth", "ssh_options", "telnet_options", "session_type", "device_id"}
)


@dataclass(frozen=True, slots=True)
class Login:
    """What a username and a password prompt are answered with; None: there is nothing to answer."""

    username: str | None
    password: SecretStr | None


@dataclass(frozen=True, slots=True)
class Hop:
    """An SSH host on the way, with credentials of its own. `auth` None uses the target's agent and keys, never its password."""

    host: str
    port: int | None
    username: str | None
    auth: Auth | None
    legacy_algorithms: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One device.

    Args:
        name: in the inventory.
        request: an open request without `device`: where to connect, and for SSH how to log in there.
        hops: the way there, the first one first; SSH only. Empty: as the OpenSSH configuration or ssh_options say.
        logins: what the terminal will ask for, layer by layer: the console server's login, then the device's.
        enable_secret: for the way into the privileged mode.
        options: of the login.
        pace: how fast its line may be typed at, where that is not the platform's.
    """

    name: str
    request: SessionRequest
    hops: tuple[Hop, ...]
    logins: tuple[Login, ...]
    enable_secret: SecretStr | None
    options: LoginOptions
    pace: Pace | None = None

    def opened_by(self, asked: SessionRequest) -> SessionRequest:
        """The open request of a caller who named this device: the inventory's, with what the caller wants beside it.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming the fields that are the inventory's.
        """
        given = {name: getattr(asked, name) for name in asked.model_fields_set}
        clashing = sorted(name for name in _DECIDED.intersection(given) if given[name] is not None)
        if clashing:
            raise invalid(
                f"device {self.name} says itself where it is and how to log in; leave out {', '.join(clashing)}",
                fields=clashing,
            )
        own = {name: getattr(self.request, name) for name in self.request.model_fields_set}
        wanted = {name: value for name, value in given.items() if name != "device" and value is not None}
        return SessionRequest.of(own | wanted)
