"""Keeps the model of the pending line in step with the shell: its prompts, its key bindings, and the text that it inserts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptyctl.core.control_sequences import ETX
from ptyctl.core.marker import FISH_CLEAR_KEY
from ptyctl.policy.key_bindings import read_bindings
from ptyctl.policy.pending_line import DEVICE_KEYS, SHELL_KEYS, PendingLine, fills_next_line
from ptyctl.session.device.exchange import lines_before, text_before_cursor
from ptyctl.session.io.prompt import is_continuation
from ptyctl.session.io.terminal_state import FarEnd, TerminalState

from .input_places import InputPlaces


class LineSynchronisation:
    """Changes the model of the pending line as the far end does: call `synchronise` before the model is used or fed."""

    def __init__(self, line: PendingLine, terminal: TerminalState, far_end: FarEnd, places: InputPlaces) -> None:
        self._line, self._terminal, self._far_end, self._places = line, terminal, far_end, places
        self._stream, self._unfinished, self._prompt = terminal.stream, terminal.unfinished_line, terminal.prompt
        self._cleared = 0
        self._incarnation_raw = self._stream.incarnation_raw
        #: The keys that the last prompt mark has reported, and whether a command runs.
        self._bound_keys: tuple[str | None, bool] = (None, False)
        #: Whether the last line was submitted to a shell that had read all input before it.
        self._shell_has_line = False
        #: Whether an earlier process has sent lines that the next ones may continue; the raw offset of a Ctrl-C since, or -1.
        self._has_lost_lines = False
        self._interrupted_raw = -1
        #: The number of inputs after which fish was to clear its line, and the raw offset then.
        self._cleared_fish = (-1, 0)
        #: Whether a shell without marks may be verified to be at an empty prompt, although an earlier process has sent lines.
        self._may_verify_prompt = False
        #: Whether the last command of a run may put text into the next line.
        self._fills_next_line = False

    @property
    def has_lost_lines(self) -> bool:
        """Whether an earlier process has sent lines that the pending one may continue."""
        return self._has_lost_lines

    def may_continue_lost_lines(self) -> bool:
        """Return whether the pending line may continue lines of an earlier process, which are not known.

        It does not in a program of this machine that reads lines itself.
        """
        is_program = self._terminal.shell_in_foreground() is False and self._places.now()[0].where == "program"
        return self._has_lost_lines and not (is_program and self._terminal.reads_line())

    def awaits_line(self) -> bool:
        """Return whether the shell will report text that its hooks put into the line."""
        return self._stream.line_follows and self._far_end.has_marks()

    def awaits_interrupted_line(self) -> bool:
        """Return whether a shell at its prompt has yet to discard the line at the last Ctrl-C."""
        is_at_prompt = self._places.now()[0].where == "prompt" and not self._far_end.is_device()
        return is_at_prompt and self._unfinished.empty and self._line.perhaps_interrupted

    def synchronise(self) -> None:
        """Forget what was typed before if a prompt has been verified or shown since, or the terminal was replaced."""
        is_device = self._far_end.is_device()
        self._line.set_keys(DEVICE_KEYS if is_device else SHELL_KEYS)
        if self._may_verify_prompt and self._at_prompt_of_entered_line():
            self._may_verify_prompt = False
            self._unfinished.clear()
        self.set_bindings()
        self._forget_earlier_input(is_device=is_device)
        self._has_lost_lines = self._has_lost_lines and not self._has_left_lines()
        if self._line.is_empty and self._is_filled_in():
            self._line.lose()
        if (self._unfinished.filled is not None and not self._unfinished.is_doubted) or self.awaits_line():
            self._line.put_after_text()

    def set_bindings(self) -> None:
        """Set the key bindings of the shell that reads. Macros of the session's shell count in those below too.

        A new terminal begins with the usual ones.
        """
        prompt = self._stream.last_prompt if self._far_end.has_marks() else None
        state = (None if prompt is None else prompt.keys, self._far_end.is_running())
        if state != self._bound_keys:
            self._bound_keys = state
            bindings = read_bindings(state[0])
            self._line.set_bindings(replace(bindings, is_vi=None) if state[1] and not bindings.is_vi else bindings)
        if self._incarnation_raw != self._stream.incarnation_raw:
            self._incarnation_raw = self._stream.incarnation_raw
            self._line.reset_keys()

    def line_sent(self, *, to_shell: bool) -> None:
        """Note who gets the line that is about to be submitted: whether a shell that has read all input before it."""
        self._shell_has_line = to_shell

    def input_sent(self, data: bytes) -> None:
        """Note input that was sent: Ctrl-C ends the lines of an earlier process."""
        if self._has_lost_lines and ETX in data:
            self._interrupted_raw = self._stream.raw_size

    def note_command(self, text: str) -> None:
        """Note the command of a run that is about to be typed: it may change what keys or the next line do."""
        self._line.note_command(text)
        self._fills_next_line = fills_next_line(text)

    def line_replaced(self) -> None:
        """Clear the line: the command of a run is typed at an empty prompt. Other text may precede the next line."""
        if self._fills_next_line:
            self.synchronise()  # it would clear the line later
        self._line.clear()
        if self._fills_next_line:
            self._line.put_after_text()

    def restore(self, inputs: Sequence[tuple[bytes, bool]] | None, text: str | None, *, is_recorded: bool) -> None:
        """Continue the line of an earlier process. For the arguments see `Authorization.line_restored`.

        If all of its input is known, a local shell without marks is at an empty prompt if it waits where the last line of that
        process was entered.
        """
        line, unfinished = self._line, self._unfinished
        line.set_keys(DEVICE_KEYS if self._far_end.is_device() else SHELL_KEYS)
        self.set_bindings()
        is_incomplete = unfinished.incomplete
        for data, is_begun in inputs or ():
            for _ in line.feed(data):
                pass
            if not is_begun:
                line.read_by_program()
        if inputs is None:
            is_entered = unfinished.entered_raw >= 0 and not self._at_new_prompt()
            self._has_lost_lines = is_entered and not (self._stream.command_begun and not is_incomplete)
            if text is None:
                line.lose()
            else:
                for _ in line.feed(text.encode()):
                    pass
        may_verify = is_recorded and not unfinished.owners and unfinished.entered_raw >= 0
        self._may_verify_prompt = may_verify and not self._far_end.has_marks()

    def _forget_earlier_input(self, *, is_device: bool) -> None:
        """Clear the line after a verified prompt; forget earlier lines after a shown prompt, or while their command runs."""
        line = self._line
        if self._unfinished.cleared != self._cleared:
            self._cleared, self._has_lost_lines = self._unfinished.cleared, False
            line.clear()
        elif line.is_open and not is_device:
            pass  # what looks like a prompt, or as its mark, may be forged: a command of the shell can read the nonce
        elif line.perhaps_interrupted and not is_device and self._has_answered_interrupt():
            line.clear()
        elif (line.perhaps_submitted or (line.has_continued and line.is_empty)) and self._at_new_prompt():
            if line.is_empty or is_device:
                line.clear()
            else:  # the shell may insert text after the prompt
                line.begin_command()
        elif line.has_continued and self._shell_has_line and self._is_read_by_program():
            self._shell_has_line = False
            line.forget_continued()

    def _at_prompt_of_entered_line(self) -> bool:
        """Return whether a local shell waits at the prompt at which the last line of an earlier process was entered.

        What looks like the prompt for the rest of a command is none: another prompt is not known.
        """
        terminal, stream, unfinished = self._terminal, self._stream, self._unfinished
        self._may_verify_prompt = unfinished.inputs == 0 and unfinished.entered_raw >= 0
        if not (self._may_verify_prompt and terminal.shell_in_foreground() is True and terminal.input_is_read() is True):
            return False
        line, entered_at = terminal.last_line(), lines_before(stream, unfinished.entered_raw)[-1]
        has_answered = b"\n" in stream.read_raw(unfinished.entered_raw, stream.raw_size)
        is_prompt = self._far_end.profile().is_prompt(line) and not is_continuation(line, "")
        return has_answered and is_prompt and entered_at.startswith(line)

    def _has_left_lines(self) -> bool:
        """Return whether the shell has answered a Ctrl-C since its lines were lost. fish sends no mark for the prompt then."""
        interrupted, stream = self._interrupted_raw, self._stream
        if interrupted < 0:
            return False
        if self._far_end.has_marks() and self._terminal.foreground_shell() != "fish":
            return stream.shell_returned_raw >= interrupted
        return b"\n" in stream.read_raw(interrupted, stream.raw_size)

    def _has_answered_interrupt(self) -> bool:
        """Return whether a shell at its prompt has discarded the line at the last Ctrl-C.

        It reports that with the mark of its next prompt. fish sends one only as the answer to its key.
        """
        stream, unfinished, terminal = self._stream, self._unfinished, self._terminal
        if not (unfinished.empty and unfinished.interrupted) or stream.raw_size == unfinished.entered_raw:
            return False
        if not self._far_end.has_marks():  # only a local shell is known to read
            return terminal.shell_in_foreground() is True and terminal.input_is_read() is True and self._at_new_prompt()
        if not self._far_end.is_at_marked_prompt():
            return False
        if terminal.shell_in_foreground() is False and terminal.foreground_shell() is None:
            return False
        if self._far_end.dialect() == "fish":
            asked_for, raw = self._cleared_fish
            return asked_for == unfinished.inputs and stream.shell_returned_raw >= raw
        return stream.shell_returned_raw >= unfinished.entered_raw

    async def clear_line_of_fish(self) -> None:
        """Let fish clear its line and report it, once after each Ctrl-C at its prompt, when it has handled that."""
        terminal, unfinished = self._terminal, self._unfinished
        if self._cleared_fish[0] == unfinished.inputs or not self._fish_waits():
            return
        if await terminal.nothing_more() and self._fish_waits():
            self._cleared_fish = unfinished.inputs, self._stream.raw_size
            await terminal.gate.reply(FISH_CLEAR_KEY)

    def _fish_waits(self) -> bool:
        """Return whether the session's own fish waits for a key at its prompt, and no text was typed after Ctrl-C."""
        terminal, unfinished = self._terminal, self._unfinished
        if not (unfinished.empty and unfinished.interrupted and terminal.shell_in_foreground() is True):
            return False
        is_at_prompt = self._far_end.is_at_marked_prompt() and not self._stream.command_begun
        return self._far_end.dialect() == "fish" and is_at_prompt and terminal.input_is_read() is True

    def _is_read_by_program(self) -> bool:
        """Return whether the command that the shell has read runs, so that the next lines do not continue it."""
        if self._terminal.shell_in_foreground() is None:
            return self._far_end.has_marks() and self._far_end.is_running()
        return self._places.now()[0].where == "program"

    def _at_new_prompt(self) -> bool:
        """Return whether the shell has shown its prompt since the last line was submitted: it continues no earlier line."""
        if self._far_end.has_marks():
            return self._stream.shell_returned_raw >= self._unfinished.entered_raw
        line, prompt = self._terminal.last_line(), self._prompt
        return not is_continuation(line, prompt.learned) and prompt.match(line, self._far_end.profile()) is not None

    def _is_filled_in(self) -> bool:
        """Return whether the shell has inserted text after the prompt (`print -z` of zsh, a line that was put aside).

        Text of a prompt at the right edge follows the cursor.
        """
        terminal, line = self._terminal, self._terminal.last_line()
        learned = terminal.learned_prompt or ""
        if not terminal.begins_with_prompt(line) or not line.removeprefix(learned).strip():
            return False
        if terminal.left_part(line).rstrip() != learned.rstrip():
            return True
        return text_before_cursor(self._stream, self._stream.raw_size, terminal.width()).rstrip() != learned.rstrip()
