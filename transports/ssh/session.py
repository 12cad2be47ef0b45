"""asyncssh's callbacks for one session channel: bytes go to the receiver as they come, whoever reads or does not."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from transports.channel import ExitStatus
from transports.receiver import Receiver

from .flow import WriteGate

OnEnd = Callable[["Session", Exception | None], None]


class Session(asyncssh.SSHClientSession[bytes]):
    """One terminal, or one plain channel.

    Args:
        has_pty: a terminal is over at end of file, while a plain channel may still take input then.
        on_end: called once when the channel is gone, after the last byte: with the error if the connection broke.
    """

    def __init__(self, receiver: Receiver, gate: WriteGate, has_pty: bool, on_end: OnEnd) -> None:
        self.receiver = receiver
        self._gate = gate
        self._has_pty = has_pty
        self._on_end: OnEnd | None = on_end
        self.exit_status: ExitStatus | None = None
        self.saw_eof = False

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        # Paused as soon as anything has to wait: what waits in asyncssh's buffer is in front of every ctrl_c.
        chan.set_write_buffer_limits(high=0)

    def detach(self) -> None:
        """Tells of no end: the open failed, so there is no channel that could end."""
        self._on_end = None

    def data_received(self, data: bytes, datatype: int | None) -> None:
        # stderr (RFC 4254 5.2) goes the same way: a terminal has one stream.
        if self._on_end is not None:
            self.receiver.data_received(data)

    def eof_received(self) -> bool:
        self.saw_eof = True
        return not self._has_pty

    def pause_writing(self) -> None:
        self._gate.pause()

    def resume_writing(self) -> None:
        self._gate.resume()

    def exit_status_received(self, status: int) -> None:
        self.exit_status = ExitStatus(code=status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.exit_status = ExitStatus(signal=signal)

    def connection_lost(self, exc: Exception | None) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self, exc)
