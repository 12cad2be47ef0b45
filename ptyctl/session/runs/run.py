"""A run: one command from its begin to its end. It belongs to the session; calls only wait for it (design, section 6)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import DoneReason, ExecRequest, FailedLine
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.signal import Signal

#: Started by exec, started to be talked to, or typed by somebody at the terminal.
Origin = Literal["exec", "interactive", "typed"]
#: What a shell reports of a command that SIGINT or SIGKILL ended: 128 and the signal's number.
_SIGNALS = (130, 137)


@dataclass(slots=True)
class Run:
    """Offsets are bytes: `raw_begin`/`raw_end` enclose what the output is rendered from, `spool_begin`/`spool_end` its text;
    `raw_sent`/`spool_sent` are where it stood when the command was typed. They are None as long as the run has not come so far.
    `echoed` says that the output begins with the prompt and the echo, `driven` that this process typed it and looks after it.
    `device` says that only a prompt or quiet can tell its end, `question` is what waits for an answer in it,
    and `unsure` that it may be none, `answered` when a caller last typed into it, on the loop's clock.
    `line` is the number of the line that was typed last, where they are typed one by one.
    `fence` is that of its writer's lease when it began.
    `submitted` is the command as its caller gave it, where more is typed: a change to the directory `cwd`.
    `block_id` is `<seq>_<ts>`, unique in its session (CONTRACTS). `ended` beats when a run of the session has ended, or asks.
    """

    seq: int
    command: str
    profile: DeviceProfile
    begun: float
    ended: Signal
    request: ExecRequest | None = None
    origin: Origin = "exec"
    task_id: str | None = None
    fence: int | None = None
    submitted: str | None = None
    cwd: str | None = None
    begun_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    block_id: str = field(init=False)
    sent: bool = False
    raw_sent: int | None = None
    spool_sent: int | None = None
    raw_begin: int | None = None
    raw_end: int | None = None
    spool_begin: int | None = None
    spool_end: int | None = None
    echoed: bool = False
    device: bool = False
    question: str | None = None
    unsure: bool = False
    answered: float = 0.0
    line: int = 0
    driven: bool = True
    prompt_before: str = ""
    prompt_after: str = ""
    pages: int = 0
    interrupted: bool = False
    reason: str | None = None
    done_reason: DoneReason | None = None
    exit_code: int | None = None
    exit_code_reason: str | None = None
    duration_ms: int | None = None
    failure: PtyctlError | None = None
    failed_lines: list[FailedLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.block_id = f"{self.seq}_{self.begun_ms}"

    @property
    def stopped(self) -> bool:
        """Whether it was interrupted, and its exit code says that this, or the kill that followed, has ended it."""
        return self.interrupted and self.exit_code in _SIGNALS

    def unread(self, raw: int) -> bool:
        """Whether a shell was still reading what was typed when the stream stood there. Its line editor may ask the terminal at
        each line's prompt (busybox), and an answer would come behind all the lines."""
        return self.driven and not self.device and (self.raw_begin is None or raw <= self.raw_begin)

    def finish(self, reason: DoneReason, now: float, *, raw_end: int, spool_end: int) -> None:
        """The run is over; a second time changes nothing."""
        if self.done_reason is None:
            self.done_reason = reason
            self.duration_ms = round((now - self.begun) * 1000)
            self.raw_end = raw_end
            self.spool_end = spool_end
            self.ended.notify()

    def fail(self, error: PtyctlError, now: float, *, raw_end: int, spool_end: int) -> None:
        """The run could not go on: its callers get the error."""
        self.failure = error
        self.finish("cancelled", now, raw_end=raw_end, spool_end=spool_end)
