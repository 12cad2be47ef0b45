"""Requests on conversation terminals: the pty_*, blocks_* and screen requests (docs/pty.md, docs/blocks.md).

A conversation is identified by (conversation_id, client_id). Its terminal is a local shell, opened at first use.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from ptyctl.api import blocks, pty, screen
from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.model import Addressed
from ptyctl.api.pty import PtyReply, PtyReplyBase, encode_error
from ptyctl.api.session import SessionRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.session.calls import block_read, expect_send, pty_calls, screen_read, termination
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.io.errors import from_os_error
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.output_wait import PROGRESS_S, WaitProgress
from ptyctl.session.session import Session

from .destinations import CONVERSATION, session_spec
from .recovery import SessionIndex
from .registry import SessionRegistry
from .session_actions import resize
from .session_factory import SessionFactory

_CTRL_D = b"\x04"

_Handler = Callable[[Session, Any], PtyReplyBase | Awaitable[PtyReplyBase]]


class Conversations:
    """Serves the requests on conversation terminals: finds or opens the terminal, and returns errors as replies.

    A conversation of an earlier server continues with its last session. If the server was killed, that session gets a new
    incarnation. If it was closed, it can be read until the next command opens another session, which a notice reports.
    """

    def __init__(self, registry: SessionRegistry, factory: SessionFactory, index: SessionIndex) -> None:
        self._registry = registry
        self._factory = factory
        self._session_index = index
        #: Locks of conversations and sessions. A lock exists while it is used.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._handlers: dict[type[pty.PtyRequest], _Handler] = {
            pty.PtyExecBlock: pty_calls.exec_block,
            pty.PtyExecInteractive: pty_calls.exec_interactive,
            pty.PtyExecInteractiveExpect: expect_send.exec_interactive_expect,
            pty.PtyWaitFor: pty_calls.wait_for,
            pty.PtyWaitPrompt: pty_calls.wait_prompt,
            pty.PtyExpectSend: expect_send.expect_send,
            pty.PtySend: pty_calls.send,
            pty.PtyCtrlC: lambda session, request: pty_calls.interrupt(session, request.task_id),
            pty.PtyCtrlD: lambda session, request: pty_calls.press(session, _CTRL_D, request.task_id),
            pty.PtyEnter: lambda session, request: pty_calls.press(session, session.open_channel().enter, request.task_id),
            pty.PtyReadSpool: pty_calls.read_spool,
            pty.PtyStatus: lambda session, request: pty_calls.status(session),
            pty.PtyEndSession: lambda session, request: termination.end_session(session, request.force, request.task_id),
            pty.PtyReset: self._reset,
            pty.PtyResize: _resize,
            pty.PtyClose: _close,
            blocks.BlocksSince: block_read.blocks_since,
            blocks.BlocksGet: block_read.blocks_get,
            blocks.BlocksRead: block_read.BlockReader().read,
            blocks.BlocksSearch: blocks_search,
            screen.PtyReadRaw: screen_read.read_raw,
            screen.PtyReadScreen: screen_read.read_screen,
            screen.PtyReadScreenDeltas: screen_read.read_deltas,
            screen.PtyScreenStatus: screen_read.read_status,
            screen.PtyReadScrollback: screen_read.read_scrollback,
        }

    async def session_id(self, request: Addressed | SessionRequest, *, create: bool = False) -> str | None:
        """Return the id of the session that a request addresses; with `create`, open a conversation's terminal if needed.

        Raises:
            PtyctlError: NOT_FOUND; with `create` also the errors of starting a shell.
        """
        if request.conversation_id is None:
            return request.session_id
        found = asyncio.shield(self._find_or_open(request)) if create else self._find(request)
        return (await found).session_id

    async def handle(self, request: pty.PtyRequest, progress: Progress | None) -> PtyReplyBase:
        """Serve one request."""
        try:
            session = await self._find_for(request)
            with session.usage.in_use(request.task_id, reading=request.TOOL in pty.READING):
                async with _reporting_progress(session.stream, progress):
                    result = self._handlers[type(request)](session, request)
                    reply = await result if inspect.isawaitable(result) else result
                session.events.flush()
        except PtyctlError as error:
            return encode_error(error)
        except OSError as error:
            return encode_error(from_os_error(error))
        if isinstance(reply, PtyReply):
            reply.notices = session.take_notices(request.task_id)
        elif (alarm := session.storage_alarm()) is not None:  # a reader such as a page leaves the other notices to the task
            reply.notices = [alarm]
        return reply

    async def _find_for(self, request: pty.PtyRequest) -> Session:
        if request.TOOL in pty.CREATING:
            return await asyncio.shield(self._find_or_open(request))  # other calls may wait for the same shell
        return await (self._find(request) if request.TOOL in pty.HISTORY else self._find_live(request))

    async def _find(self, request: Addressed | SessionRequest) -> Session:
        """Return the terminal, in any state, to read its history.

        Raises:
            PtyctlError: NOT_FOUND.
        """
        if request.session_id is not None:
            return await self._registry.find(request.session_id)
        session = await self._find_known(request)
        if session is None:
            raise PtyctlError(
                ErrorCode.NOT_FOUND,
                f"conversation {request.conversation_id} has no terminal for client {request.client_id} yet",
                hint=NextStep.OPEN_CONVERSATION,
            )
        return session

    async def _find_live(self, request: Addressed | SessionRequest) -> Session:
        """Return a terminal that is not closed and is held by this process.

        Raises:
            PtyctlError: NOT_FOUND, ALREADY_CLOSED, BUSY, LIMIT_EXCEEDED.
        """
        return await self._registry.find_live(request.session_id or (await self._find(request)).session_id)

    async def _find_or_open(self, request: Addressed | SessionRequest) -> Session:
        """Return a terminal that accepts commands: open the conversation's, or restart its shell if that has ended.

        Raises:
            PtyctlError: NOT_FOUND, ALREADY_CLOSED, and the errors of starting a shell.
        """
        if request.session_id is not None:
            return await self._find_live(request)
        async with self._lock(f"{request.conversation_id}\0{request.client_id}"):  # concurrent calls share one terminal
            known = await self._find_known(request)
            if known is None or known.state == "closed":
                spec = dataclasses.replace(
                    session_spec(CONVERSATION), conversation_id=request.conversation_id, client_id=request.client_id
                )
                opened = await self._factory.create(CONVERSATION, spec)
                if known is not None:
                    opened.notices.post(
                        f"a new session began, with new cursors and blocks: the terminal of this conversation was closed "
                        f"({known.closed_why}); read its history with session_id {known.session_id}"
                    )
                await termination.first_prompt(opened, 0)
        session = await self._find_live(request)
        if session.stream.ended is not None:
            async with self._lock(session.session_id):
                if (ended := session.stream.ended) is not None and session.state in ("eof", "lost"):
                    why = f"restarted, since {ended.message}"
                    await termination.restart(session, self._factory.restart, "session_restarted", why)
        return session

    async def _find_known(self, request: Addressed | SessionRequest) -> Session | None:
        conversation_id, client_id = request.conversation_id, request.client_id
        assert conversation_id is not None, "PtyRequest requires one of the two ids"
        session = self._registry.conversation(conversation_id, client_id)
        if session is not None and session.state != "closed":
            return session
        # Of closed sessions the newest counts, and it may not be in memory.
        for session_id in await self._session_index.of_conversation(conversation_id, client_id):
            try:
                return await self._registry.find(session_id)
            except PtyctlError:
                continue  # another server holds it, or it cannot be read
        return session

    async def _reset(self, session: Session, request: pty.PtyReset) -> PtyReply:
        """Replace the session's shell by a new one, even if it is busy. After 55 s its state is `opening`."""
        termination.check_may_end(session, request.task_id)
        reply = PtyReply(session_id=session.session_id, resume_cursor=session.stream.spool_end)
        attempt = asyncio.create_task(self._restart(session), name="reset")
        self._registry.let_continue(session, attempt)  # also if this call is cancelled: others may wait for the same shell
        if await self._registry.ends_in_time(attempt):
            reply.resume_cursor = attempt.result()
        else:
            reply.state = "opening"
            reply.message = "the connection or the login takes longer than one call may wait, and continues"
        reply.incarnation = session.incarnation
        return reply

    async def _restart(self, session: Session) -> int:
        async with self._lock(session.session_id):
            if session.state == "closed":
                raise session.already_closed()
            return await termination.restart(session, self._factory.restart, "session_reset", "reset")

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


def _resize(session: Session, request: pty.PtyResize) -> PtyReply:
    resize(session, request.cols, request.rows, request.task_id)
    return PtyReply(cols=session.cols, rows=session.rows)


async def _close(session: Session, request: pty.PtyClose) -> PtyReply:
    return PtyReply(left_running=await termination.close(session, request.force, request.task_id))


@asynccontextmanager
async def _reporting_progress(stream: OutputStream, progress: Progress | None) -> AsyncIterator[None]:
    """Report progress at regular intervals while the block runs."""
    if progress is None:
        yield
        return
    reporter = WaitProgress(stream, progress)

    async def report() -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            reporter.report()

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        await cancel_and_wait(task)
