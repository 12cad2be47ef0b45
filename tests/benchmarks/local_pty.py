"""A process on a PTY with nothing around it: the floor of what a local session can be."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def bare_pty(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[int]:
    """The master's file descriptor, blocking; the process is ended and reaped afterwards."""
    master, slave = os.openpty()
    environment = {**os.environ, **(env or {})}
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment)
    os.close(slave)
    try:
        yield master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def read_to_eof(master: int) -> int:
    """How many bytes come until the last slave is closed, which Linux tells by EIO."""
    size = 0
    try:
        while data := os.read(master, 65536):
            size += len(data)
    except OSError:
        pass
    return size


def read_until_ends(master: int, end: bytes) -> bytes:
    """Everything up to and with `end`, at the end of what has arrived."""
    seen = b""
    while not seen.endswith(end):
        seen += os.read(master, 65536)
    return seen
