"""Listing, reading and searching blocks."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.controller.conversation import Pty


@pytest.mark.also_remote("reply of a list")
async def test_blocks_since_returns_each_change_once(pty: Pty) -> None:
    first = await pty.run("echo one")
    second = await pty.run("echo two")
    page = await pty.good("blocks_since", limit=1)
    assert [item["block_id"] for item in page["items"]] == [first["block_id"]]
    rest = await pty.good("blocks_since", cursor=page["resume_cursor"])
    assert [item["block_id"] for item in rest["items"]] == [second["block_id"]]
    begun = await pty.good("pty_exec_block", cmd="sleep 60")
    (running,) = (await pty.good("blocks_since", cursor=rest["resume_cursor"]))["items"]
    assert (running["status"], running["block_id"]) == ("running", begun["block_id"])
    await pty.good("pty_end_session")
    news = await pty.good("blocks_since", cursor=rest["resume_cursor"] + 1)
    assert [item["status"] for item in news["items"]] == ["cancelled"]
    assert (await pty.good("blocks_since", cursor=news["resume_cursor"]))["items"] == []


async def test_reported_blocks_are_on_disk(pty: Pty) -> None:
    begun = await pty.good("pty_exec_block", cmd="echo one")
    await pty.prompt(begun["resume_cursor"])
    output = Path((await pty.good("blocks_get", block_id=begun["block_id"]))["block"]["output_path"])
    assert output.read_bytes() == b"one\r\n"
    folder = output.parent.parent
    rows = {name: (folder / name).read_text().splitlines() for name in ("blocks.jsonl", "events.jsonl")}
    assert json.loads(rows["blocks.jsonl"][-1])["status"] == "completed"
    told = [json.loads(row)["type"] for row in rows["events.jsonl"]]
    assert (told[0], told[-1]) == ("agent_block_begin", "agent_block_end")


@pytest.mark.parametrize("tool", ["blocks_get", "blocks_read"])
async def test_unknown_block_is_not_found(pty: Pty, tool: str) -> None:
    await pty.run("true")
    await pty.refused("not_found", tool, "no block 9_9", "list the session", block_id="9_9")
    await pty.refused("not_found", "blocks_search", query="x", block_id="9_9")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("printf '10%%\\r 50%%\\r100%%\\n'", "100%\n"),
        ("printf '\\e[31mred\\e[0m\\n'", "red\n"),
        ("printf 'a\\tb\\nlonger\\tc\\n'", "a\tb\nlonger\tc\n"),
        ("printf '\\e[?1049hpager\\e[?1049l'; echo after", "after\n"),
        ("printf 'no newline'", "no newline"),
        ("true", ""),
    ],
)
async def test_block_text_is_rendered_as_on_a_terminal(pty: Pty, command: str, text: str) -> None:
    assert (await pty.run(command))["text"] == text


@pytest.mark.also_remote("text and binary data of a block")
async def test_pages_together_are_the_whole_block(pty: Pty) -> None:
    block = await pty.run("for i in 1 2 3; do printf 'größe ☃😀 %s\\n' $i; done")
    whole = "".join(f"größe ☃😀 {n}\n" for n in (1, 2, 3))
    assert block["text"] == whole
    for size in (1, 2, 5, 64):
        text, offset, complete = "", 0, False
        while not complete:
            page = await pty.good("blocks_read", block_id=block["block_id"], offset=offset, max_bytes=size)
            assert page["offset"] == offset
            assert page["size"] == len(whole.encode())
            text, offset, complete = text + page["data"], page["resume_offset"], page["complete"]
        assert text == whole
    raw = await pty.good("blocks_read", block_id=block["block_id"], format="raw")
    assert base64.b64decode(raw["data_b64"]) == whole.replace("\n", "\r\n").encode()
    assert raw["complete"]
    await pty.refused("invalid_argument", "blocks_read", "past the end", block_id=block["block_id"], offset=raw["size"])


async def test_running_block_can_be_read(pty: Pty) -> None:
    begun = await pty.good("pty_exec_block", cmd="echo so far; read x; echo rest")
    await pty.match("so far\n", begun["resume_cursor"])
    page = await pty.good("blocks_read", block_id=begun["block_id"])
    assert (page["data"], page["complete"]) == ("so far\n", False)
    await pty.good("pty_enter")
    await pty.prompt(begun["resume_cursor"])
    page = await pty.good("blocks_read", block_id=begun["block_id"], offset=page["resume_offset"])
    assert (page["data"].strip(), page["complete"]) == ("rest", True)


@pytest.mark.also_remote("hits of a search")
async def test_search_applies_each_filter(pty: Pty) -> None:
    first = await pty.run("printf 'alpha\\nbeta needle here, needle there\\n'")
    second = await pty.run("printf 'no\\nnothing\\nNEEDLE-7 ☃ needle\\n'; false")
    hits = (await pty.good("blocks_search", query="needle"))["hits"]
    assert [(hit["block_id"], hit["line"]) for hit in hits] == [(first["block_id"], 2), (second["block_id"], 3)]
    assert [hit["text"] for hit in hits] == ["beta needle here, needle there", "NEEDLE-7 ☃ needle"]
    for hit in hits:
        read = await pty.good("pty_read_spool", from_cursor=hit["offset"], max_bytes=6)
        assert read["data"] == "needle"
    regex = await pty.good("blocks_search", query="^(alpha|NEEDLE-[0-9]).*$", regex=True)
    assert [hit["text"] for hit in regex["hits"]] == ["alpha", "NEEDLE-7 ☃ needle"]
    for fields, found in [
        ({"block_id": first["block_id"]}, [1]),
        ({"cmd": "; false"}, [2]),
        ({"status": "completed"}, [1, 2]),
        ({"status": "cancelled"}, []),
        ({"since_ts": second["ts_begin"]}, [1, 2] if first["ts_end"] >= second["ts_begin"] else [2]),
        ({"until_ts": first["ts_begin"]}, [1, 2] if second["ts_begin"] <= first["ts_begin"] else [1]),
        ({"until_ts": first["ts_begin"] - 1}, []),
    ]:
        reply = await pty.good("blocks_search", query="needle", **fields)
        assert [hit["seq"] for hit in reply["hits"]] == found, fields


async def test_search_respects_block_bounds_and_limit(pty: Pty) -> None:
    await pty.run("seq 1 100")
    assert (await pty.good("blocks_search", query="__FWS_PROMPT__"))["hits"] == []
    some = await pty.good("blocks_search", query="1", limit=3)
    assert ([hit["text"] for hit in some["hits"]], some["truncated"]) == (["1", "10", "11"], True)
    exactly = await pty.good("blocks_search", query="^[0-9]$", regex=True, limit=9)
    assert (len(exactly["hits"]), exactly["truncated"]) == (9, False)
    across = await pty.good("blocks_search", query="8\n9\n", regex=False)
    assert [(hit["line"], hit["text"]) for hit in across["hits"]] == [(8, "8")]
    every = await pty.good("blocks_search", query="(?s).*", regex=True)
    assert len(every["hits"]) == 1
    await pty.run("true")  # it has no line
    assert len((await pty.good("blocks_search", query="(?s).*", regex=True))["hits"]) == 1
