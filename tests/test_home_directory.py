"""The end of the processes that use the home directory of a fixture."""

from __future__ import annotations

import errno
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.home import create_home, wait_until_unused
from fixtures.processes import words_of

PATIENCE_S = 60.0
#: Writes to its home after the end of its input, as a shell writes its history after the end of its connection.
LATE_WRITER = "echo ready; read line; echo late > $HOME/history"


def start_late_writer(home: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["sh", "-c", LATE_WRITER], env={**os.environ, "HOME": str(home)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_home_is_unused_once_its_last_process_has_written_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = create_home(tmp_path / "home"), create_home(tmp_path / "home2")
    wait = select.select

    def end_input_and_wait(*arguments: Any) -> Any:
        assert process.stdin is not None
        process.stdin.close()
        return wait(*arguments)

    monkeypatch.setattr(select, "select", end_input_and_wait)
    with start_late_writer(home) as process, start_late_writer(other):
        wait_until_unused(home, PATIENCE_S)
        assert (home / "history").read_text() == "late\n"
        assert not (other / "history").exists()


def test_process_that_ends_while_it_is_read_has_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_of_ended_process(path: Path) -> bytes:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    assert words_of(os.getpid(), "cmdline")
    monkeypatch.setattr(Path, "read_bytes", read_of_ended_process)
    assert words_of(os.getpid(), "cmdline") == []


def test_process_that_still_uses_a_home_is_named(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home")
    with (
        start_late_writer(home) as process,
        pytest.raises(AssertionError, match=f"process {process.pid} still uses .*echo late"),
    ):
        wait_until_unused(home, 0)
