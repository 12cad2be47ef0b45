"""FRR's zebra over Telnet without platform data: typed login, enable, pager, errors, shared console."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fixtures.servers.frr import Zebra
from ptyctl import ErrorCode, LocalController, PtyctlError, SessionHandle

EVERYTHING = 1_000_000


async def log_in(session: SessionHandle, zebra: Zebra) -> None:
    for prompt, answer in [("Password: $", zebra.password), ("> $", "enable"), ("Password: $", zebra.enable_password)]:
        assert (await session.read(until_regex=prompt)).matched
        await session.write(f"{answer}\n", sensitive=True)
    assert (await session.read(until_regex="# $")).matched


async def open_zebra(controller: LocalController, zebra: Zebra, **more: Any) -> SessionHandle:
    return await SessionHandle.open(controller, protocol="telnet", host=zebra.host, port=zebra.port, **more)


@pytest.fixture
async def session(controller: LocalController, zebra: Zebra) -> AsyncIterator[SessionHandle]:
    async with await open_zebra(controller, zebra, pty={"cols": 80, "rows": 10}) as handle:
        await log_in(handle, zebra)
        yield handle


async def test_paged_output_equals_unpaged_output(session: SessionHandle) -> None:
    paged = await session.exec("list", max_output_bytes=EVERYTHING)
    assert (await session.exec("terminal length 0")).stdout == ""
    whole = await session.exec("list", max_output_bytes=EVERYTHING)
    assert paged.pages
    assert whole.pages is None
    assert paged.stdout == whole.stdout
    assert len(whole.stdout.splitlines()) > 100
    assert not any(junk in paged.stdout for junk in ("\0", "\b", "--More--", "\r"))


async def test_exec_removes_prompt_and_echo_and_reports_errors(session: SessionHandle) -> None:
    reply = await session.exec("show version")
    assert reply.stdout.startswith("FRRouting")
    assert reply.stdout.endswith("\n")
    assert "R1#" not in reply.stdout
    assert (reply.done_reason, reply.prompt_detected, reply.exit_code) == ("prompt", True, None)
    assert reply.exit_code_reason
    refused = await session.exec("no such command")
    assert refused.error_hints == ["% [ZEBRA] Unknown command: no such command"]


async def test_mode_commands_end_at_new_prompt(session: SessionHandle) -> None:
    for command in ("configure terminal", "interface lo", "end"):
        reply = await session.exec(command)
        assert (reply.stdout, reply.done_reason) == ("", "prompt")


async def test_lines_stop_at_first_error(session: SessionHandle) -> None:
    from ptyctl.api import ExecRequest

    lines = ["configure terminal", "interface lo", "bogus", "description x"]
    request = ExecRequest.of({"session_id": session.session_id, "lines": lines})
    reply = await session.controller.exec(request)
    assert reply.failed_line == "bogus"
    assert reply.error_hints == ["% [ZEBRA] Unknown command: bogus"]
    assert "description x" not in reply.stdout
    await session.exec("end")


async def test_one_enter_makes_one_prompt(session: SessionHandle) -> None:
    cursor = (await session.key("enter")).next_cursor
    assert (await session.read(cursor=cursor, until_regex="# $")).chunk == "\nR1# "
    await session.write("\n")
    assert (await session.read(until_regex="# $")).chunk == "\nR1# "
    assert (await session.read(until_idle_ms=300)).chunk == ""


async def test_third_wrong_password_closes_connection(controller: LocalController, zebra: Zebra) -> None:
    async with await open_zebra(controller, zebra) as session:
        assert session.opened.security_warning
        for _ in range(3):
            assert (await session.read(until_regex="Password: $")).matched
            await session.write("wrong\n", sensitive=True)
        reply = await session.read(until_regex="never")
        assert reply.eof
        assert not reply.matched
        with pytest.raises(PtyctlError) as caught:
            await session.write("x")
        assert caught.value.code is ErrorCode.REMOTE_CLOSED
        assert (await session.read(mode="tail")).chunk


async def test_console_is_shared_and_locked(controller: LocalController, zebra: Zebra) -> None:
    console = {"session_type": "console", "device_id": "R1"}
    writer = await open_zebra(controller, zebra, **console, acquire_lock=True, task_id="writer")
    other = await open_zebra(controller, zebra, **console, task_id="other")
    assert other.session_id == writer.session_id == other.opened.existing_session_id
    await log_in(writer, zebra)
    with pytest.raises(PtyctlError, match="Session locked by task writer") as caught:
        await other.exec("show version")
    assert caught.value.code is ErrorCode.LOCKED
    reply = await writer.exec("show version")
    watched = await other.read(cursor=reply.cursor, until_regex="# $")
    assert "FRRouting" in (watched.chunk or "")
    await writer.unlock()
    await other.lock()
    assert (await other.exec("show version")).stdout == reply.stdout
