"""The line that users are typing: text that was sent without an Enter, and may be in the line editor of the far end."""

from __future__ import annotations

from collections.abc import Mapping

from .control_sequences import ESC, ETX, NAK, PASTE_BEGIN, PASTE_END, compile_bytes
from .lease import Owner

#: Ctrl-D, with which the terminal driver ends the input of a program.
_EOT = b"\x04"
_ENTER = frozenset((b"\r", b"\n"))
#: NUL follows a CR on Telnet (RFC 854).
_LINE_ENDS = (b"\r", b"\n", b"\r\0")
_BACKSPACE = frozenset((b"\x08", b"\x7f"))
#: A function key is a CSI or SS3 sequence; its rest may follow with the next input.
_TOKEN = compile_bytes(r"\x1b\[[0-?]{0,20}[@-~]|\x1bO[@-~]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+")
_PLAIN_LINE = compile_bytes(r"[^\x00-\x1f\x7f]*[\r\n]")
_PARTIAL = compile_bytes(r"\x1b(?:\[[0-?]{0,20}|O)?\Z")


class UnfinishedLine:
    """A model of the line that users type, fed with their input in pieces of any size.

    Enter, Ctrl-C, and Ctrl-U after plain text end the line; a line end within a bracketed paste does not. Keys that a program
    reads are part of the line until `clear`, because the model cannot distinguish them.

    Attributes:
        raw: the raw offset of the output when the first byte was typed.
        entered_raw: the raw offset when a user last ended a line; -1 if none was ended since `clear`.
        entered_by: the owner that ended that line.
        interrupted: whether Ctrl-C ended that line.
        filled: text that the shell has put into the line; empty if the text is unknown, None if there is none.
        is_doubted: whether `filled` is only a doubt; see `doubt`.
        cleared: number of calls of `clear`.
        inputs: number of inputs of users.
        lines: number of lines that users have entered since `clear`.
        lines_read: number of these lines, and of ends of input (Ctrl-D), that a program has read from the terminal driver.
        incomplete: whether the ended lines are the beginning of a command, whatever the shell reports.
    """

    def __init__(self) -> None:
        self.raw = self.entered_raw = -1
        self.entered_by: Owner | None = None
        self.interrupted = self._keys = self.incomplete = self.is_doubted = False
        self.filled: bytes | None = None
        self.cleared = self.inputs = self.lines = self.lines_read = 0
        self._is_in_driver = False
        self._owners: dict[Owner, int] = {}
        self._pasting = False
        self._partial = b""

    @property
    def empty(self) -> bool:
        """Whether nothing was typed since the line was ended."""
        return self.raw < 0

    @property
    def untouched(self) -> bool:
        """Whether neither users have typed, nor the shell has put text into the line, since `clear`."""
        return self.raw < 0 and self.entered_raw < 0

    @property
    def nothing_entered(self) -> bool:
        """Whether users have certainly not entered a line since `clear`. Keys other than Enter may submit one."""
        return not (self.lines or self.entered_raw >= 0 or self.keys)

    @property
    def keys(self) -> bool:
        """Whether keys other than characters and backspace were pressed, so that the text of the line is unknown."""
        return self._keys or bool(self._partial)

    @property
    def pasting(self) -> bool:
        """Whether a bracketed paste has begun and not ended."""
        return self._pasting

    @property
    def characters(self) -> int:
        """The number of characters in the line, without those that a backspace has removed."""
        return sum(self._owners.values()) + _characters(self.filled or b"")

    @property
    def owners(self) -> list[Owner]:
        """The owners of the typed text, in order of their first input."""
        return list(self._owners)

    @property
    def was_read_by_programs(self) -> bool:
        """Whether users have entered lines since `clear`, and programs have read all of them from the terminal driver."""
        return self.empty and 0 < self.lines == self.lines_read

    def typed_in_driver(self, data: bytes, owner: Owner, raw: int) -> None:
        """Add input of a user. Before it was sent, a program certainly was in a read(2) in canonical mode.

        The program gets a line if that holds for each piece of it.
        """
        is_in_driver, keys, lines = self.empty or self._is_in_driver, self.keys, self.lines
        if self.empty and data == _EOT:
            data = b"\n"
        self.typed(data, owner, raw)
        self._is_in_driver = is_in_driver
        is_one_line = self.empty and not keys and self.lines == lines + 1
        if is_in_driver and is_one_line and _PLAIN_LINE.fullmatch(data) is not None:
            self.lines_read += 1

    def typed(self, data: bytes, owner: Owner, raw: int, *, command: bool = False) -> None:
        """Add input of a user. `raw`: the current raw offset. `command`: whether the input is the command of a run."""
        self.inputs += not command
        self._is_in_driver = False
        if self.raw < 0 and ESC not in data and data.endswith(_LINE_ENDS):
            if not command:
                self.interrupted, self.entered_raw, self.entered_by = False, raw, owner
                self.lines += sum(data.count(end) for end in _ENTER)
            return
        data = data.replace(b"\0", b"")
        data, self._partial = self._partial + data, b""
        partial = _PARTIAL.search(data)
        for token in _TOKEN.findall(data[: partial.start()] if partial is not None else data):
            self._take(token, owner, raw, command)
        if partial is not None:
            self._begin(owner, raw)
            self._partial = partial[0]

    def fill(self, text: bytes, raw: int) -> None:
        """Record that the shell has put text into the line, before text that was typed ahead. `text` is empty if unknown.

        The record is kept until a user ends the line, because a later prompt may be forged.
        """
        self.raw = raw if self.raw < 0 else self.raw
        self.filled, self._keys, self.is_doubted = text, True, False

    def doubt(self, raw: int) -> None:
        """Record that a prompt of the far end is not known: text may be in the line for the command of a run.

        For input of users the line is what they have typed.
        """
        self.fill(b"", raw)
        self.is_doubted = True

    def set_incomplete(self, incomplete: bool) -> None:
        """Set whether the ended lines are the beginning of a command."""
        self.incomplete = incomplete

    def answered(self) -> None:
        """Record that the far end has answered the last entered line."""
        self.entered_raw, self.entered_by = -1, None

    def state(self) -> dict[str, int]:
        """Return the state for `restore`; empty for an untouched line."""
        if self.untouched:
            return {}
        flags = {
            "keys": int(self.keys),
            "pasting": int(self._pasting),
            "interrupted": int(self.interrupted),
            "incomplete": int(self.incomplete),
        }
        numbers = {
            "raw": self.raw,
            "entered_raw": self.entered_raw,
            "lines": self.lines,
            "characters": sum(self._owners.values()),
        }
        return numbers | {name: flag for name, flag in flags.items() if flag}

    def restore(self, state: Mapping[str, int], owner: Owner) -> None:
        """Restore the line of an earlier process. `owner`, the last writer, counts as the only owner.

        Raises:
            KeyError: a number is missing.
        """
        self.raw, self.entered_raw, self.lines = state["raw"], state["entered_raw"], state["lines"]
        self.entered_by = owner if self.entered_raw >= 0 else None
        self.interrupted, self._pasting = "interrupted" in state, "pasting" in state
        self._keys, self.incomplete = "keys" in state, "incomplete" in state
        if self.raw >= 0:
            self._owners = {owner: state["characters"]}

    def clear(self) -> None:
        """Record that the far end's line is empty: a prompt was verified, or the terminal was replaced."""
        self.cleared += 1
        self.lines = self.lines_read = 0
        self.incomplete = False
        self._reset()
        self.answered()

    def _take(self, token: bytes, owner: Owner, raw: int, command: bool) -> None:
        if token in (PASTE_BEGIN, PASTE_END):
            self._pasting = token == PASTE_BEGIN
            self._begin(owner, raw)
        elif (token in _ENTER and not self._pasting) or (token == ETX):
            self._end(owner, raw, command)
            self.interrupted = token == ETX
            self.lines += token != ETX and not command
        elif token == NAK and (command or not self.keys):
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
            self._owners[owner] += _characters(token) if printed or self._pasting else 0

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
        self._keys = self._pasting = self.is_doubted = False
        self.filled = None
        self._partial = b""
        self._owners.clear()


def _characters(text: bytes) -> int:
    """Return the number of characters of UTF-8."""
    return sum(byte & 0xC0 != 0x80 for byte in text)
