"""The list of rows. Each runs in a separate process with temporary folders, so that rows do not affect each other."""

from __future__ import annotations

import asyncio
import os
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from . import (
    daemon_load,
    exec_devices,
    exec_shells,
    fleet,
    fleet_growth,
    hostile,
    idle_sessions,
    ingest,
    large_outputs,
    mcp_server,
    policy,
    screen,
    search,
    web,
    web_page,
)
from .measurement import Plan, Result, Unavailable
from .table import Row

ROWS = (
    exec_devices.TELNET_ROW,
    exec_devices.FORTY_ROW,
    exec_devices.SWITCH_ROW,
    exec_devices.SWITCH_FORTY_ROW,
    exec_shells.SSH_ROW,
    exec_shells.LOCAL_ROW,
    *policy.ROWS,
    ingest.LOCAL_ROW,
    ingest.SSH_ROW,
    ingest.TELNET_ROW,
    *large_outputs.ROWS,
    *screen.MODEL_ROWS,
    *screen.SESSION_ROWS,
    *search.WAIT_ROWS,
    search.BLOCKS_ROW,
    *mcp_server.TOOL_ROWS,
    mcp_server.READY_ROW,
    *daemon_load.ROWS,
    *hostile.ROWS,
    *web.ROWS,
    *web_page.ROWS,
    *idle_sessions.ROWS,
    *fleet.ROWS,
    *fleet_growth.ROWS,
)


def run(row: Row, plan: Plan) -> Result:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (row.key, plan))


def _run(key: str, plan: Plan) -> Result:
    os.sync()  # otherwise the kernel writes the files of the previous row to disk during this one
    row = next(row for row in ROWS if row.key == key)
    with TemporaryDirectory(prefix="ptyctl-bench-") as folder:
        _hermetic(Path(folder))
        try:
            return asyncio.run(row.run(plan))
        except Unavailable as error:
            return Result(missing={"server": str(error)})


def _hermetic(folder: Path) -> None:
    """Replace the user's environment: configuration is not read, and files are written only to `folder`."""
    for name in ("PROMPT_COMMAND", "BASH_ENV", "ENV", "SSH_AUTH_SOCK", "PTYCTL_CONFIG"):
        os.environ.pop(name, None)
    os.environ["HOME"] = str(folder)
    os.environ["PTYCTL_STATE_DIR"] = str(folder / "state")
    os.environ["PTYCTL_RUNTIME_DIR"] = str(folder / "run")
