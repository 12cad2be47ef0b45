"""Identity of the shell that reads commands, compared with the shell of a task's last command.

A shell is identified by:

- its connection, and whether it sends marks: a prompt mark means that the shell which sends them reads, and that one in front
  of it, without marks, has ended;
- the foreground process group of a terminal of this machine.

What is not known is equal to anything: a prompt changes with the folder, the mode or the name of a device, and tells nothing.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.core.control_sequences import ETX
from ptyctl.core.lease import Owner
from ptyctl.core.shells import may_end_shell, shell_change

from .gate import Writer
from .terminal_state import FarEnd, TerminalState

#: Number of tasks whose last shell is remembered.
_MAX_OWNERS = 256
#: Longest line of typed input that is examined, in bytes.
_MAX_LINE = 4096
#: Input that is text with line ends: other keys may recall or complete a line, end the input, or leave a program.
_TEXT = re.compile(rb"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*")
_LINE_END = re.compile(rb"[\r\n]+")


class ShellIdentity(NamedTuple):
    """The shell that reads.

    Attributes:
        connection: the raw offset at which its connection began.
        front_of: the number of prompt marks before a shell without marks; None for the shell that sends them.
        program: pid and name of a shell of this machine that sends no marks; None if unknown.
        prompt: its prompt, for messages; empty if it is not known.
        folder: its working directory, if it reports that.
        leads_session: whether it is the session's own program, which may lose its marks and get them back.
    """

    connection: int
    front_of: int | None
    program: tuple[int, str] | None
    prompt: str
    folder: str | None
    leads_session: bool = True

    @property
    def key(self) -> str:
        """The parts that do not change while the shell runs, as text."""
        return f"{self.connection} {self.front_of} {self.program}"

    def is_other_than(self, last: ShellIdentity) -> bool:
        """Return whether this certainly is another shell than one that was observed earlier on the same connection."""
        if self.front_of != last.front_of:
            return not (self.leads_session and last.leads_session)
        return None not in (self.program, last.program) and self.program != last.program

    def is_started_from(self, last: ShellIdentity) -> bool:
        """Return whether this is another shell that certainly has another one below it, which still runs."""
        if self.front_of != last.front_of:
            return last.front_of is None
        return (
            self.program is not None
            and last.program is not None
            and (self.program[0] == last.program[0] or _is_alive(last.program[0]))
        )

    def describe(self) -> str:
        """Return what is known of the shell as text for a user."""
        name = f"{self.program[1]} (pid {self.program[0]})" if self.program is not None else ""
        kind = name or ("the shell with shell integration" if self.front_of is None else "a shell in front of it")
        prompt = f", prompt {self.prompt.strip()!r}" if self.prompt.strip() else ""
        folder = f", folder {self.folder}" if self.folder else ""
        return f"{kind}{prompt}{folder}"


@dataclass(slots=True)
class _Last:
    """The shell of a task's last command, and whether the task has entered lines since."""

    shell: ShellIdentity
    has_typed: bool = False


class ShellReader:
    """Observes the shell that reads, and remembers for each task which one its last command went to."""

    def __init__(self, terminal: TerminalState, far_end: FarEnd) -> None:
        self._terminal, self._far_end = terminal, far_end
        self._last: OrderedDict[Owner, _Last] = OrderedDict()
        #: Principal and task whose last shell is the one that sends marks: while that reads, nothing changes for the task.
        self.settled: tuple[str, str | None] | None = None
        self._typed = b""
        #: Number of lines that users have entered, and of commands of runs that have ended.
        self.entered_lines = 0

    def now(self, shown: str | None = None) -> ShellIdentity:
        """Return the shell that reads. `shown`: its prompt, if that is known; otherwise it is taken from the last line."""
        terminal, stream = self._terminal, self._terminal.stream
        if self._far_end.has_marks():
            reported = stream.last_prompt
            folder = None if reported is None else reported.directory
            return ShellIdentity(stream.incarnation_raw, None, None, "", folder)
        program = terminal.reading_program()
        prompt = ""
        if program is None or terminal.relays_shell():  # otherwise the process tells it
            prompt = shown or self._shown_prompt()
        front_of = stream.prompts.count
        leads_session = terminal.shell_in_foreground() is True
        return ShellIdentity(stream.incarnation_raw, front_of, program, prompt, None, leads_session)

    def check(self, owner: Owner) -> None:
        """Check that the shell of the task's last command reads, unless the task has started or ended one itself.

        Raises:
            PtyctlError: BUSY, once for each change.
        """
        last = self._last.get(owner)
        if last is not None:
            self._check(owner, last, self.now())

    def check_prompt(self, owner: Owner) -> ShellIdentity:
        """Check the shell again when its prompt is shown; return it.

        Raises:
            PtyctlError: BUSY.
        """
        last, now = self._last.get(owner), self.now()
        if last is not None:
            self._check(owner, last, now)
        return now

    def _check(self, owner: Owner, last: _Last, now: ShellIdentity) -> None:
        if not now.is_other_than(last.shell):
            return
        del self._last[owner]
        if last.has_typed and now.is_started_from(last.shell):
            return
        self._remember(owner, now)
        raise _other_shell(last.shell, now)

    def connection_replaced(self) -> None:
        """Forget the shells of an earlier connection."""
        self._last.clear()
        self.settled = None

    def command_ended_in_marked_shell(self, writer: Writer) -> None:
        """Remember the shell that sends marks as that of a task: it has read the task's command, and reads again."""
        self._remember(writer.owner, self.now())
        self.settled = writer.by.name, writer.task_id

    def command_ended(self, owner: Owner, command: str, before: ShellIdentity | None, prompt: str) -> None:
        """Remember the shell that a task's command went to, or the one that the command has started or returned to.

        A shell that ends during a command which does not end shells, for example with its connection, still is the task's.

        Args:
            before: the shell that read the command; None for the one that sends marks.
            prompt: the prompt that is shown after it; empty if it is not shown yet.
        """
        self.entered_lines += 1
        now = self.now(prompt or (before.prompt if before is not None else ""))
        before = now._replace(front_of=None) if before is None else before
        is_expected = (
            self._is_device
            or not now.is_other_than(before)
            or now.is_started_from(before)
            or may_end_shell(command)
            or shell_change(command) != "no"
        )
        self._remember(owner, now if is_expected else before)

    def change_reported(self, owner: Owner) -> ShellIdentity:
        """Expect any shell for the next command of a task, as another shell refused the last one; return the one that reads."""
        self.settled = None
        self._last.pop(owner, None)
        return self.now()

    def typed(self, owner: Owner, data: bytes) -> None:
        """Note input of a task. A line that may end or start a shell, and keys, let the task expect another one."""
        self._typed += data
        if ETX in data:
            self._typed = self._typed.rpartition(ETX)[2]
        *lines, rest = _LINE_END.split(self._typed)
        self._typed = rest[:_MAX_LINE]
        self.entered_lines += len(lines)
        if (last := self._last.get(owner)) is None:
            return
        self.settled = None
        if _TEXT.fullmatch(data.replace(ETX, b"")) is None or len(rest) > _MAX_LINE:
            del self._last[owner]
        elif lines:
            text = b"\n".join(lines).decode("utf-8", "replace")
            if self._is_device or may_end_shell(text) or shell_change(text) != "no":
                del self._last[owner]
            else:
                last.has_typed = True

    @property
    def _is_device(self) -> bool:
        return self._far_end.is_device()

    def _shown_prompt(self) -> str:
        line = self._terminal.last_line()
        if line.strip() and self._far_end.profile().is_prompt(line):
            return line
        return self._terminal.learned_prompt or ""

    def _remember(self, owner: Owner, shell: ShellIdentity) -> None:
        self.settled = None
        self._last[owner] = _Last(shell)
        self._last.move_to_end(owner)
        if len(self._last) > _MAX_OWNERS:
            self._last.popitem(last=False)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _other_shell(last: ShellIdentity, now: ShellIdentity) -> PtyctlError:
    message = (
        f"another shell reads than at the end of the last command of this task: {now.describe()}; "
        f"before: {last.describe()}; nothing was typed"
    )
    details = {"reason": "other_shell", "before": last.describe(), "now": now.describe()}
    return PtyctlError(ErrorCode.BUSY, message, details, hint=NextStep.CHECK_SHELL)
