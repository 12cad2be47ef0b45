"""How a run is driven: the first way that this terminal allows (design, section 6)."""

from __future__ import annotations

import asyncio

from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import AsciiMarker, Marker
from ptyctl.core.shells import shell_dialect
from ptyctl.session.device.prompt_wait import PROMPT_WAIT_S, wait_for_prompt
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.prompt import Prompt
from ptyctl.session.io.terminal_state import TerminalState

from .marker_strategy import MarkerStrategy
from .marks_strategy import MarksStrategy
from .prompt_strategy import DEFAULT_IDLE_S, PromptStrategy
from .run import Run
from .shell_integration import install_integration, keep_history_clean
from .shell_probe import Shell, ask
from .strategy import CompletionStrategy

#: A shell's first prompt tells that it reads; typed before, its line editor may lose or show it twice.
FIRST_OUTPUT_WAIT_S = 3.0
FIRST_OUTPUT_QUIET_S = 0.05
#: How long a shell that was given marks may take for its start-up files, until its first prompt.
FIRST_MARK_WAIT_S = 15.0
#: How long a local program that is no shell may take to show a prompt, if it has one.
LOCAL_PROMPT_WAIT_S = 1.0
#: After a run its prompt returns at once; a shell whose prompt changes each time is waited for so long.
NEXT_PROMPT_WAIT_S = 0.1


class StrategySelector:
    """`program` is a local program's path; `probing` says whether an unknown terminal may be asked what it is,
    `hooking` whether a shell that is found so is given marks.

    `nonce` is that of marks which are typed, `hooks_nonce` that of a shell's own.
    """

    def __init__(self, terminal: TerminalState, program: str | None, probing: bool, hooking: bool = False) -> None:
        self.nonce = ""
        self.hooks_nonce = ""
        self.way: CompletionStrategy | None = None
        self._terminal = terminal
        self._program = program
        self.probing = probing
        self._hooking = hooking
        self._hooked = False
        self._silent = False
        self._edits = True
        self._shell: Shell | None = None
        self._given: Shell | None = None
        self._defined: Marker | None = None

    def new_incarnation(self, nonce: str, hooks_nonce: str, hooked: bool) -> None:
        """Another program may answer now: what was known of the old one is forgotten."""
        self.nonce, self.hooks_nonce, self._hooked = nonce, hooks_nonce, hooked
        self._silent, self._edits = False, True
        self._shell = self._given = None
        self._defined = None
        self._terminal.prompt.learned = None

    @property
    def shell(self) -> Shell | None:
        """What was found out of the program in front; None before its first command."""
        return self._shell

    @property
    def prompt(self) -> Prompt:
        """What is known of the prompt in front."""
        return self._terminal.prompt

    @property
    def has_marks(self) -> bool:
        """Whether the shell in front announces its commands by itself."""
        return self._hooked and not self._silent and len(self._terminal.stream.prompts) > 0

    def prompt_marked(self) -> None:
        """A shell with marks is in front (again): what was found out of another one is not meant for it."""
        if self._silent:
            self._shell, self._defined = None, None
        self._hooked, self._silent = True, False

    async def begin(self, run: Run, writer: Writer) -> None:
        """Finds the way, and types the command."""
        self.way = None
        marker = await self._marker(run, writer)
        if marker is None:
            self.way = await self._by_prompt(run, writer)
        elif self.has_marks and not isinstance(marker, AsciiMarker):
            self.way = MarksStrategy(self._terminal, Marker(self.nonce, shell_dialect(self._program or "") or marker.dialect))
        else:
            near, defined = self._program is not None, self._defined == marker
            self.way = MarkerStrategy(self._terminal, marker, defined=defined, inner=self._silent, near=near)
        await self.way.type(run, writer)

    def over(self, run: Run) -> None:
        """A run has ended: what its way found out of the shell in front is taken over."""
        if self.way is not None:
            self.way.over()
        if isinstance(self.way, MarkerStrategy):
            self._defined = self.way.marker if self.way.defined else None
            if run.done_reason == "prompt":  # no mark came: another shell may be in front now, of another kind
                self._shell, self._silent = None, True
        elif isinstance(self.way, MarksStrategy):
            self._silent = self.way.silent
            if self._silent:
                self._shell = None

    def watch_typed(self) -> None:
        """Somebody typed a command at a shell with marks."""
        self.way = MarksStrategy(self._terminal, Marker(self.nonce))

    async def _by_prompt(self, run: Run, writer: Writer) -> PromptStrategy:
        local = self._program is not None  # a program may have no prompt at all, and takes an Enter for input
        wait_s = LOCAL_PROMPT_WAIT_S if local else PROMPT_WAIT_S
        found = await wait_for_prompt(self._terminal, run.profile, self._terminal.now() + wait_s, None if local else writer)
        request = run.request
        idle_ms = request.until_idle_ms if request is not None else None
        idle_s = idle_ms / 1000 if idle_ms is not None else None if found else DEFAULT_IDLE_S
        return PromptStrategy(self._terminal, run.command.split("\n"), idle_s)

    async def _marker(self, run: Run, writer: Writer) -> Marker | None:
        """The marker to run with, or None: then the run says why it has no exit code."""
        wanted = run.request.rc_mode if run.request is not None else None
        enabled = "auto" if wanted is None else wanted.enabled
        lines = run.request is not None and run.request.lines is not None
        if enabled is False or lines:
            run.exit_code_reason = "rc_mode is off" if enabled is False else "lines are not a shell's command"
            return None
        if self._shell is None:
            self._shell = await self._find_shell(run, writer, forced=enabled is True)
        else:
            await self._next_prompt(run)
        marker = self._shell.marker
        if marker is None:
            run.exit_code_reason = self._shell.why
        elif wanted is not None and (wanted.marker_prefix or wanted.marker_suffix):
            marker = AsciiMarker(self.nonce, marker.dialect, wanted.marker_prefix or "__PTYCTL_", wanted.marker_suffix or "__")
        return marker

    async def _find_shell(self, run: Run, writer: Writer, *, forced: bool) -> Shell:
        terminal = self._terminal
        spoken = shell_dialect(self._program) if self._program is not None else None
        if self._hooked and not self._silent:
            await self._first_mark()
        if (spoken is not None or forced) and not self._silent:
            if terminal.expects_prompt and not self.has_marks:
                patience = NEXT_PROMPT_WAIT_S if terminal.stream.spool_end else FIRST_OUTPUT_WAIT_S
                await terminal.wait_quiet(FIRST_OUTPUT_QUIET_S, terminal.now() + patience)
                self._learn_prompt(run)
            await self._next_prompt(run)
            return Shell(Marker(self.nonce, spoken or "posix"))
        if self._given is not None and not self._silent:  # it is in front again; its counter must not begin anew
            await self._next_prompt(run)
            return self._given
        if not self.probing and not self._silent:
            return Shell(None, "this is not known to be a POSIX shell")
        if not await wait_for_prompt(terminal, run.profile, terminal.now() + PROMPT_WAIT_S, writer):
            return Shell(None, "no prompt was there at which to look for a POSIX shell")
        if self._hooking:
            await keep_history_clean(terminal, writer)
        shell = await ask(terminal, run.profile, self.nonce, writer)
        if (
            self._hooking
            and not self._silent
            and await install_integration(terminal, run.profile, shell, self.hooks_nonce, writer)
        ):
            self._given = shell
            await self._next_prompt(run)
        return shell

    async def _first_mark(self) -> None:
        """The first exec awaits the first prompt: typed before it, a command would run among the start-up files' output."""
        terminal = self._terminal
        deadline = terminal.now() + FIRST_MARK_WAIT_S
        while not len(terminal.stream.prompts) and terminal.stream.ended is None and terminal.now() < deadline:
            await terminal.stream.signal.wait(deadline)

    async def _next_prompt(self, run: Run) -> None:
        """Lets the shell's prompt come back, and learns it. Output without a last newline may stand before it in its line.

        Behind a prompt mark, a line editor tells by bracketed paste that it reads; the first prompt's text, which follows, is
        waited for. Where none comes the prompt is empty.
        """
        terminal = self._terminal
        if not terminal.expects_prompt:
            return
        deadline = terminal.now() + NEXT_PROMPT_WAIT_S
        learned = terminal.prompt.learned
        while terminal.stream.ended is None and terminal.now() < deadline:
            there = learned is not None and terminal.last_line().endswith(learned)
            if self.has_marks:
                if BRACKETED_PASTE in terminal.stream.terminal_modes and (learned is not None or terminal.last_line()):
                    break
                if not self._edits and terminal.last_line() and await terminal.nothing_more():
                    break
            elif there:
                return
            await terminal.stream.signal.wait(deadline)
        self._edits = BRACKETED_PASTE in terminal.stream.terminal_modes
        self._learn_prompt(run)

    def _learn_prompt(self, run: Run) -> None:
        """A line behind a prompt mark is the prompt, whatever it looks like."""
        terminal = self._terminal
        line = terminal.last_line()
        if (self.has_marks and (line or terminal.prompt.learned is None)) or terminal.prompt.match(
            line, run.profile
        ) is not None:
            terminal.prompt.learn(line)


async def closed(task: asyncio.Task[None] | None) -> None:
    """Ends a task and waits for it."""
    if task is not None and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
