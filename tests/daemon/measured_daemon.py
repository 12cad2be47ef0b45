"""A daemon that reports its resources: `run` is its main function, `measure` queries it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from fixtures.daemons import daemon_pid
from ptyctl.daemon import main
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.fd_store_processes import fd_store_pids
from tests.session.scripted_session import wait_until

_REPORT = "measured.json"


@dataclass(frozen=True)
class Holdings:
    """Resources of a daemon.

    Attributes:
        memory: resident memory in bytes.
        descriptors: open files of the daemon and its descriptor store.
        tasks: names of its asyncio tasks.
    """

    memory: int
    descriptors: int
    tasks: list[str]


def run() -> int:
    """Run the daemon. On SIGUSR1 it writes a report into its runtime directory."""
    signal.signal(signal.SIGUSR1, _report)
    return main.run()


async def measure(runtime_dir: RuntimeDir) -> Holdings:
    """Return the resources of the running daemon."""
    pid, report = daemon_pid(runtime_dir), runtime_dir.path / _REPORT
    assert pid is not None
    report.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    await wait_until(report.exists)
    held = Holdings(**json.loads(report.read_text()))
    stores = sum(_count_descriptors(store) for store in fd_store_pids(runtime_dir))
    return Holdings(held.memory, held.descriptors + stores, held.tasks)


def _report(_number: int, _frame: object) -> None:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    tasks = sorted(task.get_name().rstrip("-0123456789abcdef") for task in asyncio.all_tasks())
    held = Holdings(pages * os.sysconf("SC_PAGE_SIZE"), _count_descriptors(os.getpid()), tasks)
    report = RuntimeDir().path / _REPORT
    draft = report.with_suffix(".new")
    draft.write_text(json.dumps(asdict(held)))
    draft.replace(report)


def _count_descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0  # the process has exited
