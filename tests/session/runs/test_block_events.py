"""Block events: deltas equal the command's output, also for late readers, and are not kept in memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings

WINDOW_BYTES = 8192


@pytest.mark.parametrize("shell", ["bash", "dash"])  # completion strategies: marks, marker
async def test_deltas_are_output_without_prompt_and_echo(shell: str, tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path)) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=[shell])
        session = await controller._registry.find(handle.session_id)
        for cmd in ("echo one", "sleep 0.2; echo two", "for i in a b; do echo $i; sleep 0.2; done"):
            await handle.exec(cmd)
        await handle.exec("true")
        events, _ = session.events.since(0)
    assert "".join(event["delta"] for event in events if event["type"] == "agent_block_delta") == "one\ntwo\na\nb\n"


async def test_late_reader_gets_text_that_left_window(tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path, window_bytes=WINDOW_BYTES)) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc"])
        session = await controller._registry.find(shell.session_id)
        cursor = session.events.cursor
        await shell.exec("for i in {1..20}; do seq $((i * 200)) $((i * 200 + 199)); sleep 0.06; done")
        await shell.exec("true")
        events, _ = session.events.since(cursor)
        text = "".join(event["delta"] for event in events if event["type"] == "agent_block_delta")
    assert text == "".join(f"{number}\n" for number in range(200, 4200))
    assert len(text) > 2 * WINDOW_BYTES


async def test_deltas_of_large_output_are_not_kept_in_memory(tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path, window_bytes=WINDOW_BYTES)) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc"])
        await shell.exec("echo warm; seq 10000")
        tracemalloc.start()
        try:
            for _ in range(20):
                await shell.exec("seq 20000")
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken < 500_000  # of 2.2 MB


async def test_events_name_no_output_file(tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path)) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc"])
        session = await controller._registry.find(shell.session_id)
        await shell.exec("echo one")
        events, _ = session.events.since(0)
        session.events.flush()
        rows = [json.loads(line) for line in (session.stream.folder / "events.jsonl").read_text().splitlines()]
    for found in (events, rows):
        kept = [event["block"] for event in found if "block" in event]
        assert [block["cmd"] for block in kept][:1] == ["echo one"]
        assert not any("output_path" in block for block in kept)
