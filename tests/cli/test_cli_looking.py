"""`ptyctl tail`, `screen`, `blocks`, `search`, and the locks: what is told, and in which shape."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from fixtures.daemons import end_daemon
from ptyctl.api.blocks import Block
from ptyctl.api.pty_replies import Hit
from ptyctl.api.screen import ScreenReply
from ptyctl.daemon.place import Place
from tests.cli.command_line import is_one_line, opened, ptyctl

PROGRAM = "import sys; from ptyctl.cli import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture
def shell(place: Place) -> str:
    session = opened()
    ptyctl("exec", session, "--", "printf 'one\\ntwo\\n'")
    ptyctl("exec", session, "--", "echo three; false")
    return session


def test_the_last_lines(shell: str) -> None:
    assert "three" in ptyctl("tail", shell).out
    assert "one" not in ptyctl("tail", shell, "-n", "2").out
    assert ptyctl("tail", shell, "-n", "0").out == ""
    assert "three" in ptyctl("tail", shell, "--json").json["chunk"]


def test_following_ends_with_the_session(shell: str) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "tail", "-n", "100", "-f", shell],
        env=dict(os.environ), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert follower.stdout is not None
    while follower.stdout.readline() != "three\n":
        pass
    ptyctl("send", shell, "echo later; exit")
    rest, _ = follower.communicate(timeout=60)
    assert "later\n" in rest
    assert follower.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_following_goes_on_with_the_next_daemon_if_the_session_does(place: Place, number: signal.Signals) -> None:
    shell = opened()
    follower = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "tail", "-f", shell],
        env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert follower.stdout is not None
    ptyctl("exec", shell, "--", "echo before")
    while follower.stdout.readline() != "before\n":
        pass
    end_daemon(place, number)
    if number is signal.SIGKILL:
        ptyctl("exec", shell, "--", "echo behind it; exit")
    rest, faults = follower.communicate(timeout=60)
    assert rest.count("behind it\n") == (number is signal.SIGKILL)
    assert (follower.returncode, faults) == (0, "")


def test_the_screen_now_and_then(shell: str) -> None:
    assert "three" in ptyctl("screen", shell).out
    reply = ScreenReply.model_validate(ptyctl("screen", shell, "--json").json)
    assert (reply.cols, reply.rows_count) == (120, 40)
    first = ptyctl("blocks", shell, "--json").json[0]["block_id"]
    then = ptyctl("screen", shell, "--at", first).out
    assert "two" in then
    assert "three" not in then
    assert ptyctl("screen", shell, "--at", "0").out.strip() == ""


def test_blocks_and_their_text(shell: str) -> None:
    first, second = (Block.model_validate(block) for block in ptyctl("blocks", shell, "--json").json)
    assert (first.exit_code, second.exit_code, second.cmd) == (0, 1, "echo three; false")
    heads, *rows = ptyctl("blocks", shell).out.splitlines()
    assert heads.split() == ["block", "begun", "took", "end", "command"]
    assert rows[1].endswith("  1    echo three; false")
    assert ptyctl("blocks", shell, "--limit", "1").out.count("\n") == 2
    assert ptyctl("blocks", shell, "--output", first.block_id).out == "one\ntwo\n"
    assert ptyctl("blocks", shell, "--output", first.block_id, "--json").json["text"] == "one\ntwo\n"
    none = ptyctl("blocks", shell, "--output", "9_9")
    assert none.code == 3
    assert is_one_line(none.err)


def test_a_search_says_whether_something_was_found(shell: str) -> None:
    found = ptyctl("search", shell, "tw")
    assert (found.code, found.out.partition(":")[2]) == (0, "2: two\n")
    assert [Hit.model_validate(hit).text for hit in ptyctl("search", shell, "^t", "-e", "--json").json["hits"]] == [
        "two",
        "three",
    ]
    assert ptyctl("search", shell, "nowhere").code == 1
    wrong = ptyctl("search", shell, "(", "--regex")
    assert wrong.code == 2
    assert is_one_line(wrong.err)


def test_history_is_read_after_the_end(shell: str) -> None:
    assert ptyctl("close", shell).out == f"closed: {shell}\n"
    assert "three" in ptyctl("tail", shell).out
    assert ptyctl("search", shell, "two").code == 0


def test_a_lock_has_one_holder(shell: str) -> None:
    assert ptyctl("lock", shell, "--task", "one").out == "locked by: one\n"
    refused = ptyctl("lock", shell, "--task", "two", "--wait", "0.1")
    assert refused.code == 4
    assert is_one_line(refused.err)
    assert "one" in refused.err
    assert ptyctl("takeover", shell, "--task", "two", "--reason", "urgent").out == "locked by: two\n"
    assert ptyctl("unlock", shell, "--task", "one").code == 4
    assert ptyctl("unlock", shell, "--task", "two", "--json").json["success"]


def test_a_lock_is_waited_for(shell: str) -> None:
    ptyctl("lock", shell, "--task", "one", "--ttl", "0.5")
    reply = ptyctl("lock", shell, "--task", "two", "--wait", "60", "--json").json
    assert reply["lock_holder"] == "two"


def test_commands_of_one_terminal_are_one_task(shell: str) -> None:
    holder = ptyctl("lock", shell, "--json").json["lock_holder"]
    assert "@" in holder
    assert ptyctl("exec", shell, "--", "true").code == 0
    assert ptyctl("unlock", shell).out == "not locked\n"


def test_a_session_of_another_is_closed_by_force_only(shell: str) -> None:
    ptyctl("lock", shell, "--task", "another")
    assert ptyctl("close", shell, "--task", "me").code == 4
    assert ptyctl("close", shell, "--task", "me", "--force").code == 0
