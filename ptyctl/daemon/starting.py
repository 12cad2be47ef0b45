"""A connection to the daemon, which is started if it is not there: by one process, however many want to at once."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .place import Place

#: The log of the daemons before is kept up to this, and once more beside it as daemon.log.1.
LOG_BYTES = 1 << 20
#: How long a daemon may take until it listens; one that ends meanwhile may need time for its sessions.
START_S = 30.0
#: How a line of the daemon's begins that says why it ends.
SAYS = "ptyctl daemon: "


class NotStarted(Exception):
    """The daemon could not be started; the message holds what it said last."""


def connect(place: Place, *, start: bool = True) -> socket.socket:
    """A connected socket, on which nothing was said yet.

    Raises:
        ConnectionRefusedError: none is there, and none was to be started.
        NotStarted
    """
    found = _try(place)
    if found is not None:
        return found
    if not start:
        raise ConnectionRefusedError(f"no daemon is up in {place.folder}")
    with _locked(place.start_lock):
        found = _try(place)  # another was quicker
        if found is None:
            why = _start(place)
            found = _try(place)  # also where ours has ended because another was up: its starter may have been killed
            if found is None and why is not None:
                raise why
    if found is None:
        raise NotStarted(f"the daemon is up, and does not listen; look at {place.log}")
    return found


def _try(place: Place) -> socket.socket | None:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(str(place.socket))
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        return None
    return link


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _absolute_paths() -> dict[str, str]:
    """The settings that name files: the daemon is in another directory than whoever starts it."""
    names = ("PTYCTL_CONFIG", "PTYCTL_STATE_DIR", "PTYCTL_DEVICES_FILE", "PTYCTL_PLATFORMS_DIR")
    given = {name: path for name in names if (path := os.environ.get(name)) and not path.startswith("~")}
    return {name: str(Path(path).absolute()) for name, path in given.items()}


def _open_log(place: Place) -> int:
    """To append to: what the last daemon said as it died is needed most when the next one has started."""
    with suppress(FileNotFoundError):
        if place.log.stat().st_size > LOG_BYTES:
            place.log.replace(place.log.with_name("daemon.log.1"))
    return os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _start(place: Place) -> NotStarted | None:
    """Starts the daemon and waits until it listens: it then closes its standard output. Returns why it does not."""
    from subprocess import DEVNULL, PIPE, Popen

    log = _open_log(place)
    begin = os.fstat(log).st_size
    environment = {**os.environ, **_absolute_paths(), "PTYCTL_RUNTIME_DIR": str(place.folder)}
    try:
        daemon = Popen(
            [sys.executable, "-m", "ptyctl.daemon"],
            stdin=DEVNULL, stdout=PIPE, stderr=log, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(log)
    assert daemon.stdout is not None
    with daemon.stdout:
        in_time, _, _ = select.select([daemon.stdout], [], [], START_S)
        ready = in_time and daemon.stdout.read()
    if not ready:
        daemon.kill()
        daemon.wait()
        said = place.log.read_bytes()[begin:].decode("utf-8", "replace").strip().splitlines()
        return NotStarted(
            f"the daemon did not start: {said[-1].removeprefix(SAYS) if said else 'it said nothing'}; see {place.log}"
        )
    daemon.returncode = 0  # it lives on without us, and this object must not complain of that
    return None
