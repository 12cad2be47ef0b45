"""The attach client: connects to the daemon, handles signals, and continues with the next daemon if this one is killed."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.api.errors import PtyctlError
from ptyctl.cli.client import connect_successor, resolve_session
from ptyctl.cli.names import refuse_own_session, resolve_task
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.errors import DaemonConnectionLost

from .attachment import Attachment
from .lease import AttachLease
from .local_terminal import LocalTerminal, terminal_signals


@dataclass(frozen=True, slots=True)
class AttachOptions:
    """Options of `ptyctl attach`.

    `write` takes the lock with a TTL of `ttl_s`. With `wait` it waits in the queue; with a reason in `force` it takes the lock
    from its holder.
    """

    name: str
    task: str | None
    ttl_s: float = 30.0
    write: bool = False
    wait: bool = False
    force: str | None = None
    status: bool = True


async def attach(options: AttachOptions) -> str:
    """Attach until the user detaches or the session ends, and return the reason for the end.

    Raises:
        PtyctlError: the session cannot be watched, or is that of this terminal, or the lock cannot be taken. The terminal is
            restored.
    """
    terminal = LocalTerminal()
    async with await RemoteController.connect() as controller:
        session_id = await resolve_session(controller, options.name)
        refuse_own_session(session_id)
        lease, attachment = _make_attachment(controller, session_id, options, terminal)
        if options.force is not None or (options.write and not options.wait):
            await lease.acquire(force=options.force)
        with terminal:
            try:
                return f"{session_id}: {await _run(attachment, wait_for_lock=options.write and options.wait)}"
            except DaemonConnectionLost as error:
                return await _reattach(options, session_id, terminal, had_lock=lease.held, loss=error)


async def _reattach(
    options: AttachOptions, session_id: str, terminal: LocalTerminal, *, had_lock: bool, loss: PtyctlError
) -> str:
    """Attach through the next daemon, repeatedly if that one ends too; return the reason for the end.

    Raises:
        PtyctlError: the session is not available in the next daemon.
    """
    while True:
        try:
            controller = await connect_successor(session_id)
            if controller is None:
                return f"{session_id}: closed by the daemon when it stopped"
            async with controller:
                lease, attachment = _make_attachment(controller, session_id, options, terminal)
                if had_lock:
                    await lease.acquire()
                attachment.show_message("the daemon ended; continued with the next one")
                return f"{session_id}: {await _run(attachment, wait_for_lock=False)}"
        except DaemonConnectionLost:
            continue
        except PtyctlError as error:
            message = f"{loss.message}; the next daemon: {error.message}"
            raise PtyctlError(error.code, message, error.details, hint=error.hint) from None


def _make_attachment(
    controller: RemoteController, session_id: str, options: AttachOptions, terminal: LocalTerminal
) -> tuple[AttachLease, Attachment]:
    terminal.redraw()
    lease = AttachLease(controller, session_id, resolve_task(options.task), options.ttl_s)
    return lease, Attachment(controller, lease, options.name, terminal, status=options.status)


async def _run(attachment: Attachment, *, wait_for_lock: bool) -> str:
    with terminal_signals(on_end=attachment.detach, on_resize=attachment.handle_resize, on_continue=attachment.handle_continue):
        return await attachment.run(wait_for_lock=wait_for_lock)
