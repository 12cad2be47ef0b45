"""Where an open leads: what the request says, or a device of the inventory with its credentials, fetched now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptyctl.api.session import Auth, Pace, SessionRequest
from ptyctl.inventory import Hop, Inventory, Target
from ptyctl.platforms import Platform, Platforms
from ptyctl.platforms.loading import COMMON
from ptyctl.session.device.accounts import LOGIN_LIMIT_S, NOBODY, Account, Accounts
from ptyctl.session.device.detecting import AUTO
from transports import ssh

from .ssh_auth import auth_of


@dataclass(frozen=True, slots=True)
class Destination:
    """It holds secrets: it is kept in memory only, and a device's is made anew at each reconnect.

    Args:
        request: where and as what, in full: it names no device.
        platform: the family that the request names, if it is one.
        accounts: what the terminal's login is answered with.
        hops: the way there, with credentials that no request holds; empty is as the request says.
        device: the name in the inventory that led here.
        pace: how fast the line may be typed at; None is as fast as it takes.
    """

    request: SessionRequest
    platform: Platform | None = None
    accounts: Accounts = NOBODY
    hops: tuple[ssh.SshJumpHost, ...] = ()
    device: str | None = None
    pace: Pace | None = None


class Destinations:
    """Follows the names of devices and families. `Inventory` looks at its file at each use."""

    def __init__(self, inventory: Inventory, platforms: Platforms) -> None:
        self._inventory = inventory
        self._platforms = platforms

    async def of(self, request: SessionRequest) -> Destination:
        """Raises PtyctlError: UNSUPPORTED for a platform that is not known; for a device also what `Inventory.resolve` and
        `Target.opened_by` raise."""
        if request.device is None:
            platform = self._platform(request)
            return Destination(request, platform, _accounts_of(request, platform), pace=platform.pace if platform else None)
        target = await self._inventory.resolve(request.device)
        wanted = target.opened_by(request)
        platform = self._platform(wanted)
        accounts = _known_to(target, _accounts_of(wanted, platform))
        hops, pace = tuple(_hop(hop) for hop in target.hops), target.pace or (platform.pace if platform else None)
        return Destination(wanted, platform, accounts, hops, target.name, pace)

    async def again(self, device: str) -> Destination:
        """The same for a session that was opened before: only its device's name was kept.

        Raises:
            PtyctlError: as `of`.
        """
        return await self.of(SessionRequest(action="open", device=device))

    def _platform(self, request: SessionRequest) -> Platform | None:
        return None if request.platform in (None, AUTO) else self._platforms.get(request.platform)


def _accounts_of(request: SessionRequest, platform: Platform | None) -> Accounts:
    """What the session may type by itself, as the request tells it: none without credentials. SSH has logged in already, and a
    POSIX shell then asks for nothing more."""
    auth = request.auth or Auth()
    wanted = request.username is not None or auth.password is not None
    if request.protocol == "ssh":
        wanted = request.platform not in (None, COMMON) and not (platform is not None and platform.posix_shell)
    layers = (Account(request.username, auth.password),) if wanted else ()
    return Accounts(layers, auth.enable_secret)


def _known_to(target: Target, of_request: Accounts) -> Accounts:
    """The logins layer by layer. A device that SSH logs in to may ask behind it, for the same name and password."""
    layers = tuple(Account(login.username, login.password) for login in target.logins)
    options = target.options
    return replace(
        of_request,
        layers=(layers or of_request.layers) if options.automatic else (),
        enable_secret=target.enable_secret,
        answers=options.answers,
        prepare=options.prepare,
        timeout_s=min(options.timeout_ms / 1000, LOGIN_LIMIT_S),
    )


def _hop(hop: Hop) -> ssh.SshJumpHost:
    auth = None if hop.auth is None else auth_of(hop.auth)
    return ssh.SshJumpHost(hop.host, hop.port, hop.username, auth, hop.legacy_algorithms)
