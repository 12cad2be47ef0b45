"""exec with `grep` and `from_cursor`: only matching lines, and only new output."""

from __future__ import annotations

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, each_strategy, execute, refused, write

__all__ = ["each_strategy"]

WAIT = {"timeout_ms": PATIENCE_MS}


@pytest.fixture
def way(each_strategy: str) -> str:
    return each_strategy


async def test_grep_returns_the_one_line_of_a_large_output(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="seq 1 40000; echo needle in hay; seq 40001 60000", grep="n[e]+dle", **WAIT)
    assert (reply.stdout, reply.grep_count, reply.exit_code) == ("needle in hay\n", 1, 0)
    assert not reply.output_truncated


async def test_grep_context_merges_and_separates_groups(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="seq 1 30", grep="^(1|5|6|25|30)$", grep_context=1, **WAIT)
    assert reply.stdout == "1\n2\n--\n4\n5\n6\n7\n--\n24\n25\n26\n--\n29\n30\n"
    assert reply.grep_count == 5


async def test_grep_without_match_returns_nothing_and_zero(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="seq 1 3; false", grep="x", **WAIT)
    assert (reply.stdout, reply.grep_count, reply.exit_code) == ("", 0, 1)


async def test_grep_of_many_lines_is_limited_and_counted(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="seq 1 5000", grep="7", max_output_bytes=256, **WAIT)
    assert reply.grep_count == sum("7" in str(number) for number in range(1, 5001))
    assert reply.output_truncated
    assert len(reply.stdout) <= 256
    assert reply.stdout.startswith("7\n17\n27\n")


async def test_grep_does_not_match_echo_and_prompt(bash: SessionHandle) -> None:
    await bash.exec("PS1='here$ '")
    assert (await execute(bash, cmd="true here", grep="here", **WAIT)).grep_count == 0


async def test_invalid_grep_is_refused_before_the_command_runs(bash: SessionHandle) -> None:
    for fields, parts in (({"grep": "("}, ["grep", "'('"]), ({"grep_context": 1}, ["grep_context"])):
        with refused(ErrorCode.INVALID_ARGUMENT, *parts):
            await execute(bash, cmd="echo ran", **fields)
    with refused(ErrorCode.INVALID_ARGUMENT, "from_cursor", "block_id"):
        await execute(bash, cmd="echo ran", from_cursor="0")
    with refused(ErrorCode.INVALID_ARGUMENT, "parse"):
        await execute(bash, cmd="echo ran", parse=True, grep="x")


async def test_wait_from_cursor_returns_only_what_is_new(bash: SessionHandle) -> None:
    first = await execute(bash, cmd="echo one; read x; echo two; read x; echo three", until_regex="one\n", **WAIT)
    block = {"block_id": first.block_id}
    await write(bash, data="\n")
    second = await execute(bash, **block, until_regex="two\n", **WAIT, from_cursor=first.next_cursor)
    assert second.stdout.strip() == "two"
    await write(bash, data="\n")
    third = await execute(bash, **block, **WAIT, from_cursor=second.next_cursor)
    assert (third.stdout.strip(), third.exit_code) == ("three", 0)
    again = await execute(bash, **block, **WAIT, from_cursor=third.next_cursor)
    assert (again.stdout, again.exit_code) == ("", 0)
    assert "one" in (await execute(bash, **block, **WAIT)).stdout  # without a cursor: all of it


async def test_wait_from_cursor_takes_a_number_and_grep(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="seq 1 9", **WAIT)
    cursor = int(reply.cursor) + len("1\n2\n3\n")
    assert (await execute(bash, block_id=reply.block_id, from_cursor=cursor)).stdout == "4\n5\n6\n7\n8\n9\n"
    assert (await execute(bash, block_id=reply.block_id, from_cursor=cursor, grep="[135]")).stdout == "5\n"
    with refused(ErrorCode.INVALID_ARGUMENT, "from_cursor", "past the end"):
        await execute(bash, block_id=reply.block_id, from_cursor=cursor + 1_000_000)


async def test_wait_from_cursor_cuts_a_long_line_between_characters(bash: SessionHandle) -> None:
    reply = await execute(bash, cmd="printf 'ä€%.0s' $(seq 1000)", **WAIT)
    cursor, end = int(reply.cursor), int(reply.next_cursor)
    for limit in (256, 258, 260, 262, 264):
        part = await execute(bash, block_id=reply.block_id, from_cursor=cursor, max_output_bytes=limit)
        head, _, tail = part.stdout.partition("[... ")
        gap_begin, kept = cursor + len(head.encode()), tail.partition("...]\n")[2]
        assert f"they can be read from cursor {gap_begin} on" in tail
        assert (gap_begin + (part.omitted_bytes or 0), set(kept)) == (end - len(kept.encode()), {"ä", "€"})


@pytest.mark.parametrize("integration", ["auto", "off"])
async def test_lines_in_a_shell_have_exact_offsets(open_session: Open, integration: str) -> None:
    shell = await open_session(shell_integration=integration, env={"PS1": "here$ "})
    for line, printed in (("echo one", "one\n"), ("seq 3", "1\n2\n3\n"), ("printf two", "two")):
        reply = await execute(shell, lines=[line], expect={"settle_ms": 200}, timeout_ms=PATIENCE_MS)
        again = await execute(shell, block_id=reply.block_id, from_cursor=reply.cursor)
        # the line editor ends the echo with a CR, which is a line feed in the spool
        assert (reply.stdout, again.stdout.removeprefix("\n")) == (printed, printed)
