"""The Python library's types: mypy and pyright accept the example program, and report wrong calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "library.py"


#: Each line is one wrong call or wrong use of a reply.
WRONG = """
from ptyctl import connect, open_session
from ptyctl.api.handle import SessionHandle


async def main(session: SessionHandle) -> None:
    open_session(protocl="ssh")
    open_session(protocol="rlogin")
    open_session(port="22")
    connect(begin=True)
    await session.exec("id", timeout="5")
    await session.exec(["id"])
    await session.read(until=3)
    await session.lock(wait_ms="long")
    (await session.write("x")).chunk
    (await session.read()).rows
    (await session.status()).sessions
    (await session.screen()).rows.strip()
    (await session.lock()).lock_expires_at.upper()
"""
FIRST_WRONG, LAST_WRONG = 7, 19


def run_mypy(*files: Path) -> str:
    return run("mypy", "--strict", "--no-incremental", "--follow-imports=silent", *map(str, files))


def run_pyright(*files: Path) -> str:
    return run("basedpyright", "--outputjson", *map(str, files))


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def test_mypy_example_program_has_no_errors() -> None:
    assert run_mypy(EXAMPLE).startswith("Success")


def test_pyright_example_program_has_no_errors() -> None:
    assert json.loads(run_pyright(EXAMPLE))["generalDiagnostics"] == []


def test_mypy_wrong_calls_are_all_reported(wrong: Path) -> None:
    lines = {int(line.split(":")[1]) for line in run_mypy(wrong).splitlines() if ": error: " in line}
    assert lines == set(range(FIRST_WRONG, LAST_WRONG + 1))


def test_pyright_wrong_calls_are_all_reported(wrong: Path) -> None:
    found = json.loads(run_pyright(wrong))["generalDiagnostics"]
    lines = {item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"}
    assert lines == set(range(FIRST_WRONG, LAST_WRONG + 1))
