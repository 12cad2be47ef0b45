"""A run: one command from its start to its end. It belongs to the session, and continues if no call waits for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ptyctl.api.blocks import BlockOrigin
from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import DoneReason, ExecRequest, FailedLine
from ptyctl.core.states import RunState, next_run_state
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.gate import Review
from ptyctl.session.io.signal import Signal

#: Message about a run whose command was not typed yet.
UNTYPED = (
    "nothing of the command was typed yet: the run waits for the terminal or its prompt; wait for the run, or read the screen"
)
#: Message about a run whose program uses the alternate screen, which is not in the output.
FULL_SCREEN = "a full-screen program runs: look at the screen, and type the program's keys"
#: Exit codes of a command that SIGHUP, SIGINT or SIGKILL ended: 128 and the number of the signal.
_SIGNAL_EXIT_CODES = (129, 130, 137)


@dataclass(frozen=True, slots=True)
class Question:
    """The text of a question. `certain` is False if the text may be something else."""

    text: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    Attributes:
        raw_end: end of the output (raw offset).
        output_end: end of the output (spool offset).
        spool_end: spool offset from which the next reader continues.
        prompt_after: the prompt at the end of the output, if it is part of the output.
        error_hints: the first lines in which a device reports an error.
        failure: the error for the callers of the run.
        cancel_reason: why it was cancelled.
    """

    done_reason: DoneReason
    duration_ms: int
    raw_end: int
    spool_end: int
    output_end: int
    exit_code: int | None = None
    exit_code_reason: str | None = None
    prompt_after: str = ""
    error_hints: Sequence[str] = ()
    failure: PtyctlError | None = None
    cancel_reason: str | None = None


@dataclass(eq=False, slots=True)
class Run:
    """The progress of one command. Only its methods change it; the states are in `core/states.py`.

    Attributes:
        changed: notified when the run ends or asks a question.
        command: the text that is typed, before any wrapping.
        profile: how the terminal's prompts, pagers and questions are recognised.
        started: when it was started, on the loop's clock; `started_ms` in epoch milliseconds.
        driven: False if a person typed it or an earlier process started it: nothing is typed for it.
        fence: the fencing token of the writer's lease.
        submitted: the command as the caller gave it, if more is typed: a change to the directory `cwd`.
        review: what the policy decided about the command.
        block_id: `<seq>_<ts>`, unique in the session (docs/contracts.md, Addressing).
        raw_begin, spool_begin: where the output begins, or None while that is unknown.
        echoed: whether the output from `raw_begin` begins with the prompt and the echo of the command.
        on_device: whether only a prompt or silence can end it: it runs on a device's CLI, or an unknown program.
        prompt_before: the prompt at which the command was typed.
        sent: whether the command, or its first line, was typed completely.
        noted_untyped: whether the timeline has a row that nothing of it was typed: the next row tells how its end is found.
        question: the unanswered question, if any.
        answered_at: when a caller last typed into the run, on the loop's clock.
        line: number of the last typed line, if lines are typed one by one; the first is 1.
        pages: number of pages that the pager showed.
        interrupted: whether an interrupt key was pressed.
        failed_lines: the lines that the device refused.
        exit_code_reason: why no exit code can be determined.
        result: how the run ended, or None.
    """

    changed: Signal
    seq: int
    command: str
    profile: DeviceProfile
    started: float
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    request: ExecRequest | None = None
    origin: BlockOrigin = "exec"
    driven: bool = True
    task_id: str | None = None
    fence: int | None = None
    submitted: str | None = None
    cwd: str | None = None
    review: Review = field(default_factory=Review)
    block_id: str = field(init=False)
    state: RunState = field(default="queued", init=False)
    raw_begin: int | None = field(default=None, init=False)
    spool_begin: int | None = field(default=None, init=False)
    echoed: bool = field(default=False, init=False)
    on_device: bool = field(default=False, init=False)
    prompt_before: str = field(default="", init=False)
    sent: bool = field(default=False, init=False)
    noted_untyped: bool = field(default=False, init=False)
    question: Question | None = field(default=None, init=False)
    answered_at: float = field(default=0.0, init=False)
    line: int = field(default=0, init=False)
    pages: int = field(default=0, init=False)
    interrupted: bool = field(default=False, init=False)
    failed_lines: list[FailedLine] = field(default_factory=list, init=False)
    exit_code_reason: str | None = field(default=None, init=False)
    result: RunResult | None = field(default=None, init=False)
    _typed_at: tuple[int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.block_id = f"{self.seq}_{self.started_ms}"

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.result is not None

    @property
    def untyped(self) -> bool:
        """Whether the run was started and nothing of the command was typed yet: it waits for the terminal or its prompt."""
        return self.state == "queued"

    def unread(self, raw: int) -> bool:
        """Return whether a shell had not read the whole command when the output had this raw size.

        Its line editor may query the terminal at the prompt of each line (busybox). A reply would arrive after all lines.
        """
        return (
            self.driven
            and self._typed_at is not None
            and not self.on_device
            and (self.raw_begin is None or raw <= self.raw_begin)
        )

    @property
    def typed_spool(self) -> int:
        """The spool offset at which the command was typed."""
        return self._typed_at[1] if self._typed_at is not None else 0

    # Approval

    def hold(self) -> None:
        """Record that the command waits for an approval."""
        self.state = next_run_state(self.state, "hold")

    def release(self, command: str, now: float) -> None:
        """Start a held run whose command was approved, perhaps in an edited form."""
        self.state = next_run_state(self.state, "release")
        if command != (self.command if self.submitted is None else self.submitted):
            self.command, self.submitted, self.cwd = command, None, None
        self.started = now

    # Progress, reported by the strategy that drives the run

    def typing(self, raw: int, spool: int, prompt: str) -> None:
        """Record that the command is being typed at a prompt. `raw`, `spool`: the current offsets."""
        self.state = next_run_state(self.state, "type")
        self._typed_at = raw, spool
        self.prompt_before = prompt

    def typing_on_device(self, raw: int, spool: int, prompt: str) -> None:
        """Record that lines are being typed on a device. The output includes the echo until the echo is recognised."""
        self.typing(raw, spool, prompt)
        self.on_device = self.echoed = True
        self.raw_begin = raw

    def restore_echo(self, prompt_before: str | None, *, on_device: bool) -> None:
        """Restore the prompt before the echo from the block of an ended run; None if its output has no echo."""
        self.prompt_before, self.echoed = prompt_before or "", prompt_before is not None
        self.on_device = on_device

    def typing_line(self, number: int) -> None:
        """Record that a line is being typed. `number` counts from 1."""
        self.line = number
        if self.state != "typing":
            self.state = next_run_state(self.state, "type")

    def typed(self) -> None:
        """Record that the text was typed."""
        self.sent = True
        if self.state == "typing":
            self.state = next_run_state(self.state, "typed")

    def attached(self, raw: int | None, spool: int | None) -> None:
        """Attach to a command that this process did not type. Its output begins at these offsets."""
        self.state = next_run_state(self.state, "attach")
        self.sent = True
        self.raw_begin, self.spool_begin = raw, spool

    def output_began(self, raw: int, spool: int) -> None:
        """Record the offsets at which the output begins, after the echo."""
        self.raw_begin, self.spool_begin, self.echoed = raw, spool, False

    def output_began_with_echo(self) -> None:
        """Record that the end of the echo is unknown: the output then begins where the command was typed."""
        if self.raw_begin is None and self._typed_at is not None:
            self.raw_begin, self.spool_begin = self._typed_at
            self.echoed = True

    def device_output_began(self, spool: int, raw: int | None) -> None:
        """Record the end of the echo on a device. `raw` is None if the echoes of several lines stay in the output."""
        self.spool_begin = spool
        if raw is not None:
            self.raw_begin, self.echoed = raw, False

    def page_shown(self) -> None:
        """Count a page of the pager, which was answered."""
        self.pages += 1

    def line_failed(self, failed: FailedLine) -> None:
        """Record a line that the device refused."""
        self.failed_lines.append(failed)

    def asked(self, question: Question) -> None:
        """Record a question of the program."""
        if self.state == "running":
            self.state = next_run_state(self.state, "ask")
        self.question = question
        self.changed.notify()

    def output_followed(self) -> None:
        """Discard the question, because output followed it."""
        self.question = None
        if self.state == "asking":
            self.state = next_run_state(self.state, "answer")

    def answered(self, now: float) -> None:
        """Record input of a caller, which answers the question. `now` is on the loop's clock."""
        self.output_followed()
        self.answered_at = now

    def interrupt(self) -> None:
        """Record that an interrupt key was pressed."""
        self.interrupted = True

    def without_exit_code(self, reason: str | None) -> None:
        """Record why no exit code can be determined."""
        self.exit_code_reason = reason

    # The end

    def ended_by_signal(self, exit_code: int | None) -> bool:
        """Return whether the run was interrupted and its exit code shows that a signal ended it."""
        return self.interrupted and exit_code in _SIGNAL_EXIT_CODES

    def finish(self, result: RunResult) -> None:
        """End the run. A second call has no effect."""
        if self.result is None:
            self.state = next_run_state(self.state, "end")
            self.result = result
            self.changed.notify()
