"""Unusual amounts and kinds of output: floods, very long lines, random bytes, unfinished sequences."""

from __future__ import annotations

import asyncio
import base64
import random
import re
import shutil
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import IoRequest, SessionRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.core.normaliser import Normaliser
from ptyctl.session.spec import Limits
from tests.controller.session_calls import until_ended
from tests.session.conftest import Connect
from tests.session.scripted_session import PATIENCE_MS, read_from, run_command

FLOOD_BYTES = 200_000_000
LINE_BYTES = 50_000_000
BASH = ("bash", "--norc", "--noprofile")


def anonymous_memory() -> int:
    """Return the anonymous memory of this process in bytes (RssAnon, proc(5))."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def tail(handle: SessionHandle, **fields: object) -> str:
    request = IoRequest.of({"session_id": handle.session_id, "action": "read", "mode": "tail", **fields})
    return (await handle.controller.io(request)).chunk or ""


@pytest.mark.timeout(300)
async def test_unread_flood_is_stored_with_bounded_memory(controller: LocalController, tmp_path: Path) -> None:
    line = "a line of a flood that nobody reads, long enough to be worth its while\n"
    script = f"stty -opost; exec yes '{line.strip()}' | head -c {FLOOD_BYTES}"
    before = anonymous_memory()
    handle = await SessionHandle.open(controller, protocol="local", command=("sh", "-c", script))
    peak = before
    async with asyncio.timeout(240):
        while (await handle.status()).state != "eof":
            peak = max(peak, anonymous_memory())
            await asyncio.sleep(0.01)
    assert peak - before < 24_000_000
    reply = await handle.read(timeout_ms=0)
    assert (reply.truncated, reply.dropped_bytes) == (True, FLOOD_BYTES - 2 * 1024 * 1024)
    assert reply.buffer_end_cursor == str(FLOOD_BYTES)
    assert (await tail(handle, max_bytes=1_000)) in line * 20
    (entry,) = (await controller.session(SessionRequest.of({"action": "list"}))).sessions or []
    assert entry.bytes_received == FLOOD_BYTES
    folder = controller.settings.sessions_dir() / handle.session_id
    await handle.close()
    assert (folder / "output.raw").stat().st_size == (folder / "output.spool").stat().st_size == FLOOD_BYTES
    shutil.rmtree(folder)


async def test_other_session_during_flood_still_runs_commands(controller: LocalController) -> None:
    flood = await SessionHandle.open(controller, protocol="local", command=("yes",))
    other = await SessionHandle.open(controller, protocol="local", command=BASH)
    for number in range(10):
        assert (await other.exec(f"echo {number}")).stdout == f"{number}\n"
    await flood.write("x")
    await flood.key("ctrl_c")
    await until_ended(flood)


async def test_exec_with_line_of_50_mb_returns_truncated_output(controller: LocalController) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=BASH)
    reply = await handle.exec(f"head -c {LINE_BYTES} /dev/zero | tr '\\0' x", timeout_ms=50_000)
    assert (reply.exit_code, reply.done_reason, reply.output_truncated) == (0, "marks", True)
    assert LINE_BYTES - 33_000 <= (reply.omitted_bytes or 0) <= LINE_BYTES
    assert len(reply.stdout) < 33_000
    assert reply.stdout.startswith("xxx")
    assert "xxx" in await tail(handle, max_lines=2)  # the prompt is on a separate line
    assert len(await tail(handle, max_lines=1)) <= 65_536
    after = await handle.exec("echo after")
    assert (after.stdout, after.exit_code) == ("after\n", 0)
    folder = controller.settings.sessions_dir() / handle.session_id
    await handle.close()
    shutil.rmtree(folder)


async def test_random_bytes_are_read_as_normalised(connect: Connect) -> None:
    raw = random.Random(1).randbytes(3_000_000)
    channel = MemoryChannel()
    session = await connect(channel)
    for begin in range(0, len(raw), 4_096):
        channel.feed(raw[begin : begin + 4_096])
    assert session.stream.spool_end == len(Normaliser().feed(raw))
    seen, cursor = b"", str(session.stream.spool_start)
    while chunk := (reply := await read_from(session.stream, cursor=cursor, encoding="base64")).chunk:
        seen += base64.b64decode(chunk)
        cursor = reply.next_cursor or ""
    assert seen == Normaliser().feed(raw)[-len(seen) :]
    assert (await read_from(session.stream, mode="tail")).chunk
    assert (await read_from(session.stream, cursor="0", until_regex="[[:^ascii:]]{3}")).chunk


async def test_exec_printing_random_bytes_completes_by_marks(controller: LocalController) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=BASH)
    await handle.exec("true")
    reply = await handle.exec("head -c 300000 /dev/urandom", timeout_ms=PATIENCE_MS)
    assert reply.exit_code == 0
    reply = await handle.exec("printf '\\033]0;'; printf '\\033c\\033[!p'", timeout_ms=PATIENCE_MS)
    assert reply.exit_code == 0
    assert (await handle.exec("echo after")).stdout.endswith("after\n")


@pytest.mark.parametrize("torn", [b"\x1b]0;never ended", b"\x1bP", b"\x1b[", b"\x1b", b"\xf0\x9f", b"\r"])
async def test_unfinished_sequence_is_released_when_channel_ends(connect: Connect, torn: bytes) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"text" + torn)
    channel.end()
    reply = await read_from(session.stream, cursor="0")
    assert reply.eof
    assert (reply.chunk or "").startswith("text")


async def test_control_string_without_end_hides_bounded_output(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, limits=Limits(window_bytes=1 << 20))
    channel.feed(b"\x1b]0;" + b"t" * (1 << 20))
    channel.feed(b"x" * 100_000 + b"\r\nR1# ")
    assert (await read_from(session.stream, mode="tail", max_lines=1)).chunk == "R1# "


async def test_exec_finds_prompt_after_20_mb_in_one_piece(connect: Connect) -> None:
    def device(data: bytes) -> bytes:
        return data.replace(b"\r", b"\r\n") + b"show\r\n" * 3_500_000 + b"R1# " if b"show tech" in data else b""

    channel = MemoryChannel(device)
    session = await connect(channel, platform="generic")
    channel.feed(b"R1# ")
    reply = await run_command(session, "show tech")
    assert (reply.done_reason, reply.output_truncated) == ("prompt", True)
    assert reply.stdout.startswith("show\nshow\n")
    assert reply.stdout.endswith("show\nshow\n")
