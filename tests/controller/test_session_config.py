"""Session configuration: size and expectations."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, config, execute, read, refused, session


@pytest.mark.also_remote("every field of a reply")
async def test_config_get_returns_current_values(open_session: Open) -> None:
    handle = await open_session(pty={"cols": 90, "rows": 20}, platform="linux", expect={"prompt_regex": "x> $"})
    assert (await config(handle, "get")).payload() == {
        "action": "get",
        "expect": {"prompt_regex": "x> $"},
        "cols": 90,
        "rows": 20,
        "platform": "linux",
    }


async def test_resize_reaches_running_program(bash: SessionHandle) -> None:
    reply = await bash.resize(77, 33)
    assert (reply.cols, reply.rows) == (77, 33)
    assert (await bash.exec("stty size")).stdout == "33 77\n"
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(bash.exec(f'sh -c "{script}"', timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex="(?m)^ready\n", timeout_ms=PATIENCE_MS)).matched
    await bash.resize(101, 45)
    assert (await running).stdout == "ready\n45 101\n"
    (entry,) = (await session(bash.controller, "list")).sessions or []
    assert entry.pty is not None
    assert (entry.pty.cols, entry.pty.rows) == (101, 45)
    assert (await config(bash, "get")).cols == 101


async def test_resize_is_refused_only_while_another_task_holds_the_lock(bash: SessionHandle) -> None:
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="task-1")
    with refused(ErrorCode.LOCKED, "task-1"):
        await config(bash, "resize", cols=50, rows=10, task_id="task-2")
    with refused(ErrorCode.LOCKED, "task-1"):
        await config(bash, "resize", cols=50, rows=10)
    assert (await config(bash, "get")).cols == 120
    assert (await config(bash, "resize", cols=50, rows=10, task_id="task-1")).cols == 50


@pytest.mark.also_remote("absent and empty fields")
async def test_expect_fields_are_merged_with_existing_ones(bash: SessionHandle) -> None:
    first = await config(bash, "expect", expect={"prompt_regex": r"^\S+[$#] $"})
    assert first.expect is not None
    assert first.expect.prompt_regex == r"^\S+[$#] $"
    second = await config(bash, "expect", expect={"error_regexes": ["^E: .*"], "pager_regexes": []})
    assert second.payload()["expect"] == {
        "prompt_regex": r"^\S+[$#] $",
        "pager_regexes": [],
        "error_regexes": ["^E: .*"],
    }
    reply = await bash.exec("echo fine; echo 'E: no such thing'")
    assert reply.error_hints == []  # `^` is where the output begins
    await config(bash, "expect", expect={"error_regexes": ["(?m)^E: .*"]})
    reply = await bash.exec("echo fine; echo 'E: no such thing'; echo 'E: no such thing'")
    assert reply.error_hints == ["E: no such thing"]


async def test_expect_of_an_exec_applies_to_that_call_only(bash: SessionHandle) -> None:
    own = {"error_regexes": ["(?m)^bad"]}
    assert (await bash.exec("echo; echo bad", rc_mode={"enabled": False}, expect=own)).error_hints == ["bad"]
    assert (await bash.exec("echo; echo bad", rc_mode={"enabled": False})).error_hints == []
    assert (await config(bash, "get")).payload()["expect"] == {}


async def test_pagers_are_answered_with_configured_patterns(
    open_session: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pager = tmp_path_factory.mktemp("bin") / "pager"
    pager.write_text(
        "n=0; while IFS= read -r line; do printf '%s\\n' \"$line\"; n=$((n + 1))\n"
        "if [ $n -eq 5 ]; then n=0; printf ' --More-- '; key=$(dd bs=1 count=1 2>/dev/null </dev/tty)\n"
        "printf '\\b\\b\\b\\b\\b\\b\\b\\b\\b\\b          \\b\\b\\b\\b\\b\\b\\b\\b\\b\\b'; fi; done\n"
    )
    handle = await open_session()
    await handle.exec("stty -icanon -echo")
    reply = await execute(handle, cmd=f"seq 1 23 | sh {pager}", rc_mode={"enabled": False}, timeout_ms=PATIENCE_MS)
    assert reply.stdout == "".join(f"{number}\n" for number in range(1, 24))
    assert reply.pages == 4


@pytest.mark.parametrize(
    ("action", "fields", "parts"),
    [
        ("resize", {}, ["cols", "rows"]),
        ("resize", {"cols": 80}, ["rows"]),
        ("resize", {"cols": 0, "rows": 24}, ["cols"]),
        ("resize", {"cols": 80, "rows": 70_000}, ["rows"]),
        ("resize", {"cols": 80, "rows": 24, "expect": {}}, ["expect"]),
        ("expect", {}, ["expect"]),
        ("expect", {"expect": {"prompt_regex": "("}}, ["expect.prompt_regex"]),
        ("expect", {"expect": {"pager_regexes": ["ok", "(?!x)"]}}, ["expect.pager_regexes[1]", "lookahead"]),
        ("expect", {"expect": {"error_regexes": ["["]}}, ["expect.error_regexes[0]"]),
        ("get", {"cols": 80}, ["get", "cols"]),
        ("mode", {}, ["mode"]),
        ("paint", {}, ["action"]),
    ],
)
async def test_invalid_config_request_is_refused(
    bash: SessionHandle, action: str, fields: dict[str, object], parts: list[str]
) -> None:
    before = (await config(bash, "get")).payload()
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await config(bash, action, **fields)
    assert (await config(bash, "get")).payload() == before


async def test_mode_without_platform_is_unsupported(bash: SessionHandle) -> None:
    with refused(ErrorCode.UNSUPPORTED, "platform"):
        await config(bash, "mode", mode="config")


async def _size(handle: SessionHandle) -> tuple[int | None, int | None]:
    reply = await config(handle, "get")
    return reply.cols, reply.rows


async def _wait_for_size(handle: SessionHandle, cols: int, rows: int) -> None:
    async with aclosing(handle.watch()) as items:
        async for item in items:
            if (item.cols, item.rows) == (cols, rows):
                return


@pytest.mark.parametrize("end", ["unlock", "take_over", "expiry"])
async def test_size_while_locked_is_restored_at_the_end_of_the_lock(open_session: Open, end: str) -> None:
    bash = await open_session()
    before = await _size(bash)
    await bash.lock(task_id="phone", lock_ttl_ms=60_000)
    await config(bash, "resize", cols=70, rows=20, task_id="phone", while_locked=True)
    await config(bash, "resize", cols=90, rows=25, task_id="phone", while_locked=True)  # the size before stays the first
    assert await _size(bash) == (90, 25)
    if end == "expiry":
        await bash.heartbeat(task_id="phone", lock_ttl_ms=1_000)
    elif end == "unlock":
        await bash.unlock(task_id="phone")
    elif end == "take_over":
        await bash.lock(task_id="desk", force=True)
    async with asyncio.timeout(PATIENCE_MS / 1000):
        await _wait_for_size(bash, before[0] or 0, before[1] or 0)


async def test_size_while_locked_that_another_caller_changed_stays(open_session: Open) -> None:
    bash = await open_session()
    await bash.lock(task_id="phone", lock_ttl_ms=60_000)
    await config(bash, "resize", cols=70, rows=20, task_id="phone", while_locked=True)
    await config(bash, "resize", cols=100, rows=30, task_id="phone")
    await bash.unlock(task_id="phone")
    await asyncio.sleep(0)
    assert await _size(bash) == (100, 30)


async def test_size_while_locked_without_the_lock_is_refused(open_session: Open) -> None:
    bash = await open_session()
    before = await _size(bash)
    with refused(ErrorCode.LOCK_LOST):
        await config(bash, "resize", cols=70, rows=20, task_id="phone", while_locked=True)
    assert await _size(bash) == before
