"""Two people and two agents on one console of a switch: every key that the switch hears is typed by the holder of the lock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import expect

from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.simulator import SimulatedSwitch

from .desk import Desk
from .oracle import Oracle
from .visitor import visit

BOB = Principal("bob", Kind.PERSON, Role.ADMIN)
ADA, EVE = Principal("ada", Kind.AGENT, Role.OPERATOR), Principal("eve", Kind.AGENT, Role.OPERATOR)
#: The policy asks a person about both; the switch has neither.
APPROVED, DECLINED = "delete flash:old.bin", "delete flash:needed.bin"
_WAIT_MS = 50_000
_ROUNDS = 8

Call = Callable[..., Awaitable[dict[str, Any]]]


class Actor:
    """A person or an agent on the console, and the task of its calls."""

    def __init__(self, call: Call, session: str, task_id: str) -> None:
        self._call = call
        self._fields = {"session_id": session, "task_id": task_id}

    async def exec(self, **fields: Any) -> dict[str, Any]:
        return await self._call("ptyctl_session_exec", **self._fields, **{"timeout_ms": _WAIT_MS, **fields})

    async def write(self, data: str) -> dict[str, Any]:
        return await self._call("ptyctl_session_io", **self._fields, action="write", data=data)

    async def lock(self, **fields: Any) -> dict[str, Any]:
        return await self._call("ptyctl_session", **self._fields, action="lock", lock_ttl_ms=600_000, **fields)

    async def unlock(self) -> None:
        await self._call("ptyctl_session", **self._fields, action="unlock")

    async def compete(self, letter: str, *, takes_over: bool) -> int:
        """Take the lock and type a line in pieces, several times; return the number of lines."""
        lines = 0
        for number in range(_ROUNDS):
            force = {"force": True, "reason": f"{letter} needs it"} if takes_over and number % 2 else {"wait_ms": _WAIT_MS}
            assert "error" not in await self.lock(**force)
            for piece in (f"!{letter}", letter, letter, "\n"):
                if "error" in await self.write(piece):
                    break  # another one took over
            else:
                lines += 1
            await self.unlock()
        return lines


async def test_every_key_on_a_shared_console_is_typed_by_the_holder_of_its_lock(desk: Desk, tmp_path: Path) -> None:
    async with (
        SimulatedSwitch(password="secret", enable_secret="secret") as switch,
        Oracle(switch.telnet_port) as oracle,
        desk.agent(ADA) as call_as_ada,
        desk.agent(EVE) as call_as_eve,
    ):
        opened = await call_as_ada(
            "ptyctl_session",
            action="open",
            protocol="telnet",
            host="127.0.0.1",
            port=oracle.port,
            session_type="console",
            device_id="core-1",
            platform="cisco_ios",
            username="admin",
            auth={"method": "password", "password": "secret", "enable_secret": "secret"},
            task_id="night",
            acquire_lock=True,
            lock_ttl_ms=600_000,
        )
        session = opened["session_id"]
        ada, eve = Actor(call_as_ada, session, "night"), Actor(call_as_eve, session, "day")
        assert (await ada.exec(cmd="show clock"))["done_reason"] == "prompt"

        # Watch.
        alice, bob = await visit(desk, session), await visit(desk, session, BOB)
        for tab in (alice.tab, bob.tab):
            tab.expect_problem("status of 409")  # LOCKED
        await alice.expect_lock("ada (night) has the lock")
        await alice.type("alice only watches")
        await alice.expect_lock("Nothing was typed: ada (night) has the lock")
        await bob.wait_for_text("show clock")
        assert (await eve.exec(cmd="show version | include eve"))["error"]["error_code"] == "LOCKED"

        # Approve and decline.
        inbox = await desk.open("/approvals")
        first = await ada.exec(cmd=APPROVED, timeout_ms=0)
        assert first["done_reason"] == "approval"
        answer = asyncio.create_task(ada.exec(block_id=first["block_id"]))
        await inbox.locator(".requests button", has_text=APPROVED).click()
        await expect(inbox.locator(".asked")).to_have_text(APPROVED)
        await inbox.get_by_role("button", name="Approve").click()
        assert "Invalid input" in (await answer)["stdout"]
        second = await ada.exec(cmd=DECLINED, timeout_ms=0)
        answer = asyncio.create_task(ada.exec(block_id=second["block_id"]))
        await inbox.locator(".requests button", has_text=DECLINED).click()
        await expect(inbox.locator(".asked")).to_have_text(DECLINED)
        await inbox.keyboard.press("d")
        await inbox.keyboard.type("it is needed")
        await inbox.keyboard.press("Enter")
        assert "it is needed" in json.dumps(await answer)

        # Message.
        await bob.page.get_by_role("textbox", name="Message").fill("I take over at ten")
        await bob.page.keyboard.press("Enter")
        await expect(alice.page.locator(".messages")).to_contain_text("bob: I take over at ten")
        assert "I take over at ten" in json.dumps(await ada.exec(cmd="show clock"))

        # Queue: another agent, then a person.
        queued = asyncio.create_task(eve.lock(wait_ms=_WAIT_MS))
        async with asyncio.timeout(_WAIT_MS / 1000):
            while not (await alice.call("ptyctl_session", action="status", session_id=session)).get("queue"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await alice.page.get_by_role("button", name="Wait in the queue").click()
        await alice.expect_lock("You are number 2 in the queue")
        await ada.unlock()
        assert (await queued)["lock_holder"] == "day"
        assert (await eve.exec(cmd="show clock"))["done_reason"] == "prompt"

        # Take over with a reason, from an agent; the agent and the person in the queue learn it.
        await bob.page.get_by_role("button", name="Take over").click()
        await bob.page.get_by_role("textbox", name="Reason").fill("the maintenance begins")
        await bob.page.keyboard.press("Enter")
        await bob.expect_lock("You have the lock.")
        refused = await eve.exec(cmd="show version | include eve")
        assert (refused["error"]["error_code"], "bob" in json.dumps(refused)) == ("LOCKED", True)
        await expect(alice.page.locator(".messages")).to_contain_text("the maintenance begins")
        await bob.type("show clock | include bob\n")
        await alice.wait_for_text("include bob")

        # Give back: to the queue, and then to the agents.
        await bob.page.keyboard.press("Control+Shift+L")
        await alice.expect_lock("You have the lock.")
        await alice.type("show clock | include alice\n")
        await bob.wait_for_text("include alice")
        await alice.page.keyboard.press("Control+Shift+L")
        await bob.expect_lock("Nobody has the lock")

        # All at once.
        people = [Actor(person.answered, session, "web") for person in (alice, bob)]
        lines = await asyncio.gather(
            *(actor.compete(letter, takes_over=False) for letter, actor in zip("EF", (ada, eve), strict=True)),
            *(actor.compete(letter, takes_over=True) for letter, actor in zip("AB", people, strict=True)),
        )
        assert sum(lines) > 0
        assert (await ada.lock())["lock_holder"] == "night"
        assert (await ada.exec(cmd="show clock"))["done_reason"] == "prompt"

        audit = await alice.call("audit", session_id=session, limit=10_000)
        (log,) = (tmp_path / "state").glob(f"sessions/{session}/input.jsonl")
        _check_keys(oracle, [json.loads(line) for line in log.read_text().splitlines()], _holds(audit["rows"]))


def _holds(rows: list[dict[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Return who held the lock from when to when (epoch ms): principal, task, begin, end."""
    holds, begun = [], dict[tuple[str, str], float]()
    for row in sorted(rows, key=lambda row: row["ts"]):
        if row["event"] in ("lock", "take_over"):
            begun[row["principal"], row["task"]] = row["ts"]
        elif row["event"] == "lock_ended":
            owner = row["principal"], row["task"]
            holds.append((*owner, begun.pop(owner), row["ts"]))
    return holds + [(*owner, begin, float("inf")) for owner, begin in begun.items()]


def _check_keys(oracle: Oracle, rows: list[dict[str, Any]], holds: list[tuple[str, str, float, float]]) -> None:
    """Check that each key is of a row of the input log, in order, whose writer held the lock when it was typed."""
    keys = oracle.keys()
    typed: dict[str, str] = {}
    for row in rows:
        own, keys = keys[: row["bytes"]], keys[row["bytes"] :]
        text = bytes(key for _, _, key in own).decode()
        assert len(own) == row["bytes"]
        assert {connection for _, connection, _ in own} == {1}
        assert all(ts >= row["ts"] for ts, _, _ in own)
        assert row.get("data", text) == text
        if row["by"] != "system":
            writer = row["principal"], row["by"]
            assert any(writer == hold[:2] and hold[2] <= row["ts"] <= hold[3] for hold in holds), row
            typed[row["principal"]] = typed.get(row["principal"], "") + text
    assert keys == []
    text = "".join(typed.values())
    assert "only watches" not in text
    assert "include eve" not in text
    assert DECLINED not in text
    assert (typed["ada"].count(APPROVED), text.count(APPROVED)) == (1, 1)
    for person in ("alice", "bob"):
        assert f"include {person}" in typed[person]
    for principal, letter in {"ada": "E", "eve": "F", "alice": "A", "bob": "B"}.items():
        assert set(typed[principal]) & set("EFAB") == {letter}


async def test_name_of_a_session_with_hidden_characters_is_shown_escaped(desk: Desk) -> None:
    with_override = "core\u202e?sedoc lla dna"
    session = await desk.open_session(
        protocol="local", command=("sleep", "1000"), session_type="console", device_id=with_override
    )
    page = await desk.open(f"/s/{session}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("core\\u202e?sedoc lla dna")
    await page.wait_for_function("() => document.title.includes('core')")
    assert "\u202e" not in await page.title()
    await page.get_by_role("button", name="Close …").click()
    await expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text("Close core\\u202e?sedoc lla dna?")
    shown = await page.evaluate("""async () => {
        const { toast } = await import("/static/ui.js");
        toast("a\\u202eb");
        return document.querySelector(".toast").textContent;
    }""")
    assert shown == "a\\u202eb"
