"""What SSH and Telnet share about TCP: timeouts of a connection attempt, and the guard of the right to write.

A guard is for a connection whose right to write can end, as on a console that another process can take over.
"""

from __future__ import annotations

import array
import errno
import fcntl
import re
import socket
import struct
import termios
from asyncio.trsock import TransportSocket
from collections.abc import Callable

#: Size of the kernel's buffer: larger than one write and all unacknowledged segments before it, so that no byte waits in this
#: process, which could send it late. The kernel doubles the value.
BUFFER_BYTES = 131_072
#: Interval at which a guarded connection checks whether the far end has acknowledged all bytes (seconds).
ACKNOWLEDGED_POLL_S = 0.005
#: asyncio reports the errors of several addresses of a host in one text, without an error number.
_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\]")


def is_timeout(error: OSError) -> bool:
    """Return whether no address of the host has answered, by the operating system's own timeout (ETIMEDOUT, connect(2))."""
    if error.errno is not None:
        return error.errno == errno.ETIMEDOUT
    numbers = _ERROR_NUMBER.findall(str(error))
    return bool(numbers) and all(int(number) == errno.ETIMEDOUT for number in numbers)


class OutputGuard:
    """Checks each write to a socket, and bounds how long the kernel tries to deliver one.

    Args:
        tcp: the socket.
        may_send: whether a byte may be sent now.
        delivery_s: after this time without an acknowledgement, or with a closed window, the kernel discards the bytes and ends
            the connection (TCP_USER_TIMEOUT), also while this process is stopped or dead.
    """

    def __init__(self, tcp: socket.socket | TransportSocket, may_send: Callable[[], bool], delivery_s: float) -> None:
        self._tcp = tcp
        self.may_send = may_send
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(delivery_s * 1000)))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)

    def unacknowledged(self) -> int:
        """Return the number of bytes that the far end has not acknowledged (SIOCOUTQ); 0 once the socket is closed."""
        if self._tcp.fileno() < 0:
            return 0
        count = array.array("i", [0])
        fcntl.ioctl(self._tcp.fileno(), termios.TIOCOUTQ, count)
        return count[0]

    def discard_on_close(self) -> None:
        """Have the kernel discard undelivered bytes when the socket is closed."""
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
