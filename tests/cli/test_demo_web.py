"""`ptyctl demo --web`: the address that it prints logs in, and the agents work."""

from __future__ import annotations

import asyncio
import signal

from fixtures.http_client import loopback_client
from tests.cli.command_line import start


async def test_printed_address_logs_in_while_agents_work() -> None:
    demo = start("demo", "--web")
    try:
        lines: list[str] = []
        while not lines or "exec show version" not in lines[-1]:
            lines.append(await asyncio.to_thread(demo.stdout.readline))
            assert lines[-1], lines
        url, _, ticket = next(line for line in lines if "#ticket=" in line).strip().partition("/#ticket=")
        async with loopback_client(base_url=url, headers={"Origin": url}, timeout=60) as client:
            login = (await client.post("/api/login", json={"ticket": ticket})).json()
            headers = {"X-Ptyctl-CSRF": login["csrf"]}
            listed = (await client.post("/api/call/ptyctl_session", json={"action": "list"}, headers=headers)).json()
        opened = {session["protocol"]: session["opened_by"] for session in listed["sessions"]}
        assert opened == {"telnet": "task-maint", "ssh": "task-audit"}
    finally:
        demo.send_signal(signal.SIGINT)
        await asyncio.to_thread(demo.communicate)
    assert demo.returncode == 0
