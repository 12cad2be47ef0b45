"""What a session has of a screen: the screen, the recording of its changes, and the answers to what programs ask of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptyctl.session.line.gate import Gate
from ptyctl.session.line.stream import Stream
from transports.channel import Channel

from .answers import Answers
from .checkpoints import Checkpoints
from .deltas import Deltas
from .screen import Screen
from .source import ScreenSource


class Display:
    """`size` is the terminal's, columns and rows, when it was opened; `new` says that its folder was made just now.

    `attached_terminals` counts those of persons, through which all output passes: they answer queries by themselves.
    `unread`: see Run.
    """

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        gate: Gate,
        size: tuple[int, int],
        channel: Callable[[], Channel | None],
        *,
        new: bool,
    ) -> None:
        self.attached_terminals = 0
        self.unread: Callable[[int], bool] = lambda raw: False
        self._stream = stream
        self._channel = channel
        self.source = ScreenSource(stream.transcript, size)
        self.screen = Screen(self.source, Checkpoints(folder, new=new))
        self.deltas = Deltas(folder, self.screen, stream)
        self.screen.watched = lambda: self.deltas.recording
        self._answers = Answers(self.screen, gate, self)
        stream.queries.tail = self.source.tail
        stream.queries.on_begin = self._answers.may_be_asked
        stream.queries.on_heard = self._answers.heard
        stream.on_unkept = self.source.unkept
        stream.on_flush = self.screen.flushed

    def told(self) -> str | None:
        """What a reader of the screen should know of it."""
        if self.source.lost:
            return f"{self.source.lost} bytes were neither kept on disk nor drawn in time: rows may be out of date"
        if self.source.kept < self.source.end:
            return f"the disk or the quota is full: what came from byte {self.source.kept} on is drawn, and not kept"
        return None

    async def close(self) -> None:
        """Ends all that is done on its own; what is on disk can still be looked at."""
        await self._answers.close()
        await self.deltas.close()
        await self.screen.close()

    def end_writing(self) -> None:
        """From now on nothing of the session's folder changes."""
        self.screen.end_writing()

    def may_answer(self) -> bool:
        """Whether queries are the session's to answer."""
        channel = self._channel()
        return channel is not None and channel.pty_enabled and not self.attached_terminals

    def takes_lines(self) -> bool | None:
        """Whether no program reads single keys now; None where unknown."""
        channel = self._channel()
        return None if channel is None else channel.canonical

    def ended_since(self, raw: int) -> bool:
        """Whether, behind that offset, the shell has told that it is in front again, or a command was typed: a line editor that
        has asked at its prompt reads no more then, and the program would get the answer. Or a command was not yet read."""
        return max(self._stream.run_ended_at, self._stream.run_typed_at) >= raw or self.unread(raw)
