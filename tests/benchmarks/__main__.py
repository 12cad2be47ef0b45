"""Runs the rows and prints the table."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console

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
from .table import Row, show

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

QUICK = Plan(turns=3, calls=20, seconds=0.1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(row.key for row in ROWS)} (all of them)")
    parser.add_argument("--quick", action="store_true", help="few turns: to see that it runs, not how fast")
    return parser.parse_args()


def _hermetic(folder: Path) -> None:
    """Nothing of the user's own set-up is measured, and nothing is left behind."""
    for name in ("PROMPT_COMMAND", "BASH_ENV", "ENV", "SSH_AUTH_SOCK", "PTYCTL_CONFIG"):
        os.environ.pop(name, None)
    os.environ["HOME"] = str(folder)
    os.environ["PTYCTL_STATE_DIR"] = str(folder / "state")
    os.environ["PTYCTL_RUNTIME_DIR"] = str(folder / "run")


async def _run(rows: list[Row], plan: Plan, console: Console) -> list[tuple[Row, Result]]:
    results = []
    for row in rows:
        with console.status(row.work):
            try:
                result = await row.run(plan)
            except Unavailable as error:
                result = Result(missing={"server": str(error)})
        results.append((row, result))
    return results


def main() -> None:
    arguments = _arguments()
    rows = [row for row in ROWS if not arguments.rows or any(wanted in row.key for wanted in arguments.rows)]
    # Into a file or a pipe the table is as wide as it needs to be.
    console = Console() if sys.stdout.isatty() else Console(width=180)
    with tempfile.TemporaryDirectory(prefix="ptyctl-bench-") as folder:
        _hermetic(Path(folder))
        results = asyncio.run(_run(rows, QUICK if arguments.quick else Plan(), console))
    show(results, console)


main()
