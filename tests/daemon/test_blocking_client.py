"""`BlockingClient`: requests and replies over one connection, also of a signal handler."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ptyctl.daemon.control import BlockingClient
from ptyctl.daemon.runtime_dir import RuntimeDir


class InterruptedLink:
    """A socket; SIGINT arrives while the first request is sent, after its last byte."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._was_interrupted = False

    def sendall(self, data: bytes) -> None:
        self._link.sendall(data)
        if not self._was_interrupted:
            self._was_interrupted = True
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        self._link.close()


@contextmanager
def handler_of_sigint(handler: Any) -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def test_call_gets_its_own_reply_if_a_signal_handler_sends_a_request_meanwhile(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    with BlockingClient(runtime_dir) as client:
        monkeypatch.setattr(client, "_link", InterruptedLink(client._link))
        with handler_of_sigint(lambda *_: sent.append(client.send("ptyctl_session", {"action": "unknown"}))):
            reply = client.call("ptyctl_session", {"action": "list"})
    assert (reply["sessions"], sent) == ([], [2])
