"""Close, on request or after the idle timeout, and the replies of a closed session."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from fixtures.processes import words_of
from ptyctl.api import Controller, ErrorCode, PtyctlError
from ptyctl.api.errors import NextStep
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, config, read, refused, session, until

pytestmark = pytest.mark.waits


@pytest.mark.also_remote("reply of close")
async def test_close_ends_program_and_keeps_history(controller: Controller, bash: SessionHandle) -> None:
    pid = int((await bash.exec("echo $$")).stdout)
    end = (await bash.read(until_regex=r"\n\d+\n.*[$#] $", timeout_ms=PATIENCE_MS)).buffer_end_cursor
    assert (await session(controller, "close", session_id=bash.session_id)).payload() == {
        "action": "close",
        "success": True,
        "session_id": bash.session_id,
    }
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await session(controller, "list")).sessions == []
    reply = await read(bash, cursor="0", timeout_ms=0)
    assert str(pid) in (reply.chunk or "")
    assert (reply.next_cursor, reply.buffer_end_cursor, reply.eof) == (end, end, True)


@pytest.mark.also_remote("error of each call")
async def test_closed_session_refuses_all_but_reads(bash: SessionHandle) -> None:
    await bash.close()
    await bash.close()
    for call in (
        lambda: bash.exec("echo hi"),
        lambda: bash.write("x"),
        lambda: bash.key("enter"),
        lambda: bash.resize(80, 24),
        lambda: config(bash, "get"),
        bash.status,
        lambda: bash.lock(task_id="t"),
        lambda: bash.unlock(task_id="t"),
        lambda: bash.heartbeat(task_id="t"),
    ):
        with refused(ErrorCode.ALREADY_CLOSED, f"{bash.session_id} is closed (on request)"):
            await call()


@pytest.mark.parametrize(("task_id", "why"), [(None, r"\(on request\)"), ("night-shift", r"\(by night-shift\)")])
async def test_call_on_closed_session_names_who_closed_it(bash: SessionHandle, task_id: str | None, why: str) -> None:
    await session(bash.controller, "close", session_id=bash.session_id, **({"task_id": task_id} if task_id else {}))
    with pytest.raises(PtyctlError, match=f"session {bash.session_id} is closed {why}") as caught:
        await bash.exec("echo hi")
    assert caught.value.hint == NextStep.OPEN_SESSION


@pytest.mark.also_remote("error of each call")
async def test_unknown_session_is_not_found(bash: SessionHandle) -> None:
    bash.session_id, known = "no-such-session", bash.session_id
    for call in (
        lambda: bash.exec("x"),
        lambda: bash.write("x"),
        bash.read,
        lambda: bash.resize(80, 24),
        bash.status,
        bash.close,
    ):
        with refused(ErrorCode.NOT_FOUND, "no-such-session"):
            await call()
    bash.session_id = known


async def test_close_kills_program_that_ignores_sighup(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", 'trap "" HUP; echo $$; while :; do sleep 1; done'))
    pid = int((await handle.read(until_regex=r"\d+\n", timeout_ms=PATIENCE_MS)).chunk or "")
    await handle.close(force=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("command", ["sleep 1000 & disown; exit 3", "sleep 1000 & kill -9 $$"])
async def test_ended_shell_is_noticed_although_a_background_job_has_its_terminal(bash: SessionHandle, command: str) -> None:
    """The job would keep the terminal open for much longer than the call waits."""
    reply = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code) == ("eof", 3 if "exit" in command else 137)
    assert ((await bash.status()).state, (await bash.status()).mode) == ("eof", None)
    left = (await bash.close()).left_running
    assert left is not None
    assert [process.command for process in left] == ["sleep 1000"]
    os.kill(left[0].pid, signal.SIGKILL)


@pytest.mark.also_remote("processes in a reply")
async def test_close_reports_processes_that_continue(bash: SessionHandle) -> None:
    await bash.exec("nohup sleep 1000 >/dev/null 2>&1 & first=$!; (trap '' HUP; exec sleep 2000) &", timeout_ms=PATIENCE_MS)
    started = "grep -q ^sleep /proc/$first/cmdline && grep -q ^sleep /proc/$!/cmdline"  # both ignore the hangup then
    await bash.exec(f"until {started}; do sleep 0.01; done", timeout_ms=PATIENCE_MS)
    left = (await bash.close()).left_running
    assert left is not None
    assert {process.command for process in left} == {"sleep 1000", "sleep 2000"}
    for process in left:
        os.kill(process.pid, signal.SIGKILL)


async def test_close_with_force_ends_all_processes(bash: SessionHandle) -> None:
    pid = int((await bash.exec("nohup sleep 1000 >/dev/null 2>&1 & echo $!", timeout_ms=PATIENCE_MS)).stdout.split()[-1])
    assert (await bash.close(force=True)).left_running is None
    assert not any(words_of(pid, "cmdline"))  # a zombie has no arguments


async def detached_sleep(handle: SessionHandle) -> int:
    """Start a process that leaves the terminal's session. The substitution waits until the process has closed its output."""
    start = "echo $(setsid -f sh -c 'echo $$; exec sleep 1000 >/dev/null')"
    return int((await handle.exec(start, timeout_ms=PATIENCE_MS)).stdout)


@pytest.mark.parametrize("force", [False, True])
async def test_close_reports_process_that_left_the_terminals_session_and_does_not_end_it(
    bash: SessionHandle, force: bool
) -> None:
    pid = await detached_sleep(bash)
    left = (await bash.close(force=force)).left_running
    assert left is not None
    assert [(process.pid, process.command, process.detached) for process in left] == [(pid, "sleep 1000", True)]
    os.kill(pid, signal.SIGKILL)


async def test_processes_of_another_session_are_not_reported(open_session: Open, bash: SessionHandle) -> None:
    other = await open_session()
    assert (await other.exec("echo $PTYCTL_SESSION_ID")).stdout == f"{other.session_id}\n"
    pid = await detached_sleep(other)
    assert (await bash.close()).left_running is None
    left = (await other.close()).left_running
    assert left is not None
    assert [process.pid for process in left] == [pid]
    os.kill(pid, signal.SIGKILL)


async def test_concurrent_closes_wait_for_the_same_end(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", 'trap "" HUP; echo $$; while :; do sleep 1; done'))
    pid = int((await handle.read(until_regex=r"\d+\n", timeout_ms=PATIENCE_MS)).chunk or "")
    first = asyncio.create_task(handle.close())
    await asyncio.sleep(0)
    first.cancel()  # the close continues although its first caller was cancelled
    await asyncio.gather(handle.close(), handle.close(), first, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_session_with_printing_run_is_not_idle(open_session: Open, controller: Controller) -> None:
    handle = await open_session(timeouts={"idle_timeout_ms": 2_000})
    command = "for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; sleep 0.25; done"
    assert (await handle.exec(command, timeout_ms=0)).timed_out  # no call waits for it

    async def gone() -> bool:
        return not (await session(controller, "list")).sessions

    await until(gone)
    with refused(ErrorCode.ALREADY_CLOSED, "idle_timeout_ms"):
        await handle.status()
    assert "line 10\n" in ((await read(handle, cursor="0", timeout_ms=0)).chunk or "")


async def test_idle_session_is_closed_after_its_timeout(open_session: Open, controller: Controller) -> None:
    handle = await open_session(timeouts={"idle_timeout_ms": 2_000})
    for _ in range(4):  # each use restarts the timeout, and a waiting call is a use
        await read(handle, until_regex="never", timeout_ms=600)
    reply = await handle.exec("sleep 2.1; echo used")
    assert reply.stdout == "used\n"

    async def gone() -> bool:
        return not (await session(controller, "list")).sessions

    await until(gone)
    with refused(ErrorCode.ALREADY_CLOSED):
        await handle.exec("echo late")
    assert "used" in ((await read(handle, cursor="0", timeout_ms=0)).chunk or "")
