"""Follows whether the far end shows what callers type: text that it does not show is recorded by its length only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.echo_watch import EchoWatch, TypedPiece
from ptyctl.core.secret_masker import ECHO_TIMEOUT_S
from ptyctl.platforms import DeviceProfile

from .terminal_state import TerminalState


class TypedEcho:
    """Divides input into pieces, and decides whether each is shown.

    The terminal driver of this machine reports whether it echoes, and the line editor of a local shell shows its line.
    Elsewhere (SSH, Telnet, programs and commands that read single keys) the output tells, if a terminal echoes at all.
    """

    def __init__(
        self,
        terminal: TerminalState,
        profile: Callable[[], DeviceProfile],
        is_running: Callable[[], bool],
        on_decided: Callable[[Sequence[TypedPiece]], None],
    ) -> None:
        """Create the object.

        Args:
            is_running: whether a command of a run runs in the far end.
            on_decided: is called with pieces whose `shown` was None before.
        """
        self._terminal, self._stream = terminal, terminal.stream
        self._profile, self._is_running = profile, is_running
        self._on_decided = on_decided
        self._watch = EchoWatch(self._is_prompt, lambda line: self._profile().may_ask(line))
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        terminal.stream.watch_with(self)

    def typed(self, data: bytes, *, shown: bool, secret: bool, raw: int) -> list[TypedPiece]:
        """Return the pieces of input that was sent when the output had the size `raw`. `shown`: `is_shown` at that time."""
        if secret or shown:
            return [TypedPiece(data, shown=not secret)]
        stream, now = self._stream, self._loop.time()
        row = stream.read_raw(max(raw - 4096, stream.incarnation_raw), raw)
        pieces = self._watch.typed(data, row[row.rfind(b"\n") + 1 :], now)
        if self._watch.active:
            stream.watch_begun()
            if self._timer is None:
                self._timer = self._loop.call_later(ECHO_TIMEOUT_S, self._expire)
        if raw < stream.raw_size:
            self.received(stream.read_raw(raw, stream.raw_size))
        return pieces

    def is_shown(self) -> bool:
        """Return whether text that is typed now is certainly shown, or is not for a terminal."""
        terminal = self._terminal
        if not terminal.expects_prompt:
            return True
        if not terminal.echo_is_known():
            return False
        if terminal.reads_lines():
            return True
        # `read -s` is a command of the shell; a line editor has bracketed paste on
        runs_command = self._is_running() or self._stream.command_begun or BRACKETED_PASTE not in self._stream.terminal_modes
        return not runs_command and terminal.foreground_shell() is not None

    @property
    def active(self) -> bool:
        """Whether output is to be examined."""
        return self._watch.active

    def received(self, data: bytes) -> None:
        """Examine output before it is stored."""
        self._watch.received(data, self._terminal.width(), self._loop.time())
        self._publish()

    def close(self) -> None:
        """Decide that all undecided text is hidden."""
        self._watch.give_up()
        self._publish()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self._watch.expire(self._loop.time())
        self._publish()
        if self._watch.active:
            self._timer = self._loop.call_later(1.0, self._expire)
        else:
            self._stream.release_held()

    def _publish(self) -> None:
        for secret in self._watch.take_secrets():
            self._stream.remember_secret(secret)
        if decided := self._watch.take_decided():
            self._on_decided(decided)

    def _is_prompt(self, line: str) -> bool:
        return bool(line.strip()) and (line == self._terminal.learned_prompt or self._profile().is_prompt(line))
