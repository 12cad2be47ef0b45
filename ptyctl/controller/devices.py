"""The devices of the inventory for clients, and the check of one of them, from its name to its prompt (`ptyctl doctor`)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Literal

from ptyctl.api.devices import DeviceCheck, DeviceEntry, DevicesReply, DevicesRequest
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.session import Timeouts
from ptyctl.audit.audit_log import AuditLog
from ptyctl.core.limits import UseCounter
from ptyctl.environment import environment_warnings
from ptyctl.files import SET_ASIDE_SUFFIX
from ptyctl.inventory import Inventory, InventoryDevice, console_id
from ptyctl.platforms import Platforms
from ptyctl.session.calls.mode_change import mode_at
from ptyctl.session.calls.session_preparation import prepare
from ptyctl.session.clients import current_principal
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.errors import from_channel
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.session import Session
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from transports.errors import ChannelError
from transports.ssh.endpoint import resolve as resolve_endpoints

from .destinations import (
    HIDDEN_ROUTE_HINT,
    Destination,
    Destinations,
    DeviceVisibility,
    channel_factory,
    hides_route,
    session_spec,
    ssh_options,
)
from .policies import PolicyStore
from .settings import Settings

#: How long to wait for a prompt after the login, or without a login (seconds).
_PROMPT_TIMEOUT_S = 10.0
#: The largest number of files that were set aside, and are named.
_MAX_DAMAGES = 20
_DAMAGE_HINT = f"look into the file; remove the one with {SET_ASIDE_SUFFIX} in its name when you do not need it"

_CheckName = Literal[
    "settings",
    "storage",
    "files",
    "policy",
    "approvals",
    "name",
    "credentials",
    "network",
    "connection",
    "login",
    "prompt",
    "mode",
    "paging",
]

#: Fields of a device that its entry repeats.
_FIELDS = ("protocol", "host", "port", "platform", "session_type", "device_id", "username")
#: The checks whose errors may name a jump host or console server of the device.
_ROUTE_CHECKS = ("credentials", "network", "connection")


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """Restricts the nodes of a fleet that may connect a device.

    Attributes:
        device_id: the name of the console; None for another device.
        node_labels: those that a node needs to reach it.
        standby: whether another node connects the console when its owner is gone.
    """

    device_id: str | None
    node_labels: tuple[str, ...] = ()
    standby: bool = False


class Devices:
    """Serves the requests about devices."""

    def __init__(
        self,
        settings: Settings,
        inventory: Inventory,
        audit_log: AuditLog,
        notify_problem: Callable[[], str | None],
        alarms: Callable[[], list[str]],
    ) -> None:
        """Create the service.

        Args:
            notify_problem: returns why the last run of the notify command failed, or None.
            alarms: returns the alarms of the sessions about their files.
        """
        self._settings = settings
        self._inventory = inventory
        self._audit_log = audit_log
        self._notify_problem, self._alarms = notify_problem, alarms
        self._limit = settings.limits.use["max_principal_checks"]
        #: The checks in progress by the name of their principal.
        self._checks: defaultdict[str, UseCounter] = defaultdict(lambda: UseCounter(self._limit))

    async def answer(self, request: DevicesRequest, sees: DeviceVisibility) -> DevicesReply:
        """Serve a request. `sees` returns whether the caller may see a device with these names.

        Raises:
            PtyctlError: LIMIT_EXCEEDED; as `Inventory.devices`.
        """
        if request.action == "doctor":
            assert request.device is not None
            return DevicesReply(checks=await self._check(request.device, request.task_id, sees))
        devices = await self._inventory.devices()
        seen = ((name, device) for name, device in devices.items() if sees(name, device.device_id))
        return DevicesReply(devices=[_entry(name, device, sees) for name, device in seen])

    async def placements(self) -> dict[str, DevicePlacement]:
        """Return the placement of each device. Raises PtyctlError as `Inventory.devices`."""
        return {name: _placement(name, device) for name, device in (await self._inventory.devices()).items()}

    def limits_in_use(self) -> dict[str, int]:
        """Return how many checks the principal with most of them has in progress, by the name of the limit."""
        return {self._limit.name: max((counter.in_use for counter in self._checks.values()), default=0)}

    async def _check(self, device: str, task_id: str | None, sees: DeviceVisibility) -> list[DeviceCheck]:
        found: list[DeviceCheck] = []
        principal = current_principal().name
        with self._checks[principal].counting():
            self._audit_log.record("check", principal=principal, task=task_id, device=device)
            try:
                async with asyncio.timeout(MAX_WAIT_MS / 1000):
                    doctor = Doctor(self._settings, device, self._notify_problem(), self._alarms() if sees() else (), sees)
                    async for check in doctor.checks():
                        found.append(DeviceCheck(name=check.name, ok=check.ok, result=check.result, hint=check.hint))
            except TimeoutError:
                result = f"the next step takes longer than {MAX_WAIT_MS // 1000} s"
                found.append(DeviceCheck(name="time", ok=False, result=result))
        return found


def _placement(name: str, device: InventoryDevice) -> DevicePlacement:
    device_id = console_id(name, device)
    return DevicePlacement(device_id, device.node_labels or (), device_id is not None and bool(device.standby))


def _entry(name: str, device: InventoryDevice, sees: DeviceVisibility) -> DeviceEntry:
    """Return the fields that a client needs: no credentials, nor where they are stored, nor hosts that it may not see."""
    console = device.console if device.console is not None and sees(device.console.server, None) else None
    jump = [host for host in device.jump or () if sees(host, None)]
    return DeviceEntry(
        device=name,
        **{field: getattr(device, field) for field in _FIELDS},
        console=f"line {console.port} of {console.server}" if console is not None else None,
        jump=jump or None,
        groups=list(device.groups) if device.groups else None,
    )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        result: what was found, or what failed. Holds no secret.
        hint: the next step after a failure, if there is one.
    """

    name: _CheckName
    ok: bool
    result: str
    hint: str | None = None


class Doctor:
    """Checks the state directory, the policy and one device. Connects and logs in as a session does, without a transcript."""

    def __init__(
        self,
        settings: Settings,
        device: str | None,
        notify_problem: str | None = None,
        alarms: Sequence[str] = (),
        sees: DeviceVisibility = lambda *names: True,
    ) -> None:
        """Create the check of a device; without one, only of what all devices need.

        Args:
            notify_problem: why the notify command of a running server failed.
            alarms: those of the sessions of a running server about their files.
            sees: returns whether the caller may see a host with these names; without names, all hosts.
        """
        self._settings = settings
        self._notify_problem, self._alarms = notify_problem, alarms
        self._device = device
        self._sees = sees
        self._inventory = Inventory(settings.devices_file)

    async def checks(self) -> AsyncGenerator[CheckResult, None]:
        """Yield each check when it is done. The checks end at the first failure, except that of the notify command.

        There is a check of the settings for each unknown environment variable, and one of the files for each damaged one.
        They are warnings, and no failures.
        """
        name: _CheckName = "storage"
        hides = False
        for warning in await asyncio.to_thread(environment_warnings, self._settings.devices_file):
            yield CheckResult("settings", True, f"warning: {warning}")
        try:
            yield CheckResult(name, True, await asyncio.to_thread(_check_storage, self._settings.state_dir))
            damages = await asyncio.to_thread(_damaged_files, self._settings.state_dir, self._alarms) if self._sees() else []
            for damage in damages:
                yield CheckResult("files", True, f"warning: {damage}", _DAMAGE_HINT)
            name, platforms = "policy", Platforms(self._settings.platforms_dir)
            yield CheckResult(name, True, await asyncio.to_thread(_check_policy, self._settings, platforms))
            if command := self._settings.approvals.notify_command:
                yield await asyncio.to_thread(_check_notify_command, command[0], self._notify_problem)
            if self._device is None:
                return
            name = "name"
            devices = await self._inventory.devices()
            if self._device not in devices:
                await self._inventory.resolve(self._device)  # raises NOT_FOUND with similar names
            device = devices[self._device]
            yield CheckResult(name, True, _address(device, self._sees))
            hides = await hides_route(self._inventory, self._device, self._sees)
            name = "credentials"
            destinations = Destinations(self._inventory, platforms)
            destination = await destinations.resolve_device(self._device)
            yield CheckResult(name, True, _credentials(destination))
            name = "network"
            reached = await _check_network(destination)
            yield CheckResult(name, True, f"{'the first host' if hides else reached} accepts connections")
            name = "connection"
            async with self._connected(destination) as session:
                yield CheckResult(name, True, _connection(session))
                name = "login"
                await prepare(session, platforms)
                yield CheckResult(name, True, _login(session))
                name = "prompt"
                for check in await _check_prompt(session):
                    yield check
        except PtyctlError as error:
            if hides and name in _ROUTE_CHECKS:
                yield CheckResult(name, False, "failed on the way to the device", HIDDEN_ROUTE_HINT)
            else:
                yield CheckResult(name, False, error.message, error.hint)

    @asynccontextmanager
    async def _connected(self, destination: Destination) -> AsyncIterator[Session]:
        with TemporaryDirectory(prefix="ptyctl-doctor-") as folder:
            session = Session("doctor", session_spec(destination), Path(folder) / "doctor", self._settings.limits)
            session.set_login(destination.credentials, destination.platform, destination.pace)
            try:
                await session.connect(channel_factory()(destination))
                yield session
            except ChannelError as error:
                raise from_channel(error) from None
            finally:
                await session.close(force=True)


def _check_storage(state_dir: Path) -> str:
    """Write a temporary file of a new session's minimum size to the state directory, or to its nearest existing parent."""
    try:
        with TemporaryFile(dir=next(path for path in (state_dir, *state_dir.parents) if path.exists())) as file:
            os.posix_fallocate(file.fileno(), 0, FIRST_EXTENT_BYTES)
    except OSError as error:
        raise PtyctlError(
            ErrorCode.IO_ERROR,
            f"{state_dir} cannot be written: {error.strerror}",
            hint="free disk space or make the state directory writable",
        ) from None
    return f"{state_dir} can be written"


def _damaged_files(state_dir: Path, alarms: Sequence[str]) -> list[str]:
    """Return the alarms of the sessions about their files, and the other files that servers have set aside."""
    folders = [state_dir, state_dir / "audit"]
    with suppress(OSError):
        folders += sorted((state_dir / "sessions").iterdir())
    kept = []
    for folder in folders:
        with suppress(OSError):  # no folder, or removed meanwhile
            names = sorted(path.name for path in folder.iterdir() if SET_ASIDE_SUFFIX in path.name)
            told = " ".join(alarm for alarm in alarms if str(folder) in alarm)
            kept += [f"{folder / name} was damaged" for name in names if name not in told]
    rest = [f"{len(kept) - _MAX_DAMAGES} other files were damaged"] if len(kept) > _MAX_DAMAGES else []
    return [*(alarm.removeprefix("alarm: ") for alarm in alarms), *kept[:_MAX_DAMAGES], *rest]


def _check_policy(settings: Settings, platforms: Platforms) -> str:
    """Load the policy that the settings name."""
    store = PolicyStore(settings, platforms)
    if store.problem is not None:
        raise invalid(store.problem, hint="correct it: a running daemon keeps the policy that it has, a new one types nothing")
    return f"{store.name}: {len(store.policy.rules)} rules, SHA-256 {store.sha256}"


def _check_notify_command(program: str, problem: str | None) -> CheckResult:
    """Check that the notify command of approval requests exists, and that its last run did not fail."""
    if problem is None and shutil.which(program) is None:
        problem = f"{program}: there is no such program"
    if problem is not None:
        hint = "correct the setting approvals.notify_command; requests wait all the same"
        return CheckResult("approvals", False, f"requests are not announced: {problem}", hint)
    return CheckResult("approvals", True, f"requests are announced by {program}")


def _address(device: InventoryDevice, sees: DeviceVisibility) -> str:
    if device.console is not None:
        server = f"console server {device.console.server}" if sees(device.console.server, None) else "a console server"
        return f"line {device.console.port} of {server}"
    return f"{device.protocol} to {device.host}{f':{device.port}' if device.port is not None else ''}"


def _credentials(destination: Destination) -> str:
    accounts, auth = destination.credentials, destination.request.auth
    found = [f"{len(accounts.layers)} login{'s' if len(accounts.layers) > 1 else ''} to type"] if accounts.layers else []
    found += [f"SSH login ({auth.method})"] if auth is not None else []
    found += ["enable secret"] if accounts.enable_secret is not None else []
    return ", ".join(found) or "none configured: SSH uses the agent and the user's keys, other logins are left to the user"


async def _check_network(destination: Destination) -> str:
    """Connect to the first host on the path: the device, its console server or its first jump host. Return its address."""
    request = destination.request
    host, port = request.host or "", request.port or 23
    if request.protocol == "ssh":
        try:
            first = (await asyncio.to_thread(resolve_endpoints, ssh_options(destination, None)))[0]
        except ChannelError as error:
            raise from_channel(error) from None
        host, port = first.host, first.port
    limit_s = (request.timeouts or Timeouts()).connect_timeout_ms / 1000
    try:
        async with asyncio.timeout(limit_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        why = f"no answer in {limit_s:g} s"
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = os.strerror(number) if number is not None and number > 0 else str(error)  # asyncio's own text is longer
    else:
        writer.close()
        return f"{host}:{port}"
    raise PtyctlError(
        ErrorCode.CONNECT_FAILED, f"{host}:{port} cannot be reached: {why}", hint="check the host, the port and firewalls"
    )


def _connection(session: Session) -> str:
    channel = session.open_channel()
    banner = (channel.server_banner or "").split("\n")[0]
    result = "host key and SSH login are accepted" if channel.protocol == "ssh" else "options are negotiated"
    return f"{result}; {banner}" if banner.strip() else result


def _login(session: Session) -> str:
    if not session.credentials.layers:
        return "nothing was typed: the terminal asks for no login, or there are no credentials for it"
    if session.credentials.only_if_asked and session.gate.bytes_sent == 0:
        return session.login_notice or "nothing was typed: the terminal asks for no login"
    return f"logged in; {session.login_notice}" if session.login_notice else "logged in"


async def _check_prompt(session: Session) -> list[CheckResult]:
    """Check the prompt, the mode and paging after the login."""
    terminal = session.terminal
    if not await wait_for_prompt(terminal, session.profile(), terminal.now() + _PROMPT_TIMEOUT_S, SYSTEM):
        last_line = terminal.last_line().strip()
        return [
            CheckResult("prompt", False, f"none was found; the last line is {last_line!r}", "check the platform, or set expect")
        ]
    checks = [CheckResult("prompt", True, repr(terminal.last_line().strip()))]
    platform, mode = session.platform, mode_at(session)
    if platform is None or platform.posix_shell:
        return checks
    if mode not in platform.home:
        wanted = " or ".join(platform.home)
        result, notice = f"it is {mode or 'unknown'}, and commands run in {wanted}", session.login_notice
        failed = CheckResult("mode", False, result, "set an enable_secret, or check the platform")
        return [*checks, CheckResult("mode", False, f"{result}: {notice}") if notice else failed]
    commands = [command for entry in platform.terminal.paging_off for command in entry.commands]
    paging = f"turned off: {', '.join(commands)}" if commands and session.credentials.layers else "left on; pagers are answered"
    return [*checks, CheckResult("mode", True, mode), CheckResult("paging", True, paging)]
