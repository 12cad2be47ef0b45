"""A session's display: its screen, the recording of screen changes, and replies to terminal queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptyctl.session.io.gate import Gate
from ptyctl.session.io.output_stream import OutputNotPersisted, OutputStream, SpoolFlushed
from transports.channel import Channel

from .checkpoints import Checkpoints
from .deltas import Deltas
from .output_source import OutputSource
from .screen import Screen
from .terminal_queries import QueryListener, QueryResponder


class Display:
    """Everything of a session that shows its screen.

    Attributes:
        source: the output as the screen reads it.
        screen: the current screen.
        deltas: the recording of its changes.
    """

    def __init__(
        self,
        folder: Path,
        stream: OutputStream,
        gate: Gate,
        size: tuple[int, int],
        channel: Callable[[], Channel | None],
        *,
        new: bool,
        conversation_id: str,
        command_unread: Callable[[int], bool],
    ) -> None:
        """Create the display.

        Args:
            size: columns and rows of the terminal when it was opened.
            channel: returns the current channel.
            new: whether the folder was just created.
            command_unread: returns whether a shell had not yet read the current run's command at this raw size of the output.
        """
        self.source = OutputSource(stream.transcript, size)
        self.screen = Screen(self.source, Checkpoints(folder, new=new), recorded=lambda: self.deltas.recording)
        self.deltas = Deltas(folder, self.screen, stream, conversation_id)
        self._responder = QueryResponder(self.screen, gate, stream, channel, command_unread)
        self._queries = QueryListener(self._responder, self.source.tail)
        stream.subscribe_output(self._queries.received)
        stream.subscribe(OutputNotPersisted, lambda event: self.source.add_unpersisted(event.data))
        stream.subscribe(SpoolFlushed, lambda event: self.screen.output_flushed())

    def status_message(self) -> str | None:
        """Return a message about limits of the screen's accuracy or persistence, or None."""
        if self.source.lost:
            return f"{self.source.lost} bytes were neither kept on disk nor drawn in time: rows may be out of date"
        if self.source.kept < self.source.size:
            return f"the disk or the quota is full: output from byte {self.source.kept} on is drawn, but not kept"
        return None

    async def close(self) -> None:
        """Stop all background work. Data on disk can still be read."""
        await self._responder.close()
        await self.deltas.close()
        await self.screen.close()

    def end_writing(self) -> None:
        """Stop writing to the session's folder."""
        self._queries.reset()
        self.screen.end_writing()

    def terminal_replaced(self) -> None:
        """Drop incomplete queries of the previous terminal."""
        self._queries.reset()
