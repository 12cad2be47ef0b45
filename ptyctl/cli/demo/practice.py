"""Practice for the web console: two agents work on the simulated switch until they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rich.console import Console

from ptyctl.simulator import SimulatedSwitch

from .agent import Agent, DemoServer, DemoTarget, ToolError, connected_agent

_PAUSE_S = 3.0
_RETRY_S = 5.0
#: Waits for an approval, and for the lock, are below the 55 s that a call may take.
_WAIT_MS = 45_000
_LOCK_TTL_MS = 120_000
#: Number of rounds after which the first agent asks for a command that needs an approval.
_ROUNDS_TO_RELOAD = 3

_PTY = {"cols": 100, "rows": 30}


async def run_agents(target: DemoTarget, switch: SimulatedSwitch, server: DemoServer, console: Console) -> None:
    """Run the agents: one on the console over Telnet, one over SSH."""
    async with (
        connected_agent("task-maint", "cyan", server, console, "auto") as first,
        connected_agent("task-audit", "magenta", server, console, "auto") as second,
    ):
        login = {"username": target.username, "platform": "cisco_ios", "pty": _PTY}
        auth = {"method": "password", "password": target.password, "enable_secret": target.enable}
        telnet = {"protocol": "telnet", "port": target.port, "session_type": "console", "device_id": target.name}
        ssh = {"protocol": "ssh", "port": switch.ssh_port, "ssh_options": {"host_key_policy": "disabled"}}
        for agent, options in ((first, telnet), (second, ssh)):
            await agent.say(f"opens {target.name} over {options['protocol']}")
            await agent.open(host=target.host, auth=auth, **login, **options)
        async with asyncio.TaskGroup() as agents:
            agents.create_task(_repeat(first, _maintain))
            agents.create_task(_repeat(second, _audit))


async def _repeat(agent: Agent, work: Callable[[Agent, int], Awaitable[None]]) -> None:
    """Repeat a round of work. A refusal, such as a person's lock or decision, ends only that round."""
    number = 0
    while True:
        number += 1
        try:
            await work(agent, number)
        except ToolError as error:
            await agent.say(f"{error.code}: {error.message}")
            await asyncio.sleep(_RETRY_S)
        await asyncio.sleep(_PAUSE_S)


async def _maintain(agent: Agent, number: int) -> None:
    await agent.call("ptyctl_session", action="lock", wait_ms=_WAIT_MS, lock_ttl_ms=_LOCK_TTL_MS)
    for command in ("show version", "show interfaces status", "show clok"):
        await agent.exec(command)
        await asyncio.sleep(_PAUSE_S)
    if number % _ROUNDS_TO_RELOAD == 1:
        await _ask_for_reload(agent)
    await agent.call("ptyctl_session", action="unlock")


async def _audit(agent: Agent, _: int) -> None:
    for command in ("show ip interface brief", "ping 10.0.0.1 repeat 20", "show clock"):
        await agent.exec(command)
        await asyncio.sleep(_PAUSE_S)


async def _ask_for_reload(agent: Agent) -> None:
    """Ask for a reload, wait for a person's answer, and cancel the reload at the question of the switch."""
    reply = await agent.exec("reload")
    if reply["done_reason"] == "approval":
        await agent.say("waits for an approval: see Approvals in the web console")
    while reply["done_reason"] == "approval":
        await agent.call("ptyctl_session", action="heartbeat", lock_ttl_ms=_LOCK_TTL_MS)
        reply = await agent.call("ptyctl_session_exec", block_id=reply["block_id"], timeout_ms=_WAIT_MS)
    await agent.say("cancels the reload, which the switch asks to confirm")
    await agent.call("ptyctl_session_io", action="write", key="ctrl_c")
