"""Writes of data and keys."""

from __future__ import annotations

import asyncio
import base64
import binascii

from ptyctl.api.errors import invalid
from ptyctl.api.io import MAX_WAIT_MS, IoReply, IoRequest
from ptyctl.core.control_sequences import DECCKM, ETX
from ptyctl.core.keys import BREAK, INTERRUPTS, key_bytes, key_name
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session


async def write(session: Session, request: IoRequest) -> IoReply:
    """Answer a write request; `next_cursor` is the spool's end before the write: a read from there gets the response.

    Raises:
        PtyctlError: INVALID_ARGUMENT, LOCKED, LOCK_REQUIRED, LOCK_LOST, REMOTE_CLOSED, ALREADY_CLOSED, UNSUPPORTED; IO_ERROR if
            the far end did not accept all of it within the longest time that a call may take.
    """
    writer = Writer(
        request.task_id, sensitive=bool(request.sensitive), deadline=asyncio.get_running_loop().time() + MAX_WAIT_MS / 1000
    )
    session.gate.check(writer)
    cursor = session.stream.spool_end
    written = await (_key(session, request.key, writer) if request.key is not None else _data(session, request, writer))
    return IoReply(
        action="write", bytes_written=written, next_cursor=str(cursor), notices=session.notices.take(request.task_id)
    )


async def _key(session: Session, key: str, writer: Writer) -> int:
    name = key_name(key)
    if name == BREAK:
        await session.gate.send_break(writer)
        session.runs.interrupted()
        return 0
    data = key_bytes(name, session.open_channel().enter, DECCKM in session.stream.terminal_modes)
    if name in INTERRUPTS:
        session.runs.interrupted()
        return await session.gate.interrupt(data, writer)
    return await session.gate.write(data, writer)


async def _data(session: Session, request: IoRequest, writer: Writer) -> int:
    data = request.data or ""
    if request.encoding == "base64":
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            hint = "encode the bytes, or omit encoding for text"
            raise invalid("data is not valid base64", hint=hint, field="data") from None
        if ETX in raw:
            session.runs.interrupted()
        return await session.gate.write(raw, writer)
    if ETX.decode() in data:
        session.runs.interrupted()
    return await session.gate.type(data, writer)
