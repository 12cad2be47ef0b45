"""The descriptor store: a separate process that holds duplicates of the daemon's PTY masters.

Local shells survive a killed daemon because their masters stay open here. The store never reads or writes them. It runs as a
script, `python -I -S fd_store_server.py SOCKET`, and imports only three C modules to stay small.

A daemon sends packets: `keep NAME` with a descriptor, `drop NAME`, `list`, and `bind` after the socket file was deleted.
`list` is answered by one packet `NAME` with its descriptor for each entry, and `-` at the end. The process exits when it holds
nothing and no daemon is connected.
"""

import _socket
import posix
import sys

#: The longest packet, in either direction.
PACKET_BYTES = 512
#: Payload of the SCM_RIGHTS control message: one int.
_INT_BYTES = 4
_SO_PEERCRED = 17


class Store:
    """The held descriptors and the listening socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: dict[bytes, int] = {}
        self._listener = _listen(path)

    def serve(self) -> None:
        """Serve one daemon at a time until the store is empty and its daemon has disconnected."""
        while True:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # the C base of socket.socket.accept
            daemon = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
            if _is_own_user(daemon):
                self._serve_daemon(daemon)
            daemon.close()
            if not self._held:
                self._unlink()
                return

    def _unlink(self) -> None:
        try:
            posix.unlink(self._path)
        except OSError:  # deleted already
            return

    def _serve_daemon(self, daemon: _socket.socket) -> None:
        """Process packets until the daemon disconnects, possibly while it receives an answer."""
        try:
            while True:
                packet, ancillary, _, _ = daemon.recvmsg(PACKET_BYTES, _socket.CMSG_SPACE(_INT_BYTES))
                if not packet:
                    return
                self._process(daemon, packet, ancillary)
        except OSError:
            return

    def _process(self, daemon: _socket.socket, packet: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        command, _, name = packet.partition(b" ")
        if command == b"list":
            _send_all(daemon, self._held)
            return
        if command == b"bind":
            self._listener = _listen(self._path)
            return
        if name in self._held:
            posix.close(self._held.pop(name))
        if command == b"keep" and ancillary:  # the kernel omits the descriptor if this process is at RLIMIT_NOFILE
            self._held[name] = int.from_bytes(ancillary[0][2], sys.byteorder)


def _is_own_user(daemon: _socket.socket) -> bool:
    """Return whether the peer's process has this process's user (struct ucred: pid, uid, gid; unix(7), SO_PEERCRED)."""
    credentials = daemon.getsockopt(_socket.SOL_SOCKET, _SO_PEERCRED, 3 * _INT_BYTES)
    return int.from_bytes(credentials[_INT_BYTES : 2 * _INT_BYTES], sys.byteorder) == posix.geteuid()


def _listen(path: str) -> _socket.socket:
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(8)
    return listener


def main(path: str) -> None:
    """Serve daemons at this socket."""
    posix.umask(0o177)
    store = Store(path)
    posix.write(1, b"ready")
    posix.close(1)
    store.serve()


def _send_all(daemon: _socket.socket, held: dict[bytes, int]) -> None:
    for name, descriptor in held.items():
        data = descriptor.to_bytes(_INT_BYTES, sys.byteorder)
        daemon.sendmsg([name], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)])
    daemon.send(b"-")


if __name__ == "__main__":
    main(sys.argv[1])
