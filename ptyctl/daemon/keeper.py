"""The keeper: holds duplicates of the daemon's PTY masters, so that local shells live on when the daemon is killed.

It never reads or writes what it holds, and knows nothing else. It is run by itself, `python -I -S keeper.py SOCKET`, and with
three modules of C it stays small. A daemon speaks to it in packets: `keep NAME` with a descriptor, `drop NAME`, and `list`,
which is answered by a packet `NAME` with its descriptor for each, and `-` at the end. It ends when it holds nothing
and no daemon is connected.
"""

import _socket
import posix
import sys

_PACKET_BYTES = 512
#: struct cmsghdr on 64-bit Linux: its length (8), level (4) and type (4), then one int.
_DESCRIPTOR_BYTES = 4


def main(path: str) -> None:
    """Serves one daemon after the other; the next one is taken when the last has gone."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    posix.umask(0o177)
    listener.bind(path)
    listener.listen(8)
    posix.write(1, b"ready")
    posix.close(1)
    held: dict[bytes, int] = {}
    while True:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # what socket.socket.accept is made of
        daemon = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
        _serve(daemon, held)
        daemon.close()
        if not held:
            posix.unlink(path)
            return


def _serve(daemon: _socket.socket, held: dict[bytes, int]) -> None:
    """Does what one daemon says, until it is gone; that may be in the middle of an answer."""
    try:
        while True:
            packet, ancillary, _, _ = daemon.recvmsg(_PACKET_BYTES, _socket.CMSG_SPACE(_DESCRIPTOR_BYTES))
            if not packet:
                return
            _obey(daemon, held, packet, ancillary)
    except OSError:
        return


def _obey(daemon: _socket.socket, held: dict[bytes, int], packet: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
    order, _, name = packet.partition(b" ")
    if order == b"list":
        _list(daemon, held)
        return
    if name in held:
        posix.close(held.pop(name))
    if order == b"keep" and ancillary:  # at our limit of descriptors the kernel leaves it out
        held[name] = int.from_bytes(ancillary[0][2], sys.byteorder)


def _list(daemon: _socket.socket, held: dict[bytes, int]) -> None:
    for name, descriptor in held.items():
        data = descriptor.to_bytes(_DESCRIPTOR_BYTES, sys.byteorder)
        daemon.sendmsg([name], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)])
    daemon.send(b"-")


if __name__ == "__main__":
    main(sys.argv[1])
