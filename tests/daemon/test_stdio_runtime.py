"""The relay of a program that serves its parent process on pipes."""

from __future__ import annotations

import os
import select
import socket
import threading

from ptyctl.daemon.stdio_runtime import _relay


def test_calls_are_relayed_while_the_client_does_not_read_the_replies() -> None:
    link, daemon = socket.socketpair()
    daemon.settimeout(30)
    calls, send_calls = os.pipe()
    replies, send_replies = os.pipe()
    relay = threading.Thread(target=_relay, args=(link, calls, send_replies), daemon=True)
    relay.start()
    with link, daemon:
        daemon.sendall(b"x" * 128 * 1024)  # more than the pipe holds
        assert select.select([replies], [], [], 30)[0]
        os.write(send_calls, b"call")
        assert daemon.recv(100) == b"call"
        os.close(send_calls)
        assert daemon.recv(100) == b""
        received = 0
        while received < 128 * 1024:
            received += len(os.read(replies, 65536))
        relay.join(30)
    assert not relay.is_alive()
    for descriptor in (calls, replies, send_replies):
        os.close(descriptor)
