"""A Telnet server that sends 64 MB after Enter: `python -m tests.benchmarks.telnet_sender`.

It runs in a separate process, to not slow down the receiver. The first line of its output is its port.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .flood import text

HOST = "127.0.0.1"

#: IAC WILL ECHO, IAC WILL SGA (RFC 857, 858): the first bytes of nearly every device.
GREETING = b"\xff\xfb\x01\xff\xfb\x03"
BANNER = b"ready> "


@contextmanager
def sender() -> Iterator[tuple[str, int]]:
    """Run a sender; yield its host and port."""
    process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.telnet_sender"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            yield HOST, int(process.stdout.readline())
        finally:
            process.kill()
            process.wait()


def _serve(connection: socket.socket, flood: bytes) -> None:
    # A receiver may close before the end, which resets the connection.
    with connection, suppress(ConnectionError):
        connection.sendall(GREETING + BANNER)
        while data := connection.recv(4096):
            if b"\r" in data:
                connection.sendall(flood)
                return


def main() -> None:
    flood = text("\r\n")
    with socket.create_server((HOST, 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, flood), daemon=True).start()


if __name__ == "__main__":
    main()
