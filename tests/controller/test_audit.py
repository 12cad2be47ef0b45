"""The audit log of a controller: who opened, locked, typed and closed, and what happens if it cannot be written."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import AuditReply, AuditRequest
from ptyctl.audit.audit_files import AuditFiles
from ptyctl.controller.local import LocalController
from ptyctl.session.clients import user
from ptyctl.trace import tracing
from tests.controller.session_calls import PATIENCE_MS, MakeController, Open, execute, read, refused, session, write

USER = user().name


@pytest.fixture
def log_of(servers: dict[Controller, LocalController]) -> Any:
    """Return the audit log's rows, after those that wait were written."""

    async def rows(controller: Controller, **fields: object) -> list[dict[str, Any]]:
        await asyncio.to_thread(servers[controller].audit_log.close)
        return (await audit(controller, **fields)).rows

    return rows


async def audit(controller: Controller, **fields: object) -> AuditReply:
    return await controller.audit(AuditRequest.of(fields))


def selected(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.mark.also_remote("rows and their fields")
async def test_life_of_a_session_is_recorded(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session()
    lock = {"session_id": handle.session_id, "task_id": "deploy"}
    await session(controller, "lock", **lock)
    await execute(handle, cmd="echo hi", task_id="deploy")
    await session(controller, "unlock", **lock)
    await session(controller, "close", session_id=handle.session_id, task_id="deploy")
    rows = await log_of(controller, session_id=handle.session_id)
    assert selected(rows, "event", "principal", "task", "text") == [
        ("open", USER, None, None),
        ("lock", USER, "deploy", None),
        ("text", USER, "deploy", "echo hi"),
        ("lock_ended", USER, "deploy", None),
        ("close", USER, "deploy", None),
    ]
    reply = await audit(controller, action="verify")
    assert reply.first_bad is None
    assert reply.verified is not None
    assert reply.verified >= len(rows)


@pytest.mark.also_remote("the trace id of a call")
async def test_call_with_a_trace_id_has_rows_with_it(controller: Controller, open_session: Open, log_of: Any) -> None:
    with tracing("trace_1"):
        handle = await open_session()
        await execute(handle, cmd="echo hi")
    await execute(handle, cmd="echo later")
    rows = await log_of(controller, session_id=handle.session_id)
    assert selected(rows, "event", "trace_id") == [("open", "trace_1"), ("text", "trace_1"), ("text", None)]


async def test_written_text_is_recorded_by_lines_and_tasks(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session(command=("cat",))
    await write(handle, "a", data="one ")
    await write(handle, "a", data="two\nthree\n")
    await write(handle, "a", data="four")
    await write(handle, "b", data="five\n")
    rows = await log_of(controller, event="text")
    assert selected(rows, "task", "text") == [("a", "one two\r"), ("a", "three\r"), ("a", "four"), ("b", "five\r")]


async def test_secret_is_recorded_by_its_length(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session(command=("cat",))
    await write(handle, data="hunter2\n", sensitive=True)
    rows = await log_of(controller, event="text")
    assert selected(rows, "text", "secret_bytes") == [(None, 8)]
    assert "hunter2" not in str(await log_of(controller))


async def test_command_that_was_refused_is_not_recorded(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session(command=("sh", "-c", "stty -echo; printf 'Password: '; read -r secret; exec cat"))
    await read(handle, cursor="0", until_regex="Password: $", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.BUSY):
        await execute(handle, cmd="hunter2")
    assert "hunter2" not in str(await log_of(controller))


async def test_key_without_a_line_end_is_recorded_at_a_hand_over(
    controller: Controller, open_session: Open, log_of: Any, servers: dict[Controller, LocalController]
) -> None:
    handle = await open_session(command=("cat",))
    await write(handle, "a", data="y")
    servers[controller].flush()
    assert selected(await log_of(controller, event="text"), "task", "text") == [("a", "y")]


async def test_resize_is_recorded(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session()
    await handle.resize(100, 30)
    rows = await log_of(controller, event="resize")
    assert selected(rows, "principal", "cols", "rows") == [(USER, 100, 30)]


async def test_forced_lock_names_task_and_reason(controller: Controller, open_session: Open, log_of: Any) -> None:
    handle = await open_session()
    await session(controller, "lock", session_id=handle.session_id, task_id="a")
    await session(controller, "lock", session_id=handle.session_id, task_id="b", force=True, reason="outage")
    rows = await log_of(controller, session_id=handle.session_id)
    assert selected(rows[1:], "event", "task", "taken_from", "reason", "by") == [
        ("lock", "a", None, None, None),
        ("lock_ended", "a", None, None, "b"),
        ("lock", "b", None, None, None),
        ("take_over", "b", "a", "outage", None),
    ]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"limit": 1}, 1),
        ({"since": 1}, 4),
        ({"until": 1}, 0),
        ({"principal": "nobody"}, 0),
        ({"event": "open"}, 1),
        ({"device": "x*"}, 0),
    ],
)
async def test_rows_are_selected_by_the_fields_of_the_request(
    controller: Controller, open_session: Open, log_of: Any, fields: dict[str, object], count: int
) -> None:
    handle = await open_session()
    await execute(handle, cmd="true")
    await handle.close(force=True)
    assert len(await log_of(controller, **fields)) == count


async def test_changed_row_is_found(controller: Controller, open_session: Open, log_of: Any, tmp_path: Path) -> None:
    handle = await open_session()
    await execute(handle, cmd="echo hi")
    await log_of(controller)
    (file,) = (tmp_path / "state" / "audit").glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"echo hi", b"echo ho"))
    reply = await audit(controller, action="verify")
    assert reply.first_bad is not None
    assert (reply.first_bad.file, reply.first_bad.line) == (file.name, 3)


async def test_console_takes_no_input_and_can_be_read_while_the_disk_of_the_log_is_full(
    make_controller: MakeController, servers: dict[Controller, LocalController], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(AuditFiles, "append", full)
    controller = await make_controller()
    console, shell = await _open(controller, session_type="console", device_id="sw1"), await _open(controller)
    await session(controller, "lock", session_id=console.session_id, task_id="a")
    await asyncio.to_thread(servers[controller].audit_log.close)
    with refused(ErrorCode.IO_ERROR, "audit log", "No space left"):
        await write(console, "a", data="reload\n")
    await write(shell, "a", data="true\n")
    assert (await read(shell, cursor="0", until_regex="true\n", timeout_ms=PATIENCE_MS)).matched
    entries = (await session(controller, "list")).sessions or ()
    assert {entry.state for entry in entries} == {"open"}
    reply = await read(console, cursor="0", until_regex="up\n", timeout_ms=PATIENCE_MS)
    assert (reply.matched, reply.chunk) == (True, "up\n")
    assert "reload" not in ((await read(console, mode="tail")).chunk or "")


async def _open(controller: Controller, **fields: Any) -> SessionHandle:
    return await SessionHandle.open(controller, protocol="local", command=("sh", "-c", "echo up; exec cat"), **fields)
