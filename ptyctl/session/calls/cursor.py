"""Cursors of reads: byte offsets into the spool, and what happens to one that is invalid or older than the window."""

from __future__ import annotations

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.session.io.output_stream import OutputStream

_CURSOR_HINT = "pass the next_cursor of an earlier reply unchanged"


def parse_cursor(cursor: str, end: int) -> int:
    """Return the offset of a cursor in its text form.

    Raises:
        PtyctlError: INVALID_ARGUMENT if it is not a number, negative, or past the end.
    """
    if not cursor.isascii() or not cursor.removeprefix("-").isdigit() or len(cursor) > 20:
        raise invalid("cursor is not a number", hint=_CURSOR_HINT, field="cursor")
    offset = int(cursor)
    if offset < 0:
        raise invalid("cursor is negative", hint=_CURSOR_HINT, field="cursor")
    if offset > end:
        raise invalid(f"cursor {offset} is past the end, {end}", hint="pass a cursor of this session", field="cursor")
    return offset


def past_the_end(cursor: int, end: int) -> PtyctlError:
    """Return the error for a `from_cursor` that does not exist yet."""
    return invalid(
        f"from_cursor {cursor} is past the end, {end}", hint="pass a resume_cursor of the same terminal", field="from_cursor"
    )


def first_available(stream: OutputStream, cursor: int) -> int:
    """Return where a read from a cursor begins: an expired cursor is moved to the oldest text in the window.

    A cursor expires when its text has left the window. The reply reports the difference as `dropped_bytes`; older text can
    still be read from disk with pty_read_spool and blocks_read.
    """
    begin = cursor
    if cursor < stream.spool_start and stream.window.start <= stream.spool_start:
        begin = stream.window.character_start(stream.spool_start)
    return stream.first_readable(begin)
