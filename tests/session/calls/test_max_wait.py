"""The longest wait of a call: it returns before its client gives up."""

from __future__ import annotations

import pytest

from fixtures.memory_channel import MemoryChannel
from tests.session.conftest import Connect
from tests.session.scripted_session import read_from, run_command


async def test_read_and_exec_with_long_timeout_return_within_max_wait(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.calls.exec.MAX_WAIT_MS", 100)
    monkeypatch.setattr("ptyctl.session.calls.read.MAX_WAIT_MS", 100)
    session = await connect(MemoryChannel())
    assert (await read_from(session.stream, until_regex="never", timeout_ms=600_000)).timed_out
    assert (await run_command(session, "show clock", timeout_ms=600_000)).timed_out
