"""Where an open request leads: to the address in the request, or to a device of the inventory with its credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptyctl.api.session import Auth, Pace, SessionRequest
from ptyctl.inventory import Inventory, Target, TargetHop
from ptyctl.platforms import Platform, Platforms
from ptyctl.platforms.loader import COMMON
from ptyctl.session.device.login import LOGIN_LIMIT_S, NO_CREDENTIALS, LoginAccount, LoginCredentials
from ptyctl.session.device.platform_detection import AUTO, load_platform


@dataclass(frozen=True, slots=True)
class Destination:
    """A complete open request. Holds secrets, so it stays in memory; a device's is resolved again for each reconnect.

    Attributes:
        request: address, login and options. Its `device` is not set.
        platform: the platform that the request names, unless it is to be detected.
        credentials: the logins to type at the terminal's prompts.
        hops: jump hosts from the inventory; empty means those of the request or the OpenSSH configuration.
        device: the name in the inventory that was resolved to this destination.
        pace: limit on the typing speed; None means no limit.
    """

    request: SessionRequest
    platform: Platform | None = None
    credentials: LoginCredentials = NO_CREDENTIALS
    hops: tuple[TargetHop, ...] = ()
    device: str | None = None
    pace: Pace | None = None


#: The terminal of a conversation: the user's own shell, as a terminal emulator starts it.
CONVERSATION = Destination(SessionRequest(action="open", protocol="local"))


class Destinations:
    """Resolves device names with the inventory, and platform names with the platform files."""

    def __init__(self, inventory: Inventory, platforms: Platforms) -> None:
        self._inventory = inventory
        self._platforms = platforms

    async def resolve(self, request: SessionRequest) -> Destination:
        """Resolve an open request.

        Raises:
            PtyctlError: UNSUPPORTED for an unknown platform; for a device, also the errors of `Inventory.resolve` and
            `Target.request_for`.
        """
        if request.device is None:
            platform = await self._platform(request)
            pace = platform.pace if platform else None
            return Destination(request, platform, _request_accounts(request, platform), pace=pace)
        target = await self._inventory.resolve(request.device)
        resolved = target.request_for(request)
        platform = await self._platform(resolved)
        accounts = _target_accounts(target, _request_accounts(resolved, platform))
        pace = target.pace or (platform.pace if platform else None)
        return Destination(resolved, platform, accounts, target.hops, target.name, pace)

    async def resolve_device(self, name: str) -> Destination:
        """Resolve a device by name, for a session that stores only the name.

        Raises:
            PtyctlError: as `resolve`.
        """
        return await self.resolve(SessionRequest(action="open", device=name))

    async def _platform(self, request: SessionRequest) -> Platform | None:
        return None if request.platform in (None, AUTO) else await load_platform(self._platforms, request.platform)


def _request_accounts(request: SessionRequest, platform: Platform | None) -> LoginCredentials:
    """Return the logins that a request allows the session to type.

    Telnet and local sessions type a login only if the request has credentials. SSH has logged in already, so its credentials
    are typed only on a platform that may ask again, which a POSIX shell does not.
    """
    auth = request.auth or Auth()
    types_login = request.username is not None or auth.password is not None
    if request.protocol == "ssh":
        types_login = request.platform not in (None, COMMON) and not (platform is not None and platform.posix_shell)
    layers = (LoginAccount(request.username, auth.password),) if types_login else ()
    return LoginCredentials(layers, auth.enable_secret)


def _target_accounts(target: Target, of_request: LoginCredentials) -> LoginCredentials:
    """Return the logins of a device, outermost first.

    If the device has none, the request's are used: a device that SSH logs in to may ask again for the same credentials.
    """
    options = target.options
    return replace(
        of_request,
        layers=(target.logins or of_request.layers) if options.automatic else (),
        enable_secret=target.enable_secret,
        answers=options.answers,
        prepare=options.prepare,
        timeout_s=min(options.timeout_ms / 1000, LOGIN_LIMIT_S),
    )
