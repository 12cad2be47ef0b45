"""Processes of descriptor stores."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ptyctl.daemon.runtime_dir import RuntimeDir


def fd_store_pids(runtime_dir: RuntimeDir) -> list[int]:
    """Return the pids of the stores that listen in this runtime directory."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has exited
            if str(runtime_dir.fd_store_socket).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def fd_store_pid(runtime_dir: RuntimeDir) -> int:
    (pid,) = fd_store_pids(runtime_dir)
    return pid


def count_stored_terminals(runtime_dir: RuntimeDir) -> int:
    """Return the number of stored PTY masters."""
    count = 0
    with suppress(OSError):  # it is exiting
        for pid in fd_store_pids(runtime_dir):
            held = Path(f"/proc/{pid}/fd").iterdir()
            count += sum("ptmx" in str(descriptor.readlink()) for descriptor in held)
    return count
