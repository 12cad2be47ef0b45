"""Selection of the completion strategy for each run, and the state of the shell in the foreground."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NoReturn

from ptyctl.api.exec import DoneReason
from ptyctl.api.session import ShellName
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import AsciiMarker, Marker
from ptyctl.core.shells import Dialect, may_run_shell, shell_change, shell_dialect
from ptyctl.platforms.device_profile import QUESTION
from ptyctl.session.device.prompt_guard import CLEAR_WAIT_S, PromptGuard
from ptyctl.session.device.prompt_wait import FIRST_PROMPT_WAIT_S, wait_for_prompt
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState
from ptyctl.session.transcript.stored_blocks import OpenBlock

from .prompt_strategy import DEFAULT_IDLE_S, LOCAL_IDLE_S, PromptStrategy, ResumedPromptStrategy
from .run import Run
from .shell_probe import ProbedShell, hidden_setup, install_integration, keep_history_clean, probe_shell
from .shell_strategies import NO_MARKS, UNMARKED_NESTED_S, UNMARKED_UNSURE_S, MarkerStrategy, MarksStrategy
from .strategy import CompletionStrategy, finish_run

#: A shell is ready when its first output pauses; its line editor may lose or repeat input that is typed before (seconds).
FIRST_OUTPUT_WAIT_S = 3.0
FIRST_OUTPUT_QUIET_S = 0.05
#: How long the start-up files of a shell with integration may take, until its first prompt (seconds).
FIRST_MARK_WAIT_S = 15.0
#: How long a program may take to show a prompt if the last command has shown none (seconds).
LATER_PROMPT_WAIT_S = 1.0
#: How long to wait for a prompt without a terminal: a shell shows none, a device does (seconds).
NO_TERMINAL_PROMPT_WAIT_S = 0.5
#: How long to wait for the prompt after a run, for a shell whose prompt changes each time (seconds).
NEXT_PROMPT_WAIT_S = 0.1
#: Interval at which to check whether a shell of this machine has shown its prompt (seconds).
_POLL_S = 0.01
#: Why a run that was interrupted while it waited for the prompt has no exit code.
NOT_TYPED = "it was interrupted before it was typed"
#: Names of shells that a caller may give, with the dialect of each.
NAMED_SHELLS: dict[ShellName, Dialect] = {"bash": "posix", "zsh": "zsh", "fish": "fish", "posix": "posix"}
NO_PROMPT = "no prompt has been recognised; commands are typed all the same, and {:g} s of silence ends each of them"
HOOKS_REMOVED = (
    "the shell's prompt came without its mark: a command or a start-up file has removed the prompt hooks of shell integration; "
    "they are installed again before the next command"
)


class StrategySelector:
    """Selects the first strategy that the terminal allows: marks, marker, prompt, silence.

    Attributes:
        strategy: the strategy of the current run.
        shell: the state of the shell in the foreground; None before its first command.
        shell_nonce: nonce of the marks that a shell with integration sends; typed marks have `nonce`.
    """

    def __init__(
        self,
        terminal: TerminalState,
        *,
        program: str | None,
        runs_program: bool,
        probe_shell: bool,
        install_integration: bool,
        shell: ShellName | None,
        notify: Callable[[str], None],
    ) -> None:
        """Create the selector.

        Args:
            program: the path of the local program.
            runs_program: whether the caller of open named a program of the far end that is not a shell.
            probe_shell: whether an unknown terminal may be probed for a shell.
            install_integration: whether to install shell integration in a shell that was found by probing.
            shell: the shell that the caller of open named; it is not probed for.
            notify: posts a notice for the session's users.
        """
        self.strategy: CompletionStrategy | None = None
        self.shell: ProbedShell | None = None
        self.shell_nonce = ""
        self._nonce = ""
        self._terminal = terminal
        self._stream = terminal.stream
        self._program = program
        self._named = shell
        self._runs_program = runs_program
        self._may_probe = probe_shell
        self._may_install = install_integration
        self._notify = notify
        self._integrated = False
        self._first_prompt_awaited = False
        self._history_kept_clean = False
        self._hooks_removed = False
        self._marks_lost = False
        self._has_line_editor = True
        self._installed_in: ProbedShell | None = None
        self._defined_marker: Marker | None = None
        #: The counter of the line that has defined its function; None if it is not known.
        self._defined_at: int | None = None
        self._without_prompt = False
        self._shell_program: tuple[int, str] | None = None
        self._entered_in_fish = False
        #: Whether a user has entered a line in a shell of another machine, and no shell has shown its prompt since.
        self._line_runs_in_shell = False

    def new_incarnation(self, nonce: str, shell_nonce: str, integrated: bool) -> None:
        """Reset the state for a new incarnation. `nonce` and `shell_nonce` are those of its marks."""
        self._nonce, self.shell_nonce, self._integrated = nonce, shell_nonce, integrated
        self._marks_lost, self._has_line_editor, self._first_prompt_awaited = False, True, False
        self._without_prompt = self._history_kept_clean = False
        self._hooks_removed = self._entered_in_fish = self._line_runs_in_shell = False
        self.shell = self._installed_in = self._shell_program = None
        self._defined_marker = None
        self._terminal.forget_prompt()

    def set_may_probe(self, may_probe: bool) -> None:
        """Set whether an unknown terminal may be probed for a shell."""
        self._may_probe = may_probe

    @property
    def starts_shell(self) -> bool:
        """Whether the session's program is a known shell."""
        return shell_dialect(self._program or "") is not None

    @property
    def _sends_marks(self) -> bool:
        """Whether the session's shell reports its commands, and no other shell is in front of it."""
        return self._integrated and not self._marks_lost

    @property
    def has_marks(self) -> bool:
        """Whether the shell in the foreground sends marks."""
        return self._integrated and not self._marks_lost and self._stream.has_prompt_marks

    def prompt_mark_received(self) -> None:
        """Handle a prompt mark: a shell with marks is in the foreground, so the state of another shell is dropped."""
        if self._marks_lost:
            self.shell, self._defined_marker = None, None
        self._integrated, self._marks_lost = True, False

    async def begin(
        self,
        run: Run,
        writer: Writer,
        check_for_shell: Callable[[Run, Writer, bool], None],
        observe_shell: Callable[[Writer], None],
    ) -> None:
        """Select the strategy and type the command. If the run was interrupted meanwhile, end it instead.

        Args:
            check_for_shell: raises PtyctlError if the command was judged for a program, or before the shell was known to be
                fish, and the shell, which gets it now, must not get it. The last argument tells whether a shell certainly
                gets it, as a quoted word.
            observe_shell: called at the prompt, before the command is typed, unless the shell with marks reads as before;
                raises PtyctlError BUSY.

        Raises:
            PtyctlError: as `PromptGuard` and `Gate.type`.
        """
        self.strategy = None
        was_in_front = self._marks_lost and not self._hooks_removed
        try:
            marker = await self._marker(run, writer)
            if marker is None:
                self.strategy = await self._prompt_strategy(run, writer)
            elif self.has_marks and not isinstance(marker, AsciiMarker):
                dialect = shell_dialect(self._program or "") or marker.dialect
                self.strategy = MarksStrategy(self._terminal, Marker(self._nonce, dialect))
            else:
                self.strategy = MarkerStrategy(
                    self._terminal,
                    marker,
                    defined=self._defined_marker == marker,
                    defined_at=self._defined_at,
                    nested=self._marks_lost,
                    local=self._program is not None and self._terminal.shell_in_foreground() is not False,
                    program=self._shell_program,
                )
            if run.interrupted:  # while it waited for the prompt
                self._stream.release()
                finish_run(self._terminal, run, "cancelled", exit_code_reason=NOT_TYPED, cancel_reason=NOT_TYPED)
                return
            is_for_fish = marker is not None and marker.dialect == "fish" and writer.review.shell != "fish"
            if writer.review.is_for_program or is_for_fish:
                check_for_shell(run, writer, marker is not None)
            if was_in_front or not isinstance(self.strategy, MarksStrategy):
                observe_shell(writer)
            await self.strategy.type(run, writer)
        except BaseException:  # viewers see what was typed so far
            self._stream.release()
            raise

    def select_marks(self, typed_raw: int | None = None) -> None:
        """Select marks for a command that this process did not type. See `ShellStrategy.attach`."""
        strategy = MarksStrategy(self._terminal, Marker(self._nonce))
        strategy.attach(typed_raw)
        self.strategy = strategy

    def resume_idle(self) -> None:
        """Search the shell before the next command if the one that sends marks still runs one: another program is in front."""
        if self._stream.command_begun:
            self._marks_lost = True

    def resume(self, running: OpenBlock) -> None:
        """Select the strategy of a command that an earlier process typed, as that process stored it."""
        ending = running.ending
        if ending is None or ending.get("strategy") not in ("marker", "prompt"):
            self.select_marks(running.block.raw_begin)
        elif ending["strategy"] == "prompt":
            prompt, left = str(ending.get("prompt") or ""), ending.get("lines_left")
            idle_s = ending.get("idle_s")
            idle_s = float(idle_s) if isinstance(idle_s, int | float) else None
            self.strategy = ResumedPromptStrategy(
                self._terminal, prompt, idle_s, left if isinstance(left, int) else 0, ending["raw"]
            )
        else:
            self._resume_marker(running, ending)

    def _resume_marker(self, running: OpenBlock, ending: Mapping[str, Any]) -> None:
        begin = running.block.raw_begin, running.block.spool_begin
        dialect, ascii_, program = ending.get("dialect"), ending.get("ascii"), ending.get("program")
        marker = Marker(self._nonce, dialect if dialect in ("posix", "zsh", "fish") else "posix")
        if isinstance(ascii_, list) and len(ascii_) == 2:
            marker = AsciiMarker(self._nonce, marker.dialect, *map(str, ascii_))
        nested, counter = bool(ending.get("nested")), ending.get("counter")
        if isinstance(program, list) and len(program) == 2:
            self._shell_program = int(program[0]), str(program[1])
        local = self._program is not None and self._terminal.shell_in_foreground() is not False
        strategy = MarkerStrategy(self._terminal, marker, defined=True, nested=nested, local=local, program=self._shell_program)
        self._marks_lost = nested
        self.shell, self._defined_marker = ProbedShell(marker), marker
        strategy.resume(counter if isinstance(counter, int) else 0, running.end, begin)
        self.strategy = strategy

    def run_ended(self, run: Run) -> None:
        """Release the strategy, and update the state of the shell by the outcome of the run."""
        if self.strategy is not None:
            self.strategy.close()
        if isinstance(self.strategy, MarkerStrategy):
            self._defined_marker = self.strategy.marker if self.strategy.defined else None
            self._defined_at = self.strategy.defined_at
            if run.result is not None and run.result.done_reason == "prompt":  # no mark: another shell may be in the foreground
                self.shell, self._marks_lost = None, True
        elif isinstance(self.strategy, MarksStrategy):
            self._marks_lost = self.strategy.marks_lost
            if self._marks_lost:
                self.shell = None
                self._hooks_removed = shell_change(run.command) == "no"
            if self._hooks_removed:
                self._notify(HOOKS_REMOVED)
        elif isinstance(self.strategy, PromptStrategy) and run.result is not None:
            self._prompt_run_ended(run.result.done_reason)

    async def _prompt_strategy(self, run: Run, writer: Writer) -> PromptStrategy:
        terminal, request = self._terminal, run.request
        named = self._program is not None or self._runs_program  # may have no prompt, and would take an Enter as input
        starts_shell = self._program is not None and may_run_shell(self._program)  # ssh may be slow
        quiet_s = LOCAL_IDLE_S if named and not starts_shell else inf
        wait_s = LATER_PROMPT_WAIT_S if self._without_prompt else FIRST_PROMPT_WAIT_S
        deadline, guard = terminal.now() + wait_s, PromptGuard(terminal, run.profile)
        guard.refuse_full_screen()
        received = terminal.stream.raw_size
        found = await wait_for_prompt(terminal, run.profile, deadline, None if named else writer, quiet_s)
        if terminal.stream.raw_size != received:
            guard.refuse_full_screen()
        if not found:
            self._check_may_type_without_prompt(run, guard)
            if named and terminal.last_line().strip():  # it is the prompt if it is shown again after the command
                terminal.learn_prompt(terminal.last_line())
        idle_ms = request.until_idle_ms if request is not None else None
        idle_s = idle_ms / 1000 if idle_ms is not None else None if found else self._idle_s
        return PromptStrategy(terminal, run.command.split("\n"), idle_s)

    @property
    def _idle_s(self) -> float:
        """Silence that ends a command of a program without a known prompt (seconds)."""
        return DEFAULT_IDLE_S if self._program is None else LOCAL_IDLE_S

    def _prompt_run_ended(self, reason: DoneReason) -> None:
        """Record whether a prompt ended the run. If only silence did, the line before the command was not a prompt."""
        if reason == "prompt":
            self._without_prompt = False
        elif reason == "idle":
            if self._program is not None or self._runs_program:
                self._terminal.forget_prompt()
            if not self._without_prompt:
                self._without_prompt = True
                self._notify(NO_PROMPT.format(self._idle_s))

    def _check_may_type_without_prompt(self, run: Run, guard: PromptGuard) -> None:
        """Refuse a terminal without a prompt at a question, in a program without output, and in one that a user has started.

        Raises:
            PtyctlError: BUSY.
        """
        terminal, request = self._terminal, run.request
        guard.refuse_other()
        line = terminal.last_line()
        if QUESTION.matches(line):
            raise guard.refusal("question")
        has_prompt = terminal.learned_prompt is not None and not self._without_prompt
        if has_prompt or self._program is None or run.profile.may_ask(line):
            guard.refuse_users_question()
        end_given = request is not None and (request.until_idle_ms is not None or request.until_regex is not None)
        prints_nothing = terminal.stream.raw_size == terminal.stream.incarnation_raw
        if (prints_nothing or self._line_runs_in_shell) and not end_given:
            raise guard.refusal("no_prompt")

    async def _marker(self, run: Run, writer: Writer) -> Marker | None:
        """Return the marker for the run; without one, record why the run will have no exit code."""
        rc_mode = run.request.rc_mode if run.request is not None else None
        enabled = "auto" if rc_mode is None else rc_mode.enabled
        lines = run.request is not None and run.request.lines is not None
        if self.shell is not None and self.shell.marker is not None and not self.has_marks:
            self._notice_another_shell(await self.wait_for_prompt_programs())
        await self._clear_shell_line(run)
        if enabled is False or lines:
            run.without_exit_code("rc_mode is off" if enabled is False else "lines are not a shell's command")
            return None
        if self.shell is None:
            self.shell = await self._find_shell(run, writer, forced=enabled is True)
            self._line_runs_in_shell = self._line_runs_in_shell and self.shell is None
            if self.shell is not None and self.shell.marker is not None:
                if (program := self._terminal.reading_program()) is not None:  # and none that the shell runs for its prompt
                    self._shell_program = program
                self._defined_at = self.shell.defined_at
                self._defined_marker = self.shell.marker if self._defined_at is not None else None
                await self._terminal.learn_first_prompt_wait()
            await self._clear_shell_line(run)
        elif not self._terminal.has_unfinished_line:
            await self._wait_for_next_prompt(run)
        if self._is_unmarked_zsh() and self._terminal.line_untouched:
            await PromptGuard(self._terminal, run.profile).clear_text_of_unmarked_zsh()
        shell = self.shell or ProbedShell(None, "no prompt was shown at which to look for a POSIX shell")
        if enabled is True and shell.marker is None:
            shell = ProbedShell(Marker(self._nonce))
        marker = shell.marker
        if marker is None:
            run.without_exit_code(shell.why)
        elif rc_mode is not None and (rc_mode.marker_prefix or rc_mode.marker_suffix):
            prefix, suffix = rc_mode.marker_prefix or "__PTYCTL_", rc_mode.marker_suffix or "__"
            marker = AsciiMarker(self._nonce, marker.dialect, prefix, suffix)
        return marker

    def _is_unmarked_zsh(self) -> bool:
        marker = self.shell.marker if self.shell is not None else None
        is_zsh = marker is not None and marker.dialect == "zsh" and self._terminal.expects_prompt
        return is_zsh and not self.has_marks

    async def _clear_shell_line(self, run: Run) -> None:
        """Clear the line of a known shell if it may have text. Raises PtyctlError BUSY."""
        may_have_text = not self._terminal.line_untouched or self._stream.line_follows
        if may_have_text and self._shell_reads():
            guard, is_known = PromptGuard(self._terminal, run.profile), self._defined_marker is not None
            await guard.clear_shell_line(lambda: self.has_marks, is_known=is_known)

    def may_run_prompt_programs(self) -> bool:
        """Return whether a shell of this machine is used without marks: before its prompt, it may run programs unnoticed."""
        return self._shell_program is not None and self.shell is not None and not self.has_marks

    async def wait_for_prompt_programs(self) -> tuple[int, str] | None:
        """Wait until the programs that a shell without marks runs for its prompt have ended.

        The next command is judged and typed at the prompt then, and not for such a program.

        Returns:
            The program in the foreground as it was seen last; None if it is unknown.
        """
        terminal, deadline = self._terminal, self._terminal.now() + CLEAR_WAIT_S
        program = terminal.foreground_program()
        while terminal.now() < deadline and self._stream.ended is None:
            if self._is_prompt_program(program):
                await self._stream.wait(min(terminal.now() + _POLL_S, deadline))
            elif program == self._shell_program or program == terminal.foreground_program():
                break
            program = terminal.foreground_program()
        return program

    def _is_prompt_program(self, program: tuple[int, str] | None) -> bool:
        """Return whether the shell runs the program for its prompt: users have entered no line that starts one."""
        terminal = self._terminal
        if program is None or self._shell_program in (None, program) or not terminal.unfinished_line.nothing_entered:
            return False
        if terminal.reads_line():
            return False
        return not terminal.shell_may_read() or terminal.input_is_read() is False  # a nested shell reads at its prompt

    def _notice_another_shell(self, program: tuple[int, str] | None) -> None:
        """Forget a shell without marks if another program is in the foreground, or may be: a user has entered a line."""
        terminal = self._terminal
        entered = terminal.entered_raw >= 0
        if program != self._shell_program or (program is None and entered):
            marker = self.shell.marker if self.shell is not None and program is None else None
            self._line_runs_in_shell = marker is not None and terminal.expects_prompt
            self._entered_in_fish = marker is not None and marker.dialect == "fish" and terminal.expects_prompt
            self.shell = self._defined_marker = None

    async def _find_shell(self, run: Run, writer: Writer, *, forced: bool) -> ProbedShell | None:
        """Return the shell in the foreground; None if no prompt was shown, so that the next run must search again."""
        terminal, guard = self._terminal, PromptGuard(self._terminal, run.profile)
        dialect, nested = shell_dialect(self._program or ""), False
        program = terminal.foreground_program()
        if self._shell_program is not None:
            is_other = program != self._shell_program
        else:
            is_other = self.starts_shell and terminal.shell_in_foreground() is False
        if program is not None and is_other and not self._sends_marks:
            dialect, nested = shell_dialect(program[1]), True
            guard.refuse_full_screen()
            if not terminal.shell_may_read():
                raise guard.refusal("no_prompt")
        if not nested and self._named is not None and (self._program is not None or not terminal.expects_prompt):
            dialect = NAMED_SHELLS[self._named]
        if self._integrated and not self._marks_lost and not await self._wait_for_first_mark(run):
            self._marks_lost = True
            self._notify(f"the start-up files put another program in front of the shell ({NO_MARKS})")
        if (dialect is not None or (forced and not terminal.expects_prompt)) and not self._marks_lost:
            if terminal.expects_prompt and not self.has_marks:
                wait_s = NEXT_PROMPT_WAIT_S if terminal.stream.spool_end else FIRST_OUTPUT_WAIT_S
                await terminal.wait_quiet(FIRST_OUTPUT_QUIET_S, terminal.now() + wait_s)
                await guard.clear_shell_line(lambda: False)
                self._learn_prompt(run)
            elif not terminal.expects_prompt and self._may_probe and not forced:
                deadline = terminal.now() + NO_TERMINAL_PROMPT_WAIT_S
                if await wait_for_prompt(terminal, run.profile, deadline, None):
                    return ProbedShell(None, "a prompt is shown without a terminal, as by a device")
            await guard.clear_shell_line(lambda: self.has_marks)
            await self._wait_for_next_prompt(run)
            if not self.has_marks and terminal.expects_prompt and not self._history_kept_clean:
                await self._keep_history_clean(run, writer)
            return ProbedShell(Marker(self._nonce, dialect or "posix"))
        if self._installed_in is not None and not self._marks_lost:  # in the foreground again; its counter continues
            await self._wait_for_next_prompt(run)
            return self._installed_in
        named = None if self._marks_lost or nested else self._named
        if program is not None and shell_dialect(program[1]) == "zsh" and not self.has_marks and terminal.expects_prompt:
            await guard.clear_text_of_unmarked_zsh()
        if not (self._may_probe or self._marks_lost or forced or named or nested):
            return ProbedShell(None, "this is not known to be a POSIX shell")
        if not await self._wait_for_first_prompt(run, writer):
            return None
        with hidden_setup(terminal, run.profile):
            return await self._set_up(run, writer, named)

    async def _keep_history_clean(self, run: Run, writer: Writer) -> None:
        """Keep the lines of this run and later ones out of the history."""
        self._history_kept_clean = True
        with hidden_setup(self._terminal, run.profile):
            await keep_history_clean(self._terminal, writer)
            await self._terminal.wait_quiet(FIRST_OUTPUT_QUIET_S, self._terminal.now() + NEXT_PROMPT_WAIT_S)

    async def _set_up(self, run: Run, writer: Writer, named: ShellName | None) -> ProbedShell:
        """Probe the program at its prompt, unless the caller of open named the shell, and install integration."""
        terminal = self._terminal
        await keep_history_clean(terminal, writer)
        if named is not None:
            shell = ProbedShell(Marker(self._nonce, NAMED_SHELLS[named]))
        else:
            reinstall = self._marked_dialect() if self._hooks_removed else None
            shell = await probe_shell(terminal, run.profile, self._nonce, writer, reinstall=reinstall)
        self._hooks_removed = False
        # a shell with marks has reinstalled its hooks in the probe: a second installation would reset their counter
        install = self._may_install and not self._marks_lost and not self.has_marks and named != "posix"
        if install and await install_integration(terminal, run.profile, shell, self.shell_nonce, writer):
            self._installed_in = shell
            await self._wait_for_next_prompt(run)
        return shell

    def _marked_dialect(self) -> Dialect:
        """Return the dialect of the shell that has sent marks."""
        installed = self._installed_in.marker if self._installed_in is not None else None
        return installed.dialect if installed is not None else shell_dialect(self._program or "") or "posix"

    async def _wait_for_first_mark(self, run: Run) -> bool:
        """Wait for the first mark after the start-up files. Return False if a shell without marks shows its prompt.

        Raises:
            PtyctlError: BUSY if they started a full-screen program, such as tmux.
        """
        terminal, stream = self._terminal, self._terminal.stream
        deadline = terminal.now() + FIRST_MARK_WAIT_S
        while not stream.prompts.count and stream.ended is None and terminal.now() < deadline:
            certainty, due = terminal.prompt_certainty(run.profile), deadline
            if terminal.shows_alternate_screen():
                due = stream.last_data + UNMARKED_NESTED_S
                if terminal.now() >= due:
                    raise PromptGuard(terminal, run.profile).refusal("editor")
            elif certainty is not None and terminal.line_editor_active():
                due = stream.last_data + UNMARKED_NESTED_S
            elif certainty is not None:
                due = stream.last_data + UNMARKED_UNSURE_S
            if terminal.now() >= due:
                return False
            await stream.wait(min(due, deadline))
        return True

    async def _wait_for_first_prompt(self, run: Run, writer: Writer) -> bool:
        """Wait for a prompt at which to probe; for the first command as long as start-up files of a shell may take.

        Raises:
            PtyctlError: BUSY without a prompt after a line that a user has entered in fish, which shows none for more lines.
        """
        terminal, begin = self._terminal, self._terminal.now()
        if self._entered_in_fish:
            if not await wait_for_prompt(terminal, run.profile, begin + FIRST_PROMPT_WAIT_S, None):
                self._refuse_without_prompt(run)
            self._entered_in_fish = False
            return True
        asking, quiet_s = (None, LOCAL_IDLE_S) if self._runs_program else (writer, inf)
        if await wait_for_prompt(terminal, run.profile, begin + FIRST_PROMPT_WAIT_S, asking, quiet_s):
            return True
        guard = PromptGuard(terminal, run.profile)
        guard.refuse_users_question()
        if self._runs_program:
            self._check_may_type_without_prompt(run, guard)
            return False
        if self._first_prompt_awaited:
            return False
        self._first_prompt_awaited = True
        return await wait_for_prompt(terminal, run.profile, begin + FIRST_MARK_WAIT_S, None)

    def _refuse_without_prompt(self, run: Run) -> NoReturn:
        guard = PromptGuard(self._terminal, run.profile)
        guard.refuse_other()
        raise guard.refusal("question" if QUESTION.matches(self._terminal.last_line()) else "no_prompt")

    def _shell_reads(self) -> bool:
        """Return whether a known shell is in the foreground."""
        return self.shell is not None and self.shell.marker is not None

    async def _wait_for_next_prompt(self, run: Run) -> None:
        """Wait for the shell's prompt and learn it. Output without a final newline may precede it in its line.

        After a prompt mark, bracketed paste shows that a line editor reads. The text of the first prompt follows; if it does
        not arrive, and a shell of this machine waits for input, the prompt is empty.
        """
        terminal, stream = self._terminal, self._terminal.stream
        if not terminal.expects_prompt:
            return
        now = terminal.now()
        due, deadline = now + NEXT_PROMPT_WAIT_S, now + CLEAR_WAIT_S
        learned = terminal.learned_prompt

        def may_follow() -> bool:
            return now < due or (learned is None and now < deadline and terminal.waits_for_input() is False)

        while stream.ended is None and may_follow():
            if self.has_marks:
                if BRACKETED_PASTE in stream.terminal_modes and (learned is not None or terminal.last_line()):
                    break
                if not self._has_line_editor and terminal.last_line() and await terminal.nothing_more():
                    break
            elif learned is not None and terminal.last_line().endswith(learned):
                return
            await stream.wait(due if now < due else now + _POLL_S)
            now = terminal.now()
        if learned is None and not terminal.last_line():
            await terminal.nothing_more()
        self._has_line_editor = BRACKETED_PASTE in stream.terminal_modes
        self._learn_prompt(run)

    def _learn_prompt(self, run: Run) -> None:
        """Learn the current line if it is a prompt. After a prompt mark, any text is."""
        prompt, line, stream = self._terminal.prompt, self._terminal.last_line(), self._terminal.stream
        after_mark = self.has_marks and (line or prompt.learned is None)
        if after_mark or prompt.match(line, run.profile) is not None:
            prompt.learn(line, (stream.shell_returned_raw, stream.raw_size) if self.has_marks else None)
