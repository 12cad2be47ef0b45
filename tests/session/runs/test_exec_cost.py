"""The Python calls of one exec, which depend less on the machine and its load than time does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ptyctl
from transports.local import LocalChannel

_PACKAGE = str(Path(ptyctl.__file__).parent)
#: Largest number of calls within the package. In November 2026 an exec made 397 to 400, and a few more on a busy machine.
_LOCAL_CALLS = 420
_write = LocalChannel.write


def write_and_wait(channel: LocalChannel, data: bytes) -> int:
    """Write input, and wait in the event loop until the program has handled it, so that its output arrives in one piece."""
    before = channel.wakeups()
    size = _write(channel, data)
    deadline = time.monotonic() + 30
    while channel.wakeups() == before or not channel.input_is_read():
        assert time.monotonic() < deadline
        os.sched_yield()
    return size


async def test_exec_in_local_shell_makes_bounded_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalChannel, "write", write_and_wait)
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(_PACKAGE)

    counts = []
    async with ptyctl.open_session(protocol="local", command=["bash", "--norc", "--noprofile"]) as session:
        for _ in range(60):
            calls = 0
            sys.setprofile(count)
            try:
                reply = await session.exec("echo hi")
            finally:
                sys.setprofile(None)
            assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
            counts.append(calls)
    assert min(counts) <= _LOCAL_CALLS, counts  # some execs also make a regular check of the session
