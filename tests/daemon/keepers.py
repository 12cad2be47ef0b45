"""The keepers that are up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ptyctl.daemon.place import Place


def keepers_of(place: Place) -> list[int]:
    """Who listens at its socket."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if str(place.keeper_socket).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def pid_of_keeper(place: Place) -> int:
    (pid,) = keepers_of(place)
    return pid


def terminals_kept(place: Place) -> int:
    """How many masters are held."""
    count = 0
    with suppress(OSError):  # it ends just now
        for keeper in keepers_of(place):
            held = Path(f"/proc/{keeper}/fd").iterdir()
            count += sum("ptmx" in str(descriptor.readlink()) for descriptor in held)
    return count
