"""Keyboard input of an attached terminal: escape commands such as `~.`, and the queue of input to the session."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.io import IoRequest
from ptyctl.core.control_sequences import CR, ETX, LF

_INTERRUPT = re.compile(rb"(\x03)")


class Keyboard:
    """A queue of input to the session `target`; calls `on_error` for each write that is refused.

    After a refusal within an unfinished command, input up to the next Ctrl-C is dropped, and `on_error` called again: it was
    typed as a part of that command, and could run as another one.
    """

    def __init__(self, controller: Controller, target: dict[str, str], on_error: Callable[[PtyctlError], None]) -> None:
        self._controller = controller
        self._target = target
        self._on_error = on_error
        self._queue: asyncio.Queue[bytes | str] = asyncio.Queue()
        self._refusal: PtyctlError | None = None

    def type(self, data: bytes) -> None:
        """Queue bytes that were typed or pasted."""
        self._queue.put_nowait(data)

    def press(self, key: str) -> None:
        """Queue a named key."""
        self._queue.put_nowait(key)

    async def run(self) -> None:
        """Write queued input; runs until cancelled."""
        while True:
            item = await self._queue.get()
            for fields in [{"key": item}] if isinstance(item, str) else split_writes(item):
                await self._write(fields)

    async def _write(self, fields: dict[str, Any]) -> None:
        if fields.get("key") == "ctrl_c":
            self._refusal = None
        if self._refusal is not None:
            return self._on_error(self._refusal)
        try:
            await self._controller.io(IoRequest.of({**self._target, "action": "write", **fields}))
        except PtyctlError as error:
            if holds_input(error):
                self._refusal = error
            self._on_error(error)


def holds_input(error: PtyctlError) -> bool:
    """Return whether a refusal holds further input: it is within an unfinished command."""
    return error.details.get("held") is True or error.details.get("reason") == "continuation"


def split_writes(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the request fields of each write for `data`. Ctrl-C is sent as a key, which overtakes queued text."""
    for part in _INTERRUPT.split(data):
        if part == ETX:
            yield {"key": "ctrl_c"}
        elif part:
            yield _write_fields(part)


def _write_fields(part: bytes) -> dict[str, Any]:
    """Return text if possible, since the meaning of Enter depends on the session; bytes for LF (Ctrl-J) and partial UTF-8."""
    try:
        if LF not in part:
            return {"data": part.decode()}
    except UnicodeDecodeError:
        pass
    return {"data": base64.b64encode(part).decode(), "encoding": "base64"}


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
