"""The device's end of a terminal connection: prompts for input, type-ahead, the pager and running jobs.

Performs no I/O: received bytes and the time go in, `TerminalAction` values come out. Times are seconds since the simulator
started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

from .line_editor import BELL, INTERRUPTS, Key, KeyDecoder, LineEditor, LinePainter, LineView, repaint
from .pager import IOS_PAGER, PagedText, PagerStyle

#: Maximum number of keys that wait while a job runs; further keys are answered with a bell.
MAX_TYPE_AHEAD = 4096

DEFAULT_LENGTH, DEFAULT_WIDTH = 24, 80

#: Called with the next key.
KeyHandler = Callable[[Key | str], None]

#: A command that takes time: yields output and the seconds until the next step, receives whether an interrupt key was
#: pressed, and returns the final output.
TerminalJob = Generator[tuple[str, float], bool | None, str]


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


class DeviceTerminal:
    """State machine of one terminal line, without commands. Public methods for the driver return the resulting actions."""

    def __init__(self, *, pager_style: PagerStyle = IOS_PAGER, merge_crlf: bool = True) -> None:
        self.length = DEFAULT_LENGTH
        self.width = DEFAULT_WIDTH
        self.now = 0.0
        self.closed = False
        self.pager_style = pager_style
        self.input: KeyHandler = _ignore_key
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
                self.perform(DiscardOutput())
                self._step_job(self._job, interrupted=True)
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
            self._step_job(self._job)
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
        """Show `prompt`, read one line and pass it to `answer`. An interrupt key calls `cancel` instead."""
        self.write(prompt)
        self.input = PromptReader(self, prompt, answer, cancel, view, paint)

    def ask_key(self, prompt: str, answer: KeyHandler) -> None:
        """Show `prompt`, read one key without echo, and pass it to `answer`."""
        self.write(prompt)
        self.input = answer

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

        self.input = pressed

    def start_job(self, job: TerminalJob) -> None:
        """Run `job`, then call `finish`. Keys are queued meanwhile; interrupt keys end the job."""
        self._job = job
        self._step_job(job)

    def cancel_job(self) -> None:
        """Drop the running job and the queued keys, without output."""
        self._job = None
        self._keys.clear()

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
        self.input = _ignore_key

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
            self.input(self._keys.popleft())

    def _step_job(self, job: TerminalJob, *, interrupted: bool | None = None) -> None:
        try:
            text, seconds = job.send(interrupted)
        except StopIteration as end:
            self._job = None
            self.write(end.value)
            self.finish()
        else:
            self.write(text)
            self.perform(WakeAfter(seconds))

    def _flush_text(self) -> None:
        if self._text:
            text, self._text = "".join(self._text), []
            self._actions.append(SendOutput(self.encode(text)))

    def _take_actions(self) -> list[TerminalAction]:
        self._flush_text()
        actions, self._actions = self._actions, []
        return actions


def _ignore_key(key: Key | str) -> None:
    """Key handler of a closed line."""


class PromptReader:
    """Key handler that reads one line, with echo and editing. An interrupt key calls `cancel`."""

    def __init__(
        self,
        terminal: DeviceTerminal,
        prompt: str,
        answer: Callable[[str], None],
        cancel: Callable[[], None],
        view: LineView,
        paint: LinePainter,
    ) -> None:
        self.editor = LineEditor(view, paint)
        self._terminal, self._prompt = terminal, prompt
        self._answer, self._cancel = answer, cancel

    def __call__(self, key: Key | str) -> None:
        if key is Key.ENTER:
            self._terminal.write("\n")
            self._answer(self.editor.text)
        elif key in INTERRUPTS:
            self.cancel("^C")
        else:
            self._terminal.write(self.editor.type(key))

    def cancel(self, mark: str) -> None:
        """Abandon the line, showing `mark` for the key that did it."""
        self._terminal.perform(DiscardOutput())
        self._terminal.write(f"{mark}\n")
        self._cancel()

    def redraw(self) -> None:
        """Output the prompt and the current line."""
        self._terminal.write(self._prompt + self.editor.visible_text)


class PagerReader:
    """Key handler of the pager prompt: Space for a page, Enter for a line, other keys as the pager style defines."""

    def __init__(self, terminal: DeviceTerminal, paged: PagedText, then: Callable[[], None]) -> None:
        self._terminal, self._paged, self._then = terminal, paged, then
        self._style = terminal.pager_style

    def __call__(self, key: Key | str) -> None:
        terminal, paged = self._terminal, self._paged
        continues = key in (" ", Key.ENTER)
        if not continues and not self._style.quits(key):
            return
        if key in INTERRUPTS:
            terminal.perform(DiscardOutput())
        terminal.write(self._style.erase(terminal.length))
        if continues:
            terminal.write(paged.next_page(terminal.length, terminal.width) if key == " " else paged.next_line())
            terminal.show_pager_prompt(paged, self._then)
        else:
            self._then()
