"""What goes wrong is told in one line, and by an exit code that is documented."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.cli import failing
from ptyctl.cli.main import app
from ptyctl.daemon.place import Place
from tests.cli.command_line import is_one_line, opened, ptyctl

DOC = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("exec",), ("exec", "s"), ("sessions", "--nope"), ("lock", "s", "--ttl", "x"), ("attach", "s"), ("export", "s"),
     ("open",), ("open", "ssh"), ("takeover", "s"), ("daemon", "nope")],
    ids=" ".join,
)  # fmt: skip
def test_usage(place: Place, arguments: tuple[str, ...]) -> None:
    ran = ptyctl(*arguments)
    assert ran.code == 2
    assert is_one_line(ran.err), ran.err
    assert daemon_pid(place) is None


@pytest.mark.parametrize("command", ["sessions", "tail", "daemon"])
def test_a_folder_that_cannot_be_used(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(tmp_path))
    ran = ptyctl(command, *{"tail": ["s"], "daemon": ["status"]}.get(command, []))
    assert ran.code == 6
    assert is_one_line(ran.err)
    assert f"chmod 700 {tmp_path}" in ran.err


def test_settings_that_are_wrong(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "none")
    for arguments in (("sessions", "--all"), ("open", "local")):
        ran = ptyctl(*arguments)
        assert ran.code in (2, 6)
        assert is_one_line(ran.err)
        assert "max_sessions" in ran.err


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_an_exit_code_and_one_line(code: ErrorCode, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = failing.told(PtyctlError(code, "several\nlines of\ttext"))
    assert 1 <= exit_code <= 6
    said = capsys.readouterr().err
    assert is_one_line(said)
    assert "several lines of text" in said


def test_every_command_is_documented() -> None:
    page = DOC.read_text()
    commands = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    commands += [group.name for group in app.registered_groups if group.name]
    assert [name for name in commands if f"`ptyctl {name}" not in page] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_made(shell: str) -> None:
    environment = {**os.environ, "_PTYCTL_COMPLETE": f"source_{shell}"}
    program = "from ptyctl.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "_PTYCTL_COMPLETE" in ran.stdout
    assert ran.stderr == ""


def test_help_names_the_commands() -> None:
    ran = ptyctl("--help")
    assert ran.code == 0
    assert all(name in ran.out for name in ("attach", "exec", "replay", "--install-completion"))


def test_the_help_that_is_named_is_the_commands_own() -> None:
    assert ptyctl("open").err.endswith("see: ptyctl open --help\n")
    assert ptyctl("lock", "s", "--ttl", "x").err.endswith("see: ptyctl lock --help\n")
    assert ptyctl("takeovr").err == "ptyctl: No such command 'takeovr'. Did you mean 'takeover'? See: ptyctl --help\n"


@pytest.mark.parametrize(
    ("code", "details", "step"),
    [
        (ErrorCode.NOT_FOUND, {"session_id": "s"}, "ptyctl sessions"),
        (ErrorCode.NOT_FOUND, {"block_id": "b"}, "ptyctl blocks"),
        (ErrorCode.BUSY, {"block_id": "b"}, "watch with: ptyctl attach"),
        (ErrorCode.LOCKED, {"lock_holder": "t"}, "watch with: ptyctl attach"),
    ],
    ids=str,
)
def test_the_next_step_is_a_command(
    code: ErrorCode, details: dict[str, str], step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.told(PtyctlError(code, "there is none; call this tool", details))
    said = capsys.readouterr().err
    assert said.startswith(f"ptyctl: there is none; {step}")
    assert "tool" not in said


def test_a_block_that_is_not_there_and_a_pattern_that_is_none(place: Place) -> None:
    session_id = opened()
    missing = ptyctl("blocks", session_id, "--output", "9_9")
    assert (missing.code, missing.err) == (3, "ptyctl: no block 9_9 here; ptyctl blocks lists those that there are\n")
    wrong = ptyctl("search", session_id, "-e", "(")
    assert wrong.code == 2
    assert "(?m)" not in wrong.err


def test_help_by_the_usual_option_too() -> None:
    for command in ((), ("exec",), ("open", "ssh"), ("daemon",)):
        assert ptyctl(*command, "-h") == ptyctl(*command, "--help")


def test_a_place_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    session_id = opened()
    ran = ptyctl("export", session_id, "--text", "-o", str(tmp_path / "missing" / "file"))
    assert ran.code == failing.FAILED
    assert is_one_line(ran.err)
    assert str(tmp_path / "missing" / "file") in ran.err
    assert daemon_pid(place) is not None


@pytest.mark.parametrize(
    "arguments",
    [("sessions", "--all", "--json"), ("log", "SESSION"), ("blocks", "SESSION"), ("export", "SESSION", "--text"), ("version",)],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_error(place: Place, arguments: tuple[str, ...]) -> None:
    session_id = opened(command=("--", "seq", "10000"))
    ptyctl("tail", "-f", session_id)
    program = "import sys; from ptyctl.cli import run; sys.stdin.read(); sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *(session_id if word == "SESSION" else word for word in arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        ran.stdin.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == failing.UNREAD


def test_the_version_by_the_usual_option() -> None:
    assert ptyctl("--version").out == ptyctl("version").out != ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["open local -- cat", "sessions", "mcp"])
def test_standard_files_may_be_closed(place: Place, command: str, closed: str) -> None:
    """As some starters of services do."""
    program = f"exec {sys.executable} -c 'from ptyctl.cli import main; main()' {command} {closed}"
    ran = subprocess.run(["sh", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr
