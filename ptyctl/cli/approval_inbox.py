"""`ptyctl approvals --watch`: approval requests as they come, answered with keys.

`Inbox` is what the terminal shows and what keys do, without a terminal; `run` connects it to the daemon and the terminal.
Text of requesters reaches the terminal with all control and invisible characters escaped.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import termios
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.sanitizer import escape_controls
from ptyctl.core.screen.cells import width
from ptyctl.daemon.client import RemoteController

from .approval_text import asked_by, describe, describe_outcome, marked_parts, remaining, text_lines, where
from .approval_text import state as describe_state
from .attach.local_terminal import LocalTerminal, terminal_signals
from .client import without_none
from .errors import format_error

#: How long one call waits for changes (ms), and the pause before the next attempt without a daemon (seconds).
_WATCH_MS, _RETRY_S = 30_000, 1.0
#: How long the selected request must have been shown before it is answered (seconds).
_READ_S = 1.0
#: Number of ended requests that remain listed.
_MAX_ENDED = 50
_KEYS = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_NAMES = {
    "\x1b[A": "up", "\x1bOA": "up", "k": "up", "\x1b[B": "down", "\x1bOB": "down", "j": "down",
    "\x1b[5~": "page_up", "\x1b[6~": "page_down", " ": "page_down", "\x03": "q", "\x1b": "escape",
}  # fmt: skip
#: The keys that answer a request, shown while they have an effect, and the others.
_ANSWERS, _VIEW_ANSWERS = "a approve  d decline  e edit  ", "a approve  d decline  "
_HELP, _VIEW_HELP = "v view  j/k move  q quit", "j/k scroll  v back"


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision of the user."""

    action: str
    approval_id: str
    comment: str | None = None
    text: str | None = None

    def request(self) -> ApprovalsRequest:
        """Return the request."""
        fields = {"approval_id": self.approval_id, "comment": self.comment, "text": self.text}
        return ApprovalsRequest.of({"action": self.action, "via": "cli", **without_none(fields)})


class LineInput:
    """One line that the user types, with a cursor."""

    def __init__(self, label: str, text: str = "") -> None:
        self.label = label
        self.text = text
        self.cursor = len(text)

    def press(self, key: str) -> None:
        """Handle a key other than Enter and Escape."""
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        match key:
            case "\x7f" | "\x08":
                before = before[:-1]
            case "\x15":
                before = ""
            case "\x01" | "\x1b[H" | "\x1bOH":
                before, after = "", before + after
            case "\x05" | "\x1b[F" | "\x1bOF":
                before, after = before + after, ""
            case "\x1b[D" | "\x1bOD":
                before, after = before[:-1], before[-1:] + after
            case "\x1b[C" | "\x1bOC":
                before, after = before + after[:1], after[1:]
            case _ if key.isprintable():
                before += key
        self.text, self.cursor = before + after, len(before)

    def render(self, cols: int) -> str:
        """Return the row: the part of the line around the cursor, which is shown in reverse video."""
        room = max(cols - len(self.label) - 2, 1)
        begin = max(self.cursor - room + 1, 0)
        shown = f"{self.text} "[begin : begin + room]
        at = self.cursor - begin
        return f"{self.label} {shown[:at]}\x1b[7m{shown[at : at + 1]}\x1b[m{shown[at + 1 :]}"


class Inbox:
    """State of the inbox: the requests, the selected one, and the text being typed.

    Only the first reply selects a request. Later ones are selected by the user, and one that ends remains listed and
    selected, so that a key never answers a request that the user has not read.
    """

    def __init__(self) -> None:
        self.message = "connecting"
        self.done = False
        self._known = False
        self._entries: dict[str, ApprovalEntry] = {}
        self._selected: str | None = None
        self._input: LineInput | None = None
        self._answering: str | None = None
        self._viewed: ApprovalEntry | None = None
        self._scroll = 0
        #: The request whose whole text was on the screen.
        self._seen: str | None = None
        #: When the selected request was shown first; None if it was not.
        self._shown_at: float | None = None
        self._drawn_at = 0.0
        #: Approved requests whose text was not typed yet.
        self._approved: set[str] = set()

    def report(self, message: str) -> None:
        """Show a message in the last row until the next key."""
        self.message = message

    def quit(self) -> None:
        """End the dialogue."""
        self.done = True

    @property
    def selected(self) -> ApprovalEntry | None:
        """The selected request."""
        return self._entries.get(self._selected or "")

    def update(self, reply: ApprovalsReply, *, complete: bool) -> None:
        """Take over changed requests; with `complete` the reply has all that are open."""
        changed = {entry.approval_id: entry for entry in reply.approvals or ()}
        if complete:
            self._entries = {
                key: entry if entry.state != "pending" else entry.model_copy(update={"state": "expired"})
                for key, entry in self._entries.items()
            }
        self._entries |= changed
        ended = [key for key, entry in self._entries.items() if entry.state != "pending" and key != self._selected]
        for key in ended[: max(len(ended) - _MAX_ENDED, 0)]:
            del self._entries[key]
        if not self._known:
            self._selected = next((key for key, entry in self._entries.items() if entry.state == "pending"), None)
        for key in self._approved & changed.keys():
            self.answered(changed[key])
        if not self._known:
            self._known, self.message = True, ""

    def answered(self, entry: ApprovalEntry) -> None:
        """Report what became of a request that the user has answered."""
        if entry.state == "approved" and not entry.used:
            self._approved.add(entry.approval_id)
        else:
            self._approved.discard(entry.approval_id)
        self.report(describe_outcome(entry))

    def view(self, entry: ApprovalEntry) -> None:
        """Show a request with its screen."""
        self._viewed, self._scroll = entry, 0

    def press(self, typed: str, now: float | None = None) -> Answer | str | None:
        """Handle the keys of one read, by default at the time of the last frame.

        Returns an answer, or the id of a request to view.
        """
        self._drawn_at = self._drawn_at if now is None else now
        keys = _KEYS.findall(typed)
        if self._input is None and len(keys) > 1 and {"a", "d", "e"} & set(keys):
            self.message = "several keys arrived at once and were ignored: press one key at a time"
            return None
        is_line = self._input is not None
        for key in keys:
            result = self._press_in_line(key) if is_line else self._press(_NAMES.get(key, key))
            if result is not None or is_line != (self._input is not None):
                return result  # the rest was typed for what the screen showed before
        return None

    def _press(self, key: str) -> Answer | str | None:
        self.message = ""
        if self._viewed is not None and key in ("v", "q", "escape"):
            self._viewed = None
        elif key == "q":
            self.quit()
        elif key in ("up", "down", "page_up", "page_down"):
            self._move(key)
        elif key in ("a", "d", "e", "v") and self.selected is not None:
            return self._press_on(self.selected, key)
        return None

    def _takes_answer(self) -> bool:
        """Return whether the selected request waits, and was shown for long enough."""
        is_read = self._shown_at is not None and self._drawn_at - self._shown_at >= _READ_S
        return is_read and self.selected is not None and self.selected.state == "pending"

    def _press_on(self, entry: ApprovalEntry, key: str) -> Answer | str | None:
        if key == "v":
            return entry.approval_id
        if entry.state != "pending":
            self.message = f"this request is {entry.state}; choose another one with j and k"
        elif not self._takes_answer():
            self.message = "this request was shown for less than a second: read it first, and press the key again"
        elif key == "d":
            self._answering, self._input = entry.approval_id, LineInput("decline, because:")
        elif self._seen != entry.approval_id:
            self.message = "the text is longer than shown: press v, and scroll to its end first"
        elif key == "a":
            return Answer("approve", entry.approval_id)
        elif not all(letter.isprintable() for letter in entry.text):
            self.message = f"this text has several lines or control characters: ptyctl approve {entry.approval_id} --text ..."
        else:
            self._answering, self._input = entry.approval_id, LineInput("approve:", entry.text)
        return None

    def _press_in_line(self, key: str) -> Answer | None:
        line, approval_id = self._input, self._answering
        assert line is not None
        assert approval_id is not None
        if key not in ("\r", "\n", "\x1b", "\x03"):
            line.press(key)
            return None
        self._input = None
        if key in ("\x1b", "\x03"):
            self.message = "nothing was answered"
            return None
        if line.label == "approve:":
            return Answer("approve", approval_id, text=line.text)
        return Answer("decline", approval_id, comment=line.text.strip() or None)

    def _move(self, key: str) -> None:
        if self._viewed is not None:
            self._scroll += {"up": -1, "down": 1, "page_up": -10, "page_down": 10}[key]
            return
        ids = list(self._entries)
        if ids:
            at = ids.index(self._selected) if self._selected in self._entries else -1
            selected = ids[min(max(at + (1 if key in ("down", "page_down") else -1), 0), len(ids) - 1)]
            if selected != self._selected:
                self._selected, self._shown_at = selected, None

    def render(self, cols: int, rows: int, now: float) -> list[str]:
        """Return the rows of the screen."""
        self._drawn_at = now
        if self._shown_at is None and self.selected is not None:
            self._shown_at = now
        pending = sum(entry.state == "pending" for entry in self._entries.values())
        answers, others = (_ANSWERS, _HELP) if self._viewed is None else (_VIEW_ANSWERS, _VIEW_HELP)
        help_text = f"{answers if self._takes_answer() else ''}{others}"
        title = _reverse(f" approvals: {pending} waiting", help_text, cols)
        last = self._input.render(cols) if self._input is not None else _cut(self.message, cols)
        room = max(rows - 2, 1)
        body = self._render_view(cols, room, now) if self._viewed is not None else self._render_list(cols, room, now)
        return [title, *(body + [""] * room)[:room], last][:rows]

    def _render_view(self, cols: int, room: int, now: float) -> list[str]:
        assert self._viewed is not None
        lines = [part for line in describe(self._viewed, now) for part in _wrap(line, cols)]
        text_end = sum(len(_wrap(f"  {line}", cols)) for line in text_lines(self._viewed.text)) + 1
        self._scroll = min(max(self._scroll, 0), max(len(lines) - room, 0))
        if self._scroll + room >= text_end:
            self._seen = self._viewed.approval_id
        return lines[self._scroll : self._scroll + room]

    def _render_list(self, cols: int, room: int, now: float) -> list[str]:
        if not self._entries:
            return ["", " nothing waits for an approval"] if self._known else []
        ids = list(self._entries)
        at = ids.index(self._selected) if self._selected in self._entries else 0
        height = min(len(ids), max(room // 3, 1))
        begin = min(max(at - height // 2, 0), len(ids) - height)
        listed = [self._render_entry(self._entries[key], cols, now) for key in ids[begin : begin + height]]
        entry = self.selected
        hint = ["select a request with j and k to read it"]
        return [*listed, "─" * cols, *(self._render_detail(entry, cols, room - height - 1) if entry is not None else hint)]

    def _render_entry(self, entry: ApprovalEntry, cols: int, now: float) -> str:
        mark = ">" if entry.approval_id == self._selected else " "
        first, *others = text_lines(entry.text)
        state = remaining(entry.expires_at, now) if entry.state == "pending" else entry.state
        more = f" (+{len(others)} lines)" if others else ""
        row = _cut(f"{mark} {state:>8}  {where(entry):<12.20}  {asked_by(entry):<20.30}  {first}{more}", cols)
        return row if entry.state == "pending" else f"\x1b[2m{row}\x1b[m"

    def _render_detail(self, entry: ApprovalEntry, cols: int, room: int) -> list[str]:
        """Return the rows of a request: the reason, and as much of its text as fits in `room` rows."""
        facts = [
            f"asked by {asked_by(entry)} on {where(entry)}, mode {escape_controls(entry.mode or '?')}",
            f"because {escape_controls(entry.reason)} ({escape_controls(', '.join(entry.rules))})"
            + (f": {'; '.join(parts)}" if (parts := marked_parts(entry)) and parts != text_lines(entry.text) else ""),
        ]
        if entry.state != "pending":
            comment = f": {escape_controls(entry.comment)}" if entry.comment else ""
            facts.append(f"{describe_state(entry, time.time())}{comment}")
        lines = [part for line in text_lines(entry.text) for part in _wrap(f"  {line}", cols)]
        shown = max(room - len(facts), 1)
        if len(lines) <= shown:
            self._seen = entry.approval_id
        else:
            lines = [*lines[: shown - 1], f"  … {len(lines) - shown + 1} more rows: v shows all"]
        return [*(_cut(fact, cols) for fact in facts), *lines]


def _cells(text: str) -> int:
    return sum(max(width(letter), 0) for letter in text)


def _cut(text: str, cols: int) -> str:
    """Return as much of a text as fits in a row."""
    return text if _cells(text) <= cols else f"{_wrap(text, max(cols - 1, 2))[0]}…"


def _wrap(text: str, cols: int) -> list[str]:
    """Return a text in rows of at most `cols` columns."""
    rows, row, used = list[str](), "", 0
    for letter in text:
        size = max(width(letter), 0)
        if used + size > cols and row:
            rows.append(row)
            row, used = "", 0
        row, used = row + letter, used + size
    return [*rows, row]


def _reverse(left: str, right: str, cols: int) -> str:
    gap = cols - len(left) - len(right) - 1
    text = f"{left}{' ' * gap}{right} " if gap > 0 else left
    return f"\x1b[7m{text[:cols].ljust(cols)}\x1b[m"


class _Program:
    """The inbox on this terminal, connected to the daemon."""

    def __init__(self, controller: RemoteController, terminal: LocalTerminal) -> None:
        self._controller = controller
        self._terminal = terminal
        self._inbox = Inbox()
        self._changed = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    async def run(self) -> None:
        """Run until the user quits."""
        self._terminal.start_reading(self._read)
        watching = asyncio.create_task(self._watch())
        try:
            while not self._inbox.done:
                self._changed.clear()
                self._draw()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_READ_S):
                        await self._changed.wait()
        finally:
            self._terminal.stop_reading()
            await cancel_and_wait(watching, *self._calls)

    def redraw(self) -> None:
        """Draw as soon as possible."""
        self._changed.set()

    def resume(self) -> None:
        """Take the terminal again after a stop (`fg`)."""
        self._terminal.enter_raw_mode()
        self.redraw()

    def quit(self) -> None:
        """End `run`."""
        self._inbox.quit()
        self.redraw()

    def _draw(self) -> None:
        cols, rows = self._terminal.size()
        lines = self._inbox.render(cols, rows, time.time())
        frame = "\r\n".join(f"{line}\x1b[K" for line in lines)
        self._terminal.write(f"\x1b[?25l\x1b[H{frame}\x1b[J".encode())

    def _read(self, data: bytes) -> None:
        if not data:
            self.quit()
            return
        outcome = self._inbox.press(self._decoder.decode(data), time.time())
        if isinstance(outcome, Answer):
            self._start(self._answer(outcome))
        elif outcome is not None:
            self._start(self._view(outcome))
        self.redraw()

    def _start(self, call: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await call
            except PtyctlError as error:
                self._inbox.report(escape_controls(format_error(error)))
            self.redraw()

        task = asyncio.create_task(run())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, answer: Answer) -> None:
        reply = await self._controller.approvals(answer.request())
        assert reply.approval is not None
        self._inbox.update(ApprovalsReply(approvals=[reply.approval], answerable=True), complete=False)
        self._inbox.answered(reply.approval)

    async def _view(self, approval_id: str) -> None:
        reply = await self._controller.approvals(ApprovalsRequest(action="get", approval_id=approval_id))
        assert reply.approval is not None
        self._inbox.view(reply.approval)

    async def _watch(self) -> None:
        """Follow the requests of the daemon and, after its end, of the next one."""
        cursor: str | None = None
        while True:
            try:
                fields = {"action": "watch", "since": cursor, "timeout_ms": _WATCH_MS}
                reply = await self._controller.approvals(ApprovalsRequest.of(without_none(fields)))
            except PtyctlError as error:
                self._inbox.report(escape_controls(format_error(error)))
                if error.code is ErrorCode.FORBIDDEN:
                    self.redraw()
                    return
                cursor = None
                self.redraw()
                await asyncio.sleep(_RETRY_S)
                continue
            self._inbox.update(reply, complete=cursor is None)
            cursor = reply.cursor
            self.redraw()


async def run() -> None:
    """Show the inbox until the user quits.

    Raises:
        PtyctlError: CONNECT_FAILED.
    """
    async with await RemoteController.connect(reconnect=True) as controller:
        terminal = LocalTerminal()
        with terminal:
            termios.tcflush(0, termios.TCIFLUSH)  # input from before the first request was shown answers none
            program = _Program(controller, terminal)
            with terminal_signals(on_end=program.quit, on_resize=program.redraw, on_continue=program.resume):
                await program.run()
