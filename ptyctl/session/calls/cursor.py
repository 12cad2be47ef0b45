"""Cursors of requests: the spool offset of each, and the expiry of a cursor whose text has left the window.

A read from an expired cursor begins at the oldest text in the window and reports the difference as `dropped_bytes`; mode
`history` and `pty_read_spool` read older text from disk. Waits of the toolset `pty` search the older text on disk too
(`expect.py`), and the `from_cursor` of an exec does not move (`output_selection.py`).
"""

from __future__ import annotations

from ptyctl.api.errors import invalid
from ptyctl.session.io.output_stream import OutputStream

_HINT = "pass the next_cursor of an earlier reply unchanged"


def parse_cursor(cursor: str, end: int, field: str) -> int:
    """Return the spool offset of a cursor. Raises PtyctlError INVALID_ARGUMENT."""
    if not cursor.isascii() or not cursor.removeprefix("-").isdigit() or len(cursor) > 20:
        raise invalid(f"{field} is not a number", hint=_HINT, field=field)
    offset = int(cursor)
    if offset < 0:
        raise invalid(f"{field} is negative", hint=_HINT, field=field)
    if offset > end:
        raise invalid(f"{field} {offset} is past the end, {end}", hint="pass a cursor of this session", field=field)
    return offset


def check_from_cursor(stream: OutputStream, cursor: int) -> None:
    """Check that a `from_cursor` exists. Raises PtyctlError INVALID_ARGUMENT."""
    if cursor > stream.spool_end:
        message = f"from_cursor {cursor} is past the end, {stream.spool_end}"
        raise invalid(message, hint="pass a resume_cursor of the same terminal", field="from_cursor")


def move_if_expired(stream: OutputStream, cursor: int) -> int:
    """Return where a read from a cursor begins: at the cursor, or at the oldest text in the window if it has expired."""
    begin = cursor
    if cursor < stream.spool_start and stream.window.start <= stream.spool_start:
        begin = stream.window.character_start(stream.spool_start)
    return stream.first_readable(begin)


def dropped_message(stream: OutputStream, begin: int, dropped: int) -> str:
    """Return a message on why the text before `begin` was skipped, and how to read it if it is on disk."""
    first = begin - dropped
    if first >= stream.transcript.spool_persisted:
        return f"{dropped} bytes from cursor {first} on were not kept: the disk or the quota was full"
    why = "are not in memory any more" if first < stream.spool_start else "exceed the size of a chunk"
    return f'{dropped} bytes from cursor {first} on {why}: read them with mode "history" and that cursor'
