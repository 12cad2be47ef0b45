"""An inventory device with its secrets: everything that an open needs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from ptyctl.api.errors import invalid
from ptyctl.api.session import Auth, Pace, SessionRequest

from .model import LoginOptions

#: Fields that only the inventory sets. If a caller could change them, the device's credentials would go to an address of the
#: caller's choice.
_INVENTORY_FIELDS = frozenset(
    {"protocol", "host", "port", "username", "auth", "ssh_options", "telnet_options", "session_type", "device_id"}
)


@dataclass(frozen=True, slots=True)
class TargetLogin:
    """The answers to a username and a password prompt. None: there is no answer to that prompt."""

    username: str | None
    password: SecretStr | None


@dataclass(frozen=True, slots=True)
class TargetHop:
    """An SSH jump host. If `auth` is None it uses the target's agent and keys, never its password."""

    host: str
    port: int | None
    username: str | None
    auth: Auth | None
    legacy_algorithms: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One device, ready to be opened.

    Attributes:
        name: the device's name in the inventory.
        request: an open request without `device`: the address, and for SSH the login.
        hops: jump hosts, the first one first; SSH only. Empty means those of the OpenSSH configuration or ssh_options.
        logins: the logins that the terminal asks for, in order: the console server's, then the device's.
        enable_secret: for entering the privileged mode.
        options: options of the login.
        pace: limit on the typing speed; None means the platform's.
    """

    name: str
    request: SessionRequest
    hops: tuple[TargetHop, ...]
    logins: tuple[TargetLogin, ...]
    enable_secret: SecretStr | None
    options: LoginOptions
    pace: Pace | None = None

    def request_for(self, caller: SessionRequest) -> SessionRequest:
        """Return the open request of a caller who named this device: the inventory's fields and the caller's other fields.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming the fields that only the inventory sets.
        """
        given = {name: getattr(caller, name) for name in caller.model_fields_set}
        clashing = sorted(name for name in _INVENTORY_FIELDS.intersection(given) if given[name] is not None)
        if clashing:
            raise invalid(
                f"the inventory sets the address and the login of device {self.name}",
                hint=f"leave out {', '.join(clashing)}",
                fields=clashing,
            )
        own = {name: getattr(self.request, name) for name in self.request.model_fields_set}
        wanted = {name: value for name, value in given.items() if name != "device" and value is not None}
        return SessionRequest.of(own | wanted)
