"""The descriptors in reserve of a listening socket."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import pytest

from ptyctl.http.listener import RESERVED, Listener


def fail_at_limit(*_: Any) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_reserve_lost_to_other_threads_is_filled_by_the_next_accepted_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with Listener(socket.AF_INET, socket.SOCK_STREAM, encode_refusal=lambda error: error.message.encode()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        for _ in range(2):
            with monkeypatch.context() as limit:
                limit.setattr(socket.socket, "accept", fail_at_limit)
                limit.setattr("ptyctl.http.listener._open_reserve", fail_at_limit)
                for _ in range(RESERVED):
                    with pytest.raises(BlockingIOError):
                        listener.accept()
                with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                    listener.accept()
            with socket.socket() as client:
                client.connect(listener.getsockname())
                listener.accept()[0].close()
