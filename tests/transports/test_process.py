"""More open files for us, and as many as before for the programs that we start."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from transports import process
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions
from transports.receiver import QueueReceiver


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A soft limit below the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(process, "_original_file_limits", [])
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    yield before[1] - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_started_program_has_original_open_file_limit(few: int) -> None:
    process.raise_open_file_limit()
    process.raise_open_file_limit()  # a second time changes nothing
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few + 1
    program = ("sh", "-c", "read line; echo =$(ulimit -S -n)=")
    channel, receiver = LocalChannel(LocalOptions(argv=program), Pty()), QueueReceiver()
    await channel.open(receiver)
    channel.write(b"\r")
    seen = b""
    while seen.count(b"=") < 2:
        seen += await receiver.receive()
    assert f"={few}=".encode() in seen
    await channel.close(force=True)
