"""How what runs in a terminal is ended, and the terminal itself: end_session, reset, close (CONTRACTS, pty_*; spec, 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.pty import PtyReply
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session

from .pty_calls import interrupt, until_idle

#: How long a program may take to end after Ctrl-C, before it counts as wedged; and after it was killed.
INTERRUPT_GRACE_S = 2.0
#: Ctrl-C is pressed so often in that time: a shell that is about to start the program may lose one.
INTERRUPTS = 3
#: How long a new shell may take until its first prompt, before its caller hears of it.
FIRST_PROMPT_S = 15.0


async def end_session(session: Session, force: bool, task_id: str | None) -> PtyReply:
    """Ends what runs: by Ctrl-C, and when that is ignored and `force` allows it, by a signal that cannot be.

    Raises:
        PtyctlError: BUSY when it does not end; UNSUPPORTED where nothing can be killed from here; LOCKED, LOCK_REQUIRED.
    """
    run = session.runs.current
    if run is None:
        return _ended(session, "already_idle")
    for _ in range(INTERRUPTS):
        await interrupt(session, task_id)
        if await until_idle(session, asyncio.get_running_loop().time() + INTERRUPT_GRACE_S / INTERRUPTS):
            return _ended(session, "prompt")
    where: dict[str, Any] = {"block_id": run.block_id, "mode": session.runs.mode, "resume_cursor": session.stream.spool_end}
    if not force:
        told = f"block {run.block_id} goes on after Ctrl-C; answer it, end it with force, or begin anew with pty_reset"
        raise PtyctlError(ErrorCode.BUSY, told, where)
    session.gate.check(Writer(task_id))
    if not session.open_channel().kill_foreground():
        raise unsupported("the program in front cannot be killed from here; begin anew with pty_reset", **where)
    if not await until_idle(session, _soon()):
        raise PtyctlError(ErrorCode.BUSY, "the program was killed and no prompt came back; begin anew with pty_reset", where)
    return _ended(session, "forced")


def may_end(session: Session, task_id: str | None) -> None:
    """Whether a task may end or change the terminal itself: only another's lock forbids it.

    Raises:
        PtyctlError: LOCKED.
    """
    session.leases.check(task_id, required=False, now=asyncio.get_running_loop().time())


async def close(session: Session, force: bool, task_id: str | None) -> None:
    """Ends the session for good; with `force` also where another has its lock, and without a grace for programs.

    Raises:
        PtyctlError: LOCKED.
    """
    if session.state != "closed" and not force:
        may_end(session, task_id)
    await session.close(force=force, why="on request" if task_id is None else f"by {task_id}")


async def restart(session: Session, connect: Callable[[Session], Awaitable[None]], event: str, why: str) -> int:
    """Ends the terminal's channel, if it still has one, and begins a new incarnation. Returns the cursor where that begins.

    Args:
        connect: opens another channel, as the session was opened, and logs in there.

    Raises:
        PtyctlError: what kept the new channel from opening; the session can be restarted again.
    """
    await session.runs.abort("reset")
    if session.state == "open" and session.channel is not None:
        session.channel.kill_foreground()
        await session.channel.close(force=True)
    session.renew_shell_nonce()  # the new shell must not trust marks that the old one printed
    cursor = session.stream.spool_end
    await connect(session)
    session.events.note(event, incarnation=session.incarnation, reason=why)
    session.notices.post(f"{why}: incarnation {session.incarnation} of this terminal; what was running before is gone")
    await first_prompt(session, cursor)
    return cursor


async def first_prompt(session: Session, cursor: int) -> None:
    """Waits for the prompt of a shell that sends marks: typed before it, a line may be lost among its start-up files."""
    stream = session.stream
    deadline = asyncio.get_running_loop().time() + FIRST_PROMPT_S
    while session.spec.integrated and stream.prompts.first_from(cursor) is None:
        if stream.ended is not None or asyncio.get_running_loop().time() >= deadline:
            return
        await stream.signal.wait(deadline)


def _ended(session: Session, how: str) -> PtyReply:
    return PtyReply.model_validate({"ended": how, "mode": session.runs.mode, "resume_cursor": session.stream.spool_end})


def _soon() -> float:
    return asyncio.get_running_loop().time() + INTERRUPT_GRACE_S
