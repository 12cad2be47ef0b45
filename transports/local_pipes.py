"""A local program without a terminal, on pipes: the channel carries stdout; stderr is a separate stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping

from .caller import umask
from .channel import Pty
from .errors import Unsupported
from .local import READS_PER_CALLBACK, LocalOptions, LocalProgram
from .process import start_process_on_pipes
from .receiver import Receiver, receiver_failed

#: Limit of one `read_stderr`, in reads: a pipe holds at most 1 MiB (Linux pipe(7)), and a program may write continuously.
_STDERR_READS = 64


class LocalPipeChannel(LocalProgram):
    """The channel of a program that has no terminal. It leads a process group, which gets the signals."""

    pty_enabled = False

    def __init__(self, options: LocalOptions) -> None:
        super().__init__(options, Pty(term="dumb"))
        self._stdin = -1
        self._stderr = -1
        self._stderr_receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        await super().open(receiver)
        asyncio.get_running_loop().add_reader(self._stderr, self._read_stderr, READS_PER_CALLBACK)

    def _spawn(self, argv: tuple[str, ...], cwd: str | None, env: Mapping[str, str]) -> None:
        self.pid, self._stdin, self._output, self._stderr = start_process_on_pipes(argv, cwd, env, umask=umask())

    @property
    def _input(self) -> int:
        return self._stdin

    @property
    def enter(self) -> bytes:
        return b"\n"

    def signal_foreground(self, number: signal.Signals) -> bool:
        if not self.pid or self._exited.is_set():
            return False
        self._signal(number)
        return True

    def resize(self, cols: int, rows: int) -> None:
        raise Unsupported("a program without a terminal has no size")

    def receive_stderr(self, receiver: Receiver | None) -> None:
        self._stderr_receiver = receiver

    def read_stderr(self) -> None:
        self._read_stderr(_STDERR_READS)

    def _read_stderr(self, reads: int) -> None:
        receiver = self._stderr_receiver
        for _ in range(reads):
            if self._stderr < 0:
                return
            try:
                buffer = memoryview(bytearray(64 * 1024)) if receiver is None else receiver.get_buffer()
                count = os.readv(self._stderr, [buffer])
            except BlockingIOError:
                return
            except OSError:
                count = 0
            if not count:
                self._close_stderr()
                return
            if receiver is not None:
                try:
                    receiver.buffer_updated(count)
                except Exception as error:  # noqa: BLE001 - a bug in the receiver
                    self._close_stderr()
                    self._end(receiver_failed(error))

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            asyncio.get_running_loop().remove_reader(self._stderr)
            os.close(self._stderr)
            self._stderr = -1

    def _close_descriptors(self) -> None:
        self.read_stderr()
        self._close_stderr()
        super()._close_descriptors()
        with contextlib.suppress(OSError):
            os.close(self._stdin)
        self._stdin = -1
