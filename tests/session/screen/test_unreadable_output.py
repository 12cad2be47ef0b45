"""Background work of the screen when its output cannot be read: the session continues, and the reason is logged."""

from __future__ import annotations

import errno
import os

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.io.errors import OPEN_FILE_LIMITS, log_background_error
from ptyctl.session.screen import screen as screen_module
from ptyctl.session.screen.output_source import OutputSource
from ptyctl.session.screen.terminal_queries import FLOOD_BYTES
from tests.session.conftest import Connect
from tests.session.scripted_session import wait_until

WHY = os.strerror(errno.EIO)


@pytest.mark.parametrize(
    ("output", "work"),
    [
        (b"text\r\n" * 1000, "drawing the screen"),
        (b"\x1b[6n", "replying to terminal queries"),
        (b"\x1b[6n".rjust(FLOOD_BYTES), "searching output for terminal queries"),
    ],
    ids=["catch_up", "query", "query_after_flood"],
)
async def test_failed_background_read_is_logged_with_the_reason(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, output: bytes, work: str
) -> None:
    def fail(source: OutputSource, begin: int, end: int) -> bytes:
        raise OSError(errno.EIO, WHY)

    monkeypatch.setattr(OutputSource, "read", fail)
    monkeypatch.setattr(screen_module, "FAR_BEHIND_BYTES", 1000)
    monkeypatch.setattr(screen_module, "OUTPUT_PAUSE_S", 0.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(output)
    session.stream.flush()
    await wait_until(lambda: (work, WHY) in [(getattr(row, "work", ""), getattr(row, "why", "")) for row in caplog.records])
    assert session.state == "open"


@pytest.mark.parametrize("code", OPEN_FILE_LIMITS)
def test_limit_of_open_files_in_background_work_is_not_logged(caplog: pytest.LogCaptureFixture, code: int) -> None:
    log_background_error(OSError(code, os.strerror(code)), "drawing the screen")
    assert not caplog.records
