"""The daemon's side of the keeper: what it is given outlives this process."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .peer import peer
from .place import NoPlace, Place

#: It answers at once, unless somebody has stopped it.
PATIENCE_S = 2.0
#: One that has ended is followed by another after this time: should each end at once, it is no busy loop.
_AGAIN_S = 0.2
_PACKET_BYTES = 512
_KEEPER = Path(__file__).with_name("keeper.py")


class Keeper:
    """Holds descriptors by name. It is started when the first one is given; without any it ends with the daemon."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pid = 0
        self._on_end: Callable[[], None] | None = None
        self._link = self._connected()

    @property
    def up(self) -> bool:
        """Whether there is one; what it was given before is lost with it."""
        return self._link is not None

    def watch(self, on_end: Callable[[], None]) -> None:
        """From now on `on_end` is called by the event loop when it has ended, a moment after that."""
        self._on_end = on_end
        self._look_on()

    def keep(self, name: str, descriptor: int) -> None:
        """A duplicate lives on in the keeper, in place of what had that name.

        Raises:
            OSError: there is no keeper to be had; what is not kept ends with this process, and works until then.
        """
        if self._link is None:
            self._start()
        assert self._link is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self._link.sendmsg([b"keep " + name.encode()], rights)

    def drop(self, name: str) -> None:
        if self._link is not None:
            with suppress(OSError):  # it has ended, and holds nothing
                self._link.send(b"drop " + name.encode())

    def kept(self) -> dict[str, int]:
        """All that an earlier daemon has given: duplicates of our own, not inherited by programs.

        Raises:
            NoPlace: the keeper does not answer, and what it holds would be lost if another took its place.
        """
        found: dict[str, int] = {}
        if self._link is None:
            return found
        try:
            self._link.send(b"list")
            while True:
                name, ancillary, _, _ = self._link.recvmsg(_PACKET_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
                if name in (b"", b"-"):
                    return found
                if ancillary:  # without it we are at our limit of descriptors
                    found[name.decode()] = array.array("i", ancillary[0][2][:4])[0]
        except TimeoutError:
            pid = peer(self._link).pid
            raise NoPlace(
                f"the keeper of local programs (process {pid}) does not answer; wake it (kill -CONT {pid}), "
                f"or end it and them with it (kill -9 {pid})"
            ) from None
        except OSError:  # it ends just now, as it held nothing
            return found

    def close(self) -> None:
        if self._link is not None:
            if self._on_end is not None:
                asyncio.get_running_loop().remove_reader(self._link)
            self._link.close()
            self._link = None

    def _look_on(self) -> None:
        """It says nothing unasked: that there is something to read is its end."""
        if self._on_end is not None and self._link is not None:
            asyncio.get_running_loop().add_reader(self._link, self._ended)

    def _ended(self) -> None:
        self.close()
        assert self._on_end is not None
        asyncio.get_running_loop().call_later(_AGAIN_S, self._on_end)

    def _connected(self) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(PATIENCE_S)
        try:
            link.connect(str(self._place.keeper_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            link.close()
            return None
        return link

    def _start(self) -> None:
        if self._pid:
            os.waitpid(self._pid, 0)  # the last one has closed its link, which only its end does
        self._place.keeper_socket.unlink(missing_ok=True)
        environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), str(self._place.keeper_socket)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
        assert keeper.stdout is not None
        with keeper.stdout:
            ready = keeper.stdout.read()
        self._pid, keeper.returncode = keeper.pid, 0  # it is to live on without us
        self._link = self._connected() if ready else None
        if self._link is None:
            raise OSError(f"the keeper did not start in {self._place.folder}")
        self._look_on()
