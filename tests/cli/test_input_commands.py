"""`ptyctl exec` and `send`: exit codes, output and typed input."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ptyctl.api import ExecReply
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import PROGRAM, is_one_line, open_local, ptyctl, start


@pytest.fixture
def shell(runtime_dir: RuntimeDir) -> str:
    return open_local()


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_exec_exits_with_code_of_command(shell: str, code: int) -> None:
    result = ptyctl("exec", shell, "--", "echo", "hi;", f"(exit {code})")
    assert (result.code, result.out, result.err) == (code, "hi\n", "")


def test_exec_json_is_exec_reply(shell: str) -> None:
    result = ptyctl("exec", shell, "--json", "--", "false")
    reply = ExecReply.model_validate(result.json)
    assert (result.code, reply.exit_code, reply.done_reason) == (1, 1, "marks")


def test_exec_long_output_is_complete(shell: str) -> None:
    assert ptyctl("exec", shell, "--", "seq 50000").out == "".join(f"{number}\n" for number in range(1, 50_001))


def test_exec_truncated_output_names_command_for_complete_output(shell: str) -> None:
    result = ptyctl("exec", shell, "--", "seq 1 2500000")
    assert len(result.out) < 17_000_000
    words = result.err.split("complete output: ptyctl ")[1].split()
    assert ptyctl(*words).out == "".join(f"{number}\n" for number in range(1, 2_500_001))


@pytest.mark.waits
def test_exec_timeout_leaves_command_running(shell: str) -> None:
    assert ptyctl("exec", shell, "--", "true").code == 0  # the time below is for typing alone
    result = ptyctl("exec", shell, "--timeout", "3", "--", "sleep 600")
    assert result.code == 105
    assert is_one_line(result.err)
    assert "still running as block" in result.err
    busy = ptyctl("exec", shell, "--", "true")
    assert busy.code == 104
    assert is_one_line(busy.err)
    assert ptyctl("send", shell, "answer").code == 0
    assert ptyctl("exec", open_local(), "--", "true").code == 0


def test_exec_session_errors_exit_above_100(shell: str) -> None:
    ptyctl("lock", shell, "--task", "another")
    for name, code in ((shell, 104), ("nobody", 103)):
        result = ptyctl("exec", name, "--task", "me", "--", "true")
        assert result.code == code
        assert is_one_line(result.err)
    ptyctl("close", shell, "--force")
    assert ptyctl("exec", shell, "--", "true").code == 103


def test_exec_of_exit_exits_with_its_code(shell: str) -> None:
    assert ptyctl("exec", shell, "--", "exit 9").code == 9


def test_exec_infinite_timeout_waits_for_command(shell: str) -> None:
    assert ptyctl("exec", shell, "--timeout", "inf", "--", "exit 3").code == 3


def test_exec_ctrl_c_interrupts_command(shell: str) -> None:
    # One foreground process from "begun" on: bash can miss a SIGINT between two commands of a list.
    caller, viewer = start("exec", shell, "--", "sh -c 'echo begun; exec sleep 60'"), start("tail", "-f", shell)
    while viewer.stdout.readline() != "begun\n":
        pass
    caller.send_signal(signal.SIGINT)
    out, err = caller.communicate()
    assert (caller.returncode, out, err) == (130, "begun\n^C\n", "")
    viewer.kill()
    viewer.communicate()
    assert ptyctl("exec", shell, "--", "echo", "free").out == "free\n"


def test_exec_of_command_that_asks_exits_with_105_and_says_how_to_answer(shell: str) -> None:
    asked = ptyctl("exec", shell, "--", "read -p 'Name? ' name; echo $name")
    assert (asked.code, asked.out) == (105, "Name? ")
    assert f"waits for input; type it with: ptyctl send {shell} TEXT" in asked.err
    ptyctl("send", shell, "joe")
    assert ptyctl("exec", shell, "--", "echo $name").out == "joe\n"


def test_send_types_text_and_keys(shell: str) -> None:
    reply = ptyctl("send", shell, "echo one", "--json").json
    assert reply["bytes_written"] == 9
    ptyctl("send", shell, "echo two", "--no-enter", "--key", "ctrl_u")
    ptyctl("send", shell, "typed", "--no-enter", "--key", "ctrl_a")
    ptyctl("send", shell, "text=")
    assert ptyctl("exec", shell, "--", "echo $text").out == "typed\n"


def test_send_sensitive_text_is_not_recorded(shell: str) -> None:
    ptyctl("send", shell, "Correct-Horse-7", "--no-enter", "--sensitive", "--key", "ctrl_u")
    ptyctl("exec", shell, "--", "true")
    assert "Correct" not in ptyctl("export", shell, "--text").out


def test_send_nothing_or_unknown_key_is_usage_error(shell: str) -> None:
    for arguments in (("send", shell), ("send", shell, "--key", "hyper")):
        result = ptyctl(*arguments)
        assert result.code == 2
        assert is_one_line(result.err)


def test_send_dash_types_standard_input(shell: str) -> None:
    subprocess.run([*PROGRAM, "send", shell, "-"], env=dict(os.environ), input="x=piped\n", text=True, check=True)
    assert ptyctl("exec", shell, "--", "echo $x").out == "piped\n"


def test_exec_prints_notices_on_stderr(shell: str) -> None:
    assert ptyctl("send", "--no-enter", shell, "echo half typed").code == 0
    result = ptyctl("exec", shell, "echo whole")
    assert (result.code, result.out) == (0, "whole\n")
    assert "half-typed text of 15 characters" in result.err
