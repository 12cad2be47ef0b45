"""The line that users are typing: text that was sent without an Enter, and may be in the line editor of the far end."""

from __future__ import annotations

from .control_sequences import ESC, PASTE_BEGIN, PASTE_END, compile_bytes
from .lease import Owner

_CTRL_C = b"\x03"
_CTRL_U = b"\x15"
_ENTER = frozenset((b"\r", b"\n"))
#: NUL follows a CR on Telnet (RFC 854).
_LINE_ENDS = (b"\r", b"\n", b"\r\0")
_BACKSPACE = frozenset((b"\x08", b"\x7f"))
#: A function key is a CSI or SS3 sequence; its rest may follow with the next input.
_TOKEN = compile_bytes(r"\x1b\[[0-?]{0,20}[@-~]|\x1bO[@-~]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+")
_PARTIAL = compile_bytes(r"\x1b(?:\[[0-?]{0,20}|O)?\Z")


class UnfinishedLine:
    """A model of the typed line, fed with the input of users in pieces of any size.

    Enter, Ctrl-C, and Ctrl-U after plain text end it. A line end within a bracketed paste does not. Keys that a program read
    are part of it until `clear`: the model cannot know them.

    Attributes:
        raw: the raw offset of the output when the first byte was typed.
        entered_raw: the raw offset when a user last ended a line; -1 if none was ended since `clear`.
        entered_by: the owner that ended it.
        interrupted: whether Ctrl-C ended it.
        cleared: how often `clear` was called.
    """

    def __init__(self) -> None:
        self.raw = self.entered_raw = -1
        self.entered_by: Owner | None = None
        self.interrupted = self._keys = False
        self.cleared = 0
        self._owners: dict[Owner, int] = {}
        self._pasting = False
        self._partial = b""

    @property
    def empty(self) -> bool:
        """Whether nothing was typed since the line was ended."""
        return self.raw < 0

    @property
    def untouched(self) -> bool:
        """Whether users typed nothing at all since `clear`."""
        return self.raw < 0 and self.entered_raw < 0

    @property
    def keys(self) -> bool:
        """Whether other keys than characters and backspace were pressed, which may have changed the line in any way."""
        return self._keys or bool(self._partial)

    @property
    def characters(self) -> int:
        """The number of characters typed, without those that a backspace has removed."""
        return sum(self._owners.values())

    @property
    def owners(self) -> list[Owner]:
        """Who typed it."""
        return list(self._owners)

    def typed(self, data: bytes, owner: Owner, raw: int, *, command: bool = False) -> None:
        """Take input of a user; `raw` is the offset of the output. `command`: it is the command of a run."""
        if self.raw < 0 and ESC not in data and data.endswith(_LINE_ENDS):
            if not command:
                self.interrupted, self.entered_raw, self.entered_by = False, raw, owner
            return
        data = data.replace(b"\0", b"")
        data, self._partial = self._partial + data, b""
        partial = _PARTIAL.search(data)
        for token in _TOKEN.findall(data[: partial.start()] if partial is not None else data):
            self._take(token, owner, raw, command)
        if partial is not None:
            self._begin(owner, raw)
            self._partial = partial[0]

    def answered(self) -> None:
        """The far end has answered the line that was entered last."""
        self.entered_raw, self.entered_by = -1, None

    def clear(self) -> None:
        """The far end's line is empty: a prompt was verified, or the terminal was replaced."""
        self.cleared += 1
        self._reset()
        self.answered()

    def _take(self, token: bytes, owner: Owner, raw: int, command: bool) -> None:
        if token in (PASTE_BEGIN, PASTE_END):
            self._pasting = token == PASTE_BEGIN
            self._begin(owner, raw)
        elif (token in _ENTER and not self._pasting) or (token == _CTRL_C):
            self._end(owner, raw, command)
            self.interrupted = token == _CTRL_C
        elif token == _CTRL_U and (command or not self.keys):
            self._reset()
        elif token in _BACKSPACE and not self.keys and not self._pasting:
            if self.characters:
                last = next(each for each in reversed(self._owners) if self._owners[each])
                self._owners[last] -= 1
            if not self.characters:
                self._reset()
        else:
            self._begin(owner, raw)
            printed = token[0] >= 0x20 and token != b"\x7f"
            self._keys = self._keys or not (printed or self._pasting)
            self._owners[owner] += sum(byte & 0xC0 != 0x80 for byte in token) if printed or self._pasting else 0

    def _begin(self, owner: Owner, raw: int) -> None:
        if self.raw < 0:
            self.raw = raw
        self._owners.setdefault(owner, 0)

    def _end(self, owner: Owner, raw: int, command: bool) -> None:
        self._reset()
        self.interrupted = False
        if not command:
            self.entered_raw, self.entered_by = raw, owner

    def _reset(self) -> None:
        self.raw = -1
        self._keys = self._pasting = False
        self._partial = b""
        self._owners.clear()
