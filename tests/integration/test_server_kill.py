"""SIGKILL of the server at a random moment: the next server returns all output that was read, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import random
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from fixtures.forked_process import ForkedProcess
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.io import IoRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.session.session import Session
from tests.integration.killed_server import serve

KILLS = int(os.environ.get("PTYCTL_KILLS", "50"))
#: Kills per test case; the cases run in parallel.
ROUNDS = 10
SESSIONS = 3
_MARK = re.compile(rb"\x1b\]7717;[^\x07]*\x07")


def sizes_of_killed_server(folder: Path, seed: int) -> dict[str, tuple[int, int]]:
    """Start a server and kill it after a random delay; every fourth time while it opens sessions.

    Returns the raw and spool size that the server had received, by session id.
    """
    sizes_file = folder / "sizes"
    sizes_file.write_bytes(bytes(16 * SESSIONS))
    chance = random.Random(seed)
    output, write_end = os.pipe()
    with open(os.devnull, "rb") as null, os.fdopen(output) as printed:  # noqa: PTH123
        server = ForkedProcess(serve, folder / "state", sizes_file, SESSIONS, files=(null.fileno(), write_end, 2))
        os.close(write_end)
        ids = []
        for line in printed:
            if line != "ready\n":
                ids.append(line.strip())
            if line == "ready\n" or seed % 4 == 0:
                break
        server.wait(chance.uniform(0.0, 0.02 if seed % 4 == 0 else 0.5))
        server.kill()
        ids += [line.strip() for line in printed if line != "ready\n"]
        server.wait()
    return dict(zip(ids, struct.iter_unpack("<QQ", sizes_file.read_bytes()), strict=False))


def wait_until_free(raw: Path) -> None:
    """Wait for the lock of a transcript. A process forked by the killed server holds it until its exec."""
    with raw.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def text_of(controller: LocalController, session_id: str, end: int) -> bytes:
    text, cursor = b"", 0
    while cursor < end:
        request = {"session_id": session_id, "action": "read", "cursor": str(cursor), "encoding": "base64", "timeout_ms": 0}
        reply = await controller.io(IoRequest.of({**request, "max_bytes": 1 << 20}))
        text += base64.b64decode(reply.chunk or "")
        cursor = int(reply.next_cursor or 0)
    return text


async def check_files(session: Session, before: bytes, raw_size: int, spool_size: int) -> None:
    folder = session.stream.folder
    raw, spool = (folder / "output.raw").read_bytes(), (folder / "output.spool").read_bytes()
    assert len(raw) >= raw_size, "bytes that had been read are lost"
    assert len(spool) == session.stream.spool_end >= spool_size
    assert spool.startswith(before)
    assert b"\0" not in raw
    counted = [int(number) for number in re.findall(rb"(?m)^line (\d+)\n", spool)]
    expected = list(range(len(counted))) if counted[:1] == [0] else [1 + index % 3 for index in range(len(counted))]
    assert counted == expected
    assert [int(number) for number in re.findall(rb"line (\d+)\r", raw)] == counted
    for name in ("timeline", "blocks", "events", "input"):
        lines(folder / f"{name}.jsonl")
    await check_blocks(session, raw)


async def check_blocks(session: Session, raw: bytes) -> None:
    events = lines(session.stream.folder / "events.jsonl")
    await session.blocks.write_outputs(session.blocks.all())
    for block in session.blocks.all():
        types = [event["type"] for event in events if (event.get("block") or event).get("block_id") == block.block_id]
        assert (types[0], types[-1], set(types[1:-1]) - {"agent_block_delta"}) == (
            "agent_block_begin",
            "agent_block_end",
            set(),
        )
        assert block.status in ("completed", "cancelled")
        assert block.raw_end is not None
        assert block.raw_end <= len(raw)
        assert Path(block.output_path).read_bytes() == raw[block.raw_begin : block.raw_end]
        if block.status == "completed":
            assert (block.exit_code, _MARK.sub(b"", raw[block.raw_begin : block.raw_end])) == (
                3,
                b"line 1\r\nline 2\r\nline 3\r\n",
            )
        else:
            is_typed = block.raw_end > block.raw_begin
            assert block.reason == "the server ended while it ran" or (
                not is_typed and block.reason == "the server ended before it was typed"
            )


@pytest.mark.timeout(30 + 10 * ROUNDS)
@pytest.mark.parametrize("first", range(0, KILLS, ROUNDS))
async def test_killed_server_loses_no_received_output(first: int, tmp_path: Path) -> None:
    ran = 0
    for seed in range(first, first + ROUNDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        sizes = await asyncio.to_thread(sizes_of_killed_server, folder, seed)
        sessions = folder / "state/sessions"
        known = [path.parent.name for path in sessions.glob("*/meta.json")]
        spools = {session_id: (sessions / session_id / "output.spool").read_bytes() for session_id in known}
        assert set(sizes) <= set(known)
        for session_id in known:
            await asyncio.to_thread(wait_until_free, sessions / session_id / "output.raw")
        async with LocalController(Settings(state_dir=folder / "state")) as controller:
            for session_id in known:
                raw_size, spool_size = sizes.get(session_id, (0, 0))
                session = await controller._registry.find(session_id)
                assert session.state == "lost"
                await check_files(session, spools[session_id], raw_size, spool_size)
                text = await text_of(controller, session_id, session.stream.spool_end)
                assert b"__FWS_PROMPT__" not in text
                assert len(text) + sum(end - begin for begin, end in session.stream.prompts.within(0, 1 << 40)) == len(
                    (sessions / session_id / "output.spool").read_bytes()
                )
                ran += len(session.blocks.all())
                with pytest.raises(PtyctlError) as refused:
                    await controller.exec(ExecRequest.of({"session_id": session_id, "cmd": "true"}))
                assert refused.value.code is ErrorCode.REMOTE_CLOSED
        shutil.rmtree(folder)
    assert ran > ROUNDS


async def test_session_held_by_another_server_is_busy_until_closed(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    async with LocalController(settings) as first, LocalController(settings) as second:
        shell = await SessionHandle.open(first, protocol="local", command=["bash", "--norc"])
        read = IoRequest.of({"session_id": shell.session_id, "action": "read", "mode": "tail"})
        with pytest.raises(PtyctlError) as refused:
            await second.io(read)
        assert refused.value.code is ErrorCode.BUSY
        done = await first.exec(ExecRequest.of({"session_id": shell.session_id, "cmd": "echo hi"}))
        assert done.stdout == "hi\n"
        await shell.close()
        assert "hi\n" in ((await second.io(read)).chunk or "")
        with pytest.raises(PtyctlError) as refused:
            await second.exec(ExecRequest.of({"session_id": shell.session_id, "cmd": "true"}))
        assert refused.value.code is ErrorCode.ALREADY_CLOSED


async def test_printed_transcript_adds_no_prompt_and_no_block(tmp_path: Path) -> None:
    """Prompts and marks in the output of `cat output.raw` count neither in the session nor after recovery from disk."""
    settings = Settings(state_dir=tmp_path / "state")
    async with LocalController(settings) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc", "--noprofile"])
        folder = settings.state_dir / "sessions" / shell.session_id
        await shell.exec("echo one")
        session = await controller._registry.find(shell.session_id)
        session.stream.flush()
        for name in ("output.spool", "output.raw"):
            done = await shell.exec(f"cp {folder}/{name} {tmp_path}/copy; cat {tmp_path}/copy; (exit 4)")
            assert (done.exit_code, done.done_reason) == (4, "marks")
        session.flush()  # the reply precedes the block's row
        prompts, end = session.stream.prompts.within(0, 1 << 40), session.stream.spool_end
        assert len(prompts) == 4
        shutil.copytree(folder, tmp_path / "copied/sessions" / shell.session_id)
    for path in (tmp_path / "copied", tmp_path / "copied/sessions"):
        path.chmod(0o700)
    async with LocalController(Settings(state_dir=tmp_path / "copied")) as controller:
        session = await controller._registry.find(shell.session_id)
        assert session.stream.spool_end == end
        assert session.stream.prompts.within(0, 1 << 40) == prompts
        assert [block.exit_code for block in session.blocks.all()] == [0, 4, 4]
