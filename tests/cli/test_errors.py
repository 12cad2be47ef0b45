"""Error messages, exit codes, and the help of the command line."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from fixtures.daemons import daemon_pid
from fixtures.forked_process import ForkedProgram
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.errors import NextStep
from ptyctl.cli.app import app
from ptyctl.cli.errors import EXIT_BROKEN_PIPE, EXIT_FAILED, report_error
from ptyctl.daemon.connection import hello_line, open_connection
from ptyctl.daemon.control import start as start_daemon
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import is_one_line, open_local, ptyctl

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("exec",), ("exec", "s"), ("sessions", "--nope"), ("lock", "s", "--ttl", "x"), ("attach", "s"), ("export", "s"),
     ("open",), ("open", "ssh"), ("takeover", "s"), ("daemon", "nope")],
    ids=" ".join,
)  # fmt: skip
def test_invalid_command_line_exits_with_2(runtime_dir: RuntimeDir, arguments: tuple[str, ...]) -> None:
    result = ptyctl(*arguments)
    assert result.code == 2
    assert is_one_line(result.err), result.err
    assert daemon_pid(runtime_dir) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("lock", "SESSION", "--ttl", "inf"),
        ("open", "telnet", "h", "--connect-timeout", "inf"),
        ("lock", "SESSION", "--ttl", "nan"),
    ],
    ids=" ".join,
)
def test_infinite_time_where_a_limit_is_needed_exits_with_2(runtime_dir: RuntimeDir, arguments: tuple[str, ...]) -> None:
    result = ptyctl(*arguments)
    assert result.code == 2
    assert arguments[-2] in result.err


@pytest.mark.parametrize("command", ["sessions", "tail", "daemon"])
def test_runtime_directory_open_to_others_exits_with_6(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(tmp_path))
    result = ptyctl(command, *{"tail": ["s"], "daemon": ["status"]}.get(command, []))
    assert result.code == 6
    assert is_one_line(result.err)
    assert f"chmod 700 {tmp_path}" in result.err


def test_daemon_at_its_connection_limit_status_names_process_and_limit(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTYCTL_MAX_CONNECTIONS", "1")
    with open_connection(runtime_dir, hello_line("rpc")):
        result = ptyctl("daemon", "status")
        assert result.code == 0
        assert f"up: process {daemon_pid(runtime_dir)}," in result.out
        assert "limit is 1 (max_connections)" in result.out
        as_json = ptyctl("daemon", "status", "--json").json
        assert (as_json["up"], as_json["pid"]) == (True, daemon_pid(runtime_dir))
        assert "limit is 1 (max_connections)" in as_json["rejection"]


def test_invalid_setting_is_reported_with_its_name(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "none")
    for arguments in (("sessions", "--all"), ("open", "local")):
        result = ptyctl(*arguments)
        assert result.code in (2, 6)
        assert is_one_line(result.err)
        assert "max_sessions" in result.err


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_exit_code_and_one_line(code: ErrorCode, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = report_error(PtyctlError(code, "several\nlines of\ttext"))
    assert 1 <= exit_code <= 6
    printed = capsys.readouterr().err
    assert is_one_line(printed)
    assert "several lines of text" in printed


@pytest.mark.parametrize(
    ("code", "hint", "command"),
    [
        (ErrorCode.NOT_FOUND, NextStep.LIST_SESSIONS, "list the sessions with: ptyctl sessions"),
        (ErrorCode.NOT_FOUND, str(NextStep.LIST_BLOCKS.value), "list the blocks with: ptyctl blocks SESSION"),
        (ErrorCode.BUSY, NextStep.INTERRUPT_OR_WAIT, "watch with: ptyctl attach SESSION"),
        (ErrorCode.LOCKED, NextStep.WAIT_FOR_LOCK, "watch with: ptyctl attach SESSION"),
        (ErrorCode.LOCK_REQUIRED, NextStep.TAKE_LOCK, "take the lock with: ptyctl lock SESSION"),
        (ErrorCode.IO_ERROR, "check its owner", "check its owner\n"),
    ],
    ids=str,
)
def test_next_step_is_printed_as_command_after_full_message(
    code: ErrorCode, hint: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report_error(PtyctlError(code, "it failed; twice", hint=hint))
    assert capsys.readouterr().err.startswith(f"ptyctl: it failed; twice; {command}")


def test_error_without_next_step_is_printed_as_message(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(PtyctlError(ErrorCode.INTERNAL, "it failed"))
    assert capsys.readouterr().err == "ptyctl: it failed\n"


def test_every_command_is_documented() -> None:
    page = PAGE.read_text()
    commands = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    commands += [group.name for group in app.registered_groups if group.name]
    assert [name for name in commands if f"`ptyctl {name}" not in page] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PTYCTL_COMPLETE", f"source_{shell}")
    result = ptyctl()
    assert "_PTYCTL_COMPLETE" in result.out
    assert result.err == ""


def test_help_lists_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # names are cut on a narrow terminal
    result = ptyctl("--help")
    assert result.code == 0
    assert all(name in result.out for name in ("attach", "exec", "replay", "--install-completion"))


def test_usage_error_names_help_of_the_command() -> None:
    assert ptyctl("open").err.endswith("see: ptyctl open --help\n")
    assert ptyctl("lock", "s", "--ttl", "x").err.endswith("see: ptyctl lock --help\n")
    assert ptyctl("takeovr").err == "ptyctl: No such command 'takeovr'. Did you mean 'takeover'? See: ptyctl --help\n"


def test_short_help_option_equals_long_one() -> None:
    for command in ((), ("exec",), ("open", "ssh"), ("daemon",)):
        assert ptyctl(*command, "-h") == ptyctl(*command, "--help")


def test_version_option_equals_version_command() -> None:
    assert ptyctl("--version").out == ptyctl("version").out != ""


def test_output_path_not_writable_is_reported(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    session_id = open_local()
    result = ptyctl("export", session_id, "--text", "-o", str(tmp_path / "missing" / "file"))
    assert result.code == EXIT_FAILED
    assert is_one_line(result.err)
    assert str(tmp_path / "missing" / "file") in result.err
    assert daemon_pid(runtime_dir) is not None


def test_broken_pipe_exits_with_141_and_no_message(runtime_dir: RuntimeDir) -> None:
    session_id = open_local(command=("--", "seq", "10000"))
    ptyctl("tail", "-f", session_id)
    program = "import sys; from ptyctl.cli import run; sys.stdin.read(); sys.exit(run(sys.argv[1:]))"
    commands = (
        ("sessions", "--all", "--json"),
        ("log", session_id),
        ("blocks", session_id),
        ("export", session_id, "--text"),
        ("version",),
    )
    for arguments in commands:
        check_broken_pipe(ForkedProgram(program, *arguments))
    # A separate interpreter also flushes its files at its end.
    check_broken_pipe(Popen([sys.executable, "-c", program, "version"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True))


def check_broken_pipe(process: ForkedProgram | Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stderr:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.wait() == EXIT_BROKEN_PIPE


def test_closed_standard_files_are_tolerated(runtime_dir: RuntimeDir) -> None:
    """Some service managers start programs without standard files."""
    start_daemon(runtime_dir)
    for command, closed in product(("open local -- cat", "sessions", "mcp"), ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")):
        program = f"exec {sys.executable} -c 'from ptyctl.cli import main; main()' {command} {closed}"
        done = subprocess.run(["sh", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, closed)
        assert "Traceback" not in done.stderr, (command, closed)
