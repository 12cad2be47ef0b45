"""One terminal on one session, from the present screen to the end."""

from __future__ import annotations

import asyncio
import dataclasses
from base64 import b64decode
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from ptyctl.api.config import ConfigRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.watch import Watched, WatchRequest
from ptyctl.core.escape_commands import EscapeCommand, EscapeCommandReader
from ptyctl.core.screen import ScreenModel

from . import status
from .holding import Holding
from .keyboard import Keyboard
from .terminal import Terminal

#: What comes within this time is drawn together.
_FRAME_S = 0.01
#: A terminal that takes nothing for so long was stopped (XOFF).
_STOPPED_S = 1.0
#: A lower terminal has no row to spare: the title tells who types.
_LOWEST_WITH_STATUS = 4
_ENDED = {"eof": "the far end has ended", "lost": "the connection is lost", "closed": "the session was closed"}
#: What was done in vain is told for so long; then the row tells again who types.
_TOLD_S = 5.0
#: What other events tell comes with the output, or with the terminal's state.
_ANOTHER_TERMINAL = ("session_reset", "session_restarted")


class Attachment:
    """`run` ends when the person leaves or the session ends. `row` is whether one tells who types."""

    def __init__(self, controller: Controller, holding: Holding, name: str, terminal: Terminal, *, row: bool) -> None:
        self.holding = holding
        self._controller = controller
        self._who = {"session_id": holding.session_id, "task_id": holding.task_id}
        self._name = name
        self._terminal = terminal
        self._row = row
        self._keyboard = Keyboard(controller, self._who, self._refused)
        self._escapes = EscapeCommandReader()
        self._model = ScreenModel(1, 1, scrollback=0)
        self._state: Watched | None = None
        self._message = ""
        self._until_untold: asyncio.TimerHandle | None = None
        self._dirty = asyncio.Event()
        self._left = asyncio.Event()
        self._others: set[asyncio.Task[None]] = set()

    async def run(self, *, wait: bool = False) -> str:
        """Why it is over, for the person.

        Raises:
            PtyctlError: the session cannot be watched (any more).
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._terminal.input, self._terminal.read, self._typed)
        if wait:
            self._beside(self.holding.wait())
        self.holding.on_change = self._lock_changed
        if self.holding.held:
            self._beside(self._fit())
        follow = asyncio.create_task(self._follow())
        tasks = [
            follow,
            asyncio.create_task(self._left.wait()),
            *map(asyncio.create_task, (self._draw(), self._keyboard.run(), self.holding.keep())),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._terminal.input)
            for task in [*tasks, *self._others]:
                task.cancel()
            await asyncio.gather(*tasks, *self._others, return_exceptions=True)
        reason = next((task.result() for task in tasks if not task.cancelled()), None)
        await self.holding.release()
        return reason if isinstance(reason, str) else "detached"

    def tell(self, message: str, for_s: float | None = None) -> None:
        """In the row, until something is typed, or for so long."""
        if self._until_untold is not None:
            self._until_untold.cancel()
        self._until_untold = asyncio.get_running_loop().call_later(for_s, self.tell, "") if for_s is not None else None
        self._message = message
        self._dirty.set()

    def _refused(self, error: PtyctlError) -> None:
        """What happened: the next step is one for callers of the tools."""
        self.tell(error.message.partition("; ")[0], _TOLD_S)

    def leave(self) -> None:
        self._left.set()

    def resized(self) -> None:
        """The terminal has another size; the session follows while we type."""
        self._terminal.view.forget()
        self._lock_changed()

    def resumed(self) -> None:
        """We were stopped, and the shell had the terminal meanwhile (`fg`)."""
        self._terminal.take()
        self.resized()

    async def _follow(self) -> str:
        """Feeds the model, which begins anew with each other size or channel. Returns how the session ended."""
        while True:
            watched = self._controller.watch(WatchRequest.of(self._who))
            async with aclosing(watched):
                async for item in watched:
                    if not self._take(item):
                        break
            assert self._state is not None
            if self._state.state in _ENDED:
                return _ENDED[self._state.state]

    def _take(self, item: Watched) -> bool:
        """Whether the watch goes on with what we have."""
        self._dirty.set()
        if item.kind == "output":
            self._model.feed(b64decode(item.data_b64 or ""))
            self._model.responses.clear()  # the session answers
            return True
        if item.kind == "event":
            return self._heard(item.event or {})
        if item.kind == "end":
            self._state = item.model_copy(update={"state": "closed"})
            return False
        before, self._state = self._state, item
        if self.holding.held and item.lock_holder != self.holding.task_id:
            self._beside(self.holding.beat())  # what is told may be older than our lock
        if item.kind == "begin":
            self._model = ScreenModel(item.cols or 1, item.rows or 1, scrollback=0)
            self._model.feed(b64decode(item.data_b64 or ""))
            return item.state not in _ENDED
        assert before is not None
        return (before.cols, before.rows, before.state) == (item.cols, item.rows, item.state)

    def _heard(self, event: dict[str, Any]) -> bool:
        if event.get("type") == "lock_taken_over" and event.get("from_task_id") == self.holding.task_id:
            self.tell(f"{event['task_id']} types, and took the lock from you: {event.get('reason') or 'no reason was given'}")
        return event.get("type") not in _ANOTHER_TERMINAL

    def _typed(self, data: bytes) -> None:
        if not data:
            self.leave()
            return
        self.tell("")
        for item in self._escapes.feed(data):
            if isinstance(item, bytes):
                self._type(item)
            else:
                self._obey(item)

    def _type(self, data: bytes) -> None:
        if self.holding.held:
            self._keyboard.type(data)
        else:
            self._escapes.restart_line()
            self.tell("you only look on: ~w takes the lock, ~. detaches", _TOLD_S)

    def _obey(self, command: EscapeCommand) -> None:
        if command == "detach":
            self.leave()
        elif command == "help":
            self.tell(status.HELP, 2 * _TOLD_S)
        elif command == "lock":
            self._beside(self.holding.release() if self.holding.held else self.holding.take())
        elif self.holding.held:
            self._keyboard.press("break")

    def _lock_changed(self) -> None:
        self._dirty.set()
        if self.holding.held:
            self.tell("")
            self._beside(self._fit())

    async def _fit(self) -> None:
        """The session gets our size."""
        cols, rows = self._room()
        await self._controller.config(ConfigRequest.of({**self._who, "action": "resize", "cols": cols, "rows": rows}))

    def _room(self) -> tuple[int, int]:
        cols, rows = self._terminal.size()
        return cols, rows - self._has_row(rows)

    def _has_row(self, rows: int) -> bool:
        return self._row and rows >= _LOWEST_WITH_STATUS

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """What takes a call is done beside the rest; a refusal is told."""

        async def done() -> None:
            try:
                await work
            except PtyctlError as error:
                self._refused(error)

        task = asyncio.create_task(done())
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _draw(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._state is not None:
                await self._whole(asyncio.to_thread(self._terminal.write, self._drawn(self._state)))
                await asyncio.sleep(_FRAME_S)

    async def _whole(self, writing: Coroutine[Any, Any, None]) -> None:
        """A frame is not left half drawn, unless the terminal is stopped."""
        task = asyncio.ensure_future(writing)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_STOPPED_S)
            raise

    def _drawn(self, state: Watched) -> bytes:
        cols, rows = self._room()
        frame = self._model.frame(cols, rows)
        situation = status.Situation(
            name=self._name,
            holder=state.lock_holder,
            ours=self.holding.held,
            waiting=self.holding.waiting,
            size=(self._model.cols, self._model.rows),
            shown=(cols, rows),
            message=self._message,
        )
        row = status.row(status.told(situation), cols) if self._has_row(self._terminal.size()[1]) else None
        if self._row and row is None:
            frame = dataclasses.replace(frame, title=status.told(situation))
        return self._terminal.view.draw(frame, row, takes_input=self.holding.held)
