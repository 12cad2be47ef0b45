"""Scenario of the demo: one agent works, the other is refused, watches, and takes over."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console

from ptyctl.simulator import SimulatedSwitch

from .agent import Agent, DemoFailed, DemoServer, DemoTarget, OutputPrinter, ToolError, connected_agent

#: Screen height at which even a short command has more than one page.
_ROWS = 10


async def run_scenario(target: DemoTarget, server: DemoServer, console: Console, switch: SimulatedSwitch | None) -> None:
    """Run the scenario on one console.

    Raises:
        DemoFailed: a step failed.
    """
    started = time.monotonic()
    console.print(f"[bold]Two agents, one console: {target.name} at {target.host}:{target.port}, over MCP at {server.url}[/]\n")
    async with (
        connected_agent("task-maint", "cyan", server, console, "auto") as first,
        connected_agent("task-audit", "magenta", server, console, "legacy") as second,
    ):
        try:
            await _run_steps(target, first, second, switch)
        except ToolError as error:
            raise DemoFailed(f"{error.code}: {error.message}") from None
    console.print(
        f"\n[bold green]Done in {time.monotonic() - started:.1f} s:[/] one console, one writer at a time, nothing lost."
    )


async def _run_steps(target: DemoTarget, first: Agent, second: Agent, switch: SimulatedSwitch | None) -> None:
    cursor = await first.open_console(target, rows=_ROWS, lock=True)
    await first.log_in(target, cursor)
    cursor = await second.open_console(target, rows=_ROWS, lock=False)
    _require(first.session_id == second.session_id, "two opens of one device_id must return the same session")
    await second.say(f"got the same session, {second.session_id}")
    await _exec_without_lock(second)
    await second.say("watches, by cursor")
    watcher = OutputPrinter(second, cursor)
    watching = asyncio.create_task(watcher.watch())
    try:
        await _run_commands(target, first, watcher, switch)
        await _hand_over_lock(first, second, watching)
    finally:
        watching.cancel()
    _require(all(command in watcher.text for command in target.commands), "the watcher must have read every command")
    await second.show_output((await second.exec(target.commands[0]))["stdout"], max_lines=2)
    await second.say("releases the lock")
    await second.call("ptyctl_session", action="unlock")
    await first.say("closes the session")
    await first.call("ptyctl_session", action="close")


async def _run_commands(target: DemoTarget, agent: Agent, watcher: OutputPrinter, switch: SimulatedSwitch | None) -> None:
    pages = 0
    for number, command in enumerate(target.commands):
        if switch is not None and number == len(target.commands) - 1:
            await switch.syslog("%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to up")
        reply = await agent.exec(command)
        await agent.show_output(reply["stdout"])
        await agent.say(f"done by {reply['done_reason']} in {reply['duration_ms']} ms, pages turned: {reply.get('pages', 0)}")
        _require("--More--" not in reply["stdout"], f"the output of {command} must not contain the pager prompt")
        pages += reply.get("pages", 0)
        await watcher.wait_for_cursor(int(reply["next_cursor"]))
    _require(pages > 0, f"with {_ROWS} rows, {target.commands[-1]} must be paged")
    reply = await agent.exec("show clok")
    _require(bool(reply["error_hints"]), "error_hints must report a command that the device rejects")
    await agent.say(f"error_hints: {'; '.join(reply['error_hints'])}")


async def _exec_without_lock(agent: Agent) -> None:
    try:
        await agent.exec("show clock")
    except ToolError as error:
        await agent.say(f"refused: {error.message}")
        _require(error.code == "LOCKED", f"the error must be LOCKED, not {error.code}")
        _require("Session locked by task task-maint" in error.message, "the error must name the lock holder")
    else:
        raise DemoFailed("the second agent wrote to a locked console")


async def _hand_over_lock(first: Agent, second: Agent, watching: asyncio.Task[None]) -> None:
    await first.say("releases the lock")
    await first.call("ptyctl_session", action="unlock")
    await watching
    reply = await second.call("ptyctl_session", action="lock", lock_ttl_ms=30_000)
    await second.say(f"has the lock now, fence {reply['fence']}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DemoFailed(message)
