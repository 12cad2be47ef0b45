"""Masks typed secrets in the output of the far end: everywhere, or in their echo only, at positions where an echo can be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .control_sequences import SEQUENCE, compile_bytes

#: A secret is distinctive if it has at least 16 bytes, or at least 8 bytes of two character classes. The 32 most recent are
#: kept.
DISTINCTIVE_BYTES = 16
DISTINCTIVE_MIXED_BYTES = 8
MAX_PERSISTENT = 32
#: Terminals show controls in other forms (`^C`, a new line): only the text between controls can be recognised.
_CONTROL_RUN = re.compile(rb"[\x00-\x1f\x7f]+")
#: How long a possible partial distinctive secret is held back (seconds).
_SECRET_HOLD_S = 0.02
_CHARACTER_CLASSES = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9]"), re.compile(rb"[^a-zA-Z0-9]"))
MASK = b"*"
#: After this time no echo is expected (seconds).
ECHO_TIMEOUT_S = 10.0
#: Silence after which received text counts as the response, which no echo follows (seconds).
ANSWER_PAUSE_S = 1.0
#: How long a partial echo is held back: at the position where the secret was typed, and elsewhere (seconds).
_ECHO_AT_CURSOR_HOLD_S = 1.0
_ECHO_HOLD_S = 0.2
#: Largest size of a line without text.
_EMPTY_LINE_BYTES = 4096
#: Content of a line without text: controls, blanks, and the masks that some programs show for a secret.
_NO_TEXT = compile_bytes(rf"(?>{SEQUENCE}|[\x00-\x1a\x1c-\x20*\x7f])*+")
#: The byte after an echo: at the cursor, where more may be typed in the line; and after other text, where only Enter follows.
_NO_WORD = re.compile(rb"[^0-9A-Za-z_.-]")
_CONTROL_BYTE = re.compile(rb"[\x00-\x1f]")
#: A device's log line contains a time of day, or the code of the message (RFC 3164; Cisco: %FACILITY-SEVERITY-MNEMONIC).
_LOG_LINE = re.compile(rb"(?<!\d)\d\d:\d\d:\d\d(?!\d)|%{1,2}[A-Z$][\w$-]*: ")


class SecretMasker:
    """Masks secrets byte for byte in a stream; without pauses, the result does not depend on how the bytes are split.

    A distinctive secret is masked every time: a device may show it later, in its history or log. Other secrets (`y`, `admin`, a
    word) are masked in their echo only, by `EchoMasker`: masked everywhere, they would damage text and prompts, and the damage
    would reveal them. Times are seconds of any monotonic clock.
    """

    def __init__(self) -> None:
        self._echoes = EchoMasker()
        self._held = b""  # the end of the input that may be a partial distinctive secret
        self._released = b""  # the part of a possible secret that `flush` had to release
        self._persistent: dict[bytes, None] = {}
        self._update_index()

    @property
    def armed(self) -> bool:
        """Whether input must pass through `feed`."""
        return bool(self._persistent or self._held or self._echoes.armed)

    @property
    def persistent(self) -> bytes:
        """The distinctive secrets, one per line, as `remember` accepts them."""
        return b"\n".join(self._persistent)

    @property
    def hold_s(self) -> float | None:
        """Time to wait for the rest of a possible secret before `flush` (seconds); None if nothing is held back."""
        if self._echoes.held:
            return self._echoes.hold_s
        return _SECRET_HOLD_S if self._held else None

    def arm(self, typed: bytes, now: float) -> None:
        """Register each line of input that is being typed as a secret."""
        for secret in filter(None, _CONTROL_RUN.split(typed)):
            self._echoes.expect(secret, now)
        self.remember(typed)

    def remember(self, secrets: bytes) -> None:
        """Mask each distinctive secret among these lines in all further output."""
        for secret in filter(is_distinctive, _CONTROL_RUN.split(secrets)):
            self._persistent.pop(secret, None)
            self._persistent[secret] = None
        while len(self._persistent) > MAX_PERSISTENT:
            del self._persistent[next(iter(self._persistent))]
        self._update_index()

    def feed(self, data: bytes, now: float) -> bytes:
        """Return the data with secrets masked. A possible partial secret at its end is held back."""
        if self._echoes.armed:
            data = self._echoes.feed(data, now)
        return self._mask_persistent(data)

    def mask(self, text: bytes) -> bytes:
        """Return a whole text with the distinctive secrets masked. It is not part of the stream."""
        return self._whole.sub(lambda found: MASK * len(found[0]), text)

    def flush(self) -> bytes:
        """Return the held input after `hold_s` without more input. The rest of a secret is masked if it follows later."""
        masked = self._mask_persistent(self._echoes.flush())
        held, self._held = self._held, b""
        self._released += held
        return masked + held

    def clear(self) -> bytes:
        """Forget all secrets. Returns the held input."""
        held = self.flush()
        self._echoes = EchoMasker()
        self._persistent.clear()
        self._released = b""
        self._update_index()
        return held

    def _mask_persistent(self, data: bytes) -> bytes:
        if not self._persistent:
            return data
        released, text = len(self._released), self._released + self._held + data
        held, places = self._held_start(text, 0), dict[bytes, int]()
        if not released and held == len(text) and self._whole.search(text) is None:
            self._held = b""
            return text
        masked, at = [], 0
        while True:
            for secret in self._persistent:
                if places.get(secret, at - 1) < at:  # not searched yet, or within the masked text
                    found = text.find(secret, at)
                    places[secret] = len(text) if found < 0 else found
            secret = min(places, key=lambda secret: (places[secret], -len(secret)))
            if places[secret] >= held:
                break
            masked += [text[at : places[secret]], MASK * len(secret)]
            at = places[secret] + len(secret)
            held = self._held_start(text, at)
        return self._hold(b"".join(masked), text[at:], held - at, released)

    def _hold(self, masked: bytes, rest: bytes, held: int, released: int) -> bytes:
        """Hold back `rest` from `held` on. Returns the text before it, without the bytes that were released earlier."""
        text, keep = masked + rest[:held], rest[held:]
        self._released, self._held = keep[: max(released - len(text), 0)], keep[max(released - len(text), 0) :]
        return text[released:]

    def _update_index(self) -> None:
        self._longest = max(map(len, self._persistent), default=0)
        firsts = b"".join(re.escape(first) for first in sorted({secret[:1] for secret in self._persistent}))
        self._first_bytes = re.compile(b"[" + firsts + b"]" if firsts else b"(?!)")
        longest_first = sorted(self._persistent, key=len, reverse=True)
        self._whole = re.compile(b"|".join(map(re.escape, longest_first)) or b"(?!)")

    def _held_start(self, text: bytes, begin: int) -> int:
        """Return the position, from `begin` on, of a partial secret at the end of the text; the length of the text if none."""
        for place in self._first_bytes.finditer(text, max(len(text) - self._longest + 1, begin)):
            tail = text[place.start() :]
            if any(len(tail) < len(secret) and secret.startswith(tail) for secret in self._persistent):
                return place.start()
        return len(text)


def is_distinctive(secret: bytes) -> bool:
    """Return whether other text is unlikely to contain the secret by chance."""
    mixed = sum(kind.search(secret) is not None for kind in _CHARACTER_CLASSES) > 1
    return len(secret) >= (DISTINCTIVE_MIXED_BYTES if mixed else DISTINCTIVE_BYTES)


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
        return _ECHO_AT_CURSOR_HOLD_S if self._cursor_end(b"") >= 0 and not complete else _ECHO_HOLD_S

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
            self._line = (self._line + text[:begin])[:_EMPTY_LINE_BYTES]
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
            ends_before = _NO_WORD if begin <= at_cursor else _CONTROL_BYTE
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
