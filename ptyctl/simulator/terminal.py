"""One terminal line of the device: type-ahead, questions, the pager, jobs that take time. It knows no command.

Pure: bytes and the time come in, `Action` values go out. `now` is seconds since the simulated switch started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from .actions import Action, Flush, Output, Wake
from .editor import BELL
from .keys import INTERRUPTS, Key, KeyDecoder
from .pager import Pager
from .pager_styles import IOS, PagerStyle

#: Keys that wait while a job runs. A person cannot type more; a program that does gets a bell.
MAX_TYPE_AHEAD = 4096

DEFAULT_LENGTH, DEFAULT_WIDTH = 24, 80


class Input(Protocol):
    """Who gets the next key."""

    def key(self, key: Key | str) -> None: ...


class Job(Protocol):
    """Something that takes time. `text` of its steps is shown as it comes."""

    def step(self) -> tuple[str, float | None]:
        """What to show now, and in how many seconds to go on; None: it is finished."""

    def abort(self) -> str:
        """The last words after an interrupt."""


class Terminal:
    """A line's state machine, below the commands. After each public call `_take` hands over what is to be done."""

    def __init__(self) -> None:
        self.length = DEFAULT_LENGTH
        self.width = DEFAULT_WIDTH
        self.now = 0.0
        self.closed = False
        self.input: Input = Ignore()
        self.decoder = KeyDecoder()
        self.pager_style: PagerStyle = IOS
        self._keys: deque[Key | str] = deque()
        self._job: Job | None = None
        self._actions: list[Action] = []
        self._text: list[str] = []
        self.at_line_start = True

    # What the driver calls

    def feed(self, data: bytes, now: float = 0.0) -> list[Action]:
        """Takes what was typed, however it was cut."""
        self.now = now
        for key in self.decoder.feed(data):
            if self._job is not None and key in INTERRUPTS:
                self._abort_job()
            elif len(self._keys) < MAX_TYPE_AHEAD:
                self._keys.append(key)
            else:
                self.write(BELL)
            self._work()
        return self._take()

    def wake(self, now: float = 0.0) -> list[Action]:
        """The time that a `Wake` asked for has passed."""
        self.now = now
        if self._job is not None:
            self._step_job()
            self._work()
        return self._take()

    # What commands and inputs call

    def write(self, text: str) -> None:
        """Shows `text`, with `\\n` as the end of a line."""
        if text:
            self._text.append(text.replace("\n", "\r\n"))
            self.at_line_start = text.endswith("\n")

    def do(self, action: Action) -> None:
        """Asks for `action` after all that was written so far."""
        self._flush_text()
        self._actions.append(action)

    def ask(self, prompt: str, reader: Input) -> None:
        """Shows `prompt`; the next keys go to `reader`."""
        self.write(prompt)
        self.input = reader

    def interrupted(self) -> None:
        """An interrupt key was pressed: what is still on its way to the screen is stale."""
        self.do(Flush())

    def start_job(self, job: Job) -> None:
        """Runs `job` to its end, then calls `finish`. Keys typed meanwhile wait; interrupt keys end it."""
        self._job = job
        self._step_job()

    def cancel_job(self) -> None:
        """Forgets the running job and what was typed meanwhile, without a word."""
        self._job = None
        self._keys.clear()

    def page(self, text: str, then: Callable[[], None]) -> None:
        """Shows `text` through the pager, then calls `then`."""
        pager = Pager(text)
        self.write(pager.page(self.length, self.width))
        self.more(pager, then)

    def more(self, pager: Pager, then: Callable[[], None], *, visible: bool = True) -> None:
        """Shows the pager's prompt (unless not `visible`) and waits for a key, if there is more; else calls `then`."""
        if pager.done:
            then()
            return
        if visible:
            self.write(self.pager_style.at(pager.percent))
        self.input = PagerInput(self, pager, then)

    def finish(self, text: str = "") -> None:
        """A command is over, and this is its output."""
        raise NotImplementedError

    def outgoing(self, data: bytes) -> bytes:
        """The last look at the bytes of an output."""
        return data

    # Inside

    def _work(self) -> None:
        while self._keys and self._job is None:
            self.input.key(self._keys.popleft())

    def _step_job(self) -> None:
        assert self._job is not None, "only a running job is stepped"
        text, seconds = self._job.step()
        self.write(text)
        if seconds is None:
            self._job = None
            self.finish()
        else:
            self.do(Wake(seconds))

    def _abort_job(self) -> None:
        assert self._job is not None, "only a running job is aborted"
        job, self._job = self._job, None
        self.interrupted()
        self.write(job.abort())
        self.finish()

    def _flush_text(self) -> None:
        if self._text:
            text, self._text = "".join(self._text), []
            self._actions.append(Output(self.outgoing(text.encode("utf-8", "surrogateescape"))))

    def _take(self) -> list[Action]:
        self._flush_text()
        actions, self._actions = self._actions, []
        return actions


class Ignore:
    """Nobody listens: the line is closed."""

    def key(self, key: Key | str) -> None:
        return


class PagerInput:
    """Space: a page, Enter: a line; what else ends it, the style says."""

    def __init__(self, terminal: Terminal, pager: Pager, then: Callable[[], None]) -> None:
        self._terminal, self._pager, self._then = terminal, pager, then

    def key(self, key: Key | str) -> None:
        terminal, is_more = self._terminal, key in (" ", Key.ENTER)
        if not is_more and not terminal.pager_style.ends(key):
            return
        if key in INTERRUPTS:
            terminal.interrupted()
        terminal.write(terminal.pager_style.erase(terminal.length))
        if not is_more:
            self._then()
        elif key == " ":
            self._go_on(self._pager.page(terminal.length, terminal.width))
        else:
            self._go_on(self._pager.line())

    def _go_on(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.more(self._pager, self._then)
