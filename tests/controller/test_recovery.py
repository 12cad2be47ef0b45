"""Sessions of a killed server: who may resume them, concurrent requests, and the session limit."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.controller import recovery
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.conversation import Pty
from tests.controller.session_calls import copy_state

BASH = ["bash", "--norc", "--noprofile"]
CONSOLE = {"protocol": "local", "command": BASH, "session_type": "console", "device_id": "rack-1", "task_id": "t"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "left"


async def crash(tmp_path: Path, state: Path, **fields: Any) -> str:
    """A console that said hi, on disk as a server leaves it that is killed now. Returns its session_id."""
    async with LocalController(Settings(state_dir=tmp_path / "state")) as server:
        handle = await SessionHandle.open(server, **{**CONSOLE, **fields}, acquire_lock=True)
        await handle.exec("echo hi")
        copy_state(tmp_path / "state", state)
    return handle.session_id


async def tail(server: LocalController, session_id: str) -> IoReply:
    return await server.io(IoRequest.of({"session_id": session_id, "action": "read", "mode": "tail"}))


async def opened(server: LocalController, **fields: Any) -> SessionReply:
    return await server.session(SessionRequest.of({"action": "open", **CONSOLE, **fields}))


async def test_lost_console_continues_in_its_session(tmp_path: Path, state: Path) -> None:
    session_id = await crash(tmp_path, state)
    async with LocalController(Settings(state_dir=state)) as server:
        replies = await asyncio.gather(*(opened(server) for _ in range(3)))
        assert {(reply.session_id, reply.existing_session_id, reply.state) for reply in replies} == {
            (session_id, session_id, "open")
        }
        assert any("incarnation 2" in notice for reply in replies for notice in reply.notices or [])
        reply = await server.session(SessionRequest.of({"action": "lock", "session_id": session_id, "task_id": "t"}))
        assert reply.success
        done = await server.exec(ExecRequest.of({"session_id": session_id, "cmd": "echo again", "task_id": "t"}))
        assert done.stdout == "again\n"
        said = (await tail(server, session_id)).chunk or ""
        assert said.index("\nhi\n") < said.index("\nagain\n")
        with pytest.raises(PtyctlError) as refused:
            await opened(server, protocol="telnet", host="192.0.2.1", command=None)
        assert refused.value.code is ErrorCode.INVALID_ARGUMENT
        await server.session(SessionRequest.of({"action": "close", "session_id": session_id, "task_id": "t"}))
    async with LocalController(Settings(state_dir=state)) as server:
        assert (await opened(server)).session_id != session_id, "it was closed in order"


async def test_console_held_by_another_server_is_busy(tmp_path: Path, state: Path) -> None:
    session_id = await crash(tmp_path, state)
    settings = Settings(state_dir=state)
    async with LocalController(settings) as first, LocalController(settings) as second:
        assert (await opened(first)).session_id == session_id
        with pytest.raises(PtyctlError, match="in use by another server") as refused:
            await opened(second)
        assert refused.value.code is ErrorCode.BUSY


async def test_history_is_read_without_holding_the_session(tmp_path: Path, state: Path) -> None:
    session_id = await crash(tmp_path, state)
    settings = Settings(state_dir=state, max_sessions=1)
    async with LocalController(settings) as reader, LocalController(settings) as other:
        assert "hi\n" in ((await tail(reader, session_id)).chunk or "")
        await SessionHandle.open(reader, protocol="local", command=BASH)  # what is only read does not count
        with pytest.raises(PtyctlError) as refused:
            await opened(reader)
        assert refused.value.code is ErrorCode.LIMIT_EXCEEDED
        again = await opened(other)
        assert again.session_id == session_id
        shell = SessionHandle(other, again.session_id)
        assert (await shell.read(cursor=again.next_cursor, timeout_ms=20_000)).chunk
        with pytest.raises(PtyctlError) as refused:
            await tail(reader, session_id)  # what was read before is no longer how it is
        assert refused.value.code is ErrorCode.BUSY
        await other.session(SessionRequest.of({"action": "close", "session_id": session_id, "force": True}))
        assert "hi\n" in ((await tail(reader, session_id)).chunk or "")


async def test_reading_leaves_lost_session_lost(tmp_path: Path, state: Path) -> None:
    session_id = await crash(tmp_path, state)
    async with LocalController(Settings(state_dir=state)) as server:
        await tail(server, session_id)
    async with LocalController(Settings(state_dir=state)) as server:
        assert (await opened(server)).session_id == session_id


async def test_lost_session_can_be_closed_at_the_session_limit(tmp_path: Path, state: Path) -> None:
    session_id = await crash(tmp_path, state)
    async with LocalController(Settings(state_dir=state, max_sessions=1)) as server:
        await SessionHandle.open(server, protocol="local", command=BASH)
        await server.session(SessionRequest.of({"action": "close", "session_id": session_id, "task_id": "t"}))
    async with LocalController(Settings(state_dir=state)) as server:
        assert (await opened(server)).session_id != session_id


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("how", ["exec", "typed"])
async def test_interrupted_block_has_exactly_its_output(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, shell: str, how: str
) -> None:
    monkeypatch.setenv("SHELL", require_program(shell, shell))
    async with LocalController(Settings(state_dir=tmp_path / "state")) as server:
        pty = Pty(server)
        begun = await pty.run("true")
        cursor = begun["spool_end"]
        if how == "exec":
            await pty.good("pty_exec_block", cmd="echo begun; sleep 60")
        else:
            await pty.good("pty_send", data="echo begun; sleep 60\n")
        await pty.match("\nbegun\n", cursor)
        copy_state(tmp_path / "state", state)
    async with LocalController(Settings(state_dir=state)) as server:
        *_, left = (await Pty(server).good("blocks_since"))["items"]
        assert (left["status"], left["cmd"], left["seq"]) == ("cancelled", "echo begun; sleep 60", 2)
        assert (await Pty(server).block(left["block_id"]))["text"] == "begun\n"
        assert Path(left["output_path"]).read_bytes().endswith(b"begun\r\n")
        (hit,) = (await Pty(server).good("blocks_search", query="begun"))["hits"]
        assert (hit["line"], hit["text"]) == (1, "begun")


async def test_concurrent_requests_share_one_recovery(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = await crash(tmp_path, state)
    go, begun, whole = threading.Event(), [], recovery.recover  # type: ignore[attr-defined]

    def slow(*args: Any, **options: Any) -> Any:
        begun.append(args)
        assert go.wait(20)
        return whole(*args, **options)

    monkeypatch.setattr(recovery, "recover", slow)
    async with LocalController(Settings(state_dir=state)) as server:
        reads = [asyncio.create_task(tail(server, session_id)) for _ in range(5)]
        shell = await SessionHandle.open(server, protocol="local", command=BASH)
        assert (await shell.exec("echo meanwhile")).stdout == "meanwhile\n"
        reads[0].cancel()
        go.set()
        assert all("hi\n" in (reply.chunk or "") for reply in await asyncio.gather(*reads[1:]))
    assert len(begun) == 1
