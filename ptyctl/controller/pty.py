"""The pty_* and blocks_* surface: each request finds its terminal and what is done there, in one table (CONTRACTS)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ptyctl.api import blocks, pty, screen
from ptyctl.api.controller import Progress
from ptyctl.api.errors import PtyctlError
from ptyctl.api.pty import PtyReply, PtyReplyBase, encode_error
from ptyctl.session.calls import block_read, expect_send, pty_calls, screen_queries, termination
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.output_wait import PROGRESS_S, WaitProgress
from ptyctl.session.session import Session

from .conversations import Conversations

T = TypeVar("T")
Answer = PtyReplyBase
Does = Callable[[Session, Any], Awaitable[Answer]]

_CTRL_D = b"\x04"


class PtySurface:
    """QueryResponder every request of the surface; an error is an answer too."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._reader = block_read.BlockReader()
        self._table: dict[type[pty.PtyRequest], Does] = {
            pty.PtyExecBlock: pty_calls.exec_block,
            pty.PtyExecInteractive: pty_calls.exec_interactive,
            pty.PtyExecInteractiveExpect: expect_send.exec_interactive_expect,
            pty.PtyWaitFor: pty_calls.wait_for,
            pty.PtyWaitPrompt: pty_calls.wait_prompt,
            pty.PtyExpectSend: expect_send.expect_send,
            pty.PtySend: pty_calls.send,
            pty.PtyCtrlC: lambda session, request: pty_calls.interrupt(session, request.task_id),
            pty.PtyCtrlD: lambda session, request: pty_calls.press(session, _CTRL_D, request.task_id),
            pty.PtyEnter: _enter,
            pty.PtyReadSpool: _at_once(pty_calls.read_spool),
            pty.PtyStatus: _at_once(lambda session, request: pty_calls.status(session)),
            pty.PtyEndSession: lambda session, request: termination.end_session(session, request.force, request.task_id),
            pty.PtyReset: self._reset,
            pty.PtyResize: _at_once(_resize),
            pty.PtyClose: _close,
            blocks.BlocksSince: _at_once(block_read.blocks_since),
            blocks.BlocksGet: _at_once(block_read.blocks_get),
            blocks.BlocksRead: self._reader.read,
            blocks.BlocksSearch: blocks_search,
            screen.PtyReadRaw: _at_once(screen_queries.read_raw),
            screen.PtyReadScreen: screen_queries.read_screen,
            screen.PtyReadScreenDeltas: screen_queries.read_deltas,
            screen.PtyScreenStatus: screen_queries.status,
            screen.PtyReadScrollback: screen_queries.read_scrollback,
        }

    async def answer(self, request: pty.PtyRequest, progress: Progress | None) -> Answer:
        try:
            session = await self._find(request)
            with session.usage.in_use(request.task_id, reading=request.TOOL in pty.READING):
                async with _told(session.stream, progress):
                    reply = await self._table[type(request)](session, request)
                session.blocks.write_down()  # whoever is told that a command has ended finds it in the files
                session.events.flush()
        except PtyctlError as error:
            return encode_error(error)
        if isinstance(reply, PtyReply):
            reply.notices = session.notices.take(request.task_id)
        return reply

    async def _find(self, request: pty.PtyRequest) -> Session:
        if request.TOOL in pty.CREATING:
            return await _whole(self._conversations.find_or_make(request))
        if request.TOOL in pty.HISTORY:
            return await self._conversations.find(request)
        return await self._conversations.find_live(request)

    async def _reset(self, session: Session, request: pty.PtyReset) -> PtyReply:
        termination.may_end(session, request.task_id)
        cursor = await _whole(self._conversations.reset(session))
        return PtyReply(session_id=session.session_id, incarnation=session.incarnation, resume_cursor=cursor)


def _at_once(function: Callable[[Session, Any], Answer]) -> Does:
    async def does(session: Session, request: pty.PtyRequest) -> Answer:
        return function(session, request)

    return does


async def _enter(session: Session, request: pty.PtyEnter) -> PtyReply:
    return await pty_calls.press(session, session.open_channel().enter, request.task_id)


def _resize(session: Session, request: pty.PtyResize) -> PtyReply:
    termination.may_end(session, request.task_id)
    session.resize(request.cols, request.rows)
    return PtyReply(cols=session.cols, rows=session.rows)


async def _close(session: Session, request: pty.PtyClose) -> PtyReply:
    await termination.close(session, request.force, request.task_id)
    return PtyReply()


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """A shell that is being started gets whole even when its caller goes away: others may wait for it."""
    return await asyncio.shield(asyncio.ensure_future(work))


@asynccontextmanager
async def _told(stream: OutputStream, progress: Progress | None) -> AsyncIterator[None]:
    """As long as a call waits, its caller hears once a second that it goes on."""
    if progress is None:
        yield
        return
    task = asyncio.create_task(_tell(WaitProgress(stream, progress)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tell(reporter: WaitProgress) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        reporter.report()
