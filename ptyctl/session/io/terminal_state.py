"""The state of a terminal for runs: the output stream, the gate, the prompt, the channel and the clock."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from ptyctl.core.control_sequences import ALTERNATE_SCREENS, BRACKETED_PASTE
from ptyctl.core.renderer import render_cursor_line, render_line
from ptyctl.core.shells import Dialect, may_run_shell, shell_dialect
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.platforms import DeviceProfile
from transports.channel import TerminalStatus
from transports.process import WaitPoint

from .gate import Gate
from .output_stream import OutputStream
from .prompt import PROMPT_BYTES, Certainty, Prompt, is_continuation, without_right_prompt

#: Settle time of a prompt that only matches a pattern (seconds).
SETTLE_S = 0.15
#: Shorter time for a prompt directly below the complete echo of a line: line editors repaint, and some devices discard input
#: right after they print a question (seconds).
ANSWER_S = 0.02
#: Interval at which to check whether a shell waits at its prompt (seconds).
_POLL_S = 0.005
REPORT_LOST = (
    "zsh has not reported what its hooks put into the line: until it does, written lines are unreadable and refused at once, "
    "and commands are run only if the screen shows an empty prompt"
)
#: A line editor moves up to a row of its line, and down again: the cursor's line begins before the last line feed then.
_CURSOR_UP = re.compile(rb"\x1b\[\d*A")
#: The end of a line that less shows in reverse video.
_IN_REVERSE_VIDEO = re.compile(rb"\x1b\[7m[^\x1b\r\n]+\x1b\[(?:27|0)?m(?:\x1b\[K)?$")
#: A line editor sends it when it begins to read a line.
_BRACKETED_PASTE_ON, _BRACKETED_PASTE_OFF = (b"\x1b[?%d%c" % (BRACKETED_PASTE, final) for final in b"hl")
#: fish moves with it to the row below a prompt that fills its row: the cursor is still in the prompt's line.
_NEXT_ROW = b"\r\r\n"
#: A line editor ends within this many bytes after an entered line, and its next prompt begins within as many before the end.
_EDITOR_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FarEnd:
    """What a session knows of its far end: a device with a platform, a shell, or a program.

    The functions return the current state: a platform may be detected, and a shell may begin to send marks.

    Attributes:
        platform: the name of the platform, None without one.
        is_device: whether the far end is a device rather than a POSIX shell.
        profile: the compiled platform.
        is_shell: whether a session without a platform has a POSIX shell.
        has_marks: whether the shell reports its prompts.
        is_running: whether a command of a run runs in it.
        dialect: the dialect of the shell that reads a command; None if it is not known.
    """

    platform: Callable[[], str | None]
    is_device: Callable[[], bool]
    profile: Callable[[], DeviceProfile]
    is_shell: Callable[[], bool]
    has_marks: Callable[[], bool]
    is_running: Callable[[], bool]
    dialect: Callable[[], str | None]

    def is_at_marked_prompt(self) -> bool:
        """Return whether a shell that reports its prompts runs no command."""
        return self.has_marks() and not self.is_running()


class TerminalState:
    """The terminal as runs, probes and logins use it.

    Attributes:
        prompt: the learned prompt, and how certain it is.
        expects_prompt: False for a shell without a terminal, which prints none.
        now: the loop's clock.
        post_notice: posts a notice to all users of the session.
    """

    def __init__(
        self,
        stream: OutputStream,
        gate: Gate,
        *,
        expects_prompt: bool,
        channel: Callable[[], TerminalStatus],
        width: Callable[[], int],
        on_notice: Callable[[str], None],
    ) -> None:
        """Create the state. `channel` and `width` return channel and number of columns; `on_notice` posts a notice to users."""
        self.stream = stream
        self.gate = gate
        self.now = asyncio.get_running_loop().time
        self.prompt = Prompt()
        self.expects_prompt = expects_prompt
        self.width = width
        self.post_notice = on_notice
        self._channel, self._signal = channel, stream.signal
        self._last_line = (-1, "")
        self._is_report_lost = False
        self._prompt_wait: WaitPoint | None = None

    @property
    def unfinished_line(self) -> UnfinishedLine:
        """The line that users are typing."""
        return self.gate.unfinished_line

    @property
    def has_unfinished_line(self) -> bool:
        """Return whether something was typed since the last Enter."""
        return not self.unfinished_line.empty

    @property
    def line_untouched(self) -> bool:
        """Whether the line is empty and no line was entered; see `UnfinishedLine.untouched`."""
        return self.unfinished_line.untouched

    @property
    def entered_raw(self) -> int:
        """Return the raw offset when a user last ended a line; see `UnfinishedLine`."""
        return self.unfinished_line.entered_raw

    @property
    def learned_prompt(self) -> str | None:
        """Return the prompt's line as it was shown last; None until one was seen."""
        return self.prompt.learned

    def learn_prompt(self, line: str) -> None:
        """Take a line as the prompt."""
        self.prompt.learn(line)

    def forget_prompt(self) -> None:
        """Forget the prompt: another program is in the foreground."""
        self.prompt.forget()

    def is_prompt(self, line: str, profile: DeviceProfile) -> bool:
        """Return whether a line is the prompt, or looks like one."""
        return self.prompt.match(line, profile) is not None

    def begins_with_prompt(self, line: str) -> bool:
        """Return whether a line begins with the learned prompt, if that has visible text."""
        learned = self.prompt.learned
        return learned is not None and learned.strip() != "" and line.startswith(learned)

    def left_part(self, line: str) -> str:
        """Return a line without the prompt at the right edge (RPROMPT)."""
        at_edge = self.width() - 1 <= len(line) <= self.width()
        return without_right_prompt(line) if at_edge else line

    def of_known_host(self, prompt: str) -> bool:
        """Return whether a prompt has the host name of the learned one, or that one has none."""
        return self.prompt.of_known_host(prompt)

    def last_line(self) -> str:
        """Return the line of the cursor as far as it was printed.

        With prompt marks, output without a final newline may precede the prompt in that line; the spool separates the two.
        """
        raw = self.stream.raw_size
        if self._last_line[0] != raw:
            self._last_line = raw, self._render_last_line()
        return self._last_line[1]

    def _render_last_line(self) -> str:
        stream = self.stream
        if stream.has_prompt_marks:
            return render_line(without_fill(stream.last_line()))
        output = stream.read_raw(max(stream.raw_size - PROMPT_BYTES, stream.incarnation_raw), stream.raw_size)
        row = stream.last_raw_line()
        above = output[: len(output) - len(row)]
        line = render_cursor_line(output, self.width()) if self._is_redrawn(output, row) else render_line(without_fill(row))
        if not line and above.endswith(_NEXT_ROW):
            full = render_cursor_line(above[: -len(_NEXT_ROW)], self.width())
            return full if full and len(full) % self.width() == 0 else line
        return line

    def _is_redrawn(self, output: bytes, row: bytes) -> bool:
        """Return whether the cursor's line depends on the width: the cursor moves up, or to the start of a row that wrapped."""
        return _CURSOR_UP.search(output) is not None or (len(row) > self.width() and b"\r" in row.rstrip(b"\r"))

    async def line_reported(self, wait_s: float, awaits: Callable[[], bool]) -> bool:
        """Wait, while `awaits` holds, for the line mark of zsh; return False on a timeout.

        Once a report was lost, further calls do not wait until zsh reports again.
        """
        stream, deadline = self.stream, self.now() + wait_s
        while awaits() and stream.ended is None:
            if self.line_report_lost():
                return False
            if self.now() >= deadline:
                self._is_report_lost = True
                self.post_notice(REPORT_LOST)
                return False
            await stream.wait(deadline)
        return True

    def line_report_lost(self) -> bool:
        """Return whether zsh has not sent its last reports in time."""
        last = self.stream.last_prompt
        self._is_report_lost = self._is_report_lost and last is not None and last.line_follows
        return self._is_report_lost

    def shell_in_foreground(self) -> bool | None:
        """Return whether the shell leads the foreground process group; None if unknown."""
        return self._channel().leads_foreground()

    def foreground_program(self) -> tuple[int, str] | None:
        """Return pid and name of the program that leads the foreground process group; None if unknown."""
        return self._channel().foreground_program()

    def foreground_directory(self) -> str | None:
        """Return the working directory of that program; None if unknown."""
        return self._channel().foreground_directory()

    def foreground_names(self) -> frozenset[str]:
        """Return the names of all programs of the foreground process group; none if unknown."""
        return self._channel().foreground_names()

    def foreground_shell(self) -> Dialect | None:
        """Return the dialect of the shell that leads the foreground process group; None for another program, or if unknown."""
        program = self._channel().foreground_program()
        return None if program is None else shell_dialect(program[1])

    def foreground_is_shell(self) -> bool | None:
        """Return whether the program in the foreground has the name of a shell; None if unknown."""
        program = self.foreground_program()
        return None if program is None else shell_dialect(program[1]) is not None

    def relays_shell(self) -> bool:
        """Return whether the program in the foreground may relay the terminal of a shell, as ssh and sudo do."""
        program = self.foreground_program()
        return program is not None and shell_dialect(program[1]) is None and may_run_shell(program[1])

    def foreground_has_executed(self) -> bool:
        """Return whether the program in the foreground was started; False for the fork of a shell, which has its name."""
        return self._channel().foreground_has_executed()

    def input_is_read(self) -> bool | None:
        """Return whether the program in the foreground has read all input and waits; None if unknown."""
        return self._channel().input_is_read()

    def waits_for_input(self) -> bool | None:
        """Return whether the program in the foreground certainly waits for input; None if it cannot be observed."""
        return None if self.input_is_read() is None else self._wait_point() is not None

    def wakeups(self) -> int | None:
        """Return how many times the foreground program was woken from sleep; None if unknown."""
        return self._channel().wakeups()

    def learn_prompt_wait(self) -> None:
        """Learn where the shell in the foreground waits: it is at its prompt.

        Not of another program: one that relays the terminal of another shell (ssh, tmux) always waits at the same place.
        """
        if self.foreground_is_shell():
            self._prompt_wait = self._wait_point() or self._prompt_wait

    async def learn_first_prompt_wait(self) -> None:
        """Wait until the shell in the foreground waits at the prompt that it shows now, and learn where."""
        deadline = self.now() + SETTLE_S
        if self.input_is_read() is None:
            return
        while self._wait_point() is None and self.now() < deadline and self.stream.ended is None:
            await self.stream.wait(min(self.now() + _POLL_S, deadline))
        self.learn_prompt_wait()

    def waits_at_prompt(self) -> bool | None:
        """Return whether the shell in the foreground waits for input at its prompt; False if it reads in a command.

        None if that is unknown: it does not wait, was not seen at its prompt, has executed another program, or the prompt or
        question that it shows has yet to be received.
        """
        now, at_prompt = self._wait_point(), self._prompt_wait
        if now is None or at_prompt is None or not now.is_of_same_program(at_prompt) or self.has_unread_output():
            return None
        return now == at_prompt

    def _wait_point(self) -> WaitPoint | None:
        return self._channel().wait_point()

    def shell_may_read(self) -> bool:
        """Return whether the foreground program may be a shell: the session's, or a nested one, but no fork of a shell."""
        program = self.foreground_program()
        if program is None or self.shell_in_foreground() is not False:
            return True
        return may_run_shell(program[1]) and self.foreground_has_executed()

    def reading_program(self) -> tuple[int, str] | None:
        """Return pid and name of the foreground program that may be a shell; None for another one, or if unknown.

        A fork of a shell, which has its name until it runs its program, may be in the foreground for a moment only: what is
        observed of it holds if the same program is still there afterwards.
        """
        program = self.foreground_program()
        return program if self.shell_may_read() and program == self.foreground_program() else None

    def exit_code(self) -> int | None:
        """Return the exit code of the channel's program, if it has ended with one."""
        status = self._channel().exit_status
        return None if status is None else status.shell_code

    def echo_off(self) -> bool:
        """Return whether a line is read without echo, as for a password; False if that is unknown."""
        return self._channel().echo_off

    def reads_password(self) -> bool:
        """Return whether sudo or a similar program in the foreground itself reads a line without echo; False if unknown."""
        return self._channel().reads_password()

    def echo_is_known(self) -> bool:
        """Return whether `echo_off` is known: for programs of this machine."""
        return self._channel().canonical is not None

    def program_hides_input(self) -> bool:
        """Return whether a line is read without echo, and not by a shell; False if that is unknown."""
        return self.echo_off() and self.foreground_shell() is None

    def ends_in_reverse_video(self) -> bool:
        """Return whether the last line ends in reverse video, as less shows the name of the file."""
        return _IN_REVERSE_VIDEO.search(self.stream.last_raw_line()) is not None

    def reads_lines(self) -> bool:
        """Return whether the terminal is certainly in canonical mode: the program gets its input line by line."""
        return self._channel().canonical is True

    def kill_key(self) -> bytes:
        """Return the key that deletes the unsubmitted line of a terminal in canonical mode; empty otherwise, or if unknown."""
        return self._channel().kill_key

    def rewrites_input(self) -> bool:
        """Return whether the program in the foreground receives text that differs from what was typed (`stty iuclc`).

        False without a channel.
        """
        return self._channel().rewrites_input

    def reads_line(self) -> bool:
        """Return whether the foreground program certainly reads a line in canonical mode, and no single keys."""
        return self._channel().reads_line()

    def reads_key(self) -> bool:
        """Return whether a local program that gets each key at once waits for input; False if that is unknown.

        Not one that relays another terminal: it always waits.
        """
        return self._channel().reads_key() and not self.relays_shell()

    def has_unread_output(self) -> bool:
        """Return whether output of a local program has not been received yet."""
        return self._channel().has_unread_output()

    def line_editor_active(self) -> bool:
        """Return whether a line editor reads: the terminal is not in canonical mode or, if that is unknown, bracketed paste is
        on. It is unknown behind a program that relays the terminal of another shell (ssh), which never is in canonical mode."""
        canonical, pastes = self._channel().canonical, BRACKETED_PASTE in self.stream.terminal_modes
        if canonical is None:
            return pastes
        return not canonical and (pastes or not self.relays_shell())

    def takes_keys(self) -> bool:
        """Return whether the program in the foreground gets each key at once.

        It has left canonical mode or, if that is not known, edits a line or uses the alternate screen.
        """
        canonical, modes = self._channel().canonical, self.stream.terminal_modes
        if canonical is not None:
            return not canonical
        return BRACKETED_PASTE in modes or self.shows_alternate_screen()

    def shows_alternate_screen(self) -> bool:
        """Return whether the alternate screen is shown, by a full-screen program or after one that was killed."""
        return not ALTERNATE_SCREENS.isdisjoint(self.stream.terminal_modes)

    def line_editor_began(self) -> bool:
        """Return whether a line editor has turned bracketed paste on in the cursor's line: it reads there, at any prompt."""
        return self._pastes_bracketed() and _BRACKETED_PASTE_ON in self.stream.last_raw_line()

    def line_editor_began_since(self, raw: int) -> bool:
        """Return whether a line editor has begun to read since a line was entered at this raw offset.

        One that read before has turned bracketed paste off for the command. Otherwise it still edits, or has just begun.
        """
        stream = self.stream
        before = stream.read_raw(max(raw - PROMPT_BYTES, stream.incarnation_raw), raw)
        # it turns the mode off below the line, and on at the next prompt: the output between them may be large
        head_end = min(raw + _EDITOR_BYTES, stream.raw_size)
        head = stream.read_raw(raw, head_end)
        tail = stream.read_raw(max(stream.raw_size - _EDITOR_BYTES, head_end), stream.raw_size)
        since = head + tail
        began_at = since.rfind(_BRACKETED_PASTE_ON)
        return began_at >= 0 and (_BRACKETED_PASTE_OFF in since[:began_at] or _BRACKETED_PASTE_ON not in before)

    def prompt_certainty(self, profile: DeviceProfile) -> Certainty | None:
        """Return how certain it is that the cursor is at a prompt: by its text, because a line editor reads, or because a
        shell waits at the place of its program at which it waits at its prompt, whatever it shows.

        The line editors of shells turn bracketed paste on at each prompt, and off for each command. Programs that use the
        alternate screen may leave it on.
        """
        certainty = self.prompt.match(self.last_line(), profile)
        if certainty is None and self._pastes_bracketed():
            return "editor"
        return "wait" if certainty is None and self._waits_at_any_prompt() else certainty

    def _waits_at_any_prompt(self) -> bool:
        """Return whether the shell certainly waits at its prompt, has read all input, and shows no continuation prompt."""
        at_prompt = self.waits_at_prompt() is True and self.input_is_read() is not False
        return at_prompt and not is_continuation(self.last_line(), self.learned_prompt)

    def _pastes_bracketed(self) -> bool:
        """Return whether bracketed paste is on, outside the alternate screen and a shell's continuation prompt."""
        editing = BRACKETED_PASTE in self.stream.terminal_modes and not self.shows_alternate_screen()
        return editing and not is_continuation(self.last_line(), self.prompt.learned)

    async def nothing_more(self) -> bool:
        """Return whether no more output can be read now, or could be read in the last iterations of the event loop."""
        return self._signal.settled or await self.read_pending()

    async def read_pending(self) -> bool:
        """Read the output that can be read now; return whether there was none."""
        end = self.stream.raw_size
        await self._channel().read_pending()
        return self.stream.raw_size == end

    async def wait_quiet(self, seconds: float, deadline: float) -> bool:
        """Wait for output followed by a pause of `seconds`; return False at the deadline or the end of the stream."""
        while self.stream.ended is None and self.now() < deadline:
            due = self.stream.last_data + seconds if self.stream.raw_size else deadline
            if self.now() >= due:
                return True
            await self.stream.wait(min(due, deadline))
        return False


def without_fill(line: bytes) -> bytes:
    """Return a line without blanks right of the cursor, with which an editor clears the rest of its line (ksh93).

    Blanks that overwrite text, as in the echo of Backspace, remain.
    """
    text = line.rstrip(b"\b")
    shown = text.rstrip(b" ")
    if b"\b" in shown:
        return line
    fill = min(len(line) - len(text), len(text) - len(shown))
    return text[: len(text) - fill] + line[len(text) + fill :]
