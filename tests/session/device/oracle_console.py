"""A console with a line editor, a pager and a confirmation, which records the lines that it executes."""

from __future__ import annotations

import asyncio
from collections import deque

from fixtures.memory_channel import MemoryChannel

PROMPT = "SW1(config)#"
LOG = b"\r\n*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\n"
#: The commands that show a pager, and a confirmation.
LONG, RELOAD = "show long", "reload"
#: What is recorded when a key answers the confirmation with yes, and when an interrupt leaves the mode.
CONFIRMED, INTERRUPTED = "reload confirmed", "interrupted"
_PAGER = b" --More-- "
_QUESTION = b"Proceed with reload? [confirm]"


class OracleConsole(MemoryChannel):
    """Answers each write after `latency_s`."""

    def __init__(self, latency_s: float = 0.0, prompt: str = PROMPT) -> None:
        super().__init__(self._hear)
        self.prompt = prompt
        self.executed: list[str] = []
        self.text, self.cursor = "", 0
        self.waits_for = "command"
        self._latency_s = latency_s
        self._sequence = ""
        self._answers = deque[bytes]()

    def log(self) -> None:
        """Print a log line; the prompt and typed text are not shown again."""
        self.feed(LOG)

    def _hear(self, data: bytes) -> bytes:
        out = b"".join(self._key(chr(byte)) for byte in data)
        if not self._latency_s:
            return out
        if out:
            self._answers.append(out)  # a loop calls timers of the same time in any order
            asyncio.get_running_loop().call_later(self._latency_s, lambda: self.feed(self._answers.popleft()))
        return b""

    def _key(self, key: str) -> bytes:
        if self.waits_for == "page":
            self.waits_for = "command"
            return b"\r" + b" " * len(_PAGER) + b"\r" + self.prompt.encode()
        if self.waits_for == "confirmation":
            self.waits_for = "command"
            self.executed += [CONFIRMED] if key in "\ry" else []
            return b"\r\n" + self.prompt.encode()
        if self._sequence or key == "\x1b":
            return self._escape(key)
        return self._edit(key)

    def _escape(self, key: str) -> bytes:
        self._sequence += key
        if len(self._sequence) < 3:
            return b""
        left, self._sequence = self._sequence == "\x1b[D", ""
        if left and self.cursor:
            self.cursor -= 1
            return b"\b"
        return b""

    def _edit(self, key: str) -> bytes:
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        if key == "\r":
            return self._enter()
        if key == "\x03":
            self.executed.append(INTERRUPTED)
            self.text, self.cursor = "", 0
            return b"^C\r\n" + self.prompt.encode()
        if key == "\x01":
            self.cursor = 0
            return b"\b" * len(before)
        if key == "\x05":
            self.cursor = len(self.text)
            return after.encode()
        if key == "\x15":
            self.text, self.cursor = after, 0
            return b"\b" * len(before) + after.encode() + b" " * len(before) + b"\b" * (len(before) + len(after))
        if key == "\x7f" and before:
            self.text, self.cursor = before[:-1] + after, len(before) - 1
            return b"\b" + after.encode() + b" " + b"\b" * (len(after) + 1)
        if key.isprintable():
            self.text, self.cursor = before + key + after, len(before) + 1
            return (key + after).encode() + b"\b" * len(after)
        return b""

    def _enter(self) -> bytes:
        line, self.text, self.cursor = self.text, "", 0
        if line:
            self.executed.append(line)
        if line == LONG:
            self.waits_for = "page"
            return b"\r\npage 1\r\n" + _PAGER
        if line == RELOAD:
            self.waits_for = "confirmation"
            return b"\r\n" + _QUESTION
        return b"\r\n" + (f"ran {line}\r\n" if line else "").encode() + self.prompt.encode()
