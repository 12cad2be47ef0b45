"""Types what the person types, in order, while they go on typing."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.io import IoRequest
from ptyctl.core.control_sequences import ETX, LF

_INTERRUPT = re.compile(rb"(\x03)")


class Keyboard:
    """`on_refusal` is told why something was not typed."""

    def __init__(self, controller: Controller, who: dict[str, str], on_refusal: Callable[[PtyctlError], None]) -> None:
        self._controller = controller
        self._who = who
        self._on_refusal = on_refusal
        self._typed: asyncio.Queue[bytes | str] = asyncio.Queue()

    def type(self, data: bytes) -> None:
        self._typed.put_nowait(data)

    def press(self, key: str) -> None:
        self._typed.put_nowait(key)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            typed = await self._typed.get()
            for what in [{"key": typed}] if isinstance(typed, str) else writes(typed):
                try:
                    await self._controller.io(IoRequest.of({**self._who, "action": "write", **what}))
                except PtyctlError as error:
                    self._on_refusal(error)


def writes(data: bytes) -> Iterator[dict[str, Any]]:
    """As text, for Enter is not the same everywhere; as bytes, what is none. An interrupt overtakes what was pasted."""
    for piece in _INTERRUPT.split(data):
        if piece == ETX:
            yield {"key": "ctrl_c"}
        elif piece:
            yield _write(piece)


def _write(piece: bytes) -> dict[str, Any]:
    try:
        if LF not in piece:  # Enter is CR, and LF is Ctrl-J, a key of its own
            return {"data": piece.decode()}
    except UnicodeDecodeError:  # a character that was cut, or none
        pass
    return {"data": base64.b64encode(piece).decode(), "encoding": "base64"}
