"""A session in this terminal: watches it, draws its screen, types input, and keeps the lock."""

from __future__ import annotations

import asyncio
import dataclasses
from base64 import b64decode
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from ptyctl.api.config import ConfigRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.operator import WatchItem, WatchRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.cli.names import name_holder
from ptyctl.core.screen import ScreenModel

from .keyboard import EscapeCommand, EscapeCommandReader, Keyboard, holds_input
from .lease import AttachLease
from .local_terminal import HELP, AttachStatus, LocalTerminal, format_status, render_row

#: Minimum time between two frames.
_FRAME_INTERVAL_S = 0.01
#: Timeout for drawing the last frame (seconds). A terminal that takes longer was stopped by XOFF.
_LAST_FRAME_TIMEOUT_S = 1.0
#: Terminals with fewer rows show the status in the title.
_MIN_ROWS_WITH_STATUS = 4
#: How long an error or a hint replaces the status.
_MESSAGE_S = 5.0
_END_REASONS = {"eof": "the far end closed", "lost": "the connection was lost", "closed": "the session was closed"}
#: Events after which the session has a new terminal, so that the watch has to start again.
_NEW_TERMINAL_EVENTS = ("session_reset", "session_restarted")


class Attachment:
    """One session, shown in one terminal. With `status`, the last row shows the lock holder and messages."""

    def __init__(self, controller: Controller, lease: AttachLease, name: str, terminal: LocalTerminal, *, status: bool) -> None:
        self._controller = controller
        self._lease = lease
        self._target = {"session_id": lease.session_id, "task_id": lease.task_id}
        self._name = name
        self._terminal = terminal
        self._status = status
        self._keyboard = Keyboard(controller, self._target, self._show_error)
        self._escapes = EscapeCommandReader()
        self._model = ScreenModel(1, 1, scrollback=0)
        self._state: WatchItem | None = None
        self._message = ""
        self._message_timer: asyncio.TimerHandle | None = None
        self._dirty = asyncio.Event()
        self._detached = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self, *, wait_for_lock: bool = False) -> str:
        """Run until the user detaches or the session ends, release the lock, and return the reason for the end.

        Raises:
            PtyctlError: the session cannot be watched, or can no longer be.
        """
        self._terminal.start_reading(self._handle_input)
        if wait_for_lock:
            self._start_call(self._lease.wait())
        self._lease.subscribe(self._handle_lock_change)
        if self._lease.held:
            self._start_call(self._resize_session())
        work = (self._watch(), self._detached.wait(), self._draw(), self._keyboard.run(), self._lease.keep_alive())
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(part) for part in work]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._terminal.stop_reading()
            await cancel_and_wait(*tasks, *self._calls)
        result = next((task.result() for task in tasks if not task.cancelled()), None)
        await self._lease.release()
        return result if isinstance(result, str) else "detached"

    def detach(self) -> None:
        """End `run`; the session continues."""
        self._detached.set()

    def handle_resize(self) -> None:
        """Handle SIGWINCH: redraw, and resize the session if this task holds the lock."""
        self._terminal.redraw()
        self._handle_lock_change()

    def handle_continue(self) -> None:
        """Handle SIGCONT: the shell has used the terminal since the stop (`fg`)."""
        self._terminal.enter_raw_mode()
        self.handle_resize()

    def show_message(self, message: str, duration_s: float | None = None) -> None:
        """Show `message` instead of the status until the next input, or for `duration_s`."""
        if self._message_timer is not None:
            self._message_timer.cancel()
            self._message_timer = None
        if duration_s is not None:
            self._message_timer = asyncio.get_running_loop().call_later(duration_s, self.show_message, "")
        self._message = message
        self._dirty.set()

    def _show_error(self, error: PtyctlError) -> None:
        if holds_input(error):
            self.show_message(describe_held(error))
        else:
            self.show_message(error.message, _MESSAGE_S)

    async def _watch(self) -> str:
        """Feed the screen model until the session ends, and return the reason. A new size or channel starts a new watch."""
        while True:
            items = self._controller.watch(WatchRequest.of(self._target))
            async with aclosing(items):
                async for item in items:
                    if not self._handle_item(item):
                        break
            assert self._state is not None
            if self._state.state in _END_REASONS:
                return _END_REASONS[self._state.state]

    def _handle_item(self, item: WatchItem) -> bool:
        """Handle output, an event or a state; return whether the watch can continue."""
        self._dirty.set()
        if item.kind == "output":
            self._model.feed(b64decode(item.data_b64 or ""))
            self._model.responses.clear()  # the session itself answers queries
            return True
        if item.kind == "event":
            return self._handle_event(item.event or {})
        if item.kind == "end":
            self._state = item.model_copy(update={"state": "closed"})
            return False
        previous, self._state = self._state, item
        if self._lease.held and name_holder(item.lock_holder, item.lock_principal) != self._lease.task_id:
            self._start_call(self._lease.renew())  # ask: this state can be older than our lock
        if item.kind == "begin":
            self._model = ScreenModel(item.cols or 1, item.rows or 1, scrollback=0)
            self._model.feed(b64decode(item.data_b64 or ""))
            return item.state not in _END_REASONS
        assert previous is not None
        return (previous.cols, previous.rows, previous.state) == (item.cols, item.rows, item.state)

    def _handle_event(self, event: dict[str, Any]) -> bool:
        if event.get("type") == "lock_taken_over" and event.get("from_task_id") == self._lease.task_id:
            self._start_call(self._report_takeover(event["task_id"], event.get("reason") or "no reason given"))
        return event.get("type") not in _NEW_TERMINAL_EVENTS

    async def _report_takeover(self, task_id: str, reason: str) -> None:
        """Show the user who took the lock, once input is stopped. An event that is older than our lock is ignored."""
        await self._lease.renew()
        if not self._lease.held:
            self.show_message(f"{task_id} took the lock from you: {reason}")

    def _handle_input(self, data: bytes) -> None:
        """Handle typed bytes; no bytes mean that the terminal has closed."""
        if not data:
            self.detach()
            return
        self.show_message("")
        for item in self._escapes.feed(data):
            if isinstance(item, bytes):
                self._type(item)
            else:
                self._run_command(item)

    def _type(self, data: bytes) -> None:
        if self._lease.held:
            self._keyboard.type(data)
        else:
            self._escapes.restart_line()
            self.show_message("you only watch: ~w takes the lock, ~. detaches", _MESSAGE_S)

    def _run_command(self, command: EscapeCommand) -> None:
        if command == "detach":
            self.detach()
        elif command == "help":
            self.show_message(HELP, 2 * _MESSAGE_S)
        elif command == "lock":
            self._start_call(self._lease.release() if self._lease.held else self._lease.acquire())
        elif self._lease.held:
            self._keyboard.press("break")

    def _handle_lock_change(self) -> None:
        self._dirty.set()
        if self._lease.held:
            self.show_message("")
            self._start_call(self._resize_session())

    async def _resize_session(self) -> None:
        """Give the session the size of this terminal without the status row."""
        cols, rows = self._visible_size()
        await self._controller.config(ConfigRequest.of({**self._target, "action": "resize", "cols": cols, "rows": rows}))

    def _visible_size(self) -> tuple[int, int]:
        cols, rows = self._terminal.size()
        return cols, rows - self._has_status_row(rows)

    def _has_status_row(self, rows: int) -> bool:
        return self._status and rows >= _MIN_ROWS_WITH_STATUS

    def _start_call(self, call: Coroutine[Any, Any, None]) -> None:
        """Run `call` in a task and show its error."""

        async def run() -> None:
            try:
                await call
            except PtyctlError as error:
                self._show_error(error)

        task = asyncio.create_task(run())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _draw(self) -> None:
        """Draw a frame after each change; runs until cancelled."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._state is not None:
                await self._write_frame(self._render(self._state))
                await asyncio.sleep(_FRAME_INTERVAL_S)

    async def _write_frame(self, frame: bytes) -> None:
        """Write a frame in a thread. A cancellation waits for its end, so that no escape sequence is cut."""
        task = asyncio.ensure_future(asyncio.to_thread(self._terminal.write, frame))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_LAST_FRAME_TIMEOUT_S)
            raise

    def _render(self, state: WatchItem) -> bytes:
        cols, rows = self._visible_size()
        frame = self._model.frame(cols, rows)
        text = format_status(
            AttachStatus(
                name=self._name,
                lock_holder=name_holder(state.lock_holder, state.lock_principal),
                has_lock=self._lease.held,
                waiting=self._lease.waiting,
                session_size=(self._model.cols, self._model.rows),
                visible_size=(cols, rows),
                message=self._message,
            )
        )
        row = render_row(text, cols) if self._has_status_row(self._terminal.size()[1]) else None
        if self._status and row is None:
            frame = dataclasses.replace(frame, title=text)
        return self._terminal.render(frame, row, takes_input=self._lease.held)


def describe_held(error: PtyctlError) -> str:
    """Return a refusal that holds input for one row: what to do first, because a narrow row is cut."""
    step = "keys are held: Ctrl-C leaves the unfinished command"
    if error.details.get("held") is not True:
        return f"{step}; a line of yours was refused"
    what = "waits for an approval" if error.code is ErrorCode.APPROVAL_PENDING else "was refused"
    line = " ".join(str(error.details.get("line") or "the line").split())
    return f"{step}; {line} {what}: {error.details.get('reason')}"
