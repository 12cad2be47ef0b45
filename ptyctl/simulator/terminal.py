"""The device's end of a terminal connection: prompts for input, type-ahead, the pager and running jobs.

Performs no I/O: received bytes and the time go in, `TerminalAction` values come out. Times are seconds since the simulator
started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .keys import INTERRUPTS, Key, KeyDecoder
from .line_editor import BELL, LineEditor, LinePainter, LineView, repaint
from .pager import IOS_PAGER, PagedText, PagerStyle

#: Maximum number of keys that wait while a job runs; further keys are answered with a bell.
MAX_TYPE_AHEAD = 4096

DEFAULT_LENGTH, DEFAULT_WIDTH = 24, 80


@dataclass(frozen=True, slots=True)
class SendOutput:
    """Send these bytes to the clients."""

    data: bytes


@dataclass(frozen=True, slots=True)
class DiscardOutput:
    """Discard output that was not sent yet, as a tty does on an interrupt."""


@dataclass(frozen=True, slots=True)
class WakeAfter:
    """Call `DeviceTerminal.wake` after this delay. Replaces an earlier request."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BroadcastLog:
    """Show a syslog line, without its line end, on the other lines of the device."""

    line: str


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection after the output was sent."""


@dataclass(frozen=True, slots=True)
class DropConnection:
    """Break the connection. Later output is lost."""


@dataclass(frozen=True, slots=True)
class ReloadDevice:
    """Reload the device and end all sessions."""


TerminalAction = SendOutput | DiscardOutput | WakeAfter | BroadcastLog | CloseConnection | DropConnection | ReloadDevice


class KeyHandler(Protocol):
    """Receiver of the next key."""

    def key(self, key: Key | str) -> None: ...


class TerminalJob(Protocol):
    """Command that takes time and produces output in steps."""

    def step(self) -> tuple[str, float | None]:
        """Return the next output, and the seconds until the next step or None at the end."""

    def abort(self) -> str:
        """Return the final output after an interrupt."""


class DeviceTerminal:
    """State machine of one terminal line, without commands. Public methods for the driver return the resulting actions."""

    def __init__(self, *, pager_style: PagerStyle = IOS_PAGER, merge_crlf: bool = True) -> None:
        self.length = DEFAULT_LENGTH
        self.width = DEFAULT_WIDTH
        self.now = 0.0
        self.closed = False
        self.pager_style = pager_style
        self.input: KeyHandler = IgnoreKeys()
        self._decoder = KeyDecoder(merge_crlf=merge_crlf)
        self._keys: deque[Key | str] = deque()
        self._job: TerminalJob | None = None
        self._actions: list[TerminalAction] = []
        self._text: list[str] = []
        self._at_line_start = True

    # Called by the driver

    def feed(self, data: bytes, now: float = 0.0) -> list[TerminalAction]:
        """Process received bytes. The result does not depend on how they are split."""
        self.now = now
        for key in self._decoder.feed(data):
            if self._job is not None and key in INTERRUPTS:
                self._abort_job()
            elif len(self._keys) < MAX_TYPE_AHEAD:
                self._keys.append(key)
            else:
                self.write(BELL)
            self._handle_keys()
        return self._take_actions()

    def wake(self, now: float = 0.0) -> list[TerminalAction]:
        """Continue the job after the delay that a `WakeAfter` requested."""
        self.now = now
        if self._job is not None:
            self._step_job()
            self._handle_keys()
        return self._take_actions()

    # Called by commands and key handlers

    def write(self, text: str) -> None:
        """Output `text`, with line feeds sent as CR LF."""
        if text:
            self._text.append(text.replace("\n", "\r\n"))
            self._at_line_start = text.endswith("\n")

    def write_lines(self, text: str) -> None:
        """Output whole lines, starting on a new row."""
        self.write(f"{text}\n" if self._at_line_start else f"\n{text}\n")

    def perform(self, action: TerminalAction) -> None:
        """Append `action` after the output so far."""
        self._flush_text()
        self._actions.append(action)

    def ask_line(
        self,
        prompt: str,
        answer: Callable[[str], None],
        cancel: Callable[[], None],
        *,
        view: LineView = str,
        paint: LinePainter = repaint,
    ) -> None:
        """Show `prompt` and read one line for `answer`. An interrupt key calls `cancel` instead."""
        self.write(prompt)
        self.input = PromptReader(self, prompt, answer, cancel, view=view, paint=paint)

    def ask_key(self, prompt: str, answer: Callable[[Key | str], None]) -> None:
        """Show `prompt` and read one key, without echo, for `answer`."""
        self.write(prompt)
        self.input = KeyReader(answer)

    def ask_confirmation(self, prompt: str, answer: Callable[[bool], None]) -> None:
        """Show `prompt` and read one key: Enter and y mean yes, any other key no."""

        def pressed(key: Key | str) -> None:
            self.write("\n")
            answer(key in (Key.ENTER, "y", "Y"))

        self.ask_key(prompt, pressed)

    def wait_for_enter(self, then: Callable[[], None]) -> None:
        """Ignore all keys until Enter, then call `then`."""

        def pressed(key: Key | str) -> None:
            if key is Key.ENTER:
                then()

        self.input = KeyReader(pressed)

    def start_job(self, job: TerminalJob) -> None:
        """Run `job`, then call `finish`. Keys are queued meanwhile; interrupt keys abort the job."""
        self._job = job
        self._step_job()

    def cancel_job(self) -> None:
        """Drop the running job and the queued keys, without output."""
        self._job = None
        self._keys.clear()

    def discard_output(self) -> None:
        """Discard the output that is still queued, after an interrupt key."""
        self.perform(DiscardOutput())

    def show_paged(self, text: str, then: Callable[[], None]) -> None:
        """Output `text` through the pager, then call `then`."""
        paged = PagedText(text)
        self.write(paged.next_page(self.length, self.width))
        self.show_pager_prompt(paged, then)

    def show_pager_prompt(self, paged: PagedText, then: Callable[[], None], *, visible: bool = True) -> None:
        """Show the pager prompt, unless not `visible`, and wait for a key. Call `then` at the end of the text."""
        if paged.done:
            then()
            return
        if visible:
            self.write(self.pager_style.prompt_at(paged.percent))
        self.input = PagerReader(self, paged, then)

    def close_input(self) -> None:
        """Stop the job and ignore all further keys."""
        self.cancel_job()
        self.closed = True
        self.input = IgnoreKeys()

    # Overridden by subclasses

    def finish(self, text: str = "") -> None:
        """End the current command with its output."""
        raise NotImplementedError

    def encode(self, text: str) -> bytes:
        """Encode output for the connection."""
        return text.encode("utf-8", "surrogateescape")

    # Internal

    def _handle_keys(self) -> None:
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
            self.perform(WakeAfter(seconds))

    def _abort_job(self) -> None:
        assert self._job is not None, "only a running job is aborted"
        job, self._job = self._job, None
        self.discard_output()
        self.write(job.abort())
        self.finish()

    def _flush_text(self) -> None:
        if self._text:
            text, self._text = "".join(self._text), []
            self._actions.append(SendOutput(self.encode(text)))

    def _take_actions(self) -> list[TerminalAction]:
        self._flush_text()
        actions, self._actions = self._actions, []
        return actions


class IgnoreKeys:
    """Key handler of a closed line."""

    def key(self, key: Key | str) -> None:
        return


class KeyReader:
    """Key handler that passes each key to `answer`, without echo."""

    def __init__(self, answer: Callable[[Key | str], None]) -> None:
        self._answer = answer

    def key(self, key: Key | str) -> None:
        self._answer(key)


class PromptReader:
    """Key handler that reads one line, with echo and editing. An interrupt key calls `cancel`."""

    def __init__(
        self,
        terminal: DeviceTerminal,
        prompt: str,
        answer: Callable[[str], None],
        cancel: Callable[[], None],
        *,
        view: LineView = str,
        paint: LinePainter = repaint,
    ) -> None:
        self.editor = LineEditor(view, paint)
        self._terminal, self._prompt = terminal, prompt
        self._answer, self._cancel = answer, cancel

    def key(self, key: Key | str) -> None:
        if key is Key.ENTER:
            self._terminal.write("\n")
            self._answer(self.editor.text)
        elif key in INTERRUPTS:
            self.cancel("^C")
        else:
            self._terminal.write(self.editor.type(key))

    def cancel(self, mark: str) -> None:
        """Abandon the line, showing `mark` for the key that did it."""
        self._terminal.discard_output()
        self._terminal.write(f"{mark}\n")
        self._cancel()

    def redraw(self) -> None:
        """Output the prompt and the current line."""
        self._terminal.write(self._prompt + self.editor.visible_text)


class PagerReader:
    """Key handler of the pager prompt: Space for a page, Enter for a line, other keys as the pager style defines."""

    def __init__(self, terminal: DeviceTerminal, paged: PagedText, then: Callable[[], None]) -> None:
        self._terminal, self._paged, self._then = terminal, paged, then

    def key(self, key: Key | str) -> None:
        terminal, continues = self._terminal, key in (" ", Key.ENTER)
        if not continues and not terminal.pager_style.quits(key):
            return
        if key in INTERRUPTS:
            terminal.discard_output()
        terminal.write(terminal.pager_style.erase(terminal.length))
        if not continues:
            self._then()
            return
        is_page = key == " "
        terminal.write(self._paged.next_page(terminal.length, terminal.width) if is_page else self._paged.next_line())
        terminal.show_pager_prompt(self._paged, self._then)
