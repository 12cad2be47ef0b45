"""An attachment from the command line: over one daemon, or the next, should it end in between."""

from __future__ import annotations

import asyncio
import signal
import sys

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cli.calling import found, task_name
from ptyctl.controller.settings import load_settings
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.place import Place
from ptyctl.session.kept_sessions import was_closed

from .attachment import Attachment
from .holding import Holding
from .terminal import Terminal
from .wishes import Wishes

#: A daemon that ends gives its programs a grace; so often it is looked whether it has ended.
_LOOK_S = 0.05


def run(wishes: Wishes) -> int:
    """The exit code.

    Raises:
        PtyctlError: it cannot be attached to, or its lock not be had; the terminal is as it was.
    """
    print(f"ptyctl: {asyncio.run(_attach(wishes))}", file=sys.stderr)
    return 0


async def _attach(wishes: Wishes) -> str:
    terminal = Terminal()
    async with await RemoteController.connect() as controller:
        session_id = await found(controller, wishes.name)
        attachment = _attachment(controller, session_id, wishes, terminal)
        if wishes.force is not None:
            await attachment.holding.force(wishes.force)
        elif wishes.write and not wishes.wait:
            await attachment.holding.take()
        with terminal:
            try:
                return f"{session_id}: {await _run(attachment, wait=wishes.write and wishes.wait)}"
            except PtyctlError as error:
                if error.code is not ErrorCode.IO_ERROR:
                    raise
                return await _go_on(wishes, session_id, terminal, held=attachment.holding.held, why=error)


async def _go_on(wishes: Wishes, session_id: str, terminal: Terminal, *, held: bool, why: PtyctlError) -> str:
    """The daemon has ended: what outlives it is gone on with in the next."""
    while True:
        try:
            controller = await _next_daemon(session_id)
            if controller is None:
                return f"{session_id}: closed, as its daemon has ended"
            async with controller:
                attachment = _attachment(controller, session_id, wishes, terminal)
                if held:
                    await attachment.holding.take()
                attachment.tell("the daemon has ended, and the next one goes on")
                return f"{session_id}: {await _run(attachment, wait=False)}"
        except PtyctlError as error:
            if error.code is not ErrorCode.IO_ERROR:
                raise PtyctlError(error.code, f"{why.message}; the next daemon: {error.message}", error.details) from None


async def _next_daemon(session_id: str) -> RemoteController | None:
    """None where the last one has closed the session in order: for that no other is started."""
    place = Place()
    while await asyncio.to_thread(control.look, place) is None:
        if not control.is_ending(place):
            if was_closed(load_settings().state_dir / "sessions" / session_id):
                return None
            break
        await asyncio.sleep(_LOOK_S)
    return await RemoteController.connect(place)


def _attachment(controller: RemoteController, session_id: str, wishes: Wishes, terminal: Terminal) -> Attachment:
    terminal.view.forget()
    holding = Holding(controller, session_id, task_name(wishes.task), wishes.ttl_s)
    return Attachment(controller, holding, wishes.name, terminal, row=wishes.status)


async def _run(attachment: Attachment, *, wait: bool) -> str:
    loop = asyncio.get_running_loop()
    leaving = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    for number in leaving:
        loop.add_signal_handler(number, attachment.leave)
    loop.add_signal_handler(signal.SIGWINCH, attachment.resized)
    try:
        return await attachment.run(wait=wait)
    finally:
        for number in (*leaving, signal.SIGWINCH):
            loop.remove_signal_handler(number)
