"""Notices: each task receives each notice once."""

from __future__ import annotations

from ptyctl.session.notices import Notices


def test_take_returns_each_notice_once_per_task() -> None:
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


def test_take_after_many_notices_returns_latest_32() -> None:
    notices = Notices()
    notices.take("one")
    for number in range(100):
        notices.post(str(number))
    notices_read = notices.take("one")
    assert notices_read == [str(number) for number in range(68, 100)]
    assert notices.take("one") is None
    notices.post("new")
    assert notices.take("one") == ["new"]


def test_many_tasks_are_remembered_up_to_limit() -> None:
    notices = Notices()
    notices.post("news")
    for number in range(5_000):
        assert notices.take(str(number)) == ["news"]
    assert notices.take("4999") is None
    assert len(notices._positions) <= 1_024
