"""What happens: one agent works, the other is refused, watches, and takes over."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console

from ptyctl.simulator import SimulatedSwitch

from .agent import Agent, DemoFailed, Refused, agent
from .device import Device
from .login import log_in
from .stage import Server
from .watcher import Watcher

#: So low that even a short command is more than one page.
_ROWS = 10


async def tell(device: Device, server: Server, console: Console, switch: SimulatedSwitch | None) -> None:
    """Plays the whole story on one console.

    Raises:
        DemoFailed: something did not go as it must.
    """
    begun = time.monotonic()
    console.print(f"[bold]Two agents, one console: {device.name} at {device.host}:{device.port}, over MCP at {server.url}[/]\n")
    async with (
        agent("task-maint", "cyan", server, console, "auto") as first,
        agent("task-audit", "magenta", server, console, "legacy") as second,
    ):
        try:
            await _play(device, first, second, switch)
        except Refused as error:
            raise DemoFailed(f"{error.code}: {error.message}") from None
    console.print(
        f"\n[bold green]Done in {time.monotonic() - begun:.1f} s:[/] one console, one writer at a time, nothing lost."
    )


async def _play(device: Device, first: Agent, second: Agent, switch: SimulatedSwitch | None) -> None:
    cursor = await _open(device, first, lock=True)
    await log_in(first, device, cursor)
    seen = await _open(device, second, lock=False)
    _hold(first.session_id == second.session_id, "both opened one device_id, and must share one session")
    await second.say(f"got the same session, {second.session_id}")
    await _refused(second)
    await second.say("watches, by cursor")
    watcher = Watcher(second, seen)
    watching = asyncio.create_task(watcher.watch())
    try:
        await _work(device, first, watcher, switch)
        await _hand_over(first, second, watching)
    finally:
        watching.cancel()
    _hold(all(command in watcher.seen for command in device.commands), "who watches must have seen every command")
    await _take_over(device, second)
    await first.say("closes the session")
    await first.call("ptyctl_session", action="close")


async def _work(device: Device, first: Agent, watcher: Watcher, switch: SimulatedSwitch | None) -> None:
    pages = 0
    for number, command in enumerate(device.commands):
        if switch is not None and number == len(device.commands) - 1:
            await switch.syslog("%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to up")
        reply = await first.exec(command)
        await first.show(reply["stdout"])
        await first.say(f"done by {reply['done_reason']} in {reply['duration_ms']} ms, pages turned: {reply.get('pages', 0)}")
        _hold("--More--" not in reply["stdout"], f"the pager must leave nothing in the output of {command}")
        pages += reply.get("pages", 0)
        await watcher.reached(int(reply["next_cursor"]))
    _hold(pages > 0, f"with {_ROWS} rows, {device.commands[-1]} must have gone through the pager")
    await _mistake(first)


async def _open(device: Device, who: Agent, *, lock: bool) -> str:
    await who.say(f"opens the console device_id={device.name}" + (" and takes its lock" if lock else ""))
    reply = await who.call(
        "ptyctl_session",
        action="open",
        protocol="telnet",
        host=device.host,
        port=device.port,
        session_type="console",
        device_id=device.name,
        pty={"cols": 120, "rows": _ROWS},
        **({"acquire_lock": True, "lock_ttl_ms": 30_000} if lock else {}),
    )
    who.session_id = reply["session_id"]
    return str(reply["next_cursor"])


async def _refused(who: Agent) -> None:
    try:
        await who.exec("show clock")
    except Refused as error:
        await who.say(f"refused: {error.message}")
        _hold(error.code == "LOCKED", f"it must be refused with LOCKED, not {error.code}")
        _hold("Session locked by task task-maint" in error.message, "the refusal must name the holder")
    else:
        raise DemoFailed("the second agent wrote to a locked console")


async def _mistake(who: Agent) -> None:
    reply = await who.exec("show clok")
    _hold(bool(reply["error_hints"]), "a command that the device refuses must be told in error_hints")
    await who.say(f"error_hints: {'; '.join(reply['error_hints'])}")


async def _hand_over(first: Agent, second: Agent, watching: asyncio.Task[None]) -> None:
    await first.say("releases the lock")
    await first.call("ptyctl_session", action="unlock")
    await watching
    reply = await second.call("ptyctl_session", action="lock", lock_ttl_ms=30_000)
    await second.say(f"has the lock now, fence {reply['fence']}")


async def _take_over(device: Device, who: Agent) -> None:
    reply = await who.exec(device.commands[0])
    await who.show(reply["stdout"], most=2)
    await who.say("releases the lock")
    await who.call("ptyctl_session", action="unlock")


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise DemoFailed(otherwise)
