"""Finds out whether the far end shows what was typed. What it does not show may be a secret, in any language.

The watch compares typed text with the output that follows it, as a terminal shows it. It fails closed: text counts as shown
only if that output is certainly its echo. Text that is not shown within `ECHO_TIMEOUT_S` is hidden.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from .control_sequences import PASTE_BEGIN, PASTE_END, compile_bytes
from .renderer import render_before_cursor, render_cursor_line
from .secret_masker import ECHO_TIMEOUT_S

#: Output without an echo is examined up to this size; after that, typed text is hidden. A short row counts as one
#: of this size, and each read adds this number: each costs time.
_MAX_BYTES = 16 * 1024
_LEAST_ROW_BYTES = 64
_READ_BYTES = 16
#: A row is compared with this number of lines that were typed ahead.
_MAX_AHEAD = 32
_PASTES = (PASTE_BEGIN, PASTE_END)
_BACKSPACES = frozenset((0x08, 0x7F))
_KILL_LINE, _KILL_WORD = 0x15, 0x17
#: Text with the keys that erase characters of it; a line end; any other key or sequence of a key.
_TOKEN = compile_bytes(
    r"(?P<text>[^\x00-\x07\x09-\x14\x16\x18-\x1f]+)|(?P<end>\r\n|\r\0|[\r\n])|\x1b\[[0-?]{0,20}[@-~]|\x1bO[@-~]|[\x00-\x1f]"
)
_CONTROLS = bytes((*range(0x20), 0x7F))


@dataclass(slots=True, eq=False)
class TypedPiece:
    """Input of one writer, at most up to the end of a line.

    Attributes:
        shown: whether the far end shows it; None while that is not known.
    """

    data: bytes
    shown: bool | None = None

    @property
    def is_text(self) -> bool:
        """Whether it has printable characters. Other keys have no echo of their own, and are no secret."""
        return bool(_without_keys(self.data))


@dataclass(slots=True, eq=False)
class _Line:
    """Text that was typed into one line, up to Enter or another key that changes the line in an unknown way.

    Attributes:
        row: the output in the cursor's row when the text was typed; None if the row was not known: earlier text was on its way.
        asks: whether that row may be a question.
        is_at_prompt: whether that row is the prompt.
        ended: whether Enter was typed; `keys`: whether another key was.
    """

    row: bytes | None
    typed_at: float
    asks: bool = False
    is_at_prompt: bool = False
    text: bytearray = field(default_factory=bytearray)
    pieces: list[TypedPiece] = field(default_factory=list)
    ended: bool = False
    keys: bool = False

    def add(self, keys: bytes) -> None:
        for key in keys:
            if key in _BACKSPACES:
                shorter = self.text.decode("utf-8", "ignore")[:-1]
                self.text[:] = shorter.encode()
            elif key == _KILL_LINE:
                self.text.clear()
            elif key == _KILL_WORD:
                self.text[:] = self.text.rstrip()[: self.text.rstrip().rfind(b" ") + 1]
            else:
                self.text.append(key)

    @property
    def shown_text(self) -> str:
        return self.text.decode("utf-8", "replace")


class EchoWatch:
    """Decides about typed text in the order in which it was typed. Times are seconds of any monotonic clock."""

    def __init__(self, is_prompt: Callable[[str], bool], may_ask: Callable[[str], bool]) -> None:
        """Create the watch.

        Args:
            is_prompt: returns whether a line, or its beginning, is a prompt at which commands are typed.
            may_ask: returns whether a line may be a question.
        """
        self._is_prompt, self._may_ask = is_prompt, may_ask
        self._lines: deque[_Line] = deque()
        self._output = bytearray()  # since the first of these lines was typed, from its row on
        self._examined = 0  # bytes of rows without an echo that preceded it
        self._follows = False  # whether the row that the output begins with follows that of a shown line
        self._decided: list[TypedPiece] = []
        self._secrets: list[bytes] = []

    @property
    def active(self) -> bool:
        """Whether output must be passed to `received`."""
        return bool(self._lines)

    def typed(self, data: bytes, row: bytes, now: float) -> list[TypedPiece]:
        """Add input that was sent; return its pieces. `row`: the output in the cursor's row before it was sent."""
        self.expire(now)
        pieces: list[TypedPiece] = []
        for found in _TOKEN.finditer(data):
            token = found[0]
            line = self._lines[-1] if self._lines and not (self._lines[-1].ended or self._lines[-1].keys) else None
            if token in _PASTES:
                self._append(pieces, token, None)
                continue
            if line is None:
                line = self._begin(row, now)
                if pieces and pieces[-1].data.endswith((b"\r", b"\n", b"\0")):
                    pieces.append(TypedPiece(b""))
            line.typed_at = now
            if found["text"]:
                line.add(token)
                self._append(pieces, token, line)
            else:
                line.ended, line.keys = bool(found["end"]), not found["end"]
                self._append(pieces, token, None)
        for piece in pieces:
            if not piece.is_text:
                piece.shown = True
        return [piece for piece in pieces if piece.data]

    def _begin(self, row: bytes, now: float) -> _Line:
        line = _Line(None, now)
        if not self._lines:
            shown = render_before_cursor(row, 4096)
            line = _Line(row, now, asks=self._may_ask(shown), is_at_prompt=self._is_prompt(shown))
            self._output.clear()
            self._examined, self._follows = 0, False
        self._lines.append(line)
        return line

    def _append(self, pieces: list[TypedPiece], token: bytes, line: _Line | None) -> None:
        last = pieces[-1] if pieces else None
        if last is None or (
            line is not None and last.data and last not in line.pieces and not last.is_text and not line.pieces
        ):
            last = TypedPiece(b"")
            pieces.append(last)
        last.data += token
        if line is not None and last not in line.pieces:
            line.pieces.append(last)

    def received(self, data: bytes, width: int, now: float) -> None:
        """Add output. `width`: columns of the terminal."""
        self.expire(now)
        if not self._lines:
            return
        self._output += data
        self._examined += _READ_BYTES
        while self._lines and self._examined <= _MAX_BYTES and self._next_row(width):
            pass
        if self._examined + len(self._output) > _MAX_BYTES:
            self.give_up()
        elif self._lines:
            self._match_cursor_row(width)

    def expire(self, now: float) -> None:
        """Decide that text which was typed too long ago is hidden."""
        while self._lines and now >= self._lines[0].typed_at + ECHO_TIMEOUT_S:
            self._hide(self._lines.popleft())
            self._follows = False

    def give_up(self) -> None:
        """Decide that all undecided text is hidden."""
        while self._lines:
            self._hide(self._lines.popleft())

    def take_decided(self) -> list[TypedPiece]:
        """Return the pieces that were decided since the last call."""
        decided, self._decided = self._decided, []
        return decided

    def take_secrets(self) -> list[bytes]:
        """Return the texts that were certainly typed as answers to questions without echo, since the last call."""
        secrets, self._secrets = self._secrets, []
        return secrets

    def _next_row(self, width: int) -> bool:
        """Match the first complete row of the output; return False if there is none."""
        end = self._output.find(b"\n") + 1
        if not end:
            return False
        first, row = self._lines[0], bytes(self._output[: end - 1])
        del self._output[:end]
        self._examined += max(end, _LEAST_ROW_BYTES)
        follows, self._follows = self._follows, False
        begin, first.row = first.row, None
        shown = render_cursor_line((begin or b"") + row, width)
        if begin is not None and (first.ended or first.keys) and self._matches_first_row(first, shown, begin, width):
            return True
        shown = shown.rstrip()
        for index, line in enumerate(islice(self._lines, _MAX_AHEAD) if shown else ()):
            if (line.ended or line.keys) and self._is_later_echo(line, shown, follows=follows and index == 0):
                for _ in range(index):
                    self._hide(self._lines.popleft())
                self._show_line(self._lines.popleft())
                break
        return True

    def _matches_first_row(self, line: _Line, shown: str, row: bytes, width: int) -> bool:
        """Decide about a line that was typed in this row; return whether the row is its echo.

        At a prompt, other output may precede the echo. Elsewhere the far end has answered the line without showing it.
        """
        is_echo = self._is_echo(line, shown, render_before_cursor(row, width))
        if is_echo or not line.is_at_prompt:
            self._lines.popleft()
        if is_echo:
            self._show_line(line)
        elif not line.is_at_prompt:
            self._hide(line)
        return is_echo

    def _match_cursor_row(self, width: int) -> None:
        """Decide about text that is all that was added to the cursor's row."""
        line = self._lines[0]
        if not line.pieces or line.row is None or b"\n" in self._output:
            return
        before = render_before_cursor(line.row, width)
        row = line.row + bytes(self._output)
        shown = render_cursor_line(row, width) if line.ended else render_before_cursor(row, width)
        text = line.shown_text
        is_whole = shown.startswith(before) and shown[len(before) :].rstrip() == text.rstrip()
        is_completed = line.keys and shown.startswith(before + text)
        if text.strip() and (is_whole or is_completed) and not _is_masked(text):
            self._show(line)
            if line.keys:
                self._lines.popleft()

    def _is_echo(self, line: _Line, shown: str, before: str) -> bool:
        """Return whether a row that began with `before` shows the text after it, and nothing else but a right prompt."""
        text = line.shown_text.rstrip()
        if not shown.startswith(before.rstrip()) or _is_masked(text):
            return False
        rest = shown[len(before) :] if shown.startswith(before) else shown[len(before.rstrip()) :].lstrip()
        if not text:  # the row does not tell whether text that was erased was shown
            return not rest.strip() and not any(piece.is_text for piece in line.pieces)
        return rest.rstrip() == text or (rest.startswith(text) and (line.keys or rest[len(text) :].startswith("  ")))

    def _is_later_echo(self, line: _Line, shown: str, *, follows: bool) -> bool:
        """Return whether a row shows text that was typed ahead: after a prompt, or directly below the echo of another line."""
        text = line.shown_text.rstrip()
        if not text or _is_masked(text):
            return False
        if follows and shown == text:
            return True
        before = shown.removesuffix(text)
        return before != shown and self._is_prompt(before)

    def _show_line(self, line: _Line) -> None:
        self._show(line)
        self._follows = line.ended

    def _show(self, line: _Line) -> None:
        for piece in line.pieces:
            piece.shown = True
        self._examined = 0
        self._decided += line.pieces
        line.pieces = []

    def _hide(self, line: _Line) -> None:
        for piece in line.pieces:
            piece.shown = False
        if line.pieces and line.asks and not line.is_at_prompt and line.ended:
            self._secrets.append(bytes(line.text))
        self._decided += line.pieces
        line.pieces = []


def _is_masked(text: str) -> bool:
    """Return whether text could be the asterisks that a far end shows instead of a secret."""
    return bool(text) and not text.strip("*")


def _without_keys(data: bytes) -> bytes:
    text = _TOKEN.sub(lambda found: found["text"] or b"", data)
    return text.translate(None, _CONTROLS)
