"""Frequent commands: without slow imports, and with the same command line as the application."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ptyctl.cli.frequent_commands import run_frequent
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import is_one_line, open_local, ptyctl

#: Each takes a tenth of a second or more to import.
_SLOW = ("typer", "rich", "pydantic", "asyncio")
_CHECK = f"""
import sys
from ptyctl.cli import run
code = run(sys.argv[1:])
sys.exit(f"imported: {{loaded}}" if (loaded := [name for name in {_SLOW} if name in sys.modules]) else code)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("exec", "SESSION", "--", "true"),
        ("send", "SESSION", "--key", "enter"),
        ("tail", "SESSION", "-n", "3"),
        ("lock", "SESSION", "--ttl", "5"),
        ("unlock", "SESSION"),
        ("close", "SESSION", "--force"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_frequent_command_avoids_slow_imports(runtime_dir: RuntimeDir, arguments: tuple[str, ...]) -> None:
    session = open_local()
    command = [session if word == "SESSION" else word for word in arguments]
    done = subprocess.run([sys.executable, "-c", _CHECK, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("exec",),
        ("exec", "s"),
        ("exec", "s", "--timeout", "-1", "--", "x"),
        ("exec", "s", "--timeout", "soon", "--", "x"),
        ("send", "s", "--key"),
        ("lock", "s", "--ttl", "nan"),
        ("tail", "s", "--unknown"),
        ("unlock", "s", "t"),
        ("close", "--json=yes", "s"),
    ],
    ids=" ".join,
)
def test_invalid_command_line_is_reported_by_the_application(arguments: tuple[str, ...]) -> None:
    assert run_frequent(list(arguments)) is None
    result = ptyctl(*arguments)
    assert result.code == 2
    assert is_one_line(result.err)


def test_task_of_environment_holds_the_lock(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_TASK", "night")
    session = open_local()
    assert ptyctl("lock", session).out == "locked by: night\n"
    assert ptyctl("lock", session, "--task=day").code == 4
    assert ptyctl("unlock", session).out == "not locked\n"
