"""What a killed server leaves on disk, and the output that it had."""

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


outputs = st.lists(
    st.one_of(
        st.sampled_from([b"\r", b"\r\n", b"text\r\n", b"text", b"\x1b[1m", b"\x1b]0;t", b"\x07", "é€".encode(), b"\0\0"]),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "P;0;1700000000000;/tmp")),
        st.integers(1, 9).map(lambda counter: mark("aa", counter, "P;1;;/a%20b")),
        st.integers(1, 9).map(lambda counter: mark("xx", counter, "P;0;;/")),
    ),
    max_size=25,
).map(b"".join)


def killed(folder: Path, to: Path) -> Path:
    """A copy of what is on disk now: what a kill -9 would leave."""
    shutil.copytree(folder, to)
    return to


async def left_by(session: Session, tmp_path: Path) -> Path:
    """The sessions folder that a server leaves which is killed now."""
    await asyncio.sleep(0)
    (tmp_path / "left").mkdir(mode=0o700)
    killed(session.stream.folder, tmp_path / "left" / session.session_id)
    await session.close(force=True)
    return tmp_path / "left"


async def found(sessions: Path, limits: Limits | None = None) -> Session:
    """The session as the next server finds it there."""
    session = await restore_session(sessions, "s", limits or Limits(), hold=True)
    assert session is not None
    return session
