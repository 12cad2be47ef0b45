"""`ptyctl exec` and `send`: the command's own exit code, and ptyctl's above it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ptyctl.api import ExecReply
from ptyctl.daemon.place import Place
from tests.cli.command_line import is_one_line, opened, ptyctl

PROGRAM = "import sys; from ptyctl.cli import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture
def shell(place: Place) -> str:
    return opened()


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_the_exit_code_is_the_commands(shell: str, code: int) -> None:
    ran = ptyctl("exec", shell, "--", "echo", "hi;", f"(exit {code})")
    assert (ran.code, ran.out, ran.err) == (code, "hi\n", "")


def test_in_json_it_is_the_reply(shell: str) -> None:
    ran = ptyctl("exec", shell, "--json", "--", "false")
    reply = ExecReply.model_validate(ran.json)
    assert (ran.code, reply.exit_code, reply.done_reason) == (1, 1, "marks")


def test_a_long_output_comes_whole(shell: str) -> None:
    assert ptyctl("exec", shell, "--", "seq 50000").out == "".join(f"{number}\n" for number in range(1, 50_001))


def test_what_is_too_long_is_told_with_the_command_that_prints_it(shell: str) -> None:
    ran = ptyctl("exec", shell, "--", "seq 1 2500000")
    assert len(ran.out) < 17_000_000
    words = ran.err.split("all of it: ptyctl ")[1].split()
    assert ptyctl(*words).out == "".join(f"{number}\n" for number in range(1, 2_500_001))


def test_what_takes_longer_than_the_caller_wants_goes_on(shell: str) -> None:
    ran = ptyctl("exec", shell, "--timeout", "0.2", "--", "read line; echo got $line")
    assert ran.code == 105
    assert is_one_line(ran.err)
    assert "it goes on as block" in ran.err
    busy = ptyctl("exec", shell, "--", "true")
    assert busy.code == 104
    assert is_one_line(busy.err)
    assert ptyctl("send", shell, "answer").code == 0
    assert ptyctl("exec", opened(), "--", "true").code == 0


def test_what_is_told_of_sessions(shell: str) -> None:
    ptyctl("lock", shell, "--task", "another")
    for name, code in ((shell, 104), ("nobody", 103)):
        ran = ptyctl("exec", name, "--task", "me", "--", "true")
        assert ran.code == code
        assert is_one_line(ran.err)
    ptyctl("close", shell, "--force")
    assert ptyctl("exec", shell, "--", "true").code == 103


def test_a_shell_that_exits_ends_with_its_code(shell: str) -> None:
    assert ptyctl("exec", shell, "--", "exit 9").code == 9


def test_ctrl_c_interrupts_the_command(shell: str) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "exec", shell, "--", "echo begun; cat"], env=dict(os.environ), stdout=subprocess.PIPE
    )
    seen = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "tail", "-f", shell], env=dict(os.environ), stdout=subprocess.PIPE, text=True
    )
    assert seen.stdout is not None
    while seen.stdout.readline() != "begun\n":
        pass
    caller.send_signal(signal.SIGINT)
    out, _ = caller.communicate(timeout=60)
    assert (caller.returncode, out) == (130, b"begun\n^C\n")
    seen.kill()
    seen.communicate()
    assert ptyctl("exec", shell, "--", "echo", "free").out == "free\n"


def test_text_and_keys_are_typed(shell: str) -> None:
    reply = ptyctl("send", shell, "echo one", "--json").json
    assert reply["bytes_written"] == 9
    ptyctl("send", shell, "echo two", "--no-enter", "--key", "ctrl_u")
    ptyctl("send", shell, "typed", "--no-enter", "--key", "ctrl_a")
    ptyctl("send", shell, "text=")
    assert ptyctl("exec", shell, "--", "echo $text").out == "typed\n"


def test_a_secret_is_not_kept(shell: str) -> None:
    ptyctl("send", shell, "Correct-Horse-7", "--no-enter", "--sensitive", "--key", "ctrl_u")
    ptyctl("exec", shell, "--", "true")
    assert "Correct" not in ptyctl("export", shell, "--text").out


def test_nothing_to_send_is_told(shell: str) -> None:
    for arguments in (("send", shell), ("send", shell, "--key", "hyper")):
        ran = ptyctl(*arguments)
        assert ran.code == 2
        assert is_one_line(ran.err)


def test_text_from_standard_input(shell: str) -> None:
    subprocess.run(
        [sys.executable, "-c", PROGRAM, "send", shell, "-"], env=dict(os.environ), input="x=piped\n", text=True, check=True
    )
    assert ptyctl("exec", shell, "--", "echo $x").out == "piped\n"
