"""`ptyctl tail`, `screen`, `log`, `blocks` and `search`: output of open and ended sessions."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal

import pytest

from fixtures.daemons import end_daemon
from ptyctl.api.blocks import Block, Hit
from ptyctl.api.handle import SessionHandle
from ptyctl.api.screen import ScreenReply
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import load_settings
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import PROGRAM, is_one_line, open_local, ptyctl, start
from tests.controller.local_daemon import served


@pytest.fixture
def shell(runtime_dir: RuntimeDir) -> str:
    session = open_local()
    ptyctl("exec", session, "--", "printf 'one\\ntwo\\n'")
    ptyctl("exec", session, "--", "echo three; false")
    return session


def test_tail_prints_last_lines(shell: str) -> None:
    assert "three" in ptyctl("tail", shell).out
    assert "one\n" not in ptyctl("tail", shell, "-n", "2").out  # the prompt shows the name of this directory
    assert ptyctl("tail", shell, "-n", "0").out == ""
    assert "three" in ptyctl("tail", shell, "--json").json["chunk"]


def test_tail_follow_ends_with_session(shell: str) -> None:
    follower = start("tail", "-n", "100", "-f", shell)
    while follower.stdout.readline() != "three\n":
        pass
    ptyctl("send", shell, "echo later; exit")
    rest, _ = follower.communicate()
    assert "later\n" in rest
    assert follower.returncode == 0


@pytest.mark.parametrize("words", [["tail", "-f"], ["tail", "--follow", "--json"], ["attach"], ["attach", "--write"]])
@pytest.mark.parametrize("wrapper", [[], ["env", "-u", "PTYCTL_SESSION_ID"]])
def test_follow_of_the_session_it_runs_in_is_refused(shell: str, words: list[str], wrapper: list[str]) -> None:
    command = " ".join([*wrapper, *map(shlex.quote, PROGRAM), *words, shell])
    result = ptyctl("exec", shell, "--", f"export TERM=xterm; {command}")
    assert "runs in the session" in result.out + result.err
    assert f"ptyctl tail {shell}" in result.out + result.err
    assert "true" in ptyctl("exec", shell, "--", "echo true").out


def test_follow_of_another_session_from_a_session_is_allowed(shell: str) -> None:
    other = open_local()
    ptyctl("send", other, "echo seen; exit")
    assert "seen\n" in ptyctl("exec", shell, "--", " ".join([*map(shlex.quote, PROGRAM), "tail", "-f", other])).out


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_tail_follow_continues_after_daemon_was_killed_but_not_stopped(runtime_dir: RuntimeDir, number: signal.Signals) -> None:
    shell = open_local()
    follower = start("tail", "-f", shell)
    ptyctl("exec", shell, "--", "echo before")
    while follower.stdout.readline() != "before\n":
        pass
    end_daemon(runtime_dir, number)
    if number is signal.SIGKILL:
        ptyctl("exec", shell, "--", "echo after; exit")
    rest, errors = follower.communicate()
    assert rest.count("after\n") == (number is signal.SIGKILL)
    assert (follower.returncode, errors) == (0, "")


def test_screen_now_and_at_earlier_positions(shell: str) -> None:
    assert "three" in ptyctl("screen", shell).out
    reply = ScreenReply.model_validate(ptyctl("screen", shell, "--json").json)
    assert (reply.cols, reply.rows_count) == (120, 40)
    first = ptyctl("blocks", shell, "--json").json[0]["block_id"]
    earlier = ptyctl("screen", shell, "--at", first).out
    assert "two" in earlier
    assert "three" not in earlier
    assert ptyctl("screen", shell, "--at", "0").out.strip() == ""


def test_blocks_lists_commands_and_prints_output(shell: str) -> None:
    first, second = (Block.model_validate(block) for block in ptyctl("blocks", shell, "--json").json)
    assert (first.exit_code, second.exit_code, second.cmd) == (0, 1, "echo three; false")
    heads, *rows = ptyctl("blocks", shell).out.splitlines()
    assert heads.split() == ["block", "started", "duration", "result", "command"]
    assert re.search(r"  1 +echo three; false$", rows[1])
    assert ptyctl("blocks", shell, "--limit", "1").out.count("\n") == 2
    assert ptyctl("blocks", shell, "--output", first.block_id).out == "one\ntwo\n"
    assert ptyctl("blocks", shell, "--output", first.block_id, "--json").json["text"] == "one\ntwo\n"


def test_blocks_unknown_block_exits_with_3(shell: str) -> None:
    result = ptyctl("blocks", shell, "--output", "9_9")
    assert result.code == 3
    assert is_one_line(result.err)
    assert "9_9" in result.err


def test_search_exit_code_tells_whether_lines_were_found(shell: str) -> None:
    found = ptyctl("search", shell, "tw")
    assert (found.code, found.out.partition(":")[2]) == (0, "2: two\n")
    hits = ptyctl("search", shell, "^t", "-e", "--json").json["hits"]
    assert [Hit.model_validate(hit).text for hit in hits] == ["two", "three"]
    assert ptyctl("search", shell, "nowhere").code == 1


def test_search_invalid_pattern_is_usage_error(shell: str) -> None:
    result = ptyctl("search", shell, "(", "--regex")
    assert result.code == 2
    assert is_one_line(result.err)
    assert "(?m)" not in result.err


def test_history_is_readable_after_close(shell: str) -> None:
    assert ptyctl("close", shell).out == f"closed: {shell}\n"
    assert "three" in ptyctl("tail", shell).out
    assert ptyctl("search", shell, "two").code == 0


async def test_log_prints_lines_with_times_or_as_json(runtime_dir: RuntimeDir) -> None:
    async with LocalController(load_settings()) as controller, served(controller, runtime_dir.path):
        command = ("sh", "-c", r"printf 'one\r\ntwo \033[31mred\033[0m\r\n'")
        handle = await SessionHandle.open(
            controller, protocol="local", command=command, session_type="console", device_id="rack-1"
        )
        await handle.read(until_regex="never", timeout_ms=20_000)
        plain = await asyncio.to_thread(ptyctl, "log", "rack-1")
        assert (plain.code, plain.out) == (0, "one\ntwo red\n")
        timed = await asyncio.to_thread(ptyctl, "log", handle.session_id, "--console")
        shape = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d  (.*)")
        assert [match[1] for line in timed.out.splitlines() if (match := shape.fullmatch(line))] == ["one", "two red"]
        rows = await asyncio.to_thread(ptyctl, "log", handle.session_id, "--json")
        assert [json.loads(line)["text"] for line in rows.out.splitlines()] == ["one", "two red"]
        missing = await asyncio.to_thread(ptyctl, "log", "nope")
        assert missing.code == 3
        assert is_one_line(missing.err)
