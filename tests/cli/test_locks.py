"""`ptyctl lock`, `unlock`, `takeover`, and `close` of a locked session."""

from __future__ import annotations

import pytest

from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import is_one_line, open_local, ptyctl


@pytest.fixture
def shell(runtime_dir: RuntimeDir) -> str:
    return open_local()


def test_lock_of_another_task_is_refused_until_takeover(shell: str) -> None:
    assert ptyctl("lock", shell, "--task", "one").out == "locked by: one\n"
    refused = ptyctl("lock", shell, "--task", "two", "--wait", "0.1")
    assert refused.code == 4
    assert is_one_line(refused.err)
    assert "one" in refused.err
    assert ptyctl("takeover", shell, "--task", "two", "--reason", "urgent").out == "locked by: two\n"
    assert ptyctl("unlock", shell, "--task", "one").code == 4
    assert ptyctl("unlock", shell, "--task", "two", "--json").json["success"]


def test_lock_with_wait_gets_expired_lock(shell: str) -> None:
    ptyctl("lock", shell, "--task", "one", "--ttl", "0.5")
    reply = ptyctl("lock", shell, "--task", "two", "--wait", "60", "--json").json
    assert reply["lock_holder"] == "two"


def test_lock_infinite_wait_is_accepted(shell: str) -> None:
    assert ptyctl("lock", shell, "--wait", "inf").code == 0


def test_commands_of_one_terminal_are_one_task(shell: str) -> None:
    holder = ptyctl("lock", shell, "--json").json["lock_holder"]
    assert "@" in holder
    assert ptyctl("exec", shell, "--", "true").code == 0
    assert ptyctl("unlock", shell).out == "not locked\n"


def test_close_of_session_locked_by_another_task_needs_force(shell: str) -> None:
    ptyctl("lock", shell, "--task", "another")
    assert ptyctl("close", shell, "--task", "me").code == 4
    assert ptyctl("close", shell, "--task", "me", "--force").code == 0
