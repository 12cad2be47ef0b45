"""The reason why a node of a test has ended is shown."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fixtures.forked_process import run_source
from tests.fleet.node_process import NodeProcess


def process(source: str, folder: Path) -> NodeProcess:
    return NodeProcess("a", run_source, (source, ()), folder / "a.log")


async def test_node_that_ended_shows_its_exit_status_and_the_end_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = process("import sys; [print(number, file=sys.stderr) for number in range(100)]; sys.exit('no servers')", tmp_path)
    await node.start()
    await node.wait()
    with pytest.raises(AssertionError, match=r"exit status 1(.|\n)*no servers"):
        node.send(signal.SIGSTOP)
    await node.restart_ended()
    restarted = capsys.readouterr().out
    await node.wait()
    await node.kill()
    for shown in (restarted, capsys.readouterr().out):
        assert shown.startswith("node a ended with exit status 1; the end of its log:\n")
        assert shown.endswith("98\n99\nno servers\n\n")
        assert shown.count("\n") == 22


async def test_node_that_ended_by_a_signal_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = process("import sys; sys.stdin.read()", tmp_path)
    await node.start()
    node.send(signal.SIGTERM)
    await node.wait()
    await node.kill()
    assert "node a ended by SIGTERM" in capsys.readouterr().out


async def test_killed_node_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = process("import sys; sys.stdin.read()", tmp_path)
    await node.start()
    await node.kill()
    await node.kill()
    assert (node.has_ended(), capsys.readouterr().out) == (False, "")
