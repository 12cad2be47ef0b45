"""The library: a session of one's own in one line."""

from __future__ import annotations

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.library import open_session
from tests.controller.acting import BASH, PATIENCE_MS


async def test_a_session_in_one_line() -> None:
    async with open_session(protocol="local", command=BASH) as session:
        assert (await session.exec("echo hi")).stdout == "hi\n"
        await session.write("echo typed\n")
        assert (await session.read(until_regex="\ntyped\n", timeout_ms=PATIENCE_MS)).matched
        assert (await session.status()).state == "open"
    with pytest.raises(PtyctlError) as caught:
        await session.exec("echo late")
    assert caught.value.code is ErrorCode.ALREADY_CLOSED


async def test_it_is_closed_also_when_the_block_fails() -> None:
    with pytest.raises(RuntimeError, match="of the block"):
        async with open_session(protocol="local", command=BASH) as session:
            raise RuntimeError("of the block")
    assert (await session.read(timeout_ms=0)).eof


async def test_what_kept_it_from_opening() -> None:
    with pytest.raises(PtyctlError) as caught:
        async with open_session(protocol="local", command=("no-such-program",)):
            pass
    assert caught.value.code is ErrorCode.CONNECT_FAILED


async def test_reads_go_on_where_the_last_one_ended() -> None:
    async with open_session(protocol="local", command=("sh", "-c", "echo one; echo two")) as session:
        assert (await session.read(until_regex="one\n", timeout_ms=PATIENCE_MS)).chunk == "one\n"
        assert (await session.read(until_regex="two\n", timeout_ms=PATIENCE_MS)).chunk == "two\n"
        assert (await session.read(mode="tail")).chunk == "one\ntwo\n"
