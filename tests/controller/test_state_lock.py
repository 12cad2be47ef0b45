"""One server owns a state directory; a console is open in one process only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller import recovery
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.session_calls import BASH, refused

CONSOLE = {"protocol": "local", "command": BASH, "session_type": "console", "device_id": "sw1"}


async def test_second_server_of_state_directory_is_refused_with_name_of_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_LOCK_WAIT_S", 0.1)
    async with LocalController(persistent=True):
        with refused(ErrorCode.BUSY, f"process {os.getpid()} (", "PTYCTL_STATE_DIR"):
            await LocalController(persistent=True).__aenter__()
    async with LocalController(persistent=True) as third:
        assert not third.has_sessions()


async def test_console_of_another_process_is_busy_and_not_opened_twice() -> None:
    async with LocalController() as one, LocalController() as two:
        opened = await SessionHandle.open(one, **CONSOLE)
        with refused(ErrorCode.BUSY, opened.session_id, f"process {os.getpid()}"):
            await SessionHandle.open(two, **CONSOLE)
        await opened.close()
        await (await SessionHandle.open(two, **CONSOLE)).close()


async def test_server_starts_with_unusable_state_directory(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    async with LocalController(Settings(state_dir=tmp_path / "state"), persistent=True) as controller:
        with pytest.raises(PtyctlError, match="others can read"):
            await SessionHandle.open(controller, **CONSOLE)
