"""Width of block texts: a block is rendered with the terminal width at the time it ran."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksRead
from ptyctl.controller.recovery import restore_session
from ptyctl.session.calls.block_read import BlockReader
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.scripted_session import connect_session, run_command
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions

LINE = b"x" * 100 + b"\rAB"
AT_80, AT_120 = "x" * 80 + "AB" + "x" * 18, "AB" + "x" * 98


async def texts(session: Session) -> list[str]:
    texts = []
    for block in session.blocks.all():
        page = await BlockReader().read(session, BlocksRead(session_id="s", block_id=block.block_id))
        assert page.complete
        texts.append((page.data or "").strip())
    return texts


async def test_block_text_after_resize_and_crash_keeps_width_of_its_run(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\n" + LINE + b"\r\nold> ")
    session = await connect_session(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    session.resize(80, 24)
    first = await run_command(session, "show it")
    session.resize(120, 24)
    second = await run_command(session, "show it")
    assert (first.stdout.strip(), second.stdout.strip()) == (AT_80, AT_120)
    assert await texts(session) == [AT_80, AT_120]
    await asyncio.sleep(0)  # rows are written in the next loop iteration
    (tmp_path / "left").mkdir(mode=0o700)
    shutil.copytree(tmp_path / "s", tmp_path / "left/s")
    await session.close()
    lost = await restore_session(tmp_path / "left", "s", Limits(), hold=False)
    assert lost is not None
    assert await texts(lost) == [AT_80, AT_120]


async def test_new_channel_after_resize_gets_current_size(tmp_path: Path) -> None:
    def shell() -> LocalChannel:
        return LocalChannel(LocalOptions(("bash", "--norc", "--noprofile")), Pty())

    session = await connect_session(tmp_path, shell(), protocol="local", host=None, program="bash")
    session.resize(77, 33)
    await run_command(session, "exit")
    await session.connect(shell())
    assert (await run_command(session, "stty size")).stdout == "33 77\n"
    await session.close()
