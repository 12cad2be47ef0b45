"""The limit on open files: raised for this process, restored for started programs."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fixtures.receiver import RecordingReceiver
from transports import process
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the soft limit one below the hard limit; return it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(process, "_original_file_limits", [])
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    yield before[1] - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_started_program_has_original_open_file_limit(low_limit: int) -> None:
    process.raise_open_file_limit()
    process.raise_open_file_limit()  # a second call has no effect
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == low_limit + 1
    program = ("sh", "-c", "read line; echo =$(ulimit -S -n)=")
    channel, receiver = LocalChannel(LocalOptions(argv=program), Pty()), RecordingReceiver()
    await channel.open(receiver)
    channel.write(b"\r")
    seen = b""
    while seen.count(b"=") < 2:
        seen += await receiver.receive()
    assert f"={low_limit}=".encode() in seen
    await channel.close(force=True)


def test_wakeups_include_those_of_other_threads() -> None:
    lines = "[print(line, end='', flush=True) for line in sys.stdin]"
    echo = f"import sys, threading; threading.Thread(target=lambda: {lines}).start()"
    with subprocess.Popen([sys.executable, "-c", echo], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        counts = []
        for _ in range(100):
            program.stdin.write(b"x\n")
            assert program.stdout.readline() == b"x\n"
            counts.append(process.wakeups(program.pid))
        assert counts[-1] > counts[1]
