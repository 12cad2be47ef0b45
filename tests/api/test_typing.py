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
#: Each of them is an error, and the example program has none.
ALL_WRONG = {("wrong.py", line) for line in range(7, 20)}


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def test_mypy_accepts_example_program_and_reports_all_wrong_calls(wrong: Path) -> None:
    output = run("mypy", str(EXAMPLE), str(wrong))  # strict, and with the cache of `make check`
    faults = [line.split(":", 2) for line in output.splitlines() if ": error: " in line]
    assert {(Path(file).name, int(line)) for file, line, _ in faults} == ALL_WRONG


def test_pyright_accepts_example_program_and_reports_all_wrong_calls(wrong: Path) -> None:
    found = json.loads(run("basedpyright", "--outputjson", str(EXAMPLE), str(wrong)))["generalDiagnostics"]
    assert {
        (Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in found if item["severity"] == "error"
    } == ALL_WRONG
    assert [item for item in found if Path(item["file"]).name == EXAMPLE.name] == []
