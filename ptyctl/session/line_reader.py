"""The pending line as the screen shows it: for lines whose text the model of the typed keys does not know."""

from __future__ import annotations

from collections.abc import Sequence

from ptyctl.api.errors import PtyctlError
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.policy.pending_line import PendingLine
from ptyctl.session.io.input_echo import InputEcho
from ptyctl.session.io.terminal_state import FarEnd, TerminalState
from ptyctl.session.screen.screen import Screen
from ptyctl.session.screen.shown_line import (
    LINE_BYTES,
    LineLocation,
    first_row_of,
    lines_from,
    may_be_hidden,
    shown_lines,
    text_after,
)

from .input_places import InputPlaces
from .judgement import Place

#: How often a line is read again because the screen has changed meanwhile.
_READINGS = 3
#: Shells whose line editors show a line also after `stty -echo`.
_SHOWING_SHELLS = frozenset(("zsh", "fish"))


class LineReader:
    """Reads the pending line from the screen."""

    def __init__(
        self,
        line: PendingLine,
        terminal: TerminalState,
        screen: Screen,
        location: LineLocation,
        echo: InputEcho,
        places: InputPlaces,
        far_end: FarEnd,
    ) -> None:
        """`line` is the model of the typed keys."""
        self._line = line
        self._terminal = terminal
        self._stream, self._unfinished = terminal.stream, terminal.unfinished_line
        self._screen = screen
        self._location, self._echo, self._places = location, echo, places
        self._far_end = far_end
        self._is_displaced = False

    @property
    def is_displaced(self) -> bool:
        """Whether the shell may have drawn the line that was read last in wrong columns: the readings are not certain."""
        return self._is_displaced

    async def read(self, key: bytes) -> tuple[Sequence[Place], list[str]]:
        """Read the line at the cursor that `key` submits, once the echo has settled, and where it goes then.

        There is no reading if the line cannot be read: the far end has not handled the keys, or sends more output.
        """
        for _ in range(_READINGS):
            is_settled, places, raw = await self._echo.settled(), self._places.now(), self._stream.raw_size
            in_lines = self._terminal.reads_lines()
            if not is_settled or (places[0].where == "prompt" and not self._location.shows_prompt_since_enter()):
                return places, []
            try:
                screen = (await self._screen.state()).snapshot
            except PtyctlError:
                return places, []
            await self._terminal.read_pending()
            is_same = (raw, places, in_lines) == (self._stream.raw_size, self._places.now(), self._terminal.reads_lines())
            if is_same and self._terminal.input_is_read() is not False:
                readings = self._shown_lines(screen, key, places)
                if not readings and places[0].where == "program":
                    places = self._places.in_program(places[-1]._replace(is_ahead=True))  # perhaps for the shell
                if readings or self._line.typed is None or not await self._echo.continues(raw):
                    return places, readings
        return self._places.now(), []

    def _shown_lines(self, screen: ScreenSnapshot, key: bytes, places: Sequence[Place]) -> list[str]:
        """Return the readings of the line at the cursor. If they are what was typed, the pending line is known again."""
        self._is_displaced = False
        top = self._location.top_row(screen)
        if places[0].where == "program":
            return self._lines_for_program(screen, top or 0)
        if top is None or not self._is_readable(key):
            return []
        typed = self._line.typed if self._unfinished.filled is None else None
        prompts = self._location.prompts(screen, top)
        if typed is not None and any(first_row_of(screen, prompt, typed) == top for prompt in prompts):
            self._line.confirm()  # nothing is in front of what was typed
            if (line := self._line.line) is not None:
                return [line]
        return self._possible_lines(screen, top, prompts)

    def _possible_lines(self, screen: ScreenSnapshot, top: int, prompts: Sequence[str | None]) -> list[str]:
        """Return the readings of the line of a prompt."""
        readings = self._readings_of(screen, prompts, top)
        if not self._is_shown(screen, readings):
            return []
        filled, typed = self._unfinished.filled, self._line.typed
        self._is_displaced = typed is None and self._may_be_displaced()
        if filled is not None:
            return self._readings_with(filled, readings, screen)
        if typed is not None and first_row_of(screen, self._terminal.learned_prompt, typed) is not None:
            self._line.confirm()
        return readings

    def _may_be_displaced(self) -> bool:
        """Return whether the shell may have drawn a line that other keys have changed in wrong columns.

        bash, and a shell of another machine, may have another encoding than UTF-8, in which a character has other columns.
        """
        if self._far_end.is_device():
            return False
        is_known_editor = self._terminal.foreground_shell() in _SHOWING_SHELLS
        return not self._location.begins_row() or not (is_known_editor or self._is_drawn_in_ascii())

    def _is_drawn_in_ascii(self) -> bool:
        """Return whether all output since the first key of the line is ASCII."""
        begin, end = self._unfinished.raw, self._stream.raw_size
        return begin < 0 or (end - begin <= LINE_BYTES and self._stream.read_raw(begin, end).isascii())

    def _readings_of(self, screen: ScreenSnapshot, prompts: Sequence[str | None], top: int) -> list[str]:
        is_device = self._far_end.is_device()
        shown = [shown_lines(screen, prompt, top, is_device=is_device) for prompt in prompts]
        return list(dict.fromkeys(line for lines in shown for line in lines))

    def _lines_for_program(self, screen: ScreenSnapshot, top: int) -> list[str]:
        """Return the readings of a line that a program gets; none if a shell may get it, and it cannot be read.

        On another machine that is a guess: a shell may show a prompt that is not known. So the rows since the first key are
        read too, outside the alternate screen, and what was typed counts.
        """
        readings = self._readings_of(screen, [self._terminal.learned_prompt], top)
        readings = readings or [row.strip() for row in screen.rows[screen.cursor[0] :][:1]]
        if self._terminal.shell_in_foreground() is None:
            if not screen.alt_screen:
                place = self._location.first_key_place(screen)
                if place is None or not (since := lines_from(screen, *place)):
                    return []
                readings += since
            readings += [] if self._line.typed_text is None else [self._line.typed_text.strip()]
        return list(dict.fromkeys(readings))

    def _is_readable(self, key: bytes) -> bool:
        """Return whether the screen can show the line. The kernel's editor does not show it again after a new prompt."""
        in_kernel = self._line.typed is None and self._terminal.reads_lines()
        return self._line.is_readable_at(key) and not in_kernel

    def _is_shown(self, screen: ScreenSnapshot, readings: list[str]) -> bool:
        """Return whether the readings show what was typed; where other keys were typed, whether the line is not hidden."""
        typed = self._line.typed
        if typed is not None:
            return any(typed.strip() in reading for reading in readings)
        return not (self._line.may_have_text and may_be_hidden(screen, readings)) or self._shows_each_line()

    def _shows_each_line(self) -> bool:
        """Return whether a line is shown even where the terminal does not echo: bash, for example, hides it then."""
        return self._far_end.is_device() or self._terminal.foreground_shell() in _SHOWING_SHELLS

    def _readings_with(self, filled: bytes, readings: list[str], screen: ScreenSnapshot) -> list[str]:
        """Return the readings of a line that begins with text of the shell, and what it is if keys have not changed that text.

        A row of the text may look like the prompt with another line. There is no reading if the text is not known, or if it may
        have been changed and the cursor's row does not begin with it.
        """
        if not filled or not readings:
            return []
        typed = self._line.typed
        if typed is None:
            text = filled.decode("latin-1")
            shown = text_after(self._terminal.learned_prompt or "", screen.rows[screen.cursor[0]])
            is_shown = shown is not None and shown.startswith(text.rstrip())
            return readings if text.isascii() and text.isprintable() and is_shown else []
        whole = (filled.decode("utf-8", "surrogateescape") + typed).strip()
        return readings if whole in readings else [*readings, whole]
