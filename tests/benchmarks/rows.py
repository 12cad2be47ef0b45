"""All rows, and how one is run: in a process and with folders of its own, so that no row finds what another has left."""

from __future__ import annotations

import asyncio
import os
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from . import (
    blocks_search,
    daemon_crowd,
    exec_forty,
    exec_local,
    exec_ssh,
    exec_telnet,
    idle_sessions,
    ingest_local,
    ingest_ssh,
    ingest_telnet,
    screen_model,
    screen_unseen,
    shim_ready,
    tool_call,
    wait_for,
)
from .contest import Plan, Result, Unavailable
from .table import Row

ROWS = (
    exec_telnet.ROW,
    exec_forty.ROW,
    exec_ssh.ROW,
    exec_local.ROW,
    ingest_local.ROW,
    ingest_ssh.ROW,
    ingest_telnet.ROW,
    *screen_model.ROWS,
    *screen_unseen.ROWS,
    *wait_for.ROWS,
    blocks_search.ROW,
    *tool_call.ROWS,
    shim_ready.ROW,
    *daemon_crowd.ROWS,
    *idle_sessions.ROWS,
)


def run(row: Row, plan: Plan) -> Result:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (row.key, plan))


def _run(key: str, plan: Plan) -> Result:
    os.sync()  # what the row before has written would otherwise be written back during this one
    row = next(row for row in ROWS if row.key == key)
    with TemporaryDirectory(prefix="ptyctl-bench-") as folder:
        _hermetic(Path(folder))
        try:
            return asyncio.run(row.run(plan))
        except Unavailable as error:
            return Result(missing={"server": str(error)})


def _hermetic(folder: Path) -> None:
    """Nothing of the user's own set-up is measured, and nothing is left behind."""
    for name in ("PROMPT_COMMAND", "BASH_ENV", "ENV", "SSH_AUTH_SOCK", "PTYCTL_CONFIG"):
        os.environ.pop(name, None)
    os.environ["HOME"] = str(folder)
    os.environ["PTYCTL_STATE_DIR"] = str(folder / "state")
    os.environ["PTYCTL_RUNTIME_DIR"] = str(folder / "run")
