from __future__ import annotations

from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.mcp.progress import INTERVAL_S, Reporter


async def reported(news: list[tuple[int, float]], *, let_it_send: bool = True) -> list[tuple[float, str]]:
    """What a reporter sends of the news; it may run after each of them, or only after the last."""
    sent: list[tuple[float, str]] = []

    async def send(seconds: float, text: str) -> None:
        sent.append((seconds, text))

    reporter = Reporter(send)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reporter.run)
        for received, seconds in news:
            reporter(received, seconds)
            if let_it_send:
                await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return sent


async def test_the_first_second_is_silent() -> None:
    assert await reported([(1, 0.0), (2, 0.5), (3, 0.99)]) == []


async def test_news_are_bytes_and_seconds() -> None:
    assert await reported([(10, 1.0), (20, 1.4), (30, 2.6)]) == [(1.0, "10 bytes in 1 s"), (2.6, "30 bytes in 3 s")]


async def test_a_slow_client_gets_the_latest_only() -> None:
    assert await reported([(10, 1.0), (20, 2.0), (30, 3.0)], let_it_send=False) == [(3.0, "30 bytes in 3 s")]


@given(st.lists(st.floats(min_value=0, max_value=60), max_size=30), st.booleans())
@settings(max_examples=25)  # each is an event loop of its own
def test_the_number_grows_and_is_limited(seconds: list[float], let_it_send: bool) -> None:
    news = [(0, at) for at in sorted(seconds)]
    sent = [number for number, _ in anyio.run(lambda: reported(news, let_it_send=let_it_send))]
    assert all(later - earlier > INTERVAL_S - 1e-9 for earlier, later in pairwise(sent))
    if seconds and max(seconds) >= INTERVAL_S:
        assert sent


async def test_a_sender_that_fails_is_not_hidden() -> None:
    async def send(_seconds: float, _text: str) -> None:
        raise OSError("gone")

    reporter = Reporter(send)
    reporter(1, 1.0)
    with pytest.raises(OSError, match="gone"):
        await reporter.run()
