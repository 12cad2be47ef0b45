"""The search over all sessions: in memory and on disk, by text and by the facts of a command, page by page."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.blocks import Block
from ptyctl.api.history import MAX_HIT_LINES, SearchHit, SearchReply, SearchRequest
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.controller import search as search_module
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import serving_connection
from tests.controller.session_calls import PATIENCE_MS, MakeController, Open, refused, session


async def search(controller: Controller, query: str | None = None, **fields: object) -> SearchReply:
    return await controller.search(SearchRequest.of({"query": query, **fields}))


async def all_hits(controller: Controller, query: str | None = None, **fields: object) -> list[SearchHit]:
    reply = await search(controller, query, **fields)
    hits = list(reply.hits)
    while reply.resume_cursor is not None:
        reply = await search(controller, query, **fields, from_cursor=reply.resume_cursor)
        hits += reply.hits
    return hits


@pytest.mark.also_remote("hits with lines")
async def test_search_finds_output_and_commands_of_all_sessions(controller: Controller, open_session: Open) -> None:
    first, second = await open_session(), await open_session()
    await first.exec("printf 'one\\nneed%s here\\n' le")
    await second.exec("false needle")
    await second.exec("echo other")
    hits = await all_hits(controller, "needle")
    assert [(hit.session_id, hit.exit_code, [(line.line, line.text) for line in hit.lines]) for hit in hits] == [
        (second.session_id, 1, []),
        (first.session_id, 0, [(2, "needle here")]),
    ]


async def test_search_finds_sessions_that_are_only_on_disk(make_controller: MakeController) -> None:
    state_dir = Settings().state_dir
    async with LocalController(Settings()) as earlier:
        from ptyctl.api.handle import SessionHandle

        handle = await SessionHandle.open(earlier, protocol="local", command=("bash", "--norc", "--noprofile"))
        await handle.exec("echo stored-$((40 + 2))")
    later = await make_controller()
    (hit,) = await all_hits(later, r"stored-\d+", regex=True)
    assert (hit.session_id, hit.lines[0].text) == (handle.session_id, "stored-42")
    shutil.rmtree(state_dir / "sessions" / handle.session_id)
    assert await all_hits(later, "stored") == []


def store_sessions(count: int, output: bytes = b"needle\n", lines: int = 1) -> None:
    """Write sessions of one command each, whose output is repeated lines."""
    size = len(output) * lines
    for number in range(count):
        folder = Settings().state_dir / "sessions" / f"stored-{number}"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "meta.json").write_text(json.dumps({"created_at": number}))
        block = Block(
            block_id="b1", seq=1, session_id=folder.name, origin="exec", cmd="show", ts_begin=number, status="completed",
            exit_code=0, output_path="", raw_begin=0, raw_end=size, spool_begin=0, spool_end=size,
        )  # fmt: skip
        (folder / "blocks.jsonl").write_bytes(block.json_bytes() + b"\n")
        (folder / "output.spool").write_bytes(output * lines)


async def test_concurrent_searches_read_each_stored_session_once(
    make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await make_controller()
    store_sessions(50)
    read: list[Path] = []
    read_stored = search_module._read_stored

    def slow(folder: Path) -> object:
        read.append(folder)
        time.sleep(0.001)  # lets another thread run
        return read_stored(folder)

    monkeypatch.setattr(search_module, "_read_stored", slow)
    found = await asyncio.gather(*(all_hits(controller, "needle") for _ in range(5)))
    assert [len(hits) for hits in found] == [50] * 5
    assert len(read) == 50


async def test_search_past_deadline_continues_after_each_session_without_hits(
    make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await make_controller()
    store_sessions(3)
    monkeypatch.setattr(search_module, "SEARCH_S", 0.0)
    reply = await search(controller, exit_code=1)
    calls = 1
    while reply.resume_cursor is not None:
        assert not reply.hits
        reply = await search(controller, exit_code=1, from_cursor=reply.resume_cursor)
        calls += 1
    assert calls == 4
    assert [hit.session_id for hit in await all_hits(controller, "needle")] == ["stored-2", "stored-1", "stored-0"]


async def test_search_past_deadline_continues_within_large_output(
    controller: Controller, open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await open_session()
    await handle.exec("seq 3000")
    monkeypatch.setattr(search_module, "_PIECE_BYTES", 4096)
    monkeypatch.setattr(search_module, "SEARCH_S", 0.0)
    reply = await search(controller, "2999")
    calls = 1
    while not reply.hits:
        assert reply.resume_cursor is not None
        reply = await search(controller, "2999", from_cursor=reply.resume_cursor)
        calls += 1
    assert calls > 3
    assert [(line.line, line.text) for line in reply.hits[0].lines] == [(2999, "2999")]
    (first,) = await all_hits(controller, "7")
    assert first.lines[0].line == 7
    assert first.more_lines
    (by_command,) = await all_hits(controller, "seq")
    assert (by_command.lines, by_command.more_lines) == ([], None)


async def test_search_reads_stored_output_outside_event_loop(
    make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await make_controller()
    store_sessions(1)
    in_loop: list[bool] = []
    read_spool = search_module._read_spool

    def noted(folder: Path, begin: int, end: int) -> bytes:
        in_loop.append(asyncio._get_running_loop() is not None)
        return read_spool(folder, begin, end)

    monkeypatch.setattr(search_module, "_read_spool", noted)
    assert len(await all_hits(controller, "needle")) == 1
    assert in_loop == [False]


async def test_search_filters_by_facts_of_commands(controller: Controller, open_session: Open) -> None:
    handle = await open_session()
    for command in ("true", "false", "sh -c 'exit 3'"):
        await handle.exec(command)

    async def commands(**fields: object) -> list[str]:
        return [hit.cmd for hit in await all_hits(controller, **fields)]

    assert await commands() == ["sh -c 'exit 3'", "false", "true"]
    assert await commands(exit_code=3) == ["sh -c 'exit 3'"]
    assert await commands(failed=True) == ["sh -c 'exit 3'", "false"]
    assert await commands(failed=False, session_id=handle.session_id) == ["true"]
    assert await commands(session_id="other") == []
    assert await commands(device="core-*") == []
    assert await commands(until_ts=1) == []
    assert await commands(since_ts=1 << 50) == []


async def test_search_pages_return_each_hit_once(controller: Controller, open_session: Open) -> None:
    for _ in range(2):
        handle = await open_session()
        for number in range(5):
            await handle.exec(f"echo {number}")
    once = await search(controller, "echo", limit=100)
    assert len(once.hits) == 10
    for limit in (1, 3):
        assert await all_hits(controller, "echo", limit=limit) == once.hits


async def test_search_ends_reply_with_large_hits_early(
    make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "SEARCH_S", 1e6)  # on a loaded machine the time would end the reply first
    controller = await make_controller()
    store_sessions(80, output=b"needle" + b"x" * 1000 + b"\n", lines=MAX_HIT_LINES)
    reply = await search(controller, "needle", limit=100)
    assert 40 < len(reply.hits) < 80
    assert len(reply.model_dump_json()) < 1.1 * MAX_LIST_BYTES
    hits = await all_hits(controller, "needle", limit=100)
    assert [hit.session_id for hit in hits] == [f"stored-{number}" for number in reversed(range(80))]


async def test_search_returns_first_lines_of_large_output(controller: Controller, open_session: Open) -> None:
    handle = await open_session()
    assert not (await handle.exec("seq 1500000; echo the end", timeout_ms=PATIENCE_MS)).timed_out  # several pieces
    (many,) = await all_hits(controller, "1", regex=True)
    assert [line.text for line in many.lines[:3]] == ["1", "10", "11"]
    assert (len(many.lines), many.more_lines) == (MAX_HIT_LINES, True)
    (last,) = await all_hits(controller, "(?m)^1499999$", regex=True)
    assert [(line.line, line.text) for line in last.lines] == [(1499999, "1499999")]


async def test_search_hides_sessions_of_other_devices(controller: Controller, open_session: Open) -> None:
    assert isinstance(controller, LocalController)
    handle = await open_session()
    await handle.exec("echo hidden")
    with serving_connection(Principal("contractor", Kind.PERSON, Role.VIEWER, ("core-*",))):
        assert await all_hits(AccessController(controller), "hidden") == []


@pytest.mark.parametrize(
    "fields",
    [{"query": "(", "regex": True}, {"from_cursor": "x"}, {"from_cursor": "1:a:1:2"}, {"query": "(?=a)", "regex": True}],
)
async def test_search_refuses_invalid_pattern_and_cursor(controller: Controller, fields: dict[str, object]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT):
        await search(controller, **fields)


async def test_list_with_details_shows_last_command(controller: Controller, open_session: Open) -> None:
    handle = await open_session()
    await handle.exec("false")
    (plain,) = (await session(controller, "list")).sessions or ()
    (entry,) = (await session(controller, "list", details=True)).sessions or ()
    assert plain.last_command is None
    assert entry.last_command is not None
    assert (entry.last_command.cmd, entry.last_command.exit_code, entry.last_command.status) == ("false", 1, "completed")
