"""The line that is being typed at a far end's line editor, followed key by key, to be judged before it is submitted.

The model knows the pending line, or knows that it does not: after Tab, a history key, a cursor movement, or any other key
whose effect depends on the far end, the line is unknown until it is submitted, discarded, or read from the screen.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import re2

from ptyctl.core.control_sequences import ESC, PASTE_BEGIN, PASTE_END

from .key_bindings import MAX_KEY, KeyBindings, Macro
from .shell_end import is_incomplete

#: Longest pending line that is followed, in bytes; a longer one is unknown.
MAX_LINE = 65_536
#: How much of the lines before the pending one is kept, in bytes, because they may be the beginning of the same command.
_MAX_CONTINUED = 8192
_ENTER = frozenset(b"\r\n")
#: Characters, or a key.
_TOKEN = re.compile(rb"[\x20-\x7e\x80-\xff]+|[\x00-\x1f\x7f]")
_CONTROL = re.compile(rb"[\x00-\x1f]")
_PASTE_MARKS = (PASTE_BEGIN, PASTE_END)
#: Keys that submit the line at some far ends: ^D (a terminal in canonical mode), ^O (bash), ^X ^E (bash), ^Z (Cisco IOS).
_MAY_SUBMIT = frozenset(b"\x04\x0f\x18\x1a")
#: Keys that put no text into a line: cursor movements, ^D and ^L.
_WITHOUT_TEXT = frozenset(b"\x01\x02\x04\x05\x06\x0c")
#: ^X ^E runs what an editor returns (bash).
_EDIT_KEY = b"\x18\x05"
#: Characters that submit the line in the command mode of vi: insert-comment, edit-and-execute, macros.
_VI_MAY_SUBMIT = frozenset(b"#v@")
#: Characters that enter the insert mode of vi from the command mode, at once.
_VI_INSERT = frozenset(b"iIaA")
#: A key of bash and zsh removes it and submits the line.
COMMENT = re.compile(r"^\s*#", re.MULTILINE)
#: The next byte is inserted as it is (bash, zsh, Cisco IOS), a CR too.
_QUOTE = 0x16
_TAB = 0x09
#: Discards the line, unless the shell was busy with an earlier key (fish).
_INTERRUPT = 0x03
#: Ends of substitutions, which zsh and fish run when Tab is pressed.
_SUBSTITUTION_ENDS = (b")", b"`")
#: What begins a command in vi. Escape runs it in the compatible mode of vim (`x` in `cpoptions`), and discards it elsewhere.
_VI_COMMAND = b":!"
_LETTERS_AND_DIGITS = (string.ascii_letters + string.digits).encode()
_QUOTES = re.compile(rb"[\\'\"]")
#: A part of a shell's command that the following lines may complete or use.
_MAY_BE_CONTINUED = re.compile(rb"[\\'\"`({=]|<<|[|&]\s*$|\b(?:for|read|select)\b")
#: What a line may have if a shell does not read the next line as a separate command, or reads it as a part of a list.
_HIDES_NEXT_LINE = re.compile(r"[\\'\"`({=#<!]|[|&]\s*$|\b(?:for|while|until|if|case|select|read|function)\b")
#: RE2 searches lines of any length in linear time.
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
#: Commands of zsh that put text into the next line.
_FILLS_NEXT = rb"print\b[^;&|\n]*\s[\"']?-\w*z|pushln\b"
_FILLS_NEXT_LINE = re2.compile(rb"\b(?:" + _FILLS_NEXT + rb")", _OPTIONS)
#: Modes of the terminal with which it takes or changes characters of the next line, and names in variables.
_STTY_MODES = (
    rb"iuclc|lcase|LCASE|istrip|igncr|inlcr|icrnl|pass8|evenp|parity|oddp|nl\b|raw\b|start|stop|susp|quit|intr|discard|[$`]"
)
#: Shell commands after which the shell reads another line than the typed one: they put text into it, read a part of it, or let
#: the terminal change it. The words after `dd` do not begin with `if=`.
_FILLS_LINE = re2.compile(
    rb"\b(?:" + _FILLS_NEXT + rb"|vared\b|commandline\b|read\s+(?:.*\s)?-\w*[knNdiut]|head\s+(?:.*\s)?-\w*c"
    rb"|stty\s(?:[^;&|\n]*[\s-])?(?:" + _STTY_MODES + rb")"
    rb"|dd(?:\s+(?:i?|if|(?:[^i\s]|i[^f\s]|if[^=\s])\S*))*\s*$)",
    _OPTIONS,
)
#: Commands of shells that change the effect of keys: builtins where a command begins or as a value, options for vi, and stty
#: with the names of keys.
_CHANGES_KEYS = re2.compile(
    rb"(?:^|[;&|(){}`!\n]|\b(?:if|then|elif|else|while|until|do|time|eval|builtin|command|noglob|nocorrect)\s"
    rb"|(?:^|\s)[A-Za-z_]\w*=(?:\S*\s)?)\s*(?:-\S*\s+)*(?:bindkey\b|zle\b|bind\s+(?:-|\S{1,3}\s|.*:\s|.*\bediting-mode\b)"
    rb"|(?:set|shopt|setopt)\s(?:[^;&|\n]*\s)?(?i:v_?i)(?:\W|$))"
    rb"|\w+_(?:vi|hybrid)_key_bindings\b"
    rb"|\bstty\s(?:[^;&|\n]*\s)?(?:w?erase2?|kill|lnext|reprint|rprnt|eof|eol2?|intr|\w+:\w+:)",
    _OPTIONS,
)


#: Commands that take a part of a line, or text for the next one, and what runs them later: at each prompt, or by another name.
_TAKES_PART = re2.compile(
    rb"\b(?:read\s+(?:[^;&|\n]*\s)?-\w*[knNdiut]|head\s+(?:[^;&|\n]*\s)?-\w*c|dd\b|sysread\b|sysopen\b)", _OPTIONS
)
_RUNS_LATER = re2.compile(
    rb"\w\s*\(\s*\)|\b(?:function|trap|alias|abbr|add-zsh-hook|PROMPT_COMMAND|R?PROMPT\d?|PS\d|RPS\d|prompt_command)\b"
    rb"|_functions\b|--on-",
    _OPTIONS,
)


def _changes_keys(line: bytes) -> bool:
    """Return whether a line without quotes changes the effect of keys, or makes a command read a part of the following lines.

    `vared` and `select` take whole lines: where one reads, and where the shell does, the line is the same text.
    """
    if _CHANGES_KEYS.search(line) is not None:
        return True
    return _TAKES_PART.search(line) is not None and _RUNS_LATER.search(line) is not None


def fills_next_line(command: str) -> bool:
    """Return whether a command of a shell may put text into the line after its next prompt."""
    return _FILLS_NEXT_LINE.search(command.encode("utf-8", "surrogateescape")) is not None


class LineKeys(NamedTuple):
    """The keys whose effect on the pending line is certain at a far end, each one byte.

    Attributes:
        erase: delete the last character.
        erase_word: delete the last word.
        kill: delete the line up to the cursor, or discard it. An unknown line stays unknown: the key may only end a search.
        of_shell: whether the lines are commands of a shell, some of which affect the next line.
    """

    erase: frozenset[int] = frozenset(b"\x7f")
    erase_word: frozenset[int] = frozenset()
    kill: frozenset[int] = frozenset()
    of_shell: bool = True


#: Keys on which bash, zsh and fish agree with a terminal in canonical mode, which edits what is typed before their prompt.
SHELL_KEYS = LineKeys(frozenset(b"\x7f"), frozenset(b"\x17"), frozenset(b"\x15\x03"))

#: Devices differ in all of them: Backspace, and keys that delete a line, may do nothing.
DEVICE_KEYS = LineKeys(erase=frozenset(), of_shell=False)


class Piece(NamedTuple):
    """Some bytes of the input.

    Attributes:
        data: the bytes, to be sent as they are.
        submits: whether they submit the pending line, or may do so; then they are one key, and the line is to be judged first.
        line: the line that is submitted; None if it is unknown.
    """

    data: bytes
    submits: bool = False
    line: str | None = None


def keys_after_last_line(pieces: Iterable[Piece]) -> tuple[bytes, bool]:
    """Return the input after the last line that it submits, and whether there is such a line."""
    keys, follows = bytearray(), False
    for piece in pieces:
        if piece.submits:
            keys, follows = bytearray(), True
        else:
            keys += piece.data
    return bytes(keys), follows


@dataclass
class PendingLine:
    """The pending line of one far end. Fed with input cut anywhere, it submits the same lines."""

    keys: LineKeys = SHELL_KEYS
    #: What the shell reports of its editor.
    bindings: KeyBindings = field(default_factory=KeyBindings)
    #: Whether an editor such as vi may get the input: Escape may submit a command there.
    is_for_editor: bool = False
    #: What was typed since the last line end. It is the line if that is known.
    _line: bytearray = field(default_factory=bytearray)
    _is_known: bool = True
    #: Whether the effect of each key since the last line end, or since a key that kills the line, is certain.
    _is_plain: bool = True
    _was_killed: bool = False
    #: Whether a key, or the far end, may have put text into the line that is not in `_line`.
    _may_have_text: bool = False
    #: Whether something other than the input may have changed the line.
    _is_lost: bool = False
    #: Whether the line is in `_continued` already, as it was read from the screen.
    _is_read: bool = False
    #: Whether an editor may be in the command mode of vi, or may wait for the rest of a key; whether keys may have another
    #: effect than `keys` says, or a command may take a part of a line before the shell reads it.
    _is_escaped: bool = False
    _is_partial: bool = False
    _keys_changed: bool = False
    #: Whether a command of vi may have begun: other keys than Enter and Ctrl-C may have another effect on it than on a line.
    _has_vi_command: bool = False
    _continued: bytearray = field(default_factory=bytearray)
    #: Bytes of an escape sequence, or of an editor's key of several bytes, which may be incomplete.
    _sequence: bytearray = field(default_factory=bytearray)
    _is_pasting: bool = False
    _last: int = 0
    #: The last bytes, for macros.
    _recent: bytes = b""
    #: See `is_open`; None until it is asked for.
    _is_open: bool | None = False

    @property
    def line(self) -> str | None:
        """The pending line; None if it is unknown."""
        return self._text() if self._is_known and not self._sequence else None

    @property
    def is_empty(self) -> bool:
        """Whether the pending line is known to be empty."""
        return self._is_known and not self._sequence and not self._line

    @property
    def typed(self) -> str | None:
        """What was typed since the last line end, after text that may be there; None if other keys may have changed it."""
        return None if self._is_lost else self.typed_text

    @property
    def typed_text(self) -> str | None:
        """As `typed`, also if something other than the input may have changed the line."""
        return self._text() if self._is_plain and not self._sequence else None

    @property
    def may_have_text(self) -> bool:
        """Whether anything was typed or recalled since the last line end, or the far end may have put text into the line."""
        return self._may_have_text or bool(self._line or self._sequence)

    @property
    def continued(self) -> str:
        """The lines submitted since the last prompt, joined: they may be the beginning of the same command."""
        return self._continued.decode("utf-8", "surrogateescape")

    @property
    def has_continued(self) -> bool:
        """Whether lines were submitted since the last prompt."""
        return bool(self._continued)

    @property
    def may_be_continued(self) -> bool:
        """Whether `continued` may matter for a later line that is also judged alone: it quotes, assigns, or does not end."""
        return _MAY_BE_CONTINUED.search(self._continued) is not None

    @property
    def is_open(self) -> bool:
        """Whether the submitted lines end within a command of a shell: no prompt follows, unless Ctrl-C was pressed."""
        if self._is_open is None:
            self._is_open = self.keys.of_shell and is_incomplete(self._continued)
        return self._is_open

    @property
    def perhaps_submitted(self) -> bool:
        """Whether the last key was Enter on an unknown line, which may have chosen it from a list instead."""
        return not self._is_known and self._last in _ENTER

    @property
    def perhaps_interrupted(self) -> bool:
        """Whether the last key was Ctrl-C on a line with text, which a shell at its prompt discards."""
        return not self._is_known and self._last == _INTERRUPT

    def set_keys(self, keys: LineKeys) -> None:
        """Set the keys of the far end, which may have changed."""
        self.keys = keys

    def set_for_editor(self, is_for_editor: bool) -> None:
        """Set whether an editor may get the input from here on."""
        self.is_for_editor = is_for_editor

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Take input, and yield it in pieces, in order; their `data` joined is the input.

        A piece that submits is yielded before the model takes it: the model must not take input that the caller does not send.
        """
        begin = 0
        for token in _TOKEN.finditer(data):
            is_text = not (self._sequence or self._is_escaped or self.bindings.may_have_macro)
            if is_text and token.end() - token.start() > 1:
                self._insert(token[0])
                continue
            for place in range(token.start(), token.end()):
                if self._may_submit(data[place]):
                    if begin < place:
                        yield Piece(data[begin:place])
                    begin = place + 1
                    yield Piece(data[place:begin], submits=True, line=self._submitted_by(data[place]))
                self._take(data[place])
        if begin < len(data):
            yield Piece(data[begin:])

    def may_be_submitted_by(self, data: bytes) -> bool:
        """Return whether input may submit the line: text without control characters does not, outside a key of several bytes
        and the command mode of vi, and without macros.
        """
        in_key = bool(self._sequence) or self._is_escaped or self.bindings.may_have_macro
        return in_key or _CONTROL.search(data) is not None

    def is_readable_at(self, key: bytes) -> bool:
        """Return whether the screen can show what a key submits: no part of a key waits, it is no macro and opens no editor.

        ^X ^E opens one in bash, and `v` in the command mode of vi, which start-up files of the shell may have turned on.
        """
        is_shown = self.bindings.is_complete and self._macro(key[-1]) is None
        return is_shown and not self._is_partial and key not in (b"\x05", b"v")

    def copy(self) -> PendingLine:
        """Return a copy that can be fed with input which is not sent yet."""
        same = PendingLine.__new__(PendingLine)  # dataclasses.replace takes 8 us, which counts for each key
        same.__dict__.update(self.__dict__)
        same._line, same._continued, same._sequence = self._line[:], self._continued[:], self._sequence[:]
        return same

    def clear(self) -> None:
        """Clear the line, which continues no earlier one: a prompt was verified, or the terminal was replaced."""
        self._empty()
        self._has_vi_command = False
        self._is_known = not self._keys_changed
        self.begin_command()

    def reset_keys(self) -> None:
        """Forget changes of the effect of keys, and macros: another terminal begins with the usual ones."""
        self._keys_changed = False
        self.bindings = KeyBindings()

    @property
    def is_pasting(self) -> bool:
        """Whether a bracketed paste has begun."""
        return self._is_pasting

    def set_bindings(self, bindings: KeyBindings) -> None:
        """Set what the shell that reads reports of its editor.

        Output can forge a report, so that it only adds: the mode of vi and macros count until another terminal begins, and what
        a key with two macros submits is not known.
        """
        self.bindings = self.bindings.with_report(bindings)
        self._keys_changed = self._keys_changed or bindings.is_vi is True

    def begin_command(self) -> None:
        """Forget the earlier lines: a prompt is shown since the last line end."""
        self.forget_continued()
        self._is_pasting = False

    def forget_continued(self) -> None:
        """Forget the earlier lines: the next ones do not continue them."""
        self._continued.clear()
        self._is_open = False

    def read_by_program(self) -> None:
        """Another program than a shell has got the submitted lines: a prompt may follow, whatever they end in."""
        self._is_open = False

    def confirm(self) -> None:
        """The screen shows what was `typed`, and nothing else: the line is known, unless it was killed."""
        self._is_known = self._is_known or not (self._keys_changed or self._was_killed)

    def read(self, line: str) -> None:
        """Add a line, as read from the screen, that is about to be submitted: the next lines may continue it."""
        self._submitted(line)
        self._is_read = True

    def _submitted(self, line: str) -> None:
        self._continued += line.encode("utf-8", "surrogateescape") + b"\n"
        del self._continued[: max(0, len(self._continued) - _MAX_CONTINUED)]
        self._is_open = None

    def note_command(self, text: str) -> None:
        """Note a command that reaches the shell other than as typed keys: it may change their effect."""
        if self.keys.of_shell:
            line = _QUOTES.sub(b"", text.encode("utf-8", "surrogateescape"))
            self._keys_changed = self._keys_changed or _changes_keys(line)

    def lose(self) -> None:
        """Mark the line as unknown: something other than the input may have changed it."""
        self._is_known, self._is_lost, self._may_have_text = False, True, True

    def put_after_text(self) -> None:
        """Mark the line as unknown: the far end has put text in front of what is typed."""
        self._is_known = False

    def _macro(self, byte: int) -> Macro | None:
        """Return the macro of a key that ends in this byte."""
        if not self.bindings.macros:
            return None
        recent = self._recent + bytes((byte,))
        return next((macro for key, macro in self.bindings.macros.items() if recent.endswith(key)), None)

    def _may_submit(self, byte: int) -> bool:
        if not self.bindings.is_complete and byte != _INTERRUPT:
            return True
        return self._macro(byte) is not None or self._may_submit_without_macro(byte)

    def _may_submit_without_macro(self, byte: int) -> bool:
        if byte in _ENTER:
            return True
        if self._is_key_with_alt(byte):
            return True
        if byte == ESC[0] and self.is_for_editor:
            return self._has_vi_command
        if self._is_pasting:
            return False
        if byte == _TAB:
            return any(end in self._line for end in _SUBSTITUTION_ENDS)
        if byte == _EDIT_KEY[1]:
            return self._last == _EDIT_KEY[0]
        return byte in _MAY_SUBMIT or (self._may_be_vi_command() and byte in _VI_MAY_SUBMIT)

    def _is_key_with_alt(self, byte: int) -> bool:
        """Return whether a key with Alt ends here, which may submit: ESC a does in zsh."""
        return self._sequence == ESC and byte not in b"[O\x1b"

    def _may_be_vi_command(self) -> bool:
        """Return whether a character may be a command of vi. An editor may take a part of a longer key for Escape."""
        if self.bindings.is_vi is False and not self._keys_changed:
            return False
        return self._is_escaped or bool(self._sequence)

    def _submitted_by(self, byte: int) -> str | None:
        if (macro := self._macro(byte)) is not None:
            return self._submitted_by_macro(macro, byte)
        if not (self._is_known and self.bindings.is_complete) or (self._sequence and byte in b"\r\nv"):
            return None
        return COMMENT.sub("", self._text()) if self._sequence else self._text()

    def _submitted_by_macro(self, macro: Macro, byte: int) -> str | None:
        """Return what a macro submits. Output can forge a report, so a key that may submit the line too submits both."""
        if macro.text is None or not (self._is_known or macro.is_command):
            return None
        text = macro.text if macro.is_command else self._text() + macro.text
        if not self._may_submit_without_macro(byte):
            return text
        pending = self._text()
        is_certain = self._is_known and not any(_HIDES_NEXT_LINE.search(line) for line in (text, pending))
        return f"{text}\n{pending}" if is_certain and self._is_key_with_alt(byte) and byte >= 0x20 else None

    def _take(self, byte: int) -> None:
        last, self._last, macro = self._last, byte, self._macro(byte)
        if self.bindings.macros:
            self._recent = (self._recent + bytes((byte,)))[-MAX_KEY:]
        if macro is not None:
            self._take_unknown()
        elif byte in _ENTER:
            self._enter(is_quoted=last == _QUOTE)
        elif byte == 0 and last == 0x0D:
            pass  # NUL follows a CR on Telnet (RFC 854)
        elif byte == 0x1B or (self._sequence and byte >= 0x20):
            self._take_sequence(byte)
        elif self._sequence:  # a control character ends the sequence, or is a part of a key of vi: bash takes ESC ^C for one
            self._is_escaped = True
            self._take_unknown()
        elif byte >= 0x20 and byte != 0x7F:
            self._insert(bytes((byte,)))
        elif self._is_pasting and byte == _INTERRUPT:  # ends the paste
            self._is_pasting = False
            self._take_unknown()
        elif self._is_pasting:  # an editor without bracketed paste takes it as a key
            self._is_known = self._is_plain = self._is_known and byte == _TAB
            self._insert(bytes((byte,)))
        else:
            self._take_key(byte)

    def _take_sequence(self, byte: int) -> None:
        """Take a byte of an escape sequence; all but the marks of a paste make the line unknown."""
        if byte == 0x1B and self._sequence:
            self._take_unknown()
            self._is_partial = True
        self._sequence.append(byte)
        self._has_vi_command = self._has_vi_command or byte in _VI_COMMAND
        sequence = bytes(self._sequence)
        if sequence in _PASTE_MARKS:
            self._is_pasting = sequence == PASTE_BEGIN
            self._sequence.clear()
        elif len(sequence) == 1 or any(mark.startswith(sequence) for mark in _PASTE_MARKS):
            return
        elif len(sequence) == 2 and byte not in b"[O":
            self._is_escaped = self._is_partial or self.bindings.is_vi is not True or byte not in _VI_INSERT
            self._take_unknown()
            if byte in _VI_COMMAND:  # Escape in vi, and not Alt
                self._line.append(byte)
        elif len(sequence) > 2 and byte >= 0x40:
            self._is_escaped = self._is_escaped or self._keys_changed
            self._take_unknown()

    def _take_key(self, byte: int) -> None:
        if byte in self.keys.kill and b"\n" not in self._line:
            was_known, was_empty, is_escaped = self._is_known, not self._line, self._is_escaped
            may_have_text = self.may_have_text and not was_known
            self._is_open = False if byte == _INTERRUPT else self._is_open
            self._empty()
            self._is_escaped, self._may_have_text = is_escaped, may_have_text
            self._has_vi_command = self._has_vi_command and byte != _INTERRUPT
            self._is_known, self._was_killed = was_known and (was_empty or byte != _INTERRUPT), not was_known
        elif byte in self.keys.erase:
            self._erase()
        elif byte in self.keys.erase_word:
            self._erase_word()
        else:
            may_have_text = self._may_have_text or byte not in _WITHOUT_TEXT
            self._take_unknown()
            self._may_have_text = may_have_text

    def _take_unknown(self) -> None:
        self._may_have_text = True
        self._is_known = self._is_plain = self._is_partial = False
        self._sequence.clear()

    def _enter(self, *, is_quoted: bool) -> None:
        """Submit the line. Within a paste it may only be a line of a longer text: it stays pending too."""
        if self._is_pasting:
            self._is_known = self._is_known and not self._sequence
            self._sequence.clear()
            self._insert(b"\n")
            return
        was_known = self._is_known and not self._sequence
        # other text may be in the line too, perhaps only since it was judged
        if self._line and not self._is_read and (was_known or self.typed_text is not None):
            self._submitted(self._text())
        line = _QUOTES.sub(b"", self._line)
        self._empty()
        self._has_vi_command = self._has_vi_command and is_quoted
        if self.keys.of_shell and line:
            self._keys_changed = self._keys_changed or _changes_keys(line)
            is_empty = not self._keys_changed and _FILLS_LINE.search(line) is None
            was_known, self._may_have_text = was_known and is_empty, not is_empty
        self._is_known = was_known and not is_quoted
        self._is_plain, self._may_have_text = not is_quoted, self._may_have_text or is_quoted

    def _text(self) -> str:
        return self._line.decode("utf-8", "surrogateescape")

    def _insert(self, data: bytes) -> None:
        self._last = data[-1]
        self._line += data
        self._has_vi_command = self._has_vi_command or any(begin in data for begin in _VI_COMMAND)
        if len(self._line) > MAX_LINE:
            self._is_known, self._is_plain, self._may_have_text = False, False, True
            self._has_vi_command = True
            self._line.clear()

    def _empty(self) -> None:
        self._line.clear()
        self._sequence.clear()
        self._is_known, self._is_plain, self._may_have_text = True, True, False
        self._was_killed = self._is_escaped = self._is_partial = self._is_read = self._is_lost = False

    def _erase(self) -> None:
        """Delete the last character. Editors differ for composed characters: then the line is unknown."""
        if self._line and self._line[-1] < 0x80:
            self._line.pop()
        elif self._line or not self._is_known:
            self._is_known = self._is_plain = False

    def _erase_word(self) -> None:
        """Delete the last word if it has only letters and digits: editors differ in what else ends a word."""
        text = bytes(self._line)
        begin = text.rstrip(b" ").rstrip(_LETTERS_AND_DIGITS)
        if text.isascii() and (not begin or begin.endswith(b" ")):
            del self._line[len(begin) :]
            self._is_plain = self._is_plain and (self._is_known or bool(begin))
        else:
            self._is_known = self._is_plain = False
