"""What a person types, apart from what is meant for the one who carries it: `~.` at the beginning of a line, as in ssh(1)."""

from __future__ import annotations

from typing import Literal

from .control_sequences import CR, LF

EscapeCommand = Literal["detach", "help", "lock", "break"]

_TILDE = ord("~")
_COMMANDS: dict[int, EscapeCommand] = {ord("."): "detach", ord("?"): "help", ord("w"): "lock", ord("B"): "break"}


class EscapeCommandReader:
    """Gives bytes to be typed and commands, in order, however what was typed is cut. `~~` is one `~`; before any other
    character `~` is itself."""

    def __init__(self) -> None:
        self._line_begins = True
        self._held = False

    def feed(self, data: bytes) -> list[bytes | EscapeCommand]:
        items: list[bytes | EscapeCommand] = []
        typed = bytearray()
        for byte in data:
            if self._held:
                self._held = False
                command = _COMMANDS.get(byte)
                if command is not None:
                    items += [bytes(typed), command] if typed else [command]
                    typed.clear()
                    continue
                if byte != _TILDE:
                    typed.append(_TILDE)
            elif byte == _TILDE and self._line_begins:
                self._held = True
                continue
            typed.append(byte)
            self._line_begins = byte in CR + LF
        return [*items, bytes(typed)] if typed else items

    def restart_line(self) -> None:
        """What was given last went nowhere, so a line begins still."""
        self._line_begins = True
