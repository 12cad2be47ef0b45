"""Which session a name on the command line denotes."""

from __future__ import annotations

import os

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cli.names import ListedSession, match_session, resolve_task

_OLD, _NEW = "20261123-192230-ff2c9a47", "20261123-192331-32acab4a"


def session(
    session_id: str, session_type: str = "console", state: str = "open", unreachable_s: int | None = None
) -> ListedSession:
    return ListedSession(session_id, "switch-001", "sw1", session_type, state, unreachable_s)


@pytest.mark.parametrize(
    "left",
    [session(_OLD, unreachable_s=27), session(_OLD, state="lost"), session(_OLD, state="eof")],
    ids=["silent", "lost", "eof"],
)
@pytest.mark.parametrize("name", ["switch-001", "sw1"])
def test_name_of_a_console_that_moved_denotes_the_session_with_its_line(left: ListedSession, name: str) -> None:
    assert match_session([left, session(_NEW)], name) == _NEW
    assert match_session([session(_NEW, state="reconnecting"), left], name) == _NEW


def test_name_of_a_console_without_a_line_denotes_its_only_session() -> None:
    assert match_session([session(_OLD, unreachable_s=27)], "switch-001") == _OLD


def test_id_or_a_part_of_it_denotes_a_session_without_a_line() -> None:
    sessions = [session(_OLD, state="lost"), session(_NEW)]
    assert [match_session(sessions, name) for name in (_OLD, "ff2c", "32ac")] == [_OLD, _OLD, _NEW]


@pytest.mark.parametrize(
    "sessions",
    [
        [session(_OLD), session(_NEW)],
        [session(_OLD, unreachable_s=27), session(_NEW, state="lost")],
        [session(_OLD, "normal", unreachable_s=27), session(_NEW, "normal")],
    ],
    ids=["both open", "both left", "no consoles"],
)
def test_name_of_several_sessions_is_ambiguous(sessions: list[ListedSession]) -> None:
    with pytest.raises(PtyctlError, match=f"switch-001 matches 2 sessions: {_OLD}, {_NEW}") as caught:
        match_session(sessions, "switch-001")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_unknown_name_is_not_found() -> None:
    for name in ("", "rack1"):
        with pytest.raises(PtyctlError) as caught:
            match_session([session(_OLD)], name)
        assert caught.value.code is ErrorCode.NOT_FOUND


def test_task_of_a_user_without_an_account_has_the_number_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 64_123)  # no account has it
    assert resolve_task(None).startswith("64123@")
