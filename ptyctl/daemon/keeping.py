"""The daemon's side of the keeper: what it is given outlives this process."""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from pathlib import Path

from .place import Place

_PACKET_BYTES = 512
_KEEPER = Path(__file__).with_name("keeper.py")


class Keeper:
    """Holds descriptors by name. It is started when the first one is given; without any it ends with the daemon."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._link = self._connected()

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
            self._link.send(b"drop " + name.encode())

    def kept(self) -> dict[str, int]:
        """All that an earlier daemon has given: duplicates of our own, not inherited by programs."""
        found: dict[str, int] = {}
        if self._link is None:
            return found
        self._link.send(b"list")
        while True:
            name, ancillary, _, _ = self._link.recvmsg(_PACKET_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            if not ancillary:
                return found
            found[name.decode()] = array.array("i", ancillary[0][2][:4])[0]

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _connected(self) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.connect(str(self._place.keeper_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            link.close()
            return None
        return link

    def _start(self) -> None:
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
        keeper.returncode = 0  # it is to live on without us
        self._link = self._connected() if ready else None
        if self._link is None:
            raise OSError(f"the keeper did not start in {self._place.folder}")
