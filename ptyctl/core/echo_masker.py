"""Masks the echo of a typed secret, only at positions where an echo can be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .control_sequences import SEQUENCE, compile_bytes

MASK = b"*"
#: After this time no echo is expected (seconds).
ECHO_TIMEOUT_S = 10.0
#: Silence after which received text counts as the response, which no echo follows (seconds).
ANSWER_PAUSE_S = 1.0
#: How long a partial echo is held back: at the position where the secret was typed, and elsewhere (seconds).
INCOMPLETE_HOLD_S = 1.0
HOLD_S = 0.2
#: Largest size of a line without text.
_LINE_BYTES = 4096
#: Content of a line without text: controls, blanks, and the masks that some programs show for a secret.
_NO_TEXT = compile_bytes(rf"(?>{SEQUENCE}|[\x00-\x1a\x1c-\x20*\x7f])*+")
#: The byte after an echo: at the cursor, where more may be typed in the line; and after other text, where only Enter follows.
_NO_WORD = re.compile(rb"[^0-9A-Za-z_.-]")
_CONTROL = re.compile(rb"[\x00-\x1f]")
#: A device's log line contains a time of day, or the code of the message (RFC 3164; Cisco: %FACILITY-SEVERITY-MNEMONIC).
_LOG_LINE = re.compile(rb"(?<!\d)\d\d:\d\d:\d\d(?!\d)|%{1,2}[A-Z$][\w$-]*: ")


@dataclass(frozen=True, slots=True)
class _Echo:
    secret: bytes
    until: float


class EchoMasker:
    """Masks the expected echoes in a stream; without pauses, the result does not depend on how the bytes are split.

    An echo begins at the cursor position at which the secret was typed, or after output that was in transit. It is not the
    start of a word, and after other output it must end the line: the same text in a log line or a prompt is not an echo.
    A line without text is the echo of Enter alone: the far end does not show that secret. If a log line follows, the line
    without text may be the start of the log line, and the secret is expected in the next line, too.
    Times are seconds of any monotonic clock.
    """

    def __init__(self) -> None:
        #: The end of the input that may be a partial echo.
        self.held = b""
        self._echoes: list[_Echo] = []
        self._doubtful: list[_Echo] = []  # expected again if this line is a log line
        self._behind_log: list[_Echo] = []  # echoes that are expected in this line only
        self._line = b""  # output in this line since the first of these secrets was typed
        self._typed = 0  # size of `_line` when the last secret was typed
        self._first_line = False  # whether the last secret was typed in this line
        self._echoed = False  # whether the line contains an echo
        self._text_at: float | None = None  # time at which text was last received

    @property
    def armed(self) -> bool:
        """Whether input must pass through `feed`."""
        return bool(self._echoes or self._doubtful or self.held)

    @property
    def hold_s(self) -> float:
        """Time to wait for more input before `flush` (seconds)."""
        complete = any(echo.secret == self.held for echo in self._echoes)
        return INCOMPLETE_HOLD_S if self._cursor_end(b"") >= 0 and not complete else HOLD_S

    def expect(self, secret: bytes, now: float) -> None:
        """Expect the echo of `secret`, a line or a part of one that is being typed."""
        if not self._echoes:
            self._line, self._echoed = b"", False
        self._typed, self._first_line, self._text_at = len(self._line), True, None
        self._echoes.append(_Echo(secret, now + ECHO_TIMEOUT_S))

    def feed(self, data: bytes, now: float) -> bytes:
        """Return the data with echoes masked. A partial echo at its end is held back."""
        answered = self._text_at is not None and now - self._text_at >= ANSWER_PAUSE_S
        self._echoes = [] if answered else [echo for echo in self._echoes if echo.until > now]
        self._doubtful = [] if answered else [echo for echo in self._doubtful if echo.until > now]
        data, self.held = self.held + data, b""
        masked, at = [], 0
        while at < len(data) and (self._echoes or self._doubtful):
            end = data.find(b"\n", at) + 1
            text = data[at : end or len(data)]
            begin, secret = self._first_echo(text)
            masked.append(text[:begin])
            self._line = (self._line + text[:begin])[:_LINE_BYTES]
            if not _NO_TEXT.fullmatch(self._line):
                self._text_at = now
            at += begin + len(secret)
            if secret:
                masked.append(self._masked(secret))
            elif end:
                self._end_line()
            else:
                self.held, at = text[begin:], len(data)
        return b"".join(masked) + data[at:]

    def flush(self) -> bytes:
        """Return the held input after `hold_s` without more input. A complete echo is masked."""
        held, self.held = self.held, b""
        if any(echo.secret == held for echo in self._echoes):
            return self._masked(held)
        self._line += held
        return held

    def _first_echo(self, text: bytes) -> tuple[int, bytes]:
        """Return position and secret of the first echo in a line, the longest of several.

        Without an echo the secret is empty, and the position is the start of a partial echo, or the length of the text.
        """
        if not self._echoes:
            return len(text), b""
        secrets = sorted({echo.secret for echo in self._echoes}, key=len, reverse=True)
        first_bytes = re.compile(b"[" + b"".join(re.escape(secret[:1]) for secret in secrets) + b"]")
        at_cursor = self._cursor_end(text)
        for place in first_bytes.finditer(text):
            begin = place.start()
            ends_before = _NO_WORD if begin <= at_cursor else _CONTROL
            for secret in secrets:
                end = begin + len(secret)
                if end >= len(text) and secret.startswith(text[begin:]):
                    return begin, b""
                if text.startswith(secret, begin):
                    following = text[end : end + len(secrets[0])]
                    if self._is_next_echo(secret, following, begun=True):
                        return begin, b""
                    if ends_before.match(text, end) or self._is_next_echo(secret, following):
                        return begin, secret
        return len(text), b""

    def _is_next_echo(self, secret: bytes, text: bytes, *, begun: bool = False) -> bool:
        """Return whether the text after an echo begins with another expected echo or, with `begun`, is a part of one."""
        others = [echo.secret for echo in self._echoes]
        others.remove(secret)
        return any(len(text) < len(other) and other.startswith(text) if begun else text.startswith(other) for other in others)

    def _cursor_end(self, text: bytes) -> int:
        """Return the offset in this text up to which the cursor has not moved since the last secret was typed, or -1."""
        line = self._line[self._typed :]
        moved = _NO_TEXT.match((line + text).partition(b"\r")[0])
        return moved.end() - len(line) if self._first_line and moved is not None else -1

    def _masked(self, secret: bytes) -> bytes:
        del self._echoes[[echo.secret for echo in self._echoes].index(secret)]
        self._echoed = True
        return MASK * len(secret)

    def _end_line(self) -> None:
        if _LOG_LINE.search(self._line):
            self._behind_log += self._doubtful
            self._echoes[:0] = self._doubtful
        else:
            self._echoes = [echo for echo in self._echoes if echo not in self._behind_log]
            self._behind_log = []
        self._doubtful = []
        if self._echoes and not self._echoed and _NO_TEXT.fullmatch(self._line):
            self._doubtful = [self._echoes.pop(0)]
        self._line, self._typed, self._first_line, self._echoed = b"", 0, False, False
