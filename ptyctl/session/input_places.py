"""Where text goes that is typed now: to a prompt of the far end with its platform and mode, or to a program."""

from __future__ import annotations

from ptyctl.core.shells import may_run_shell, shell_dialect
from ptyctl.policy.rules import OTHER_SHELL, SHELL_PLATFORM
from ptyctl.session.device.exchange import lines_before, text_before_cursor, text_behind_prompt
from ptyctl.session.io.terminal_state import FarEnd, TerminalState

from .judgement import Place


class InputPlaces:
    """Finds the places of typed text. The first one gets it; the rules of the others count too."""

    def __init__(
        self,
        terminal: TerminalState,
        far_end: FarEnd,
        program: str | None,
    ) -> None:
        """`program` is the one that the session was opened with; None for a login shell or a device."""
        self._terminal = terminal
        self._stream = terminal.stream
        self._program = program
        self._far_end = far_end
        #: Mode and text of the prompt that was shown at this raw size of the output.
        self._shown_at: tuple[int, tuple[str | None, str]] = (-1, (None, ""))
        #: Whether the line whose first key was typed at this raw size was begun at the learned prompt.
        self._begun_at: tuple[int, str | None, bool] = (-1, None, False)

    def now(self) -> tuple[Place, ...]:
        """Return where input goes now."""
        name = self._far_end.platform()
        if self._far_end.is_device():
            return (Place(name, self.shown_prompt()[0]),)
        prompt, in_foreground = self._shell_place(name), self._terminal.shell_in_foreground()
        if in_foreground is None:
            at_prompt = self._far_end.is_at_marked_prompt() or self._shows_prompt()
        elif in_foreground:
            at_prompt = not self._is_program()
        else:
            program = self._terminal.foreground_program()
            is_shell = program is not None and shell_dialect(program[1]) is not None
            # a fork of a shell shows no prompt: a subshell, or a program that is about to start
            at_prompt = program is None or (is_shell and self._terminal.foreground_has_executed())
        return (prompt,) if at_prompt else self.in_program(prompt._replace(is_ahead=not self._terminal.takes_keys()))

    def of_run(self) -> tuple[Place, ...]:
        """Return where the command of a run goes: to the prompt, or to that of a program (a REPL) in the foreground."""
        prompt, terminal = self.prompt(), self._terminal
        in_program = self._is_program()
        at_prompt = self._far_end.has_marks() and not self._stream.command_begun  # it runs a program for its prompt
        if not (in_program or at_prompt) and terminal.shell_in_foreground() is False and self._stream.has_prompt_marks:
            program = terminal.foreground_program()
            in_program = program is not None and not may_run_shell(program[1])
        return self.in_program(prompt) if in_program else (prompt,)

    def prompt(self) -> Place:
        """Return the place of a text at the prompt of the device or shell."""
        name = self._far_end.platform()
        return Place(name, self.shown_prompt()[0]) if self._far_end.is_device() else self._shell_place(name)

    @staticmethod
    def in_program(prompt: Place) -> tuple[Place, ...]:
        """Return the places of a text for a program. The rules of the shell count too: it may read what the program leaves."""
        return (Place(prompt.platform, where="program"), prompt)

    def shown_prompt(self) -> tuple[str | None, str]:
        """Return mode and text of the device's prompt that is shown, also if text follows it; None and empty without one."""
        raw = self._stream.raw_size
        if self._shown_at[0] != raw:
            lines, profile = lines_before(self._stream, raw), self._far_end.profile()
            shown = profile.shown_prompt(lines)
            if shown is None and (before := profile.prompt_before_text(lines)) is not None:
                shown = before[0]
            self._shown_at = raw, (None, "") if shown is None else (shown.mode, shown.prompt)
        return self._shown_at[1]

    def shows_text_after_prompt(self) -> bool:
        """Return whether text follows the prompt of a device."""
        if not self._far_end.is_device():
            return False
        return bool(text_behind_prompt(self._terminal, self._far_end.profile(), self._terminal.last_line()))

    def _is_program(self) -> bool:
        """Return whether the session was opened with a program that is not known to be a shell or a device."""
        return self._program is not None and self._far_end.platform() is None and not self._far_end.is_shell()

    def _shell_place(self, name: str | None) -> Place:
        if name is None and self._far_end.is_shell():
            name = SHELL_PLATFORM
        dialect = self._far_end.dialect()
        # bash, zsh and dash are judged alike, and so while they run a program for their prompt, which is then in front
        return Place(name, shell=dialect if dialect in ("fish", OTHER_SHELL) else None)

    def _shows_prompt(self) -> bool:
        line = self._terminal.last_line()
        shows_it = self._terminal.begins_with_prompt(line) or self._far_end.profile().is_prompt(line)
        return shows_it or self._line_was_begun_at_prompt()

    def _line_was_begun_at_prompt(self) -> bool:
        """Return whether the pending line was begun at the learned prompt, which its last row may not show."""
        stream, typed, learned = self._stream, self._terminal.unfinished_line, self._terminal.learned_prompt
        if typed.raw < stream.incarnation_raw or not (learned or "").strip():
            return False
        if self._begun_at[:2] != (typed.raw, learned):
            # text that was typed ahead, before the line end was echoed, may be for the program that the line starts
            is_answered = typed.entered_raw < 0 or b"\n" in stream.read_raw(typed.entered_raw, typed.raw)
            before = text_before_cursor(stream, typed.raw, self._terminal.width())
            self._begun_at = typed.raw, learned, is_answered and before.endswith(learned or "")  # output may precede the prompt
        return self._begun_at[2] and not self._terminal.shows_alternate_screen()
