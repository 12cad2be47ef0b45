"""The prompt guard: before anything is typed for a run, the terminal must be at its prompt, and the line must be empty.

Half-typed text is cleared and reported in a notice. At a pager, a question or another program the call is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.core.control_sequences import BRACKETED_PASTE, ETX, PASTE_END
from ptyctl.core.lease import Owner
from ptyctl.core.marker import FISH_CLEAR_KEY
from ptyctl.platforms import DeviceProfile
from ptyctl.session.clients import lock_owner
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.io.prompt import is_continuation
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .exchange import lines_before, rendered, text_behind_prompt
from .output_end import find_buried_prompt, skip_log_lines

#: The state of the terminal that is not an empty prompt (`details.reason` of a BUSY error).
Reason = Literal["pager", "question", "continuation", "half_typed", "editor", "no_prompt"]

#: How long the far end may take to delete a half-typed line, and a shell to show its next prompt (seconds).
CLEAR_WAIT_S = 2.0
#: How long a shell may take before it reads the line at its prompt, with a slow prompt or a busy machine (seconds).
SLOW_PROMPT_WAIT_S = 10.0
#: How long the far end may take to begin to answer a line (seconds).
ANSWER_WAIT_S = 0.5
#: A line editor that does not react to Ctrl-C within this time gets a second one: fish closes a search with the first.
_SECOND_INTERRUPT_S = 0.4
#: Interval at which to check whether a shell on this machine has read its input (seconds).
_POLL_S = 0.01
#: How long the kernel may take to deliver input to a terminal on a busy machine (seconds).
_DELIVERY_S = 0.02
#: Limit of the texts that zsh puts into the line one after another (`print -z`) and that are cleared before a command.
_MAX_LINES_PUT_ASIDE = 16
#: Status of a shell after Ctrl-C in its line: 128 + SIGINT.
_INTERRUPTED_STATUS = 130
#: Size of the output that is searched for a request for text.
_TEXT_BYTES = 4096
#: Size of the output that is searched for a prompt followed by log lines only, which takes 8 ms (bytes).
_LOG_BYTES = 16 * 1024

_TEXT_OF_SHELL_CLEARED = "text{} that the shell had put into the line was cleared before the next command"

_REFUSALS: dict[Reason, tuple[str, NextStep]] = {
    "pager": ("a pager waits for a key", NextStep.LEAVE_PAGER),
    "question": ("a question waits for an answer", NextStep.LEAVE_QUESTION),
    "continuation": ("an incomplete command or a text waits for its next line", NextStep.LEAVE_TEXT),
    "half_typed": ("half-typed text is in the line, and it could not be cleared", NextStep.CLEAR_LINE),
    "editor": ("a full-screen program is open", NextStep.LEAVE_EDITOR),
    "no_prompt": ("no prompt is shown", NextStep.FIND_PROMPT),
}


class PromptGuard:
    """Verifies that the terminal is at an empty prompt, and clears the line if it is not."""

    def __init__(self, terminal: TerminalState, profile: DeviceProfile) -> None:
        self._terminal, self._profile = terminal, profile
        self._stream, self._gate = terminal.stream, terminal.gate
        self._typed, self._prompts = self._gate.unfinished_line, self._stream.prompts
        self._clear_key = profile.clear_line.encode()

    # Devices and unknown programs

    async def wait_for_answer(self) -> None:
        """Wait until the far end has answered the last line that a user entered; until then the previous prompt is shown."""
        if self._typed.entered_raw >= 0:
            await self.answer_received()
            if self._typed.empty:
                self._typed.answered()

    @property
    def follows_users_line(self) -> bool:
        """Whether no prompt was shown since a user entered a line, so that a question of any form may be shown.

        Ctrl-C ends such a question. A prompt that is followed by log lines only counts as a prompt.
        """
        entered_raw = self._typed.entered_raw
        return entered_raw >= 0 and not self._typed.interrupted and not self._prompt_hidden_since(entered_raw)

    def _prompt_hidden_since(self, raw: int) -> bool:
        """Return whether a prompt that is followed by log lines only was shown since this raw offset."""
        begin = max(raw, self._stream.raw_size - _LOG_BYTES)
        lines = rendered(self._stream, begin, self._stream.raw_size).split("\n")
        buried = find_buried_prompt(lines, self._profile)
        if buried is not None and self._terminal.of_known_host(lines[buried.line]):
            return buried.line > 0  # the first line is the one that the user entered, or is incomplete
        found = skip_log_lines(reversed(list(enumerate(lines))), self._profile)
        return found is not None and found[0] > 0 and found[2] and found[1] == self._terminal.learned_prompt

    def refuse_users_question(self) -> None:
        """Raise BUSY if a user's line may have led to a question, which an Enter or a command would answer."""
        if self.follows_users_line:
            self.refuse_other()
            raise self.refusal("question" if self._profile.may_ask(self._terminal.last_line()) else "no_prompt")

    async def answer_received(self) -> None:
        """Wait until output with a line feed, at least the echo, has followed the last line that a user entered."""
        typed, stream = self._typed, self._stream
        if typed.entered_raw >= 0:
            await self._wait_until(
                lambda: b"\n" in stream.read_raw(typed.entered_raw, stream.raw_size), ANSWER_WAIT_S, SETTLE_S
            )

    @property
    def typed_ahead(self) -> bool:
        """Whether text was typed before the answer to the last line that a user entered."""
        typed = self._typed
        if typed.empty or typed.entered_raw < 0:
            return False
        if b"\n" not in self._stream.read_raw(typed.entered_raw, typed.raw):
            return True
        return not self._was_prompt(lines_before(self._stream, typed.raw)[-1])

    def _was_prompt(self, line: str) -> bool:
        """Return whether a user has typed after a prompt: `line` is the text before it, and the learned prompt may be empty."""
        return line == self._terminal.learned_prompt or self._terminal.is_prompt(line, self._profile)

    async def clear_typed_ahead(self, deadline: float) -> None:
        """Wait for the prompt, and clear the text that was typed before it.

        Before the prompt, the far end's terminal driver may process the key, which does not delete text that a line editor has
        read. At the prompt the line editor reads the text and then the key.

        Raises:
            PtyctlError: BUSY if no prompt is shown before the deadline, or if text remains.
        """
        stream, terminal, typed = self._stream, self._terminal, self._typed
        entered_raw, learned = typed.entered_raw, terminal.learned_prompt or ""

        def prompt_before_text(line: str) -> str:
            if learned.strip() and line.startswith(learned):
                return learned
            begin = line[: max(len(line) - typed.characters, 0)]
            return begin if self._profile.is_prompt(begin) else ""

        def prompt_follows() -> bool:
            line = terminal.last_line()
            ends_in_prompt = bool(learned.strip()) and line.endswith(learned)
            shown = ends_in_prompt or prompt_before_text(line) or terminal.prompt_certainty(self._profile) is not None
            return bool(shown) and b"\n" in stream.read_raw(entered_raw, stream.raw_size)

        def gone() -> bool:
            shown = terminal.last_line()
            if prompt:
                return shown.rstrip() == prompt.rstrip()
            return self._profile.is_prompt(shown) or 0 < typed.characters <= len(line) - len(shown)

        if not await self._wait_until(prompt_follows, deadline - terminal.now(), SETTLE_S):
            self.refuse_other()
            raise self.refusal("half_typed")
        line, begin = terminal.last_line(), stream.raw_size
        prompt = prompt_before_text(line)
        await self._gate.write(self._clear_key, SYSTEM)
        await self._wait_until(lambda: stream.raw_size > begin, ANSWER_WAIT_S, SETTLE_S)
        if not await self._wait_until(gone, CLEAR_WAIT_S):
            raise self.refusal("half_typed")
        read_by_program = terminal.last_line() == line
        self._cleared(0 if read_by_program else typed.characters, _name(typed.owners))

    async def clear_device_line(self) -> bool:
        """Clear the text of any user after a device's prompt. Return whether there was any.

        Raises:
            PtyctlError: BUSY if text remains, or if it was not typed at a prompt.
        """
        typed, stream = self._typed, self._stream
        if typed.empty:
            line = self._terminal.last_line()
            text = text_behind_prompt(self._terminal, self._profile, line)
            return bool(text) and await self._clear_text(text, line)
        await self._wait_until(lambda: stream.raw_size > typed.raw, ANSWER_WAIT_S, ANSWER_S)  # for the echo
        self.refuse_other()
        line = self._terminal.last_line()
        began_at = lines_before(self._stream, typed.raw)[-1]
        was_prompt = self._was_prompt(began_at)
        behind = (
            line[len(began_at) :]
            if was_prompt and line.startswith(began_at)
            else text_behind_prompt(self._terminal, self._profile, line)
        )
        if behind.strip() or (was_prompt and line == began_at):
            return await self._clear_text(behind, line)
        if self._terminal.is_prompt(line, self._profile) or self._prompt_since(typed.raw):  # a program read the keys
            await self._press_silently()
            return False
        if not was_prompt:
            raise self.refusal("question" if self._profile.asks(began_at) or self._profile.may_ask(began_at) else "half_typed")
        return await self._clear_text("", "")

    def refuse_other(self) -> None:
        """Raise BUSY at a pager, a question, a full-screen program or a text input.

        Raises:
            PtyctlError: BUSY.
        """
        self._refuse_at("pager", "question", "editor", "continuation")

    def refuse_full_screen(self) -> None:
        """Raise BUSY in a full-screen program or a pager.

        Raises:
            PtyctlError: BUSY.
        """
        self._refuse_at("pager", "editor")

    def refuse_password(self) -> None:
        """Raise BUSY if a program asks for a secret: a command that answers it would be recorded.

        Raises:
            PtyctlError: BUSY.
        """
        if self.shows_password_question():
            raise self.refusal("question")

    def shows_password_question(self) -> bool:
        """Return whether the last line of the output asks for a secret."""
        terminal, line = self._terminal, self._terminal.last_line()
        return self._profile.asks_password(line) or (self._profile.may_ask(line) and terminal.program_hides_input())

    async def wait_for_prompt_after_question(self) -> None:
        """Wait for the prompt after the question of an ended command. An answer without echo has no line end either."""
        await self._wait_until(lambda: not self.shows_password_question(), CLEAR_WAIT_S)

    def refusal(self, reason: Reason) -> PtyctlError:
        """Return the error for this reason, with the current line for a pager or a question."""
        why, hint = _REFUSALS[reason]
        line = self._terminal.last_line().strip()
        shown = f": {line[-80:]!r}" if line and reason in ("pager", "question") else ""
        return PtyctlError(ErrorCode.BUSY, f"nothing was typed: {why}{shown}", {"reason": reason}, hint=hint)

    # Shells

    async def clear_shell_line(self, marked: Callable[[], bool], *, is_known: bool = False) -> None:
        """Bring a shell to an empty prompt: Ctrl-C leaves half-typed text, a search, vi command mode and a continuation prompt.

        A new prompt, by its mark or on the screen, confirms the effect. zsh may put the next text of its buffer stack, or a
        text of its hooks, into the new line.

        Args:
            marked: returns whether the shell sends marks.
            is_known: whether the shell has reported the end of a run, so that only lines entered later can be running.

        Raises:
            PtyctlError: BUSY if a program other than the shell reads, or no new prompt is shown.
        """
        if not await self._line_is_known(marked):
            self._typed.fill(b"", self._stream.raw_size)  # Ctrl-C leads to a new prompt, and its hooks report again
        if self._typed.untouched:
            return
        for _ in range(_MAX_LINES_PUT_ASIDE):
            await self._leave_shell_line(marked, is_known)
            if not await self._line_is_known(marked):
                raise self.refusal("no_prompt")
            if self._typed.filled is None:
                return
        raise self.refusal("half_typed")

    async def _leave_shell_line(self, marked: Callable[[], bool], is_known: bool) -> None:
        """Leave one line, after which the shell may put other text into the new line. Raises PtyctlError BUSY."""
        typed, stream, terminal = self._typed, self._stream, self._terminal
        if not await self.shell_has_read(marked):
            raise self.refusal("no_prompt" if typed.empty else "half_typed")
        entered_by, has_marks = typed.entered_by, marked()
        if has_marks:  # for the line editor, which shows the keys that it has read
            await self._wait_until(
                lambda: BRACKETED_PASTE in stream.terminal_modes and bool(terminal.last_line()), SETTLE_S, ANSWER_S
            )
        else:
            await self.answer_received()  # the entered line may still run: only a prompt ends it
            if not typed.empty:  # for all echo and output, so that a prompt after Ctrl-C is a new one
                await self._wait_until(lambda: stream.raw_size > typed.raw, ANSWER_WAIT_S, SETTLE_S)
        if not terminal.expects_prompt and not typed.empty:
            raise self.refusal("half_typed")  # without a terminal nothing can delete it
        line, learned = terminal.last_line(), terminal.learned_prompt
        returned = has_marks and stream.shell_returned_raw >= typed.entered_raw
        inputs = typed.inputs
        if not has_marks and self._shell_reads_in_command(line):
            raise self.refusal("half_typed" if not typed.empty else "question" if line.strip() else "no_prompt")
        if typed.empty and typed.interrupted and has_marks and await self._left_line(typed.entered_raw):
            self._refuse_typed_since(inputs)
            typed.clear()
            return
        incomplete = typed.incomplete and not self._programs_have_read(line)
        if (
            typed.empty
            and not incomplete
            and (
                (returned and not self._may_continue(line))
                if has_marks
                else not terminal.expects_prompt or self._at_shell_prompt(line)
            )
        ):
            typed.clear()
            return
        reads_keys = typed.keys or typed.pasting or incomplete  # zsh shows a paste when it is complete
        if returned and not reads_keys and typed.raw <= stream.shell_returned_raw and learned is not None and line == learned:
            typed.clear()  # a program read the keys, and the shell is back at its prompt
            return
        if not has_marks or terminal.shell_in_foreground() is False:
            self._refuse_program(line, is_known)
        owners = _name(typed.owners if not typed.empty else [entered_by])
        filled, size = typed.filled if not typed.owners else None, f" of {typed.characters} characters" if typed.filled else ""
        visible = len(line) - len(learned) if learned and line.startswith(learned) else typed.characters
        is_entered, interrupted = typed.empty, typed.interrupted
        if not await self._interrupt(marked):
            raise self.refusal("continuation" if is_entered else "half_typed")
        if not await self._line_is_known(marked):
            raise self.refusal("no_prompt")
        self._refuse_typed_since(inputs)
        if is_entered:
            typed.clear()
            if not interrupted:
                terminal.post_notice(f"an incomplete command that {owners} had typed was interrupted before the next command")
        else:
            self._cleared(visible if filled is None else 0, owners)
            if filled is not None:
                terminal.post_notice(_TEXT_OF_SHELL_CLEARED.format(size))
            if marked() and (prompt := stream.last_prompt) is not None and prompt.line is not None:
                typed.fill(prompt.line, stream.raw_size)

    async def clear_text_of_unmarked_zsh(self) -> None:
        """Clear text that a zsh without marks has put into its line (`print -z`): the screen shows it after the prompt.

        A row that does not begin with the learned prompt may be a new prompt: Ctrl-C there would change `$?`.

        Raises:
            PtyctlError: BUSY if text remains.
        """
        terminal, typed = self._terminal, self._typed
        for _ in range(_MAX_LINES_PUT_ASIDE):
            learned = terminal.left_part(terminal.learned_prompt or "")
            if not learned.strip():
                return
            await self._wait_until_drawn()
            shown = terminal.left_part(terminal.last_line()).rstrip()
            if shown == learned.rstrip() or (not shown and terminal.waits_at_prompt()):  # its prompt may be empty now
                return
            if not await self._wait_until(self._zsh_reads, CLEAR_WAIT_S, ANSWER_S):
                return  # it has no line editor, or another program reads
            line = terminal.left_part(terminal.last_line())
            if not line.startswith(learned) or not line.removeprefix(learned).strip():
                return
            inputs = typed.inputs
            typed.fill(b"", self._stream.raw_size)
            if not await self._interrupt(lambda: False):
                raise self.refusal("half_typed")
            self._refuse_typed_since(inputs)
            typed.clear()
            terminal.post_notice(_TEXT_OF_SHELL_CLEARED.format(""))
        raise self.refusal("half_typed")

    async def _wait_until_drawn(self) -> None:
        """Wait until zsh has shown its prompt and the text after it, which it may send in several pieces.

        After the text, zsh turns bracketed paste on and waits for a key. On another machine the wait is not visible, and not
        every zsh has bracketed paste.
        """
        stream, terminal = self._stream, self._terminal
        deadline = terminal.now() + (ANSWER_WAIT_S if terminal.input_is_read() is None else CLEAR_WAIT_S)
        while stream.ended is None and terminal.now() < deadline:
            is_drawn = BRACKETED_PASTE in stream.terminal_modes or terminal.input_is_read() is True
            if is_drawn and await terminal.nothing_more():
                return
            await stream.wait(min(deadline, terminal.now() + _POLL_S))

    def _zsh_reads(self) -> bool:
        """Return whether zsh shows that its line editor reads: it turns bracketed paste on after the prompt and the text."""
        terminal, modes = self._terminal, self._stream.terminal_modes
        return (
            BRACKETED_PASTE in modes
            and not terminal.shows_alternate_screen()
            and terminal.line_editor_active()
            and terminal.shell_may_read()
            and bool(terminal.last_line().strip())
        )

    async def _line_is_known(self, marked: Callable[[], bool]) -> bool:
        """Wait until zsh has reported the text that its hooks put into the line. Return True also at an empty prompt."""
        stream = self._stream
        is_reported = await self._terminal.line_reported(SLOW_PROMPT_WAIT_S, lambda: stream.line_follows and marked())
        return is_reported or self._shows_empty_prompt()

    def _shows_empty_prompt(self) -> bool:
        """Return whether a zsh of this machine waits for a key, and shows the learned prompt without text."""
        terminal, learned = self._terminal, self._terminal.learned_prompt or ""
        waits = terminal.shell_in_foreground() is True and terminal.input_is_read() is True and terminal.line_editor_active()
        return waits and bool(learned.strip()) and terminal.last_line() == learned

    def _shell_reads_in_command(self, line: str) -> bool:
        """Return whether a shell of this machine certainly reads in a command that a user has entered, such as `read`.

        After keys of a line editor, the shell's wait point may be a different one, for example in a search of the history.
        """
        typed, learned = self._typed, self._terminal.learned_prompt
        if typed.keys or typed.nothing_entered or is_continuation(line, learned):
            return False
        shows_learned = learned is not None and learned.strip() != "" and learned in line
        return not shows_learned and self._terminal.waits_at_prompt() is False

    def _programs_have_read(self, line: str) -> bool:
        """Return whether programs, or builtins in commands, have read all lines of users, so that none is incomplete.

        A shell that edits its line at its prompt also edits the next line of a command, and takes none from the driver.
        """
        terminal = self._terminal
        is_prompt = line != "" and line == terminal.learned_prompt
        return self._typed.was_read_by_programs and is_prompt and terminal.line_editor_active()

    def _refuse_typed_since(self, inputs: int) -> None:
        """Raise BUSY if `UnfinishedLine.inputs` has changed: text that a user typed meanwhile may be in the new line."""
        if self._typed.inputs != inputs:
            raise self.refusal("half_typed")

    def _may_continue(self, line: str) -> bool:
        """Return whether a line that was typed ahead may be an incomplete command: a line feed follows the last prompt mark.

        A line feed also follows the first row of a prompt of two rows, but then the last line is the learned prompt, or only
        one line was typed.
        """
        stream = self._stream
        if self._typed.lines < 2 or line == self._terminal.learned_prompt:
            return False
        return b"\n" in stream.read_raw(stream.shell_returned_raw, stream.raw_size)

    async def _left_line(self, entered_raw: int) -> bool:
        """Return whether a shell with marks has left its line after a user's Ctrl-C. fish sends no mark unless it gets its key.

        In vi mode bash reads Ctrl-C after Escape as a part of a key, keeps the line, and reads further input as vi commands.
        """
        terminal = self._terminal
        if terminal.foreground_shell() == "fish":
            if terminal.shell_in_foreground() is not True or self._stream.command_begun or terminal.input_is_read() is not True:
                return False
            prompts = self._prompts.count
            await self._gate.write(FISH_CLEAR_KEY, SYSTEM)
            return await self._wait_until(lambda: self._prompts.count > prompts, CLEAR_WAIT_S)
        return await self._wait_until(lambda: self._stream.shell_returned_raw >= entered_raw, _SECOND_INTERRUPT_S)

    def _at_shell_prompt(self, line: str) -> bool:
        """Return whether a shell without marks shows the learned prompt, a prompt of the profile or an active line editor."""
        terminal, learned = self._terminal, self._terminal.learned_prompt
        if not terminal.shell_may_read() or is_continuation(line, learned):
            return False
        if learned is not None and learned.strip() and line.endswith(learned):
            return True
        if terminal.waits_at_prompt():
            return True
        return terminal.is_prompt(line, self._profile) or (bool(line.strip()) and terminal.line_editor_active())

    def _refuse_program(self, line: str, is_known: bool) -> None:
        """Raise BUSY if a shell without marks is not known to read the line. For `is_known` see `clear_shell_line`."""
        terminal, typed, learned = self._terminal, self._typed, self._terminal.learned_prompt
        self._refuse_at("editor")
        if terminal.waits_at_prompt() or self._relayed_shell_shows_prompt(line):
            return
        foreground = terminal.shell_in_foreground()
        if foreground is not False:
            began_at = line if typed.empty else lines_before(self._stream, typed.raw)[-1]
            # an unknown line of an earlier process may have begun before its prompt was received
            begins = (began_at,) if typed.filled is None else (began_at, line)
            reads = foreground or terminal.line_editor_active()
            # the prompt may follow text that was typed before it, and the line editor shows that text again
            lines = (line.__contains__ if reads else line.startswith, line.endswith, began_at.endswith)
            at_prompt = bool(learned and learned.strip() and any(has(learned) for has in lines))
            if at_prompt or (not typed.empty and any(terminal.is_prompt(each, self._profile) for each in begins)):
                return
            before_text = line[: max(len(line) - typed.characters, 0)]  # a prompt that was shown after the text was typed
            if not (typed.empty or typed.keys) and terminal.is_prompt(before_text, self._profile):
                self._refuse_at("pager", "question")  # without echo, the removed end is not the text
                return
            if reads and is_continuation(line, learned):
                return
            if is_known and typed.nothing_entered:  # its prompt has changed, or its line editor has drawn the line again
                self._refuse_at("pager", "question")
                return
        self._refuse_at("pager", "question", "continuation")
        raise self.refusal("no_prompt" if typed.empty else "half_typed")

    def _relayed_shell_shows_prompt(self, line: str) -> bool:
        """Return whether the line begins with the learned prompt, of a shell behind a program such as ssh or sudo.

        The prompt may follow text that was typed before it.
        """
        learned = self._terminal.learned_prompt or ""
        begins = bool(learned.strip()) and line.find(learned) in (0, self._typed.characters)
        return begins and self._terminal.relays_shell()

    async def shell_has_read(self, marked: Callable[[], bool]) -> bool:
        """Wait until a shell on this machine has handled all input, and reads; return False if it keeps working.

        Until then the output does not show the effect of the last keys. Returns True for a program that cannot be observed.
        """
        terminal, stream = self._terminal, self._stream
        reads_since = terminal.now()
        deadline = reads_since + (SLOW_PROMPT_WAIT_S if marked() else CLEAR_WAIT_S)
        while stream.ended is None and (terminal.input_is_read() is not None or self._at_work(marked)):
            now = terminal.now()
            if self._at_work(marked):
                reads_since = now + _POLL_S
            elif now >= reads_since + _DELIVERY_S and await terminal.nothing_more():
                return True
            if now >= deadline:
                return False
            await stream.wait(now + _POLL_S)
        return True

    def _at_work(self, marked: Callable[[], bool]) -> bool:
        """Return whether a shell is known to handle input, or to run a function of its prompt."""
        terminal = self._terminal
        if marked() and not self._stream.command_begun and terminal.shell_in_foreground() is False:
            return True
        return terminal.shell_may_read() and terminal.input_is_read() is False

    async def _interrupt(self, marked: Callable[[], bool]) -> bool:
        """Press Ctrl-C, twice if necessary. Return whether the shell has answered with a prompt, and reads its line.

        bash in vi mode reads the first Ctrl-C after Escape as a part of a key; in zsh it only closes a search.
        """
        gate, terminal = self._gate, self._terminal
        if self._typed.pasting and terminal.foreground_shell() == "fish":  # it ignores Ctrl-C within a paste
            wakeups = terminal.wakeups()
            await gate.write(PASTE_END, SYSTEM)  # Ctrl-C discards unread input
            await self._wait_for_shell(
                lambda: terminal.wakeups() != wakeups and not self._at_work(marked), CLEAR_WAIT_S, marked
            )
        for wait_s in (_SECOND_INTERRUPT_S, CLEAR_WAIT_S):
            answered = self._answer_to_interrupt(marked, is_last=wait_s == CLEAR_WAIT_S)
            await gate.write(ETX, SYSTEM)
            if await self._wait_for_shell(answered, wait_s, marked):
                return await self.shell_has_read(marked)
        return not marked() and self._shows_only_prompt()

    def _shows_only_prompt(self) -> bool:
        """Return whether a shell on another machine has shown output since the text was typed, and its prompt without text.

        fish shows nothing for Ctrl-C at an empty prompt. Text that was typed ahead is lost without a trace if Ctrl-C arrives
        between the end of the command and the line editor: the terminal driver discards it.
        """
        terminal, learned = self._terminal, self._terminal.learned_prompt or ""
        is_shown = bool(learned.strip()) and terminal.last_line() == learned
        has_text = not self._typed.empty and self._stream.raw_size > self._typed.raw
        return is_shown and has_text and terminal.input_is_read() is None

    def _answer_to_interrupt(self, marked: Callable[[], bool], *, is_last: bool) -> Callable[[], bool]:
        """Return a condition that holds once the shell has answered the next Ctrl-C with a prompt.

        bash and zsh send the mark of that prompt, which is the only proof: earlier keys may be echoed late. fish sends no mark,
        and shows nothing at an empty line; its first Ctrl-C may only close a search. Without marks, the kernel has to report
        that fish reads at its prompt.
        """
        stream, terminal = self._stream, self._terminal
        prompts, line_feeds, wakeups = self._prompts.count, stream.line_feeds, terminal.wakeups()
        editor_began, is_fish = terminal.line_editor_began(), terminal.foreground_shell() == "fish"

        def answered() -> bool:
            line = terminal.last_line()
            if is_fish and (marked() or terminal.waits_at_prompt()):
                is_new = stream.line_feeds > line_feeds
                is_empty = is_new or line == terminal.learned_prompt or is_last
                has_reacted = is_new or wakeups != terminal.wakeups()
                return is_empty and has_reacted and not self._at_work(marked) and terminal.line_editor_active()
            if marked():
                mark = stream.last_prompt if self._prompts.count > prompts else None
                is_quiet = terminal.now() >= stream.last_data + SETTLE_S  # a trap may have changed the status
                return mark is not None and (mark.status == _INTERRUPTED_STATUS or is_quiet)
            # zsh closes a search without a line feed
            is_new = stream.line_feeds > line_feeds or (terminal.line_editor_began() and not editor_began)
            return is_new and self._at_shell_prompt(line)

        return answered

    async def _wait_for_shell(self, holds: Callable[[], bool], wait_s: float, marked: Callable[[], bool]) -> bool:
        """Wait until a condition holds; beyond `wait_s` while the shell works, at most SLOW_PROMPT_WAIT_S.

        Another Ctrl-C would interrupt the prompt functions of a shell that is answering the first one.
        """
        stream, terminal, begin, line_feeds = self._stream, self._terminal, self._terminal.now(), self._stream.line_feeds
        while stream.ended is None:
            if holds() and await terminal.nothing_more():
                return True
            if terminal.now() >= begin + wait_s:
                reacts = marked() and terminal.input_is_read() is None and stream.line_feeds > line_feeds
                limit_s = SLOW_PROMPT_WAIT_S if self._at_work(marked) else CLEAR_WAIT_S if reacts else wait_s
                if terminal.now() >= begin + limit_s:
                    return False
            await stream.wait(terminal.now() + _POLL_S)
        return False

    # All programs

    def _refuse_at(self, *reasons: Reason) -> None:
        line = self._terminal.last_line()
        at_prompt = self._terminal.begins_with_prompt(line)
        for reason in reasons:
            if (reason == "editor" or not at_prompt) and self._shows(reason, line):
                raise self.refusal(reason)

    def _shows(self, reason: Reason, line: str) -> bool:
        if reason == "editor":
            return self._in_full_screen_program()
        if reason == "pager":
            return self._profile.pager(line) is not None
        if reason == "question":
            return self._profile.asks(line)
        return is_continuation(line, self._terminal.learned_prompt) or self._text_requested()

    def _in_full_screen_program(self) -> bool:
        """Return whether a program shows the alternate screen, and not the shell that a killed program has left there."""
        return self._terminal.shows_alternate_screen() and self._terminal.foreground_shell() is None

    def _text_requested(self) -> bool:
        """Return whether the device reads a text: its request was shown, and neither the terminator nor a prompt since."""
        profile, stream = self._profile, self._stream
        if not profile.free_text:
            return False
        begin = max(stream.incarnation_raw, stream.raw_size - _TEXT_BYTES)
        terminator = None
        for line in rendered(stream, begin, stream.raw_size).split("\n"):
            if (requested := profile.text_terminator(line)) is not None:
                terminator = requested
            elif terminator is not None:
                ends = terminator in line if len(terminator) == 1 else line.strip() == terminator
                terminator = None if ends or profile.is_prompt(line) else terminator
        return terminator is not None

    def _prompt_since(self, raw: int) -> bool:
        """Return whether a prompt without text after it was shown since this raw offset."""
        lines = rendered(self._stream, raw, self._stream.raw_size).split("\n")
        return any(self._terminal.is_prompt(line, self._profile) for line in lines)

    async def _press_silently(self) -> None:
        """Press the key that clears the line, which is probably empty already, and expect no reaction."""
        if ETX not in self._clear_key:
            await self._gate.write(self._clear_key, SYSTEM)
        self._typed.clear()

    async def _clear_text(self, text: str, line: str) -> bool:
        """Press the key that clears the line, and verify that `text` at the end of `line` was deleted.

        If log lines follow the typed text, or its echo is missing, only a reaction of the device proves the deletion.

        Raises:
            PtyctlError: BUSY if the text remains.
        """
        stream, terminal, begin = self._stream, self._terminal, self._stream.raw_size
        prompt, hidden = line[: len(line) - len(text)].rstrip(), not text and self._typed.characters > 0
        size, owners = len(text) or self._typed.characters, _name(self._typed.owners)
        await self._gate.write(self._clear_key, SYSTEM)

        def gone() -> bool:
            shown = terminal.last_line().rstrip()
            at_prompt = not line or shown == prompt or terminal.is_prompt(shown, self._profile)
            return at_prompt and (stream.raw_size > begin or not hidden)

        if not await self._wait_until(gone, CLEAR_WAIT_S, ANSWER_S):
            raise self.refusal("half_typed")
        self._cleared(size, owners)
        return True

    async def _wait_until(self, holds: Callable[[], bool], wait_s: float, stay_s: float = 0.0) -> bool:
        """Wait until a condition holds and nothing more was received for `stay_s`."""
        stream, terminal = self._stream, self._terminal
        deadline = terminal.now() + wait_s
        while stream.ended is None:
            due = deadline
            if holds():
                due = stream.last_data + stay_s
                if terminal.now() >= due and await terminal.nothing_more():
                    return True
            if terminal.now() >= deadline:
                return False
            await stream.wait(min(due, deadline))
        return False

    def _cleared(self, characters: int, owners: str) -> None:
        self._typed.clear()
        if characters > 0:
            self._terminal.post_notice(
                f"half-typed text of {characters} characters by {owners} was cleared from the line before the next command"
            )


def _name(owners: Sequence[Owner | None]) -> str:
    """Return the names of the users that typed, in the form for the current caller."""
    caller = lock_owner(None)
    return " and ".join(owner.describe(caller) for owner in owners if owner is not None) or "an unknown user"
