"""Runs belong to the session: calls wait for them, interrupt them or answer their questions."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode, ExecRequest, IoRequest
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, each_strategy, execute, read, refused

pytestmark = pytest.mark.waits

strategy = each_strategy


@pytest.mark.also_remote("timeout of a call")
async def test_timeout_leaves_the_run_running(bash: SessionHandle, strategy: str, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    first = await bash.exec(f"echo begun; cat {release}; echo ended; (exit 5)", timeout_ms=300)
    assert (first.done_reason, first.timed_out, first.exit_code) == ("timeout", True, None)
    assert first.exit_code_reason
    assert (await bash.status()).mode == "block_running"
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    second = await bash.wait(first.block_id, timeout_ms=50)
    assert (second.done_reason, second.stdout, second.block_id) == ("timeout", "begun\n", first.block_id)
    release.write_text("")
    third = await bash.wait(first.block_id, timeout_ms=PATIENCE_MS)
    assert (third.done_reason, third.timed_out, third.exit_code) == (strategy, False, 5)
    assert third.stdout == "begun\nended\n"
    assert third.cursor == second.cursor  # the first call may have ended before the output began
    assert third.duration_ms >= 350
    assert (await bash.status()).mode == "idle"
    again = await bash.wait(first.block_id, timeout_ms=0)  # it can be asked for as often as one likes
    assert again.payload() == third.payload()


@pytest.mark.also_remote("concurrent calls on one connection")
async def test_several_calls_wait_for_one_run(bash: SessionHandle) -> None:
    first = await bash.exec("sleep 0.5; echo for all", timeout_ms=0)
    replies = await asyncio.gather(*(bash.wait(first.block_id, timeout_ms=PATIENCE_MS) for _ in range(5)))
    assert {reply.stdout for reply in replies} == {"for all\n"}


@pytest.mark.also_remote("cancellation")
async def test_cancelled_call_leaves_the_run_running(bash: SessionHandle, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    call = asyncio.create_task(bash.exec(f"echo begun; cat {release}; echo ended", timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
    with refused(ErrorCode.BUSY) as caught:
        await bash.exec("echo other")
    assert caught.value.retryable
    await asyncio.to_thread(release.write_text, "")
    reply = await bash.wait(caught.value.details["block_id"], timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("begun\nended\n", 0)


@pytest.mark.also_remote("error details")
async def test_second_run_is_refused_as_busy(bash: SessionHandle, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    runs = [asyncio.create_task(bash.exec(f"cat {release}; echo {number}", timeout_ms=PATIENCE_MS)) for number in range(5)]
    ended = asyncio.as_completed(runs)
    for _ in range(4):
        with refused(ErrorCode.BUSY):
            await next(ended)
    await asyncio.to_thread(release.write_text, "")
    assert (await next(ended)).exit_code == 0


@pytest.mark.also_remote("error")
async def test_unknown_block_is_not_found(bash: SessionHandle) -> None:
    with refused(ErrorCode.NOT_FOUND, "9_9"):
        await bash.wait("9_9")


async def test_ended_run_can_be_queried_after_close(bash: SessionHandle) -> None:
    done = await bash.exec("echo done; (exit 2)")
    running = await bash.exec("echo begun; sleep 60", timeout_ms=0)
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    await bash.close(force=True)
    again = await execute(bash, block_id=done.block_id)
    assert (again.stdout, again.exit_code) == ("done\n", 2)
    cut = await execute(bash, block_id=running.block_id)
    assert (cut.stdout, cut.exit_code, cut.done_reason) == ("begun\n", None, "cancelled")


@pytest.mark.also_remote("error of a waiting call")
async def test_close_ends_waiting_calls(bash: SessionHandle) -> None:
    call = asyncio.create_task(bash.exec("echo begun; sleep 60", timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    await bash.close(force=True)
    reply = await call
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("cancelled", "begun\n", None)


async def test_cancel_after_interrupts_the_run(bash: SessionHandle, strategy: str) -> None:
    reply = await bash.exec("echo begun; sleep 60; echo never", cancel_after_ms=2_000, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "cancelled"
    expected = (130, None) if strategy == "marks" else (None, "interrupted")
    assert (reply.exit_code, reply.exit_code_reason) == expected
    assert reply.stdout.startswith("begun\n")
    assert "never" not in reply.stdout
    assert 2_000 <= reply.duration_ms < PATIENCE_MS
    reply = await bash.exec("echo quick", cancel_after_ms=5_000)
    assert (reply.stdout, reply.done_reason) == ("quick\n", strategy)


async def test_cancel_after_applies_without_a_waiting_call(bash: SessionHandle) -> None:
    first = await bash.exec("sleep 60", cancel_after_ms=500, timeout_ms=0)
    reply = await bash.wait(first.block_id, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "cancelled"


async def test_command_that_handles_interrupt_continues(bash: SessionHandle, strategy: str) -> None:
    running = asyncio.create_task(
        bash.exec("sh -c 'trap \"echo caught\" INT; echo ready; sleep 20; echo ended; exit 6'", timeout_ms=PATIENCE_MS)
    )
    ready = await read(bash, cursor="0", until_regex="(?m)^ready\n", timeout_ms=PATIENCE_MS)
    await read(bash, cursor=ready.next_cursor, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await bash.key("ctrl_c")
    reply = await running
    assert (reply.done_reason, reply.exit_code) == (strategy, 6)
    assert reply.stdout.endswith("caught\nended\n")


async def test_waiting_after_ignored_interrupt_uses_no_cpu(bash: SessionHandle) -> None:
    running = asyncio.create_task(
        bash.exec("sh -c 'trap \"\" INT; echo ready; sleep 1.5'; (exit 3)", timeout_ms=PATIENCE_MS, until_idle_ms=10_000)
    )
    assert (await read(bash, cursor="0", until_regex="(?m)^ready\n", timeout_ms=PATIENCE_MS)).matched
    await bash.key("ctrl_c")
    before = time.process_time()
    reply = await running
    assert reply.exit_code == 3
    assert time.process_time() - before < 0.7


async def test_until_regex_ignores_the_echo(bash: SessionHandle, strategy: str) -> None:
    reply = await bash.exec("sleep 0.5 && echo done", until_regex="done", timeout_ms=PATIENCE_MS)
    assert reply.done_reason in ("until_regex", strategy)  # its end may come with the match
    assert reply.stdout.strip() == "done"
    assert reply.duration_ms >= 500
    assert reply.timed_out is False


async def test_until_regex_starts_at_the_output(bash: SessionHandle, strategy: str, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    for pattern in ("^hi", "^h", "(?m)^hi$"):
        reply = await bash.exec(f"echo hi; cat {release}", until_regex=pattern, timeout_ms=PATIENCE_MS)
        assert reply.done_reason == "until_regex"
        await asyncio.to_thread(release.write_text, "")
        await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    reply = await bash.exec("echo hi", until_regex="^never", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code) == (strategy, 0)  # the run's end ends the wait too


async def test_until_regex_matches_in_running_run(bash: SessionHandle, strategy: str, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    command = f"echo listening; cat {release}; echo closed; (exit 4)"
    reply = await bash.exec(command, until_regex="listening\n", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("until_regex", "listening\n", None)
    with refused(ErrorCode.BUSY, reply.block_id):
        await bash.exec("echo other")
    await asyncio.to_thread(release.write_text, "")
    reply = await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("listening\nclosed\n", 4, strategy)


async def test_until_idle_returns_after_silence(bash: SessionHandle) -> None:
    command = "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 60"
    reply = await bash.exec(command, until_idle_ms=2_000, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("until_idle", "1\n2\n3\n", None)
    await bash.key("ctrl_c")
    assert (await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)).done_reason == "cancelled"


async def test_run_waiting_for_input_is_reported(bash: SessionHandle) -> None:
    reply = await bash.exec("read -s -p 'Password: ' x; echo; echo got it", until_idle_ms=10_000, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.waiting_for_input, reply.stdout) == ("question", True, "Password: ")
    await bash.write("hunter2\n", sensitive=True)
    reply = await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.waiting_for_input) == ("Password: \ngot it\n", 0, None)


async def test_response_is_sent_for_each_match(bash: SessionHandle) -> None:
    reply = await bash.exec(
        'for i in 1 2 3; do read -p "go on $i? " x; echo "$x"; done; read -s -p \'Password: \' p; echo; echo ${#p}',
        responses=[{"match": r"go on \d\? ", "send": "yes\n"}, {"match": "Password: ", "send": "sécret\n", "sensitive": True}],
        timeout_ms=PATIENCE_MS,
    )
    assert reply.exit_code == 0
    assert [line for line in reply.stdout.split("\n") if not line.startswith("go on")] == [
        "yes",
        "yes",
        "yes",
        "Password: ",
        "6",
        "",
    ]


async def test_response_ignores_the_echo(bash: SessionHandle) -> None:
    reply = await bash.exec(
        'echo one; sleep 0.3; read -t 1 x <&0; echo "<$x>" # Password:',
        responses=[{"match": "Password:", "send": "secret\n"}],
        timeout_ms=PATIENCE_MS,
    )
    assert reply.stdout == "one\n<>\n"


@pytest.mark.parametrize("pattern", ["x*", "", r"\b", "$", "(?m)^"])
async def test_response_to_empty_match_is_never_sent(bash: SessionHandle, pattern: str) -> None:
    if not pattern:
        with refused(ErrorCode.INVALID_ARGUMENT, "responses"):
            await bash.exec("true", responses=[{"match": pattern, "send": "spam\n"}])
        return
    reply = await bash.exec("sleep 0.3; echo end", responses=[{"match": pattern, "send": "spam\n"}], timeout_ms=PATIENCE_MS)
    assert reply.stdout == "end\n"


async def test_session_end_during_response_ends_the_run(bash: SessionHandle) -> None:
    reply = await bash.exec(
        "echo question; exit 5", responses=[{"match": "question", "send": "answer\n" * 1_000}], timeout_ms=PATIENCE_MS
    )
    assert (reply.exit_code, reply.done_reason) == (5, "eof")


class Reports:
    """The times of progress reports. `complete` is set when one reports at least `size` received bytes."""

    def __init__(self, size: int) -> None:
        self.seconds: list[float] = []
        self.complete = asyncio.Event()
        self._size = size

    def __call__(self, received: int, seconds: float) -> None:
        self.seconds.append(seconds)
        if received >= self._size:
            self.complete.set()


@pytest.mark.also_remote("progress")
async def test_long_wait_reports_progress(bash: SessionHandle, open_session: Open, tmp_path: Path) -> None:
    other = await open_session()
    os.mkfifo(tmp_path / "release")
    of_exec, of_read = Reports(len("begun\r\n")), Reports(0)
    run = ExecRequest.of(
        {"session_id": bash.session_id, "cmd": f"echo begun; cat {tmp_path}/release", "timeout_ms": PATIENCE_MS}
    )
    wait = IoRequest.of({"session_id": other.session_id, "action": "read", "until_regex": "never", "timeout_ms": PATIENCE_MS})
    begun = time.monotonic()
    calls = [asyncio.create_task(bash.controller.exec(run, of_exec)), asyncio.create_task(bash.controller.io(wait, of_read))]
    async with asyncio.timeout(PATIENCE_MS / 1000):
        await of_exec.complete.wait()
        await of_read.complete.wait()
    for reports in (of_exec, of_read):
        assert len(reports.seconds) <= time.monotonic() - begun  # about one a second
        assert reports.seconds[0] >= 1
    await asyncio.to_thread((tmp_path / "release").write_text, "")
    await other.close(force=True)
    await asyncio.gather(*calls)
