"""The stream: terminals with flow control and resume, the list of sessions, approvals and thumbnails."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from ptyctl.api import Controller, SessionReply, SessionRequest
from ptyctl.api.errors import PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.pty import PtyReply
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core.limits import LIMITS
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import most_used, serving_connection
from ptyctl.web.stream import endpoint, feeds, topics
from ptyctl.web.stream.feeds import feeds_of_caller
from ptyctl.web.stream.topics import MAX_BEHIND_BYTES, WINDOW_BYTES
from tests.controller.session_calls import PATIENCE_MS, Open, heard, say, scripted_program, session
from tests.web.stream_client import Message, Terminal, stream_client, stream_server

#: Prints as many characters as each input line requests.
_PRINTER = (sys.executable, "-I", "-S", "-c", "for line in open(0): print('x' * int(line), 'end', line, sep='', flush=True)")


def rows(terminal: Terminal) -> list[str]:
    return list(terminal.model.snapshot().rows)


async def test_terminal_shows_screen_and_echo(controller: Controller, open_session: Open) -> None:
    bash = await open_session()
    await bash.exec("echo before")
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{bash.session_id}")
        begin = await client.message(1, "snapshot")
        assert (begin["cols"], begin["rows"], begin["state"], begin["mode"]) == (120, 40, "open", "idle")
        await client.screen(1, "before")
        await bash.write("echo late\n")
        terminal = await client.screen(1, "late\n")
        assert terminal.snapshots == 1


async def test_two_viewers_get_same_output(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session)
    async with stream_server(controller) as address, stream_client(address) as one, stream_client(address) as two:
        for client in (one, two):
            await client.subscribe(7, f"terminal:{handle.session_id}")
            await client.message(7, "snapshot")
        await heard(handle, b"\x1b[3;5Hhello there", b"hello there")
        assert rows(await one.screen(7, "hello there")) == rows(await two.screen(7, "hello there"))


async def test_viewer_that_never_acknowledges_delays_nobody(controller: Controller, open_session: Open) -> None:
    handle = await open_session(command=_PRINTER)
    async with stream_server(controller) as address, stream_client(address) as silent, stream_client(address) as other:
        silent.acknowledges = False
        for client in (silent, other):
            await client.subscribe(1, f"terminal:{handle.session_id}")
            await client.message(1, "snapshot")
        start = silent.terminals[1].offset
        await handle.write(f"{2 * WINDOW_BYTES}\n")  # so little is sent as it is, also by a server that is late
        stopped = await silent.until(lambda message: silent.terminals[1].offset >= start + WINDOW_BYTES)
        assert stopped["offset"] < start + 2 * WINDOW_BYTES
        size = 2 * MAX_BEHIND_BYTES
        await handle.write(f"{size}\n")
        assert (await handle.read(until_regex=f"end{size}", timeout_ms=50_000)).matched
        await other.screen(1, f"end{size}")
        silent.acknowledges = True  # from the next frame on: it needs one acknowledgement to get that
        await silent.send("ack", id=1, offset=stopped["offset"])
        again = await silent.message(1, "snapshot")
        assert again["offset"] >= start + size
        await silent.screen(1, f"end{size}")


async def test_viewer_far_behind_gets_the_screen_after_several_attempts_to_draw_it(
    controller: Controller, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await open_session(command=_PRINTER)
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}")
        await client.message(1, "snapshot")
        monkeypatch.setattr("ptyctl.session.screen.screen.LOOK_TIMEOUT_S", 0.001)
        monkeypatch.setattr("ptyctl.session.screen.screen.THREAD_TURN_S", 0.01)
        size = MAX_BEHIND_BYTES + 2 * WINDOW_BYTES
        await handle.write(f"{size}\n")
        assert (await handle.read(until_regex=f"end{size}", timeout_ms=50_000)).matched
        with pytest.raises(PtyctlError, match="bytes behind the output"):
            await handle.screen()
        await client.subscribe(2, f"screen:{handle.session_id}")
        assert (await client.message(2, "screen", "error"))["op"] == "screen"
        await client.screen(1, f"end{size}")


async def test_terminal_resumes_byte_exact_after_lost_connection(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session)
    pieces = [b"\x1b[31mred\x1b", b"[0m \x1b]2;a ti", b"tle\x07\x1b[5i\xc3", b"\xa9 \x1b]52;c;", b"AAAA\x07 end"]
    async with stream_server(controller) as address:
        async with stream_client(address) as whole:
            await whole.subscribe(1, f"terminal:{handle.session_id}")
            await whole.message(1, "snapshot")
            painted = None
            resumed = Terminal()
            start: int | str = "snapshot"
            for number, piece in enumerate(pieces):
                async with stream_client(address) as client:
                    client.terminals[1] = resumed
                    await client.subscribe(1, f"terminal:{handle.session_id}", start)
                    await client.message(1, "resume" if number else "snapshot")
                    if painted is None:
                        await client.message(1, "output")
                        painted = resumed.data
                    await say(handle, piece)
                    await whole.until(lambda message: message["op"] == "output" and message["id"] == 1)
                    await client.message(1, "output")
                    start = resumed.offset
                    client.abort()
            await whole.screen(1, "end")
        async with stream_client(address) as client:
            client.terminals[1] = resumed
            await client.subscribe(1, f"terminal:{handle.session_id}", start)
            await client.screen(1, "end")
        assert resumed.snapshots == 1
        assert resumed.data == whole.terminals[1].data


async def test_terminal_from_old_offset_gets_snapshot(controller: Controller, open_session: Open) -> None:
    handle = await open_session(command=_PRINTER)
    await handle.write(f"{MAX_BEHIND_BYTES}\n")
    assert (await handle.read(until_regex="end", timeout_ms=50_000)).matched
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}", 0)
        await client.message(1, "snapshot")
        await client.screen(1, "end")


async def test_resize_paints_terminal_again(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session, b"text")
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}")
        await client.message(1, "snapshot")
        await handle.resize(60, 20)
        again = await client.message(1, "snapshot")
        assert (again["cols"], again["rows"]) == (60, 20)
        await client.screen(1, "text")


async def test_lock_and_end_are_reported(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session)
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}")
        await client.message(1, "snapshot")
        await session(controller, "lock", session_id=handle.session_id, task_id="agent-1", lock_ttl_ms=60_000)
        locked = await client.message(1, "terminal")
        assert (locked["lock_holder"], locked["lock_expires_at"] is not None) == ("agent-1", True)
        await session(controller, "close", session_id=handle.session_id, task_id="agent-1", force=True)
        assert (await client.message(1, "end"))["reason"] == "closed"
        await client.subscribe(1, f"terminal:{handle.session_id}")  # the number is free again
        assert (await client.message(1, "error"))["error"]["error_code"] == "ALREADY_CLOSED"


@pytest.mark.parametrize(
    ("message", "code", "number"),
    [
        ("{", "INVALID_ARGUMENT", None),
        ('"text"', "INVALID_ARGUMENT", None),
        (json.dumps({"op": "other", "id": 3}), "INVALID_ARGUMENT", 3),
        (json.dumps({"op": "subscribe", "id": 3, "topic": "weather"}), "INVALID_ARGUMENT", 3),
        (json.dumps({"op": "subscribe", "id": 3, "topic": "terminal:"}), "INVALID_ARGUMENT", 3),
        (json.dumps({"op": "subscribe", "id": 3, "topic": "terminal:s", "from": -1}), "INVALID_ARGUMENT", 3),
        (json.dumps({"op": "subscribe", "id": 3, "topic": "terminal:unknown"}), "NOT_FOUND", 3),
        (json.dumps({"op": "subscribe", "id": 3, "topic": "screen:unknown"}), "NOT_FOUND", 3),
        (json.dumps({"op": "subscribe", "id": -3, "topic": "sessions"}), "INVALID_ARGUMENT", -3),
        (json.dumps({"op": "ack", "id": 3}), "INVALID_ARGUMENT", 3),
    ],
)
async def test_invalid_message_is_answered(controller: Controller, message: str, code: str, number: int | None) -> None:
    async with stream_server(controller) as address, stream_client(address) as client:
        await client._connection.send(message)
        answer = await client.until(lambda answer: answer["op"] == "error")
        assert (answer["error"]["error_code"], answer.get("id")) == (code, number)
        await client.subscribe(1, "sessions")
        assert (await client.message(1, "sessions"))["full"]


async def test_second_subscription_with_same_number_is_refused(controller: Controller) -> None:
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, "sessions")
        await client.message(1, "sessions")
        await client.subscribe(1, "sessions")
        assert (await client.message(1, "error"))["error"]["error_code"] == "INVALID_ARGUMENT"
        await client.send("unsubscribe", id=1)
        await client.subscribe(1, "sessions")
        assert (await client.message(1, "sessions"))["full"]


async def test_too_many_subscriptions_are_refused(controller: Controller) -> None:
    limit = LIMITS["max_socket_subscriptions"]._replace(maximum=2)
    async with stream_server(controller, limit=limit) as address, stream_client(address) as client:
        for number in range(3):
            await client.subscribe(number, "sessions")
        error = (await client.message(2, "error"))["error"]
        assert (error["error_code"], error["details"]["limit"]) == ("LIMIT_EXCEEDED", "max_socket_subscriptions")
        assert most_used(limit) == 2


async def test_one_window_of_a_principal_uses_a_terminal_and_the_others_learn_it(
    controller: Controller, open_session: Open
) -> None:
    topic = f"terminal:{(await scripted_program(open_session)).session_id}"
    async with stream_server(controller) as address, stream_client(address) as two:
        async with stream_client(address) as one:
            for client in (one, two):
                await client.subscribe(1, topic)
                await client.message(1, "snapshot")
            await one.send("use", id=1)
            await two.message(1, "displaced")
            await two.send("use", id=9)  # no terminal: ignored
            await two.send("use", id=1)
            await one.message(1, "displaced")
            one.abort()
        async with stream_client(address) as again, stream_client(address) as other:
            await again.subscribe(1, topic)
            assert (await again.receive())["op"] == "displaced"  # before the screen
            await again.message(1, "snapshot")
            await two.send("unsubscribe", id=1)
            await two.subscribe(2, topic)
            await two.message(2, "snapshot")  # the same window: it still uses it
            await again.send("use", id=1)
            await two.message(2, "displaced")
            again.abort()
            await other.subscribe(1, "terminal:unknown")
            await other.message(1, "error")


async def test_sessions_are_listed_then_changes(
    controller: Controller, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "SESSIONS_INTERVAL_S", 0.05)
    first = await open_session()
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, "sessions")
        full = await client.message(1, "sessions")
        assert (full["full"], [entry["session_id"] for entry in full["sessions"]]) == (True, [first.session_id])
        assert full["notices"] == []
        second = await open_session()
        await client.until(lambda message: any(entry["session_id"] == second.session_id for entry in message["sessions"]))
        await first.exec("false")

        def shows_command(message: Message) -> bool:
            commands = [entry.get("last_command", {}) for entry in message["sessions"]]
            return any((command.get("cmd"), command.get("exit_code")) == ("false", 1) for command in commands)

        changed = await client.until(shows_command)
        assert not changed["full"]
        await second.close(force=True)
        await client.until(lambda message: message["removed"] == [second.session_id])


async def test_sessions_that_cannot_be_listed_end_the_subscription_with_an_error(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(request: SessionRequest) -> SessionReply:
        raise RuntimeError("a bug")

    async with stream_server(controller) as address, stream_client(address) as client:
        with monkeypatch.context() as broken:
            broken.setattr(controller, "session", fail)
            await client.subscribe(1, "sessions")
            assert (await client.message(1, "error"))["error"]["error_code"] == "INTERNAL"
        await client.subscribe(2, "sessions")
        assert (await client.message(2, "sessions"))["full"]


async def test_approvals_of_agent_are_forbidden(controller: LocalController) -> None:
    agent = Principal("agent", Kind.AGENT, Role.VIEWER)
    async with stream_server(AccessController(controller), principal=agent) as address, stream_client(address) as client:
        await client.subscribe(1, "approvals")
        assert (await client.message(1, "error"))["error"]["error_code"] == "FORBIDDEN"


async def test_thumbnail_is_sent_after_change_only(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session, b"\x1b[1mfirst\x1b[m\r\n")
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"screen:{handle.session_id}")
        screen = await client.message(1, "screen")
        assert (screen["rows"][0], screen["cols"], screen["rows_count"]) == ("first", 120, 40)
        assert screen["attributes"][0][0]["bold"]
        await session(controller, "lock", session_id=handle.session_id, task_id="agent-1")  # changes no cell
        await session(controller, "unlock", session_id=handle.session_id, task_id="agent-1")
        await say(handle, b"second")
        assert "second" in str((await client.message(1, "screen"))["rows"])
        await session(controller, "close", session_id=handle.session_id, force=True)
        assert (await client.message(1, "end"))["reason"] == "closed"


async def test_thumbnail_of_screen_with_too_many_attributes_is_sent_without_them(
    controller: Controller, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.calls.screen_read._MAX_RUNS", 1)
    handle = await scripted_program(open_session, b"\x1b[1mbold\x1b[m \x1b[3mitalics\x1b[m\r\n")
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"screen:{handle.session_id}")
        screen = await client.message(1, "screen")
        assert screen["rows"][0] == "bold italics"
        assert not screen.get("attributes")


async def test_thumbnails_of_a_principal_share_their_rate(controller: Controller) -> None:
    with ExitStack() as thumbnails:
        intervals = [thumbnails.enter_context(feeds_of_caller(controller).thumbnail()) for _ in range(100)]
        with serving_connection(Principal("carol", Kind.PERSON, Role.VIEWER)):
            other = thumbnails.enter_context(feeds_of_caller(controller).thumbnail())
        assert ({interval() for interval in intervals}, other()) == ({2.0}, 0.5)


async def test_wall_of_200_thumbnails_and_terminals_on_one_connection(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session, b"shown")
    async with stream_server(controller) as address, stream_client(address) as client:
        for number in range(200):
            await client.subscribe(number, f"screen:{handle.session_id}")
        await client.subscribe(500, f"terminal:{handle.session_id}")
        await client.subscribe(501, "sessions")
        seen: set[int] = set()

        def note(message: Message) -> bool:
            assert message["op"] != "error", message
            seen.add(message["id"])
            return len(seen) == 202

        await client.until(note)


async def test_connection_and_its_terminals_send_ticks_while_nothing_happens(
    controller: Controller, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "TICK_S", 0.05)
    monkeypatch.setattr(topics, "TICK_MS", 100)
    handle = await scripted_program(open_session)
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}")
        begin = await client.message(1, "snapshot")
        ticks = [await client.message(1, "terminal") for _ in range(3)]
        assert [tick["state"] for tick in ticks] == ["open"] * 3
        times = [message["ts"] for message in (begin, *ticks)]
        assert times == sorted(times)
        assert client.ticks


async def test_closing_connection_ends_watches(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session)
    async with stream_server(controller) as address, stream_client(address) as client:
        await client.subscribe(1, f"terminal:{handle.session_id}")
        await client.message(1, "snapshot")
        assert await watches(handle) == 1
        client.abort()
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while await watches(handle):  # noqa: ASYNC110 - the count has no event
            await asyncio.sleep(0.01)


async def watches(handle: SessionHandle) -> int:
    status = await session(handle.controller, "status", session_id=handle.session_id)
    return next((use.in_use for use in status.limits or () if use.name == "max_session_watches"), 0)


async def test_thumbnail_of_a_session_that_stays_busy_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        calls = 0

        async def pty(self, request: object) -> PtyReply:
            self.calls += 1
            assert self.calls < 9, "it is polled forever"
            return PtyReply(ok=False, error="busy", message="in use by another server")

    monkeypatch.setattr(topics, "_BUSY_TIMEOUT_S", 0.0)
    controller: Any = Busy()
    with pytest.raises(PtyctlError, match="in use by another server"):
        await topics.send_screens(controller, "s", controller, lambda: 0.0)
