"""Escape commands in typed input: `~.` and others at the beginning of a line, as in ssh(1)."""

from __future__ import annotations

from typing import Literal

from .control_sequences import CR, LF

EscapeCommand = Literal["detach", "help", "lock", "break"]

_TILDE = ord("~")
_COMMANDS: dict[int, EscapeCommand] = {ord("."): "detach", ord("?"): "help", ord("w"): "lock", ord("B"): "break"}


class EscapeCommandReader:
    """Splits input into bytes to type and commands; the result does not depend on how the input is split.

    `~~` is a literal `~`; before any other character `~` is literal too.
    """

    def __init__(self) -> None:
        self._at_line_start = True
        self._after_tilde = False

    def feed(self, data: bytes) -> list[bytes | EscapeCommand]:
        """Return typed bytes and commands in order. A tilde at the end is held back if it may begin a command."""
        items: list[bytes | EscapeCommand] = []
        typed = bytearray()
        for byte in data:
            if self._after_tilde:
                self._after_tilde = False
                command = _COMMANDS.get(byte)
                if command is not None:
                    items += [bytes(typed), command] if typed else [command]
                    typed.clear()
                    continue
                if byte != _TILDE:
                    typed.append(_TILDE)
            elif byte == _TILDE and self._at_line_start:
                self._after_tilde = True
                continue
            typed.append(byte)
            self._at_line_start = byte in CR + LF
        return [*items, bytes(typed)] if typed else items

    def restart_line(self) -> None:
        """Treat the next byte as the first of a line, because the last bytes were not sent."""
        self._at_line_start = True
