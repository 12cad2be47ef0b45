"""Shells with marks: blocks of executed and typed commands, and output that looks like marks."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import Controller, ErrorCode
from ptyctl.api.handle import SessionHandle, call_pty
from ptyctl.api.pty import PtyExecBlock, PtyReply, PtyWaitPrompt
from tests.controller.marked_shells import SENTINEL, block_of, blocks, in_each, settled, spool
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, refused, write


@in_each
async def test_each_command_makes_one_prompt_and_one_block(shell: SessionHandle) -> None:
    codes = [0, 3, 1, 255]
    for code in codes:
        assert (await shell.exec(f"sh -c 'exit {code}'")).exit_code == code
    lines = [line for line in (await spool(shell)).split("\n") if line.startswith(SENTINEL)]
    assert [line.rpartition("exit=")[2] for line in lines] == ["0", *map(str, codes)]
    assert [(block.exit_code, block.status, block.origin) for block in await blocks(shell)] == [
        (code, "completed", "exec") for code in codes
    ]


@in_each
@pytest.mark.parametrize("command", ["echo one", "sh -c 'echo out; exit 4'", "echo 'a b'; false"])
async def test_typed_command_makes_a_block(shell: SessionHandle, command: str) -> None:
    await settled(shell)
    await write(shell, data=command + "\n")
    block = await block_of(shell, 1)
    code = 4 if "exit 4" in command else 1 if "false" in command else 0
    assert (block.origin, block.cmd, block.exit_code, block.status) == ("typed", command, code, "completed")
    assert (await shell.exec("echo after")).stdout == "after\n"


@in_each
async def test_typed_block_has_the_edited_command(shell: SessionHandle) -> None:
    await shell.exec("true")
    await settled(shell)
    long = "echo " + " ".join(f"word{number}" for number in range(60))  # wider than the screen
    for number, (typed, command) in enumerate((("echo onX\x7fe\n", "echo one"), (long + "\n", long)), start=2):
        await write(shell, data=typed)
        assert (await block_of(shell, number)).cmd == command
        await settled(shell)


async def test_typed_multi_line_command_is_one_block(bash: SessionHandle) -> None:
    for line in ("for i in 1 2", "do echo $i", "done"):  # as a person does: typed ahead, a terminal shows it in between
        await settled(bash)
        await write(bash, data=line + "\n")
    block = await block_of(bash, 1)
    assert (block.origin, block.cmd) == ("typed", "for i in 1 2\ndo echo $i\ndone")
    assert len(await blocks(bash)) == 1


@in_each
async def test_ctrl_c_at_empty_prompt_makes_no_block(shell: SessionHandle) -> None:
    await shell.exec("true")
    for _ in range(3):
        await settled(shell)
        await shell.key("ctrl_c")
    await settled(shell)
    reply = await shell.exec("echo after; sh -c 'exit 6'")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("after\n", 6, "marks")
    assert len(await blocks(shell)) == 2


@in_each
@pytest.mark.parametrize("command", ["if true", "echo 'open", 'echo "open', "echo (", "for x in y; do", "echo one\nif true"])
async def test_incomplete_command_is_a_syntax_error(shell: SessionHandle, command: str) -> None:
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks"
    assert (reply.exit_code or 0) > 0
    assert reply.stdout
    assert (await shell.exec("echo after")).stdout == "after\n"


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("program", ["bash", "zsh"])
async def test_job_is_named_by_its_number(open_session: Open, tmp_path: Path, program: str, integration: str) -> None:
    """zsh counts an eval as a job."""
    (tmp_path / ".zshrc").touch()
    command = (require_program(program, program),)
    handle = await open_session(command=command, shell_integration=integration, env={"ZDOTDIR": str(tmp_path)})
    reply = await handle.exec("sleep 1000 & kill %1; wait", timeout_ms=PATIENCE_MS)
    assert (reply.timed_out, reply.exit_code) == (False, 0)
    assert (await handle.exec("sleep 1000 &", timeout_ms=PATIENCE_MS)).exit_code == 0
    assert (await handle.exec("kill %1", timeout_ms=PATIENCE_MS)).exit_code == 0


async def test_marks_printed_by_a_program_are_ignored(bash: SessionHandle) -> None:
    for text in ("7717;x;1;P;0;;/", "7717;;9;E;5", "7717", "7717;0123456789abcdef;99;B", "133;A", "133;D;7"):
        reply = await bash.exec(f"printf '\\033]{text}\\007'; echo real; (exit 4)")
        assert (reply.stdout, reply.exit_code) == ("real\n", 4)
    reply = await bash.exec("printf '__FWS_PROMPT__ ts=1 cwd_b64= exit=9\\n'; sleep 0.3; (exit 2)")
    assert (reply.stdout, reply.exit_code) == ("__FWS_PROMPT__ ts=1 cwd_b64= exit=9\n", 2)


@in_each
@pytest.mark.parametrize("name", ["output.raw", "output.spool"])
async def test_printing_own_transcript_makes_no_blocks(shell: SessionHandle, name: str) -> None:
    for number in range(5):
        await shell.exec(f"echo line {number}; sh -c 'exit {number}'")
    folder = Path((await blocks(shell))[0].output_path).parent.parent
    await settled(shell)
    reply = await shell.exec(f"head -c 1500 {folder}/{name}; sh -c 'exit 9'", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (9, "marks")
    assert "line 1" in reply.stdout
    assert len(await blocks(shell)) == 6
    reply = await shell.exec("echo after")
    assert (reply.stdout, reply.exit_code) == ("after\n", 0)


async def test_failing_command_under_set_e_ends_the_shell(bash: SessionHandle) -> None:
    await bash.exec("set -e")
    reply = await bash.exec("echo last; (exit 5)", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (5, "eof")
    with refused(ErrorCode.REMOTE_CLOSED):
        await bash.exec("echo more")


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
@pytest.mark.parametrize("command", ["x=5", "break", "echo $?", "&& true"])
async def test_command_refused_by_fish_ends_the_run(shell: SessionHandle, command: str) -> None:
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks"
    assert (reply.exit_code or 0) > 0
    assert reply.stdout


@pytest.mark.parametrize(
    ("shell", "command"),
    [("bash", "set -x"), ("zsh", "setopt xtrace"), ("zsh", "trap 'echo heard' DEBUG"), ("fish", "set -g fish_trace 1")],
    indirect=["shell"],
)
async def test_tracing_does_not_show_the_integration(shell: SessionHandle, command: str) -> None:
    await shell.exec("cd /usr")
    await shell.exec(command)
    for line, code in (("echo hi", 0), ("sh -c 'exit 3'", 3)):
        reply = await shell.exec(line)
        assert (reply.exit_code, reply.done_reason) == (code, "marks")
        assert len(reply.stdout.splitlines()) <= 3
        assert "ptyctl" not in reply.stdout


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
async def test_user_function_does_not_break_fish_marks(shell: SessionHandle) -> None:
    await shell.exec("function printf; end")
    reply = await shell.exec("echo hi; sh -c 'exit 3'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 3, "marks")


@in_each
async def test_fifty_consecutive_blocks_are_exact(shell: SessionHandle) -> None:
    for number in range(50):
        reply = await shell.exec(f"echo {number}; sh -c 'exit {number}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"{number}\n", number, "marks")
    assert [block.exit_code for block in await blocks(shell)] == list(range(50))


@in_each
async def test_command_of_100_kilobytes_runs(shell: SessionHandle) -> None:
    words = " ".join(f"word{number}" for number in range(12_000))
    assert len(words) > 100_000
    reply = await shell.exec(f"echo {words} | wc -w", timeout_ms=50_000)
    assert (reply.stdout.strip(), reply.exit_code, reply.done_reason) == ("12000", 0, "marks")


@in_each
async def test_command_of_two_thousand_lines_is_one_block(shell: SessionHandle) -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(2_000)]
    command = "\n".join(f"echo '{line}'" for line in lines) + "\nsh -c 'exit 3'"
    reply = await shell.exec(command, timeout_ms=50_000, max_output_bytes=1_000_000)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("\n".join(lines) + "\n", 3, "marks")
    assert (await blocks(shell))[0].cmd == command


@in_each
async def test_argument_of_100_kilobytes_is_kept(shell: SessionHandle) -> None:
    text = "\n".join(f'{number}\t$HOME `id` "quoted" !{number} \x01 é' for number in range(3_500))
    assert len(text) > 100_000
    reply = await shell.exec(f"printf %s '{text}' | sha256sum", timeout_ms=50_000)
    assert (reply.stdout.split()[0], reply.exit_code) == (hashlib.sha256(text.encode()).hexdigest(), 0)


@in_each
async def test_spool_between_marks_is_the_output(shell: SessionHandle) -> None:
    for command, output in (("echo hi", b"hi\n"), ("printf 'a\\nb'", b"a\nb"), ("echo", b"\n")):
        reply = await shell.exec(command)
        assert (await spool(shell)).encode()[int(reply.cursor) : int(reply.next_cursor)] == output


@in_each
async def test_progress_bar_renders_as_one_line(shell: SessionHandle) -> None:
    script = r"i=0; while [ $i -le 100 ]; do printf '\r%3d%% [%s]' $i '====='; i=$((i+10)); done; echo"
    reply = await shell.exec(f'sh -c "{script}"'.replace("$", r"\$"))
    assert (reply.stdout, reply.exit_code) == ("100% [=====]\n", 0)


@in_each
async def test_background_job_does_not_end_a_run(shell: SessionHandle) -> None:
    assert (await shell.exec("sleep 0.3 &", timeout_ms=PATIENCE_MS)).exit_code == 0
    reply = await shell.exec("sleep 0.6; sh -c 'exit 2'", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (2, "marks")


@in_each
async def test_killed_shell_fails_the_block(shell: SessionHandle) -> None:
    pid = "$fish_pid" if (await shell.exec("echo $FISH_VERSION")).stdout.strip() else "$$"
    reply = await shell.exec(f"echo last words; kill -9 {pid}", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason, reply.stdout) == (137, "eof", "last words\n")


@in_each
async def test_prompt_mark_lines_are_not_in_reads(shell: SessionHandle, controller: Controller) -> None:
    for number in range(3):
        await shell.exec(f"echo line {number}")
    await settled(shell)
    whole = await spool(shell)
    assert whole.count(SENTINEL) == 4
    reply = await read(shell, cursor="0", timeout_ms=0)
    assert SENTINEL not in (reply.chunk or "")
    assert reply.chunk == "".join(line for line in whole.splitlines(keepends=True) if not line.startswith(SENTINEL))
    assert reply.next_cursor == str(len(whole.encode()))
    tail = await read(shell, mode="tail", max_lines=2)
    assert SENTINEL not in (tail.chunk or "")
    assert not (await read(shell, cursor="0", until_regex=SENTINEL, timeout_ms=0)).matched
    at = whole.encode().index(SENTINEL.encode())
    assert (await read(shell, cursor=str(at + 3), max_bytes=4, timeout_ms=0)).next_cursor == str(at + 7)
    run = await execute(shell, cmd="echo end", until_regex=SENTINEL, timeout_ms=PATIENCE_MS)
    assert run.done_reason == "marks"


@in_each
async def test_prompt_mark_reports_any_directory_name(shell: SessionHandle, tmp_path: Path) -> None:
    for name in ("plain", "two words", "100%25;x", "é€😀", "new\nline", "tab\there", "bell\x07esc\x1b]0;x"):
        folder = tmp_path / name
        folder.mkdir()
        await shell.exec("cd " + "'" + str(folder) + "'")
        last = [line for line in (await spool(shell)).split("\n") if line.startswith(SENTINEL)][-1]
        fields = dict(field.split("=", 1) for field in last.split()[1:])
        assert base64.b64decode(fields["cwd_b64"]).decode() == str(folder)
        assert int(fields["ts"]) > 0


@in_each
async def test_blanks_in_front_of_a_prompt_are_not_in_the_spool(shell: SessionHandle) -> None:
    """zsh and fish fill the rest of the line, so that the prompt begins a line also after output without a newline."""
    for _ in range(3):
        reply = await shell.exec("printf 'a%30sb\\n%30s\\nno newline' '' ''")
        assert reply.stdout.splitlines()[:2] == [f"a{'':30}b", f"{'':30}"]
    lines = (await spool(shell)).split("\n")
    assert lines.count(f"a{'':30}b") == 3
    assert not [line for line in lines if len(line) > 20 and line.endswith(" " * 9) and line.strip()]


@in_each
async def test_commands_in_a_directory_whose_name_is_no_utf8_are_stored(shell: SessionHandle, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9 \xff\x9c%"
    Path(os.fsdecode(folder), "below").mkdir(parents=True)
    pty = {"session_id": shell.session_id}
    await shell.exec(f"cd {tmp_path}/caf*")
    assert (await shell.exec("echo here")).stdout == "here\n"
    begun = await call_pty(shell.controller, PtyExecBlock.of({**pty, "cmd": "echo below", "cwd": "below"}), PtyReply)
    awaited = PtyWaitPrompt.of({**pty, "from_cursor": begun.resume_cursor, "timeout_ms": PATIENCE_MS})
    reply = await call_pty(shell.controller, awaited, PtyReply)
    shown = folder.decode("utf-8", "replace")
    assert reply.extra is not None
    assert reply.extra.cwd == f"{shown}/below"
    found = await blocks(shell)
    assert [block.cwd for block in found[1:]] == [shown, f"{shown}/below"]
    stored = Path(found[0].output_path).parents[1]
    assert (stored / "events.jsonl").read_text().count("agent_block_end") == len(found)
    assert (stored / "blocks.jsonl").read_text().count("ts_end") == len(found)
