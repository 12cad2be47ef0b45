"""Way 1: the shell announces by itself when a command begins and ends; what is typed is the command, as it is or in an eval."""

from __future__ import annotations

import re

from ptyctl.api.exec import DoneReason
from ptyctl.core.control import BRACKETED_PASTE
from ptyctl.core.marker import Marker, plain, typed
from ptyctl.core.marks import PlacedMark

from .gate import Writer
from .run import Run
from .terminal import Terminal

#: A prompt without marks must stay the end for so long before another shell is taken to be in front.
SILENT_S = 0.5
#: Commands that put another shell in front, which knows nothing of marks; with -c a shell reads no commands from here.
_ANOTHER_SHELL = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else|exec|command|env))\s*(?:\S*/)?"
    r"(?:(?:su|sudo|doas|chroot|nsenter|unshare|newgrp|login|machinectl)\b"
    r"|(?:bash|sh|dash|ash|zsh|ksh|mksh|fish|busybox)\b(?!.*\s-c\b))"
)
NO_MARKS = "a shell without marks is in front (su, sudo, exec, or its prompt's commands were replaced)"
#: What a shell reports of a command that Ctrl-C ended: 128 + SIGINT.
_INTERRUPTED = 130


class ByMarks:
    """Types the command and lets the marks tell the rest."""

    def __init__(self, terminal: Terminal, marker: Marker) -> None:
        self._terminal = terminal
        self._marker = marker
        self._end: PlacedMark | None = None
        self.silent = False

    async def drive(self, run: Run, writer: Writer) -> None:
        terminal, stream = self._terminal, self._terminal.stream
        run.prompt_before = terminal.last_line()
        run.raw_sent, run.spool_sent, feeds = stream.normaliser.raw, stream.end, stream.normaliser.line_feeds
        await terminal.type(run, self._typed(run.command) + "\n", writer)
        while run.done_reason is None:
            if stream.ended is not None:
                terminal.finish(run, "eof")
            elif stream.normaliser.line_feeds > feeds and self._is_silent(run):
                self.silent = True
                run.exit_code_reason = NO_MARKS
                terminal.finish(run, "prompt")
            else:
                due = stream.last_data + SILENT_S
                await stream.pulse.wait(due if terminal.now() < due else None, gather=True)

    def _typed(self, command: str) -> str:
        editing = BRACKETED_PASTE in self._terminal.stream.normaliser.modes
        if editing and self._marker.dialect != "fish" and plain(command):  # fish has no mark for what it refuses to run
            return command
        return typed(f" {self._marker.evaluated(command)}", editing)  # the blank keeps it out of a history that is asked to

    def marked(self, run: Run, placed: PlacedMark) -> None:
        """A mark of this session came by. The prompt ends the run, also one without begin and end; output ends at the end mark.

        Were the run over at its end mark already, the prompt that follows could be taken for the next one's.
        """
        if not run.sent or placed.mark.nonce == self._marker.nonce:
            return
        kind = placed.mark.kind
        if kind == "begin" and run.raw_begin is None:
            run.raw_begin, run.spool_begin = placed.raw_end, placed.spool_end
        elif kind == "end" and run.raw_begin is not None:
            self._end = self._end or placed
        elif kind == "prompt":
            self._prompt(run, placed)

    def _prompt(self, run: Run, placed: PlacedMark) -> None:
        if run.raw_begin is None:  # nothing ran: what was said of the command stands behind its echo
            run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
        end = self._end or placed
        run.exit_code = end.mark.status
        reason: DoneReason = "cancelled" if run.interrupted and run.exit_code == _INTERRUPTED else "marks"
        run.finish(reason, self._terminal.now(), raw_end=end.raw_begin, spool_end=end.spool_begin)

    def _is_silent(self, run: Run) -> bool:
        """Whether a prompt stands at the end and no mark came with it."""
        terminal = self._terminal
        if terminal.now() < terminal.stream.last_data + SILENT_S:
            return False
        line = terminal.last_line()
        certainty = terminal.prompt.match(line, run.expect)
        if certainty is None:
            return False
        # while it runs, what shows the prompt may be its output; where the kernel can tell, it says who is in front
        runs = run.raw_begin is not None and not _ANOTHER_SHELL.search(run.command)
        if runs and (certainty == "regex" or terminal.shell_in_front() is False):
            return False
        run.prompt_after = line
        if run.raw_begin is None:
            run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
        return True
