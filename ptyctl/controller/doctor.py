"""Goes the way to a device of the inventory step by step, and says which one fails, why, and what to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionRequest, Timeouts
from ptyctl.inventory import Device, Inventory
from ptyctl.platforms import Platforms
from ptyctl.session.calls.arriving import arrive
from ptyctl.session.calls.changing import mode_at
from ptyctl.session.io.channel_errors import from_channel
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.runs.shell_probe import settled_prompt
from ptyctl.session.session import Session
from transports.errors import ChannelError
from transports.ssh.endpoint import resolve

from .destinations import Destination, Destinations
from .opening import channel_opener, spec_of, ssh_options
from .settings import Settings

#: How long a prompt may take where there is no login to wait for.
PROMPT_WAIT_S = 10.0

Name = Literal["name", "credentials", "network", "connection", "login", "prompt", "mode", "paging"]


@dataclass(frozen=True, slots=True)
class Step:
    """`told` is what was found, or what is wrong and the next step; never a secret."""

    name: Name
    ok: bool
    told: str


class Doctor:
    """One examination. It connects and logs in by itself, as a session would; nothing of it is kept."""

    def __init__(self, settings: Settings, device: str) -> None:
        self._settings = settings
        self._device = device
        self._inventory = Inventory(settings.devices_file)

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Each step as it is done; the first that fails is the last."""
        now: Name = "name"
        try:
            yield Step(now, True, _where(await self._entry()))
            now = "credentials"
            families = Platforms(self._settings.platforms_dir)
            destination = await Destinations(self._inventory, families).of(SessionRequest(action="open", device=self._device))
            yield Step(now, True, _credentials(destination))
            now = "network"
            yield Step(now, True, await _reach(destination))
            now = "connection"
            async with self._connected(destination) as session:
                yield Step(now, True, _connection(session))
                now = "login"
                await arrive(session, families)
                yield Step(now, True, _login(session))
                now = "prompt"
                for step in await _at_prompt(session):
                    yield step
        except PtyctlError as error:
            yield Step(now, False, error.message)

    async def _entry(self) -> Device:
        devices = await self._inventory.devices()
        if self._device not in devices:
            await self._inventory.resolve(self._device)  # says which names are near
        return devices[self._device]

    @asynccontextmanager
    async def _connected(self, destination: Destination) -> AsyncIterator[Session]:
        with TemporaryDirectory(prefix="ptyctl-doctor-") as folder:
            session = Session("doctor", spec_of(destination), Path(folder) / "doctor", self._settings.limits)
            session.set_accounts(destination.accounts)
            session.set_platform(destination.platform)
            session.set_pace(destination.pace)
            try:
                await session.connect(channel_opener()(destination))
                yield session
            except ChannelError as error:
                raise from_channel(error) from None
            finally:
                await session.close(force=True)


def _where(device: Device) -> str:
    if device.console is not None:
        return f"line {device.console.port} of console server {device.console.server}"
    return f"{device.protocol} to {device.host}{f':{device.port}' if device.port is not None else ''}"


def _credentials(destination: Destination) -> str:
    accounts, auth = destination.accounts, destination.request.auth
    found = [f"{len(accounts.layers)} login{'s' if len(accounts.layers) > 1 else ''} to type"] if accounts.layers else []
    found += [f"SSH login ({auth.method})"] if auth is not None else []
    found += ["enable secret"] if accounts.enable_secret is not None else []
    return ", ".join(found) or "none are named: SSH uses the agent and the keys that are there, other logins are left to you"


async def _reach(destination: Destination) -> str:
    """Whether anybody listens at the first place on the way."""
    request = destination.request
    host, port = request.host or "", request.port or 23
    if request.protocol == "ssh":
        try:
            first = (await asyncio.to_thread(resolve, ssh_options(destination, None)))[0]
        except ChannelError as error:
            raise from_channel(error) from None
        host, port = first.host, first.port
    limit_s = (request.timeouts or Timeouts()).connect_timeout_ms / 1000
    try:
        async with asyncio.timeout(limit_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise _unreachable(host, port, f"no answer in {limit_s:g} s") from None
    except (OSError, UnicodeError) as error:
        raise _unreachable(host, port, _words(error)) from None
    writer.close()
    return f"{host}:{port} takes connections"


def _connection(session: Session) -> str:
    channel = session.open_channel()
    said = (channel.server_banner or "").split("\n")[0]
    how = "host key and SSH login are right" if channel.protocol == "ssh" else "options are negotiated"
    return f"{how}{f'; {said}' if said.strip() else ''}"


def _login(session: Session) -> str:
    if not session.accounts.layers:
        return "nothing was typed: there is no login on the terminal, or no credentials for it"
    return f"logged in{f'; {session.login_notice}' if session.login_notice else ''}"


async def _at_prompt(session: Session) -> list[Step]:
    """What is there after the login."""
    terminal = session.terminal
    if not await settled_prompt(terminal, session.expectations(), terminal.now() + PROMPT_WAIT_S, SYSTEM):
        shown = terminal.last_line().strip()
        return [Step("prompt", False, f"none was found; the last line is {shown!r}. Check the platform, or give expect")]
    steps = [Step("prompt", True, repr(terminal.last_line().strip()))]
    platform, mode = session.platform, mode_at(session)
    if platform is None or platform.posix_shell:
        return steps
    if mode not in platform.home:
        wanted = " or ".join(platform.home)
        why = session.login_notice or "name an enable_secret, or check the platform"
        return [*steps, Step("mode", False, f"it is {mode or 'not known'}, and commands run in {wanted}: {why}")]
    off = [command for entry in platform.terminal.paging_off for command in entry.commands]
    paging = f"turned off: {', '.join(off)}" if off and session.accounts.layers else "left on; pagers are answered"
    return [*steps, Step("mode", True, mode), Step("paging", True, paging)]


def _unreachable(host: str, port: int, why: str) -> PtyctlError:
    return PtyctlError(ErrorCode.CONNECT_FAILED, f"{host}:{port} cannot be reached: {why}; check host, port and firewalls")


def _words(error: OSError | UnicodeError) -> str:
    """The system's own words: asyncio puts others in their place."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error)
