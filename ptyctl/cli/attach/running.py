"""An attachment from the command line: over one daemon, or the next, should it end in between."""

from __future__ import annotations

import asyncio
import signal
import sys

from ptyctl.api.errors import PtyctlError
from ptyctl.cli.calling import found, task_name
from ptyctl.cli.next_daemon import next_daemon
from ptyctl.daemon.client import DaemonGone, RemoteController

from .attachment import Attachment
from .holding import Holding
from .terminal import Terminal
from .wishes import Wishes


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
            except DaemonGone as error:
                return await _go_on(wishes, session_id, terminal, held=attachment.holding.held, why=error)


async def _go_on(wishes: Wishes, session_id: str, terminal: Terminal, *, held: bool, why: PtyctlError) -> str:
    """The daemon has ended: what outlives it is gone on with in the next."""
    while True:
        try:
            controller = await next_daemon(session_id)
            if controller is None:
                return f"{session_id}: closed, as its daemon has ended"
            async with controller:
                attachment = _attachment(controller, session_id, wishes, terminal)
                if held:
                    await attachment.holding.take()
                attachment.tell("the daemon has ended, and the next one goes on")
                return f"{session_id}: {await _run(attachment, wait=False)}"
        except DaemonGone:
            continue
        except PtyctlError as error:
            raise PtyctlError(error.code, f"{why.message}; the next daemon: {error.message}", error.details) from None


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
    loop.add_signal_handler(signal.SIGCONT, attachment.resumed)
    try:
        return await attachment.run(wait=wait)
    finally:
        for number in (*leaving, signal.SIGWINCH, signal.SIGCONT):
            loop.remove_signal_handler(number)
