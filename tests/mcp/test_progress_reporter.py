"""Progress notifications."""

from __future__ import annotations

from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.mcp.tool_call import PROGRESS_INTERVAL_S, ProgressReporter


async def reported(news: list[tuple[int, float]], *, let_it_send: bool = True) -> list[tuple[float, str]]:
    """Return what a reporter sends. It runs after each update, or only after the last one."""
    sent: list[tuple[float, str]] = []

    async def send(seconds: float, text: str) -> None:
        sent.append((seconds, text))

    reporter = ProgressReporter(send)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reporter.run)
        for received, seconds in news:
            reporter(received, seconds)
            if let_it_send:
                await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return sent


async def test_progress_of_first_second_is_not_sent() -> None:
    assert await reported([(1, 0.0), (2, 0.5), (3, 0.99)]) == []


async def test_progress_text_has_bytes_and_seconds() -> None:
    assert await reported([(10, 1.0), (20, 1.4), (30, 2.6)]) == [(1.0, "10 bytes in 1 s"), (2.6, "30 bytes in 3 s")]


async def test_slow_client_gets_only_latest_progress() -> None:
    assert await reported([(10, 1.0), (20, 2.0), (30, 3.0)], let_it_send=False) == [(3.0, "30 bytes in 3 s")]


@given(st.lists(st.floats(min_value=0, max_value=60), max_size=30), st.booleans())
@settings(max_examples=25)  # each example starts an event loop
def test_progress_number_increases_at_most_once_a_second(seconds: list[float], let_it_send: bool) -> None:
    news = [(0, at) for at in sorted(seconds)]
    sent = [number for number, _ in anyio.run(lambda: reported(news, let_it_send=let_it_send))]
    assert all(later - earlier > PROGRESS_INTERVAL_S - 1e-9 for earlier, later in pairwise(sent))
    if seconds and max(seconds) >= PROGRESS_INTERVAL_S:
        assert sent


async def test_error_of_sender_is_raised() -> None:
    async def send(_seconds: float, _text: str) -> None:
        raise OSError("gone")

    reporter = ProgressReporter(send)
    reporter(1, 1.0)
    with pytest.raises(OSError, match="gone"):
        await reporter.run()
