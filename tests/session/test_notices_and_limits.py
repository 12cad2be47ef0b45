"""Notices are told once to each task; no call lasts longer than a client waits."""

from __future__ import annotations

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.notices import Notices
from tests.session.acting import read_from, run_in
from tests.session.conftest import Connect


def test_each_task_hears_each_notice_once() -> None:
    notices = Notices()
    assert notices.take("one") is None
    notices.post("first")
    assert notices.take("one") == ["first"]
    assert notices.take("one") is None
    notices.post("second")
    assert notices.take("two") == ["first", "second"]
    assert notices.take("one") == ["second"]
    assert notices.take(None) == ["first", "second"]
    assert notices.take(None) is None


def test_only_the_latest_are_kept() -> None:
    notices = Notices()
    notices.take("one")
    for number in range(100):
        notices.post(str(number))
    told = notices.take("one")
    assert told == [str(number) for number in range(68, 100)]
    assert notices.take("one") is None
    notices.post("new")
    assert notices.take("one") == ["new"]


def test_many_tasks_are_remembered_up_to_a_bound() -> None:
    notices = Notices()
    notices.post("news")
    for number in range(5_000):
        assert notices.take(str(number)) == ["news"]
    assert notices.take("4999") is None
    assert len(notices._positions) <= 1_024


async def test_no_call_lasts_longer_than_a_client_waits(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.session.calls.exec.MAX_WAIT_MS", 100)
    monkeypatch.setattr("ptyctl.session.calls.read.MAX_WAIT_MS", 100)
    session = await connect(MemoryChannel())
    assert (await read_from(session.stream, until_regex="never", timeout_ms=600_000)).timed_out
    assert (await run_in(session, "show clock", timeout_ms=600_000)).timed_out
