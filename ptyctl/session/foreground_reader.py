"""Who reads the input of a terminal: a shell at its prompt, another program, or one that asks for a password."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

from ptyctl.core.control_sequences import INTERRUPT_BYTES
from ptyctl.core.shells import may_run_shell
from ptyctl.platforms import DeviceProfile
from ptyctl.policy.rules import SHELL_PLATFORM
from ptyctl.session.io.input_echo import POLL_S, SETTLE_WAIT_S
from ptyctl.session.io.prompt import is_continuation
from ptyctl.session.io.terminal_state import FarEnd, TerminalState
from ptyctl.session.screen.shown_line import LineLocation

from .input_places import InputPlaces
from .judgement import Place

#: The longest wait until a program that works reads, or ends (seconds).
_READER_WAIT_S = 1.0
#: Shells that do not expand `!`; `sh` may be bash.
_WITHOUT_HISTORY_EXPANSION = frozenset(("fish", "dash"))
#: Programs of the whole screen that show text, or whose keys of `_LEAVING` leave it.
_READERS = frozenset(
    ("less", "more", "most", "pg", "lv", "man", "info", "view", "vi", "vim", "nvim", "top", "htop", "atop", "w3m", "lynx")
)
#: Keys that leave such a program or one of its modes: they change nothing, and no shell runs them without Enter.
_LEAVING = frozenset((b"q", b"Q", b":q", b"ZQ", b"\x1b"))
#: The last line of a pager whose name is not known: less, man, and systemctl's options for it; more.
_PAGER_LINE = re.compile(
    r"^:$|\(END\)|^lines \d+-\d+|^ ?Manual page |^--\s?\(?More\b|\(press h for help or q to quit\)", re.IGNORECASE
)
_ONE_LINE = re.compile(rb"[^\r\n]*[\r\n]")
#: How often it is checked whether a program waits in a read(2): it may wait for a lock there at first.
_ATTEMPTS = 5
#: The longest line that a terminal in canonical mode takes, in bytes, without its end.
_MAX_PASSWORD = 4095
#: A password up to its Enter: no key that ends the program which asks for it, so that a shell gets the rest.
_PASSWORD = re.compile(rb"[^\x00-\x14\x16-\x1f]{0,%d}(?:[\r\n]|\Z)" % _MAX_PASSWORD)


class ForegroundReader:
    """Finds who reads the input now, from the output, from the system, and from what was typed since the last Enter."""

    def __init__(
        self,
        terminal: TerminalState,
        location: LineLocation,
        far_end: FarEnd,
        places: InputPlaces,
        protocol: str,
    ) -> None:
        """`protocol` is that of the session: only of local programs the system tells what they read."""
        self._terminal, self._location = terminal, location
        self._stream = terminal.stream
        self._far_end, self._places, self._protocol = far_end, places, protocol
        #: The program that gets the next keys and its wake-ups, as noted before they are sent, and those at the last Enter.
        self._program: tuple[object, int | None] | None = None
        self._entered_by: tuple[object, int | None] | None = None
        #: Whether another program than a shell certainly gets the line whose Enter is sent next.
        self._is_read_by_other = False
        #: What was typed since the last Enter, up to more than a password, and whether its echo is masked.
        self._typed = b""
        self._is_masked = False
        #: The program and its wake-ups before the first byte of the line, if it was in a read(2) in canonical mode.
        self._line_begun_by: tuple[object, int | None] | None = None
        #: The raw offset at which the output of the terminal began that got the last input; -1 without input.
        self._used_raw = -1

    def sending(self, data: bytes) -> int | None:
        """Note the program that gets input which may submit a line; return its wake-ups, None if unknown."""
        self._program = self._foreground()
        self._is_read_by_other = is_one_line(data) and self._other_program_reads()
        return self._program[1]

    def line_begins(self) -> None:
        """Note which program gets the first byte of a line, before it is sent; no effect within a line."""
        if self._typed:
            return
        terminal, self._line_begun_by = self._terminal, None
        for _ in range(_ATTEMPTS if terminal.reads_lines() else 0):
            if not terminal.reads_line():
                continue
            begun_by = self._foreground()
            waits = terminal.input_is_read() is True and self._has_taken_enter() and terminal.reads_line()
            if waits and begun_by == self._foreground():
                self._line_begun_by = begun_by
                return

    def driver_has_line(self) -> bool:
        """Return whether the terminal driver certainly has the whole typed line, so that no line editor has seen a key of it.

        The program in the foreground has been in one read(2) in canonical mode since before the first byte.
        """
        self.line_begins()
        begun_by = self._line_begun_by
        is_same = begun_by is not None and begun_by[1] is not None and begun_by == self._foreground()
        return is_same and self._terminal.reads_line()

    def typed(self, data: bytes, *, secret: bool) -> None:
        """Note input that was sent. `secret`: its echo is masked."""
        self._used_raw = self._stream.incarnation_raw
        data = data.replace(b"\r\0", b"\r")  # a line end of Telnet
        end = max(data.rfind(b"\r"), data.rfind(b"\n")) + 1
        if end:
            self._entered_by, self._line_begun_by = self._program, None
        self._typed = (data[end:] if end else self._typed + data)[: _MAX_PASSWORD + 1]
        self._is_masked = self._typed != b"" and (secret or (self._is_masked and not end))

    def line_replaced(self) -> None:
        """Forget what was typed since the last Enter: the line was cleared."""
        self._used_raw = self._stream.incarnation_raw
        self._typed, self._is_masked, self._line_begun_by = b"", False, None

    @property
    def is_used(self) -> bool:
        """Whether the terminal of the current incarnation has got input of callers, or the command of a run."""
        return self._used_raw == self._stream.incarnation_raw

    @property
    def is_masked(self) -> bool:
        """Whether the echo of what was typed since the last Enter is masked."""
        return self._is_masked

    def other_program_gets(self, data: bytes) -> bool:
        """Return whether the input that was sent last is one line, which another program than a shell certainly gets."""
        return self._is_read_by_other and is_one_line(data)

    def shell_reads(self) -> bool:
        """Return whether a shell has read all input before, and waits at its prompt."""
        terminal = self._terminal
        if self._location.shows_prompt_since_enter() and (self._knows_prompt() or terminal.input_is_read() is None):
            return True
        if is_continuation(terminal.last_line(), terminal.learned_prompt):
            return True
        if not (terminal.input_is_read() is True and self._has_taken_enter()):
            return False
        is_editing = terminal.shell_in_foreground() is True and terminal.line_editor_active() and not self._far_end.is_running()
        return is_editing or self._location.shows_prompt_since_enter()

    def reads_line(self) -> bool:
        """Return whether the program in the foreground has taken the last Enter, and reads a line or a password now."""
        return self._has_taken_enter() and (self._terminal.reads_line() or self._terminal.reads_password())

    def leaves_program(self, keys: bytes) -> bool:
        """Return whether these keys alone leave the program that reads them: Ctrl-C any program, `q` and others a pager."""
        return not keys.strip(INTERRUPT_BYTES) or (keys in _LEAVING and self.is_pager())

    def is_pager(self) -> bool:
        """Return whether a pager, or another program that shows text on the whole screen, gets each key.

        The system names the programs of this machine. For others, the alternate screen or the last line of a pager tells it.
        """
        terminal = self._terminal
        if terminal.echo_is_known() and not terminal.relays_shell():
            return not terminal.reads_lines() and not _READERS.isdisjoint(terminal.foreground_names())
        line = terminal.last_line().strip()
        if terminal.shows_alternate_screen() or _PAGER_LINE.search(line) is not None:
            return True
        return terminal.ends_in_reverse_video() and not self._far_end.profile().may_ask(line)

    def asks_for_line(self) -> bool:
        """Return whether the program in the foreground reads a line; on another machine, whether it shows a question."""
        if self._terminal.echo_is_known():
            return self._terminal.reads_line()
        shown, typed = self._terminal.last_line().rstrip(), self._typed.decode("utf-8", "replace").rstrip()
        return shown.removesuffix(typed).strip() != ""

    def asks_secret(self) -> bool:
        """Return whether the last line of a far end whose echo is not known asks for a password, and is no shell's prompt."""
        terminal = self._terminal
        if self._protocol == "local" or terminal.echo_is_known():
            return False
        typed = self._typed.decode("utf-8", "replace")
        return asks_password(terminal.last_line(), typed, terminal.learned_prompt, self._far_end.profile())

    def hides_input(self) -> bool:
        """Return whether a program, or a command of the shell, reads a line without echo."""
        is_hidden = self._terminal.program_hides_input() or (self._far_end.is_running() and self._terminal.echo_off())
        return is_hidden or self.asks_secret()

    def may_hide_input(self, *, typed: bool) -> bool:
        """Return whether a far end whose echo is not known may ask for a secret, in any words, and has shown nothing of it.

        Args:
            typed: whether text of the line must have been sent, so that the missing echo tells; otherwise the question does.
        """
        terminal = self._terminal
        if self._protocol == "local" or terminal.echo_is_known():
            return False
        line, sent, profile = terminal.last_line(), self._typed.decode("utf-8", "replace").strip(), self._far_end.profile()
        prompt = (terminal.learned_prompt or "").strip()
        if line.strip().startswith(prompt) if prompt else profile.is_prompt(line):
            return False
        return not line.rstrip().endswith(sent) if sent else not typed and profile.may_ask(line)

    def takes_password(self, data: bytes) -> bool:
        """Return whether input begins with, or ends, a password that a program such as sudo waits for.

        The system is asked for one fact after the other. They belong together only if the program has not run meanwhile:
        sudo could take an Enter, and end, between the first and the last one.
        """
        if _PASSWORD.match(self._typed + data) is None:
            return False
        before = self._foreground()
        waits = self._terminal.reads_password() and self._terminal.input_is_read() is True and self._has_taken_enter()
        return waits and self._foreground() == before

    async def will_take_password(self, data: bytes) -> bool:
        """As `takes_password`, after waiting until the program has read all earlier input."""
        if _PASSWORD.match(self._typed + data) is None:
            return False
        deadline = self._terminal.now() + SETTLE_WAIT_S
        while self._terminal.reads_password() and self._terminal.now() < deadline:
            if self.takes_password(data):
                return True
            await asyncio.sleep(POLL_S)
        return False

    def asks_for_password_before_reading(self, data: bytes) -> bool:
        """Return whether a program asks for a password that `data` may be, and has not begun to read it."""
        is_asked = _PASSWORD.match(data) is not None and self._terminal.reads_password()
        return is_asked and not self.takes_password(data)

    async def next_reader(self) -> Literal["keys", "line", "prompt"] | None:
        """Wait until it is known who reads what is typed now; return None if the session has ended, or a timeout has passed.

        The program in the foreground gets each key, so that the shell below cannot read it; it reads a line; or the shell is at
        its prompt.
        """
        terminal = self._terminal
        deadline = terminal.now() + _READER_WAIT_S
        while self._stream.ended is None:
            if self._places.now()[0].where != "program":
                return "prompt"
            if terminal.takes_keys():
                return "keys"
            if terminal.reads_line():
                return "line"
            if terminal.now() >= deadline:
                break
            await asyncio.sleep(POLL_S)
        return None

    def may_be_left(self, places: Sequence[Place]) -> bool:
        """Return whether a program of this machine that runs in a shell has not begun to read what is typed now."""
        return places[-1].is_ahead and self._terminal.echo_is_known() and not self._terminal.reads_line()

    def expands_history(self, places: Sequence[Place]) -> bool:
        """Return whether typed text goes to a shell that expands `!`."""
        if not self.may_be_history_shell(places):
            return False
        program = self._terminal.foreground_program()
        return program is None or program[1].rpartition("/")[2].lstrip("-") not in _WITHOUT_HISTORY_EXPANSION

    def may_be_history_shell(self, places: Sequence[Place]) -> bool:
        """Return whether a shell gets a typed text, now or because the program that runs does not read it."""
        if places[-1].platform not in (None, SHELL_PLATFORM):
            return False
        if places[0].where == "prompt":
            return True
        return places[-1].is_ahead and not self.asks_for_line()

    def _knows_prompt(self) -> bool:
        """Return whether the output tells if the shell has shown its prompt since the last line was submitted."""
        return (
            self._far_end.has_marks() or self._terminal.entered_raw < 0 or bool((self._terminal.learned_prompt or "").strip())
        )

    def _has_taken_enter(self) -> bool:
        """Return whether the program in the foreground has run since the last Enter. The terminal may pass that on late."""
        program = self._foreground()
        return program[1] is None or program != self._entered_by

    def _foreground(self) -> tuple[object, int | None]:
        """Return the program in the foreground, and how often it was woken: equal before and after if it has not run."""
        return self._terminal.foreground_program(), self._terminal.wakeups()

    def _other_program_reads(self) -> bool:
        """Return whether a program of this machine, which runs no shell, certainly gets the next line."""
        terminal = self._terminal
        if terminal.shell_in_foreground() is not False or terminal.input_is_read() is not True:
            return False
        program = terminal.foreground_program()
        return terminal.reads_password() or (program is not None and not may_run_shell(program[1]))


def is_one_line(data: bytes) -> bool:
    """Return whether input is one line with its end."""
    return _ONE_LINE.fullmatch(data) is not None


def asks_password(line: str, typed: str, learned: str | None, profile: DeviceProfile) -> bool:
    """Return whether a line asks for a password, and does not only show a command that ends like such a question.

    Args:
        typed: what was typed since the last Enter.
        learned: the prompt that the session has learned.
    """
    if not profile.asks_password(line):
        return False
    if (prompt := (learned or "").strip()) and line.strip().startswith(prompt):
        return False
    return not (profile.asks_password(typed) and line.rstrip().endswith(typed.strip()))
