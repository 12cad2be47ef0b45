"""Runs: they belong to the session, and calls only wait for them."""

from __future__ import annotations

import asyncio
import time

import pytest

from ptyctl.api import ErrorCode, ExecRequest, IoRequest
from ptyctl.api.handle import SessionHandle
from tests.controller.acting import PATIENCE_MS, Open, execute, read, refused


@pytest.fixture(params=["marks", "marker"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_timeout_leaves_the_run_going(bash: SessionHandle, way: str) -> None:
    first = await bash.exec("echo begun; sleep 0.6; echo ended; (exit 5)", timeout_ms=300)
    assert (first.done_reason, first.timed_out, first.exit_code, first.stdout) == ("timeout", True, None, "begun\n")
    assert first.exit_code_reason
    assert (await bash.status()).mode == "block_running"
    second = await bash.wait(first.block_id, timeout_ms=50)
    assert (second.done_reason, second.stdout, second.block_id) == ("timeout", "begun\n", first.block_id)
    third = await bash.wait(first.block_id, timeout_ms=PATIENCE_MS)
    assert (third.done_reason, third.timed_out, third.exit_code) == (way, False, 5)
    assert third.stdout == "begun\nended\n"
    assert third.cursor == first.cursor
    assert third.duration_ms >= 600
    assert (await bash.status()).mode == "idle"
    again = await bash.wait(first.block_id, timeout_ms=0)  # it can be asked for as often as one likes
    assert again.payload() == third.payload()


async def test_several_wait_for_one_run(bash: SessionHandle) -> None:
    first = await bash.exec("sleep 0.5; echo for all", timeout_ms=0)
    replies = await asyncio.gather(*(bash.wait(first.block_id, timeout_ms=PATIENCE_MS) for _ in range(5)))
    assert {reply.stdout for reply in replies} == {"for all\n"}


async def test_a_call_that_is_cancelled_leaves_the_run_going(bash: SessionHandle) -> None:
    call = asyncio.create_task(bash.exec("echo begun; sleep 0.5; echo ended", timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
    with refused(ErrorCode.BUSY) as caught:
        await bash.exec("echo other")
    assert caught.value.retryable
    reply = await bash.wait(caught.value.details["block_id"], timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("begun\nended\n", 0)


async def test_one_run_at_a_time(bash: SessionHandle) -> None:
    results = await asyncio.gather(
        *(bash.exec(f"echo {number}; sleep 0.6", timeout_ms=PATIENCE_MS) for number in range(5)), return_exceptions=True
    )
    errors = [result for result in results if isinstance(result, BaseException)]
    assert len(errors) == 4
    assert {getattr(error, "code", None) for error in errors} == {ErrorCode.BUSY}


async def test_a_block_that_is_unknown(bash: SessionHandle) -> None:
    with refused(ErrorCode.NOT_FOUND, "9_9"):
        await bash.wait("9_9")


async def test_runs_that_have_ended_can_still_be_asked_for_after_the_close(bash: SessionHandle) -> None:
    done = await bash.exec("echo done; (exit 2)")
    running = await bash.exec("echo begun; sleep 60", timeout_ms=300)
    await bash.close(force=True)
    again = await execute(bash, block_id=done.block_id)
    assert (again.stdout, again.exit_code) == ("done\n", 2)
    cut = await execute(bash, block_id=running.block_id)
    assert (cut.stdout, cut.exit_code, cut.done_reason) == ("begun\n", None, "cancelled")


async def test_a_call_that_waits_when_the_session_is_closed(bash: SessionHandle) -> None:
    call = asyncio.create_task(bash.exec("echo begun; sleep 60", timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    await bash.close(force=True)
    reply = await call
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("cancelled", "begun\n", None)


async def test_cancel_after_interrupts(bash: SessionHandle, way: str) -> None:
    reply = await bash.exec("echo begun; sleep 60; echo never", cancel_after_ms=500, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "cancelled"
    expected = (130, None) if way == "marks" else (None, "interrupted")
    assert (reply.exit_code, reply.exit_code_reason) == expected
    assert reply.stdout.startswith("begun\n")
    assert "never" not in reply.stdout
    assert 500 <= reply.duration_ms < PATIENCE_MS
    reply = await bash.exec("echo quick", cancel_after_ms=5_000)
    assert (reply.stdout, reply.done_reason) == ("quick\n", way)


async def test_cancel_after_counts_also_when_nobody_waits(bash: SessionHandle) -> None:
    first = await bash.exec("sleep 60", cancel_after_ms=500, timeout_ms=0)
    reply = await bash.wait(first.block_id, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "cancelled"


async def test_a_command_that_takes_the_interrupt_goes_on(bash: SessionHandle, way: str) -> None:
    running = asyncio.create_task(
        bash.exec("sh -c 'trap \"echo caught\" INT; echo ready; sleep 1; echo ended; exit 6'", timeout_ms=PATIENCE_MS)
    )
    ready = await read(bash, cursor="0", until_regex="(?m)^ready\n", timeout_ms=PATIENCE_MS)
    await read(bash, cursor=ready.next_cursor, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await bash.key("ctrl_c")
    reply = await running
    assert (reply.done_reason, reply.exit_code) == (way, 6)
    assert reply.stdout.endswith("caught\nended\n")


async def test_waiting_for_a_command_that_ignored_the_interrupt_costs_nothing(bash: SessionHandle) -> None:
    running = asyncio.create_task(
        bash.exec("sh -c 'trap \"\" INT; echo ready; sleep 1.5'; (exit 3)", timeout_ms=PATIENCE_MS, until_idle_ms=10_000)
    )
    assert (await read(bash, cursor="0", until_regex="(?m)^ready\n", timeout_ms=PATIENCE_MS)).matched
    await bash.key("ctrl_c")
    before = time.process_time()
    reply = await running
    assert reply.exit_code == 3
    assert time.process_time() - before < 0.7


async def test_until_regex_is_not_found_in_the_echo(bash: SessionHandle, way: str) -> None:
    reply = await bash.exec("sleep 0.5 && echo done", until_regex="done", timeout_ms=PATIENCE_MS)
    assert reply.done_reason in ("until_regex", way)  # its end may come with the match
    assert reply.stdout.strip() == "done"
    assert reply.duration_ms >= 500
    assert reply.timed_out is False


async def test_until_regex_begins_where_the_output_begins(bash: SessionHandle, way: str) -> None:
    for pattern in ("^hi", "^h", "(?m)^hi$"):
        reply = await bash.exec("echo hi; sleep 0.3", until_regex=pattern, timeout_ms=PATIENCE_MS)
        assert reply.done_reason == "until_regex"
        await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    reply = await bash.exec("echo hi", until_regex="^never", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code) == (way, 0)  # the run's end ends the wait too


async def test_until_regex_in_a_run_that_still_goes_on(bash: SessionHandle, way: str) -> None:
    reply = await bash.exec("echo listening; sleep 1; echo closed; (exit 4)", until_regex="listening\n", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("until_regex", "listening\n", None)
    with refused(ErrorCode.BUSY, reply.block_id):
        await bash.exec("echo other")
    reply = await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("listening\nclosed\n", 4, way)


async def test_until_idle(bash: SessionHandle) -> None:
    command = "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 60"
    reply = await bash.exec(command, until_idle_ms=700, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.stdout, reply.exit_code) == ("until_idle", "1\n2\n3\n", None)
    await bash.key("ctrl_c")
    assert (await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)).done_reason == "cancelled"


async def test_a_run_that_waits_for_an_answer_says_so(bash: SessionHandle) -> None:
    reply = await bash.exec("read -s -p 'Password: ' x; echo; echo got it", until_idle_ms=500, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.waiting_for_input, reply.stdout) == ("until_idle", True, "Password: ")
    await bash.write("hunter2\n", sensitive=True)
    reply = await bash.wait(reply.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.waiting_for_input) == ("Password: \ngot it\n", 0, None)


async def test_responses_are_sent_each_time_their_match_appears(bash: SessionHandle) -> None:
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


async def test_a_response_is_not_for_the_echo(bash: SessionHandle) -> None:
    reply = await bash.exec(
        'echo one; sleep 0.3; read -t 1 x <&0; echo "<$x>" # Password:',
        responses=[{"match": "Password:", "send": "secret\n"}],
        timeout_ms=PATIENCE_MS,
    )
    assert reply.stdout == "one\n<>\n"


@pytest.mark.parametrize("pattern", ["x*", "", r"\b", "$", "(?m)^"])
async def test_a_response_to_nothing_is_never_sent(bash: SessionHandle, pattern: str) -> None:
    if not pattern:
        with refused(ErrorCode.INVALID_ARGUMENT, "responses"):
            await bash.exec("true", responses=[{"match": pattern, "send": "spam\n"}])
        return
    reply = await bash.exec("sleep 0.3; echo end", responses=[{"match": pattern, "send": "spam\n"}], timeout_ms=PATIENCE_MS)
    assert reply.stdout == "end\n"


async def test_a_session_that_ends_under_a_response(bash: SessionHandle) -> None:
    reply = await bash.exec(
        "echo question; exit 5", responses=[{"match": "question", "send": "answer\n" * 1_000}], timeout_ms=PATIENCE_MS
    )
    assert (reply.exit_code, reply.done_reason) == (5, "eof")


async def test_rc_mode_off(bash: SessionHandle) -> None:
    reply = await bash.exec("echo plain; (exit 3)", rc_mode={"enabled": False}, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason, reply.prompt_detected) == ("plain\n", None, "prompt", True)
    assert reply.exit_code_reason == "rc_mode is off"
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    assert "printf" not in shown
    reply = await bash.exec("echo coded; (exit 3)")
    assert (reply.stdout, reply.exit_code) == ("coded\n", 3)


async def test_rc_mode_on_for_what_is_not_known_as_a_shell(open_session: Open) -> None:
    handle = await open_session(command=("env", *("bash", "--norc", "--noprofile")))
    reply = await handle.exec("echo hi; (exit 3)", rc_mode={"enabled": True})
    assert (reply.stdout, reply.exit_code) == ("hi\n", 3)


async def test_rc_mode_with_a_marker_of_ones_own(bash: SessionHandle) -> None:
    mode = {"marker_prefix": "%%begin 'of' [it] ", "marker_suffix": " \\end é"}
    for command, output, code in (("echo hi", "hi\n", 0), ("printf x; (exit 9)", "x", 9), ("seq 1 30000", None, 0)):
        reply = await bash.exec(command, rc_mode=mode, timeout_ms=PATIENCE_MS)
        assert (reply.exit_code, reply.done_reason) == (code, "marker")
        assert reply.stdout == output or reply.stdout.startswith("1\n2\n")
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    assert "%%begin 'of' [it] " in shown


async def test_lines_one_after_another(bash: SessionHandle) -> None:
    reply = await execute(bash, lines=["x=1", "echo $x", "", "pwd >/dev/null"], timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "prompt"
    assert reply.exit_code is None
    assert "\n1\n" in reply.stdout
    assert reply.failed_line is None


@pytest.mark.parametrize("on_error", [None, "stop", "continue"])
async def test_lines_stop_at_an_error_unless_told_otherwise(bash: SessionHandle, on_error: str | None) -> None:
    fields = {} if on_error is None else {"on_error": on_error}
    reply = await execute(
        bash,
        lines=["echo one", "no_such_command", "echo 'th'ree", "nor_this"],
        expect={"error_regexes": ["command not found"]},
        timeout_ms=PATIENCE_MS,
        **fields,
    )
    assert reply.failed_line == "no_such_command"
    assert ("three\n" in reply.stdout) == (on_error == "continue")
    assert len(reply.error_hints) == (2 if on_error == "continue" else 1)


async def test_a_background_job_does_not_hold_the_run(bash: SessionHandle) -> None:
    reply = await bash.exec("sleep 30 & echo started", timeout_ms=PATIENCE_MS)
    assert reply.exit_code == 0
    assert reply.stdout.endswith("started\n")
    assert (await bash.exec("kill %1; wait %1 2>/dev/null; echo gone")).stdout.endswith("gone\n")


async def test_a_program_that_is_no_shell_is_answered_by_its_prompt(open_session: Open) -> None:
    handle = await open_session(command=("python3", "-i", "-q", "-S", "-E", "-c", ""), env={"PYTHON_BASIC_REPL": "1"})
    reply = await handle.exec("print(6 * 7)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.done_reason, reply.exit_code) == ("42\n", "prompt", None)
    assert reply.exit_code_reason
    assert (await handle.exec("'é' * 3", timeout_ms=PATIENCE_MS)).stdout == "'ééé'\n"
    reply = await handle.exec("raise SystemExit(4)", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (4, "eof")


@pytest.mark.parametrize("command", ["cat; exit"])
async def test_a_program_without_a_prompt_is_taken_by_its_silence(open_session: Open, command: object) -> None:
    handle = await open_session(command=command)
    reply = await handle.exec("echo; this is no command", until_idle_ms=300, timeout_ms=PATIENCE_MS)
    assert reply.done_reason in ("idle", "until_idle")
    assert (reply.exit_code, reply.stdout) == (None, "echo; this is no command\n")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("bash --norc --noprofile", "marker"),
        ("exec bash --norc --noprofile", "marker"),
        (("/bin/bash", "--norc", "-i"), "marks"),
        (("/bin/bash", "--norc", "-l"), "marker"),
    ],
)
async def test_shells_however_they_were_started(open_session: Open, command: object, reason: str) -> None:
    handle = await open_session(command=command)
    reply = await handle.exec("echo hi; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 3, reason)


async def test_who_waits_long_hears_of_progress(bash: SessionHandle, open_session: Open) -> None:
    other = await open_session()
    of_exec: list[tuple[int, float]] = []
    of_read: list[tuple[int, float]] = []
    run = ExecRequest.of({"session_id": bash.session_id, "cmd": "echo begun; sleep 1.3"})
    wait = IoRequest.of({"session_id": other.session_id, "action": "read", "until_regex": "never", "timeout_ms": 1_300})
    await asyncio.gather(
        bash.controller.exec(run, lambda received, seconds: of_exec.append((received, seconds))),
        bash.controller.io(wait, lambda received, seconds: of_read.append((received, seconds))),
    )
    for told in (of_exec, of_read):
        assert len(told) == 1  # about one a second
        assert told[0][1] >= 1
    assert of_exec[0][0] >= len("begun\r\n")
