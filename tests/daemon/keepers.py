"""The keepers that are up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ptyctl.daemon.runtime_dir import RuntimeDir


def keepers_of(runtime_dir: RuntimeDir) -> list[int]:
    """Who listens at its socket."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if str(runtime_dir.fd_store_socket).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def pid_of_keeper(runtime_dir: RuntimeDir) -> int:
    (pid,) = keepers_of(runtime_dir)
    return pid


def terminals_kept(runtime_dir: RuntimeDir) -> int:
    """How many masters are held."""
    count = 0
    with suppress(OSError):  # it ends just now
        for keeper in keepers_of(runtime_dir):
            held = Path(f"/proc/{keeper}/fd").iterdir()
            count += sum("ptmx" in str(descriptor.readlink()) for descriptor in held)
    return count
