"""Simulated crashes: copies of a session's files as a killed server leaves them, and output to test with."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from hypothesis import strategies as st

from ptyctl.controller.recovery import restore_session
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits

MIB = 1 << 20
NONCES = ("aa", "bb")


def mark(nonce: str, counter: int, rest: str) -> bytes:
    return f"\x1b]7717;{nonce};{counter};{rest}\x07".encode()


terminal_output = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\r", b"\r\n", b"text\r\n", b"text", b" ", b" " * 20, b"\x1b[1m", b"\x1b]0;t", b"\x07", "é€".encode(), b"\0\0"]
        ),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "P;0;1700000000000;/tmp")),
        st.integers(1, 9).map(lambda counter: mark("aa", counter, "P;1;;/a%20b")),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "P;0,print%0A\xe9;;/")),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "P;0+;;/")),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "L;print%0A\xe9")),
        st.integers(1, 9).map(lambda counter: mark("xx", counter, "P;0;;/")),
    ),
    max_size=25,
).map(b"".join)


def copy_folder(folder: Path, to: Path) -> Path:
    """Copy a folder as it is now; after a kill -9 it would have this content."""
    shutil.copytree(folder, to)
    return to


async def simulate_crash(session: Session, tmp_path: Path) -> Path:
    """Copy the session's files as they are now, close it, and return the sessions folder of the copy."""
    await asyncio.sleep(0)
    (tmp_path / "left").mkdir(mode=0o700)
    copy_folder(session.stream.folder, tmp_path / "left" / session.session_id)
    await session.close(force=True)
    return tmp_path / "left"


async def restore(sessions: Path, limits: Limits | None = None) -> Session:
    """Restore the session from a simulated crash."""
    session = await restore_session(sessions, "s", limits or Limits(), hold=True)
    assert session is not None
    return session
