"""The inbox of `ptyctl approvals --watch`: its display and its keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply
from ptyctl.cli.approval_inbox import Answer, Inbox
from ptyctl.core.screen import ScreenModel

NOW = 1_000_000.0


def entry(number: int = 1, **fields: Any) -> ApprovalEntry:
    return ApprovalEntry(
        **{
            "approval_id": f"ap-{number}", "state": "pending", "created_at": 0, "expires_at": int(NOW * 1000) + 200_000,
            "session_id": "s1", "device": "sw1", "mode": "exec", "principal": "ada/mcp", "task_id": "night",
            "text": "reload", "canonical": "reload", "rules": ["reload"], "reason": "it restarts the device", **fields,
        }
    )  # fmt: skip


def inbox(*entries: ApprovalEntry) -> Inbox:
    """An inbox that has shown these requests for a second."""
    shown = Inbox()
    arrive(shown, *entries, complete=True)
    screen(shown, now=NOW - 1)
    screen(shown)
    return shown


def arrive(shown: Inbox, *entries: ApprovalEntry, complete: bool = False) -> None:
    shown.update(ApprovalsReply(approvals=list(entries), answerable=True), complete=complete)


def screen(shown: Inbox, cols: int = 80, rows: int = 24, now: float = NOW) -> list[str]:
    """Return the rows that a terminal shows."""
    lines = shown.render(cols, rows, now)
    assert len(lines) == rows
    model = ScreenModel(cols, rows, scrollback=0)
    model.feed("\r\n".join(f"{line}\x1b[K" for line in lines).encode())
    return [row.rstrip() for row in model.snapshot().rows]


def test_request_is_shown_with_what_a_person_needs() -> None:
    rows = screen(inbox(entry()))
    assert rows[0].startswith(" approvals: 1 waiting")
    assert "a approve  d decline  e edit  v view" in rows[0]
    assert rows[1].split() == [">", "3:20", "sw1", "ada/mcp,", "task", "night", "reload"]
    assert "asked by ada/mcp, task night on sw1, mode exec" in rows[3]
    assert "because it restarts the device (reload)" in rows[4]
    assert rows[5] == "  reload"


def test_empty_inbox_says_so() -> None:
    assert "nothing waits" in screen(inbox())[2]
    assert not any("nothing waits" in row for row in screen(Inbox()))


def test_keys_answer_the_selected_request() -> None:
    shown = inbox(entry(1), entry(2))
    assert shown.press("a") == Answer("approve", "ap-1")
    assert shown.press("j") is None
    screen(shown)
    assert shown.press("a", NOW + 1) == Answer("approve", "ap-2")
    assert shown.press("\x1b[A") is None
    screen(shown)
    assert shown.press("v") == "ap-1"
    assert shown.press("q") is None
    assert shown.done


def test_decline_asks_for_a_comment() -> None:
    shown = inbox(entry())
    assert shown.press("d") is None
    assert screen(shown)[-1].startswith("decline, because:")
    assert shown.press("not noo\x7fw") is None
    assert screen(shown)[-1].startswith("decline, because: not now")
    assert shown.press("\r") == Answer("decline", "ap-1", comment="not now")
    shown.press("d")
    assert shown.press("\r") == Answer("decline", "ap-1")
    shown.press("d")
    assert shown.press("\x1b") is None
    assert screen(shown)[-1] == "nothing was answered"


def test_edit_begins_with_the_text() -> None:
    shown = inbox(entry())
    shown.press("e")
    shown.press("\x1b[D\x1b[D!\x05 in 5")
    assert shown.press("\r") == Answer("approve", "ap-1", text="relo!ad in 5")
    shown = inbox(entry(text="a\nb"))
    assert shown.press("e") is None
    assert "ptyctl approve ap-1 --text" in screen(shown)[-1]


def test_text_that_does_not_fit_is_not_approved_before_it_was_viewed() -> None:
    long = entry(text="\n".join(f"line {number}" for number in range(60)))
    shown = inbox(long)
    assert any("more rows: v shows all" in row for row in screen(shown))
    assert shown.press("a") is None
    assert "press v" in screen(shown)[-1]
    shown.view(long)
    screen(shown)
    assert shown.press("a") is None
    for _ in range(10):
        shown.press(" ")
        screen(shown)
    assert shown.press("a") == Answer("approve", "ap-1")


def test_view_shows_the_screen_and_scrolls() -> None:
    shown = inbox(entry())
    shown.view(entry(screen=["sw1#show run", "", *(f"row {number}" for number in range(40)), "", ""]))
    assert any("sw1#show run" in row for row in screen(shown))
    assert not any("row 39" in row for row in screen(shown))
    for _ in range(60):
        shown.press("j")
    assert screen(shown)[-2] == "  row 39"
    shown.press("v")
    assert screen(shown)[1].startswith(">")


def test_ended_request_stays_selected_and_takes_no_answer() -> None:
    shown = inbox(entry(1), entry(2))
    shown.update(ApprovalsReply(approvals=[entry(1, state="withdrawn", comment="closed")], answerable=True), complete=False)
    rows = screen(shown)
    assert rows[0].startswith(" approvals: 1 waiting")
    assert any("withdrawn: closed" in row for row in rows)
    for key in "ade":
        assert shown.press(key) is None
        assert "withdrawn" in screen(shown)[-1]


def test_requests_of_an_ended_daemon_are_not_waiting_any_more() -> None:
    shown = inbox(entry(1))
    shown.update(ApprovalsReply(approvals=[entry(2)], answerable=True), complete=True)
    rows = screen(shown)
    assert rows[0].startswith(" approvals: 1 waiting")
    assert rows[1].split()[1] == "expired"


@pytest.mark.parametrize("key", ["a", "d", "e"])
@pytest.mark.parametrize("complete", [False, True])  # a change, or the list of the next daemon
def test_request_that_arrives_is_selected_by_nothing_but_a_key(key: str, complete: bool) -> None:
    shown = inbox()
    arrive(shown, entry(), complete=complete)
    assert shown.press(key, NOW) is None
    rows = screen(shown)
    assert rows[1].startswith(" ")
    assert "select a request with j and k" in rows[3]
    assert "a approve" not in rows[0]
    assert shown.press(key, NOW + 5) is None
    assert not screen(shown)[-1].startswith(("approve:", "decline"))
    shown.press("j", NOW + 5)
    screen(shown, now=NOW + 5)
    shown.press(key, NOW + 6)
    assert screen(shown, now=NOW + 6)[1].startswith(">")


@pytest.mark.parametrize("key", ["a", "d", "e"])
@pytest.mark.parametrize("move", ["", "j", "\x1b[B"])  # the first of the list, and another one
def test_request_is_not_answered_within_the_first_second_of_its_display(key: str, move: str) -> None:
    shown = Inbox()
    arrive(shown, *([entry(0)] if move else []), entry(1), complete=True)
    shown.press(move, NOW)
    assert shown.press(key, NOW + 9) is None  # before it is on the screen
    screen(shown, now=NOW + 10)
    assert shown.press(key, NOW + 10.9) is None
    rows = screen(shown, now=NOW + 10.9)
    assert "less than a second" in rows[-1]
    assert "a approve" not in rows[0]
    assert "a approve" in screen(shown, now=NOW + 11)[0]
    answered = shown.press(key, NOW + 11)
    assert answered == Answer("approve", "ap-1") if key == "a" else screen(shown)[-1].startswith(("approve:", "decline"))


def test_time_of_a_viewed_request_counts() -> None:
    shown = inbox(entry(1), entry(2))
    shown.press("j")
    assert shown.press("v") == "ap-2"
    shown.view(entry(2))
    screen(shown, now=NOW)
    assert shown.press("a", NOW + 0.9) is None
    assert shown.press("a", NOW + 1) == Answer("approve", "ap-2")


@pytest.mark.parametrize(
    ("reply", "reported"),
    [
        ({"state": "approved", "used": True}, "approved: reload (typed)"),
        ({"state": "stale", "comment": "the lock has ended"}, "stale: reload was not typed (the lock has ended)"),
        ({"state": "expired", "comment": "too late"}, "expired: reload was not typed (too late)"),
        ({"state": "withdrawn", "comment": "closed"}, "withdrawn: reload was not typed (closed)"),
    ],
)
def test_outcome_of_an_approval_is_reported_when_it_is_known(reply: dict[str, Any], reported: str) -> None:
    shown = inbox(entry())
    shown.answered(entry(state="approved"))
    assert screen(shown)[-1] == "approved: reload (not typed yet)"
    shown.update(ApprovalsReply(approvals=[entry(**reply)], answerable=True), complete=False)
    assert screen(shown)[-1] == reported
    shown.press("k")
    shown.update(ApprovalsReply(approvals=[entry(**reply)], answerable=True), complete=False)
    assert screen(shown)[-1] == ""


@pytest.mark.parametrize("typed", ["aa", "aj", "xe", "dq"])
def test_keys_that_arrive_together_answer_nothing(typed: str) -> None:
    shown = inbox(entry())
    assert shown.press(typed) is None
    assert "one key at a time" in screen(shown)[-1]
    assert not shown.done


def test_keys_after_a_typed_line_are_ignored() -> None:
    shown = inbox(entry(1), entry(2))
    shown.press("d")
    assert shown.press("no\rja") == Answer("decline", "ap-1", comment="no")
    shown.press("d")
    assert shown.press("no\x1ba") is None
    assert shown.press("a") == Answer("approve", "ap-1")


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 24])
@pytest.mark.parametrize("cols", [10, 40, 80, 200])
def test_any_terminal_size_is_filled_without_scrolling(cols: int, rows: int) -> None:
    shown = inbox(*(entry(number, text="漢字 " * 100) for number in range(30)))
    assert len(screen(shown, cols, rows)) == rows
    shown.view(entry(screen=["x" * 300] * 50))
    assert len(screen(shown, cols, rows)) == rows


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_of_others_controls_the_terminal(text: str, name: str) -> None:
    hostile = entry(text=text or "x", principal=name, task_id=name or None, device=name, mode=name, reason=text, rules=[name],
                    canonical=name, comment=text, decided_by=name, screen=[text])  # fmt: skip
    shown = inbox(hostile, entry(2, state="declined", comment=text, decided_by=name))
    for _ in range(2):
        for line in shown.render(80, 24, NOW):
            plain = line.replace("\x1b[7m", "").replace("\x1b[2m", "").replace("\x1b[m", "")
            assert plain.isprintable()
        shown.view(hostile)


def test_ended_requests_are_bounded() -> None:
    shown = inbox(*(entry(number, state="declined") for number in range(200)), entry(200))
    assert len(screen(shown, rows=300)) == 300
    assert sum("declined" in row for row in screen(shown, rows=300)) <= 50
