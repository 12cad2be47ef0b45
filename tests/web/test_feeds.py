"""The feed of the list of sessions: what it sends of a large fleet, and how it lets other calls run."""

from __future__ import annotations

import asyncio
from typing import Any

from fixtures.loop_turns import LoopTurns
from fixtures.virtual_clock import run_virtually
from ptyctl.api.session import SessionEntry, SessionReply, SessionRequest
from ptyctl.web.stream.feeds import BATCH, Feeds
from ptyctl.web.stream.topics import send_sessions

_COUNTERS = {name: 0 for name, field in SessionEntry.model_fields.items() if field.annotation is int}


def session(number: int, **fields: Any) -> SessionEntry:
    entry = {"session_id": f"s{number}", "protocol": "local", "session_type": "normal", "state": "open", **_COUNTERS, **fields}
    return SessionEntry.model_validate(entry)


class Lists:
    """Answers each list with the next one, and the last one again and again."""

    def __init__(self, *lists: list[SessionEntry]) -> None:
        self._lists = list(lists)
        self.answered = 0

    async def session(self, request: SessionRequest) -> SessionReply:
        sessions = self._lists[min(self.answered, len(self._lists) - 1)]
        self.answered += 1
        return SessionReply(action="list", sessions=[entry.model_copy() for entry in sessions])


class Messages:
    """Takes messages at once, as a connection with free buffers does."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, op: str, **fields: Any) -> None:
        self.sent.append(fields)

    async def send_frame(self, frame: bytes) -> None:
        raise AssertionError


async def messages_of(lists: Lists, answers: int) -> list[dict[str, Any]]:
    """Return what a subscriber gets until a number of lists were sent."""
    output = Messages()
    sending = asyncio.create_task(send_sessions(Feeds(lists).sessions, output))  # type: ignore[arg-type]
    while lists.answered <= answers:
        assert not sending.done()
        await asyncio.sleep(0.1)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    return output.sent


def ids(message: dict[str, Any]) -> list[str]:
    return [entry["session_id"] for entry in message["sessions"]]


def test_row_of_an_unreachable_node_is_sent_once() -> None:
    lists = Lists(
        [session(1), session(2)],
        *([session(1, unreachable_s=20 + second), session(2)] for second in range(5)),
        [session(1, unreachable_s=25, state="lost"), session(2)],
        [session(1, state="lost"), session(2)],
    )
    sent = run_virtually(messages_of(lists, 9))
    assert [ids(message) for message in sent] == [["s1", "s2"], ["s1"], ["s1"], ["s1"]]
    assert [message["sessions"][0].get("unreachable_s") for message in sent] == [None, 20, 25, None]


def test_many_sessions_are_sent_in_several_messages_and_other_calls_run_in_between() -> None:
    count = 20 * BATCH + 1
    turns = LoopTurns()

    async def run() -> list[dict[str, Any]]:
        lists = Lists([session(number) for number in range(count)], [session(number) for number in range(1, count)])
        counting = asyncio.create_task(turns.run())
        output = Messages()
        sending = asyncio.create_task(send_sessions(Feeds(lists).sessions, output))  # type: ignore[arg-type]
        while sum(len(message["sessions"]) for message in output.sent) < count:
            assert not sending.done()
            await asyncio.sleep(0)
        counting.cancel()
        while lists.answered < 3:
            assert not sending.done()
            await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.gather(counting, sending, return_exceptions=True)
        return output.sent

    *first, last = run_virtually(run())
    assert turns.count >= 2 * count // BATCH  # while the list is built, and while it is sent
    assert [message["full"] for message in first] == [True] + [False] * (len(first) - 1)
    assert [message["more"] for message in first] == [True] * (len(first) - 1) + [False]
    assert max(len(message["sessions"]) for message in first) == BATCH
    assert [name for message in first for name in ids(message)] == [f"s{number}" for number in range(count)]
    assert (ids(last), last["removed"], last["more"]) == ([], ["s0"], False)


def test_empty_list_is_sent() -> None:
    (message,) = run_virtually(messages_of(Lists([]), 3))
    assert (message["sessions"], message["removed"], message["full"], message["more"]) == ([], [], True, False)
