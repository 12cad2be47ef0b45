"""The error messages in the output of a device: which lines, and where they are searched for."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.exec import ExecRequest
from ptyctl.platforms import UNKNOWN_DEVICE
from ptyctl.session.calls.exec import execute
from ptyctl.session.runs import run_output as module
from ptyctl.session.runs.run_output import error_lines, error_lines_between
from ptyctl.session.session import Session
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.scripted_session import PATIENCE_MS, connect_session, run_command

LONG = "fine\n" * 2000
HOSTILE = {"error_regexes": ["a[ab]{900}z", "^% .*"], "settle_ms": 1}


@pytest.fixture
async def device(tmp_path: Path) -> Session:
    """A session on a device whose outputs are of two lines, or of many for `long` and `many`."""

    def answer(data: bytes) -> bytes:
        output = LONG.replace("\n", "\r\n").encode() if b"long" in data else b""
        if b"many" in data:
            output += b"".join(b"%% Bad %d %s\r\n" % (number, b"x" * 300) for number in range(9))
        output += b"% Bad\r\n" if b"bad" in data else b"ok\r\n"
        return data.replace(b"\r", b"\r\n") + output + b"sw1#"

    channel = MemoryChannel(answer)
    session = await connect_session(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"sw1#")
    return session


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each search for errors was in the event loop's thread. The first of a run is that for its block, of few bytes."""
    in_loop: list[bool] = []
    search, loop_thread = module._error_matches, threading.get_ident()

    def recorded(text: bytes, patterns: Any) -> list[tuple[int, str]]:
        in_loop.append(threading.get_ident() == loop_thread)
        return search(text, patterns)

    monkeypatch.setattr(module, "_error_matches", recorded)
    module._error_matches_at_once.cache_clear()
    return in_loop


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "ok\n% Invalid input detected at '^' marker.\nfine 5% done\nError: no such thing\n% [ZEBRA] Unknown command: x\n",
            ["% Invalid input detected at '^' marker.", "Error: no such thing", "% [ZEBRA] Unknown command: x"],
        ),
        ("% Bad\nok\n% Bad\n", ["% Bad"]),
        ("\n\n  % Bad\nfine\n", ["% Bad"]),
        ("fine\n% Bad", ["% Bad"]),
        ("", []),
    ],
)
async def test_error_lines_are_distinct_and_ordered(device: Session, text: str, lines: list[str]) -> None:
    assert await error_lines(device.stream, UNKNOWN_DEVICE, text) == lines


@pytest.mark.parametrize("pattern", ["", "x*", "^", "$", "(?m)^$", "ok\n", "(?s).*"])
async def test_any_pattern_ends(device: Session, pattern: str) -> None:
    profile = UNKNOWN_DEVICE.with_overrides(errors=(pattern,))
    assert set(await error_lines(device.stream, profile, "ok\n\nok\n")) <= {"ok"}


async def test_errors_in_pieces_are_those_of_the_whole_output(device: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEARCH_PIECE_CHARACTERS", 100)
    monkeypatch.setattr("ptyctl.session.runs.run_output._PLAIN_BYTES", 70)
    chance, begin = random.Random(1), device.stream.raw_size
    lines = [f"% Bad {number}" if chance.random() < 0.1 else "fine" * chance.randrange(1, 30) for number in range(300)]
    assert device.channel is not None
    device.channel.feed("\r\n".join(lines).encode())  # type: ignore[attr-defined]
    found = await error_lines_between(device.stream, UNKNOWN_DEVICE, begin, device.stream.raw_size)
    assert found == [line for line in lines if line.startswith("%")]


async def test_expensive_patterns_are_searched_in_threads(device: Session, searches: list[bool]) -> None:
    reply = await run_command(device, "long bad", expect=HOSTILE)
    assert (reply.error_hints, searches) == ([], [True, False])  # without (?m), ^ is the start of the output
    request = ExecRequest.of({"session_id": "s", "lines": ["long bad", "ok"], "timeout_ms": PATIENCE_MS})
    reply = await execute(device, request, None)
    assert [(failed.number, failed.said) for failed in reply.failed_lines or []] == [(1, ["% Bad"])]
    assert searches[2:] == [False, False]


async def test_short_output_is_searched_at_once(device: Session, searches: list[bool]) -> None:
    assert (await run_command(device, "bad")).error_hints == ["% Bad"]
    assert searches == [True]  # for the block, and not again for the reply


async def test_block_keeps_error_lines_of_its_output_also_on_disk(device: Session, tmp_path: Path) -> None:
    for command in ("bad", "ok", "long bad", "long"):
        await run_command(device, command)
    expected = [("bad", ["% Bad"]), ("ok", None), ("long bad", ["% Bad"]), ("long", None)]
    assert [(block.cmd, block.error_hints) for block in device.blocks.all()] == expected
    restored = await restore(await simulate_crash(device, tmp_path))
    assert [(block.cmd, block.error_hints) for block in restored.blocks.all()] == expected
    await restored.close()


async def test_block_keeps_error_lines_of_each_of_several_lines(device: Session) -> None:
    lines = ["ok", "bad", "long bad", "ok"]
    await execute(device, ExecRequest.of({"session_id": "s", "lines": lines, "on_error": "continue"}), None)
    assert [block.error_hints for block in device.blocks.all()] == [["% Bad"]]


async def test_error_lines_of_block_are_bounded(device: Session) -> None:
    await run_command(device, "many")
    (block,) = device.blocks.all()
    assert [len(line) for line in block.error_hints or []] == [200] * 5
    assert (block.error_hints or [""])[0].startswith("% Bad 0 ")


async def test_search_for_errors_that_takes_too_long_keeps_the_output(device: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.session.io.pattern_search.SEARCH_S", 0)
    monkeypatch.setattr("ptyctl.core.search._SLICE_STEPS", 1)
    reply = await run_command(device, "long bad", expect=HOSTILE)
    assert reply.stdout == f"{LONG}% Bad\n"
    assert [notice for notice in reply.notices or [] if "error_hints are missing: the search was stopped" in notice]
