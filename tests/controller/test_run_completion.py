"""Detection of a run's end by exit code, prompt or silence, for one command and for several lines."""

from __future__ import annotations

import pytest

from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, each_strategy, execute, read

pytestmark = pytest.mark.waits

strategy = each_strategy


async def test_rc_mode_false_reports_no_exit_code(bash: SessionHandle) -> None:
    reply = await bash.exec("echo plain; (exit 3)", rc_mode={"enabled": False}, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason, reply.prompt_detected) == ("plain\n", None, "prompt", True)
    assert reply.exit_code_reason == "rc_mode is off"
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    assert "printf" not in shown
    reply = await bash.exec("echo coded; (exit 3)")
    assert (reply.stdout, reply.exit_code) == ("coded\n", 3)


async def test_rc_mode_true_works_for_unknown_program(open_session: Open) -> None:
    handle = await open_session(command=("env", *("bash", "--norc", "--noprofile")))
    reply = await handle.exec("echo hi; (exit 3)", rc_mode={"enabled": True})
    assert (reply.stdout, reply.exit_code) == ("hi\n", 3)


async def test_rc_mode_uses_callers_marker(bash: SessionHandle) -> None:
    mode = {"marker_prefix": "%%begin 'of' [it] ", "marker_suffix": " \\end é"}
    for command, output, code in (("echo hi", "hi\n", 0), ("printf x; (exit 9)", "x", 9), ("seq 1 30000", None, 0)):
        reply = await bash.exec(command, rc_mode=mode, timeout_ms=PATIENCE_MS)
        assert (reply.exit_code, reply.done_reason) == (code, "marker")
        assert reply.stdout == output or reply.stdout.startswith("1\n2\n")
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    assert "%%begin 'of' [it] " in shown


async def test_lines_run_in_order(bash: SessionHandle) -> None:
    reply = await execute(bash, lines=["x=1", "echo $x", "", "pwd >/dev/null"], timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "prompt"
    assert reply.exit_code is None
    assert "\n1\n" in reply.stdout
    assert reply.failed_line is None


@pytest.mark.parametrize("on_error", [None, "stop", "continue"])
async def test_lines_stop_at_error_unless_on_error_is_continue(bash: SessionHandle, on_error: str | None) -> None:
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


async def test_background_job_does_not_delay_the_end(bash: SessionHandle) -> None:
    reply = await bash.exec("sleep 30 & echo started", timeout_ms=PATIENCE_MS)
    assert reply.exit_code == 0
    assert reply.stdout.endswith("started\n")
    assert (await bash.exec("kill %1; wait %1 2>/dev/null; echo gone")).stdout.endswith("gone\n")


async def test_prompt_ends_run_in_other_program(open_session: Open) -> None:
    handle = await open_session(command=("python3", "-i", "-q", "-S", "-E", "-c", ""), env={"PYTHON_BASIC_REPL": "1"})
    reply = await handle.exec("print(6 * 7)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.done_reason, reply.exit_code) == ("42\n", "prompt", None)
    assert reply.exit_code_reason
    assert (await handle.exec("'é' * 3", timeout_ms=PATIENCE_MS)).stdout == "'ééé'\n"
    reply = await handle.exec("raise SystemExit(4)", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (4, "eof")


@pytest.mark.parametrize("command", ["cat; exit"])
async def test_silence_ends_run_without_prompt(open_session: Open, command: object) -> None:
    handle = await open_session(command=command)
    reply = await handle.exec("echo; this is no command", until_idle_ms=2_000, timeout_ms=PATIENCE_MS)
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
async def test_shell_is_recognized_however_started(open_session: Open, command: object, reason: str) -> None:
    handle = await open_session(command=command)
    reply = await handle.exec("echo hi; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 3, reason)
