"""The descriptor store: a separate process that holds duplicates of the daemon's PTY masters.

Local shells survive a killed daemon because their masters stay open here. The store never reads or writes them. It runs as a
script, `python -I -S fd_store_server.py SOCKET`, and imports only three C modules to stay small.

A daemon sends packets: `keep NAME` with a descriptor, `drop NAME`, and `list`. `list` is answered by one packet `NAME` with its
descriptor for each entry, and `-` at the end. The process exits when it holds nothing and no daemon is connected.
"""

import _socket
import posix
import sys

_PACKET_BYTES = 512
#: Payload of the SCM_RIGHTS control message: one int.
_DESCRIPTOR_BYTES = 4


def main(path: str) -> None:
    """Serve one daemon at a time until the store is empty and its daemon has disconnected."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    posix.umask(0o177)
    listener.bind(path)
    listener.listen(8)
    posix.write(1, b"ready")
    posix.close(1)
    held: dict[bytes, int] = {}
    while True:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # the C base of socket.socket.accept
        daemon = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
        _serve(daemon, held)
        daemon.close()
        if not held:
            posix.unlink(path)
            return


def _serve(daemon: _socket.socket, held: dict[bytes, int]) -> None:
    """Process packets until the daemon disconnects, possibly while it receives an answer."""
    try:
        while True:
            packet, ancillary, _, _ = daemon.recvmsg(_PACKET_BYTES, _socket.CMSG_SPACE(_DESCRIPTOR_BYTES))
            if not packet:
                return
            _process(daemon, held, packet, ancillary)
    except OSError:
        return


def _process(daemon: _socket.socket, held: dict[bytes, int], packet: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
    command, _, name = packet.partition(b" ")
    if command == b"list":
        _send_all(daemon, held)
        return
    if name in held:
        posix.close(held.pop(name))
    if command == b"keep" and ancillary:  # the kernel omits the descriptor if this process is at RLIMIT_NOFILE
        held[name] = int.from_bytes(ancillary[0][2], sys.byteorder)


def _send_all(daemon: _socket.socket, held: dict[bytes, int]) -> None:
    for name, descriptor in held.items():
        data = descriptor.to_bytes(_DESCRIPTOR_BYTES, sys.byteorder)
        daemon.sendmsg([name], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)])
    daemon.send(b"-")


if __name__ == "__main__":
    main(sys.argv[1])
