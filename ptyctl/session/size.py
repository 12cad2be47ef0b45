"""The size of a session's terminal: it outlives the channel that it was first told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptyctl.session.line.errors import from_channel
from transports.errors import ChannelError, Unsupported

if TYPE_CHECKING:
    from .session import Session


def resize(session: Session, cols: int, rows: int) -> None:
    """Raises PtyctlError: UNSUPPORTED for what has no terminal; REMOTE_CLOSED, ALREADY_CLOSED."""
    channel = session.open_channel()
    try:
        if not channel.pty_enabled:
            raise Unsupported("this session has no terminal to resize")
        channel.resize(cols, rows)
    except ChannelError as error:
        raise from_channel(error) from None
    session.cols, session.rows = cols, rows
    session.changes.beat()
    session.stream.resized(cols, rows)
    session.write_meta()


def same_size(session: Session) -> None:
    """A new channel begins with the size of the first; it gets the one that the session has come to."""
    first = (session.spec.pty.cols, session.spec.pty.rows)
    if (session.cols, session.rows) != first and session.open_channel().pty_enabled:
        resize(session, session.cols, session.rows)
