"""Who the kernel says is on the other end of a Unix socket (SO_PEERCRED, Linux unix(7))."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple


class Peer(NamedTuple):
    """As it was when it connected; of a listener, when it began to listen."""

    pid: int
    uid: int
    gid: int


def peer(link: socket.socket) -> Peer:
    return Peer(*struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))))
