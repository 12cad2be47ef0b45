"""Shells that announce their commands by themselves: what happens to them, and what others do that looks like it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path

import pytest

from fixtures.servers.programs import require, require_program
from ptyctl.api import Controller, ErrorCode
from ptyctl.api.blocks import Block
from ptyctl.api.handle import SessionHandle
from ptyctl.api.pty import BlocksSince, PtyReadSpool
from tests.controller.acting import PATIENCE_MS, Open, execute, read, refused, write

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh",),
    "fish": ("fish", "--no-config"),
}
SENTINEL = "__FWS_PROMPT__"


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    command = SHELLS[request.param]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").touch()
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path), "SHELL": require_program("bash", "bash")}
    return await open_session(command=command, env=env)


in_each = pytest.mark.parametrize("shell", SHELLS, indirect=True)


async def blocks(handle: SessionHandle) -> list[Block]:
    request = BlocksSince.of({"session_id": handle.session_id, "limit": 1000})
    return list((await handle.controller.pty(request)).items or ())  # type: ignore[union-attr]


async def spool(handle: SessionHandle) -> str:
    reply = await handle.controller.pty(
        PtyReadSpool.of({"session_id": handle.session_id, "from_cursor": 0, "max_bytes": 4_000_000})
    )
    return reply.data or ""


async def settled(handle: SessionHandle) -> None:
    """Waits until the shell shows its prompt, and nothing follows."""
    await read(handle, cursor="0", until_idle_ms=400, timeout_ms=PATIENCE_MS)


async def block_of(handle: SessionHandle, number: int) -> Block:
    """That block, once it has ended."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while len(found := await blocks(handle)) < number or found[number - 1].ts_end is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the Controller protocol has no event to await
    return found[number - 1]


@in_each
async def test_each_command_leaves_one_prompt_and_one_block(shell: SessionHandle) -> None:
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
async def test_what_is_typed_makes_a_block_too(shell: SessionHandle, command: str) -> None:
    await settled(shell)
    await write(shell, data=command + "\n")
    block = await block_of(shell, 1)
    code = 4 if "exit 4" in command else 1 if "false" in command else 0
    assert (block.origin, block.cmd, block.exit_code, block.status) == ("typed", command, code, "completed")
    assert (await shell.exec("echo after")).stdout == "after\n"


@in_each
async def test_a_typed_command_is_told_as_it_was_edited(shell: SessionHandle) -> None:
    await shell.exec("true")
    await settled(shell)
    long = "echo " + " ".join(f"word{number}" for number in range(60))  # wider than the screen
    for number, (typed, command) in enumerate((("echo onX\x7fe\n", "echo one"), (long + "\n", long)), start=2):
        await write(shell, data=typed)
        assert (await block_of(shell, number)).cmd == command
        await settled(shell)


async def test_a_typed_command_of_several_lines(bash: SessionHandle) -> None:
    for line in ("for i in 1 2", "do echo $i", "done"):  # as a person does: typed ahead, a terminal shows it in between
        await settled(bash)
        await write(bash, data=line + "\n")
    block = await block_of(bash, 1)
    assert (block.origin, block.cmd) == ("typed", "for i in 1 2\ndo echo $i\ndone")
    assert len(await blocks(bash)) == 1


@in_each
async def test_ctrl_c_at_an_empty_prompt_is_no_command(shell: SessionHandle) -> None:
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
async def test_a_command_that_is_not_whole_is_the_shells_syntax_error(shell: SessionHandle, command: str) -> None:
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks"
    assert (reply.exit_code or 0) > 0
    assert reply.stdout
    assert (await shell.exec("echo after")).stdout == "after\n"


async def test_a_program_that_prints_marks_changes_nothing(bash: SessionHandle) -> None:
    for text in ("7717;x;1;P;0;;/", "7717;;9;E;5", "7717", "7717;0123456789abcdef;99;B", "133;A", "133;D;7"):
        reply = await bash.exec(f"printf '\\033]{text}\\007'; echo real; (exit 4)")
        assert (reply.stdout, reply.exit_code) == ("real\n", 4)
    reply = await bash.exec("printf '__FWS_PROMPT__ ts=1 cwd_b64= exit=9\\n'; sleep 0.3; (exit 2)")
    assert (reply.stdout, reply.exit_code) == ("__FWS_PROMPT__ ts=1 cwd_b64= exit=9\n", 2)


@in_each
@pytest.mark.parametrize("name", ["output.raw", "output.spool"])
async def test_a_session_that_shows_its_own_transcript(shell: SessionHandle, name: str) -> None:
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


@in_each
async def test_a_shell_within_and_back_again(shell: SessionHandle) -> None:
    assert (await shell.exec("echo outer")).done_reason == "marks"
    reply = await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    assert "without marks" in (reply.exit_code_reason or "")
    for number in range(2):
        reply = await shell.exec(f"echo inner; (exit {number})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", number, "marker")
    reply = await shell.exec("exit 7", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (7, "marks")
    reply = await shell.exec("echo outer again; sh -c 'exit 3'")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer again\n", 3, "marks")


@in_each
async def test_a_fish_within_and_back_again(shell: SessionHandle) -> None:
    fish = require_program("fish", "fish")
    assert (await shell.exec(f"{fish} --no-config", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    for line, stdout, code in [
        ("echo $FISH_VERSION | string length -q; and echo inner", "inner\n", 0),
        ("sh -c 'exit 3'", "", 3),
        ("for n in 1 2\n\techo $n\nend", "1\n2\n", 0),
        ("echo " + "x" * 2_000, "x" * 2_000 + "\n", 0),
    ]:
        reply = await shell.exec(line, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (stdout, code, "marker"), line
    assert (await shell.exec("echo )", timeout_ms=PATIENCE_MS)).exit_code == 123
    assert (await shell.exec("exit 7", timeout_ms=PATIENCE_MS)).exit_code == 7
    assert (await shell.exec("echo outer again")).done_reason == "marks"


@in_each
@pytest.mark.parametrize("command", ["sudo -n -i", "sudo -n -s", "sudo -n -u root sh"])
async def test_another_user_s_shell_and_back_again(shell: SessionHandle, command: str) -> None:
    require_program("sudo", "sudo")
    require((await shell.exec("sudo -n true")).exit_code == 0, "sudo asks this user for a password")
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    assert "without marks" in (reply.exit_code_reason or "")
    for number in range(2):
        reply = await shell.exec(f"id -u; (exit {number})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("0\n", number, "marker")
    reply = await shell.exec("exit 7", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (7, "marks")
    assert reply.stdout.strip() in ("", "exit", "logout")
    reply = await shell.exec("echo outer again; sh -c 'exit 3'")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer again\n", 3, "marks")


async def test_what_another_user_s_program_asks_is_no_prompt(bash: SessionHandle) -> None:
    require_program("sudo", "sudo")
    require((await bash.exec("sudo -n true")).exit_code == 0, "sudo asks this user for a password")
    script = 'printf "Go on? [Y/n] "; read answer; echo "<$answer>"'
    asked = await bash.exec(f"sudo -n sh -c '{script}'", timeout_ms=1_500)
    assert asked.timed_out
    await write(bash, data="y\n")
    assert (await bash.wait(asked.block_id)).stdout == "Go on? [Y/n] y\n<y>\n"


@pytest.mark.parametrize("program", ["bash", "dash"])
async def test_a_shell_within_one_that_has_no_marks(open_session: Open, program: str) -> None:
    """Its prompt is another than the one that was learned, and so is the one that comes back."""
    outer = await open_session(command=(require_program(program, program),), shell_integration="off", env={"PS1": "outer$ "})
    assert (await outer.exec("PS1='outer$ '")).done_reason == "marker"
    reply = await outer.exec("PS1='inner$ ' sh", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    reply = await outer.exec("echo inner; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", 3, "marker")
    assert (await outer.exec("exit", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    reply = await outer.exec('echo "$PS1"; (exit 4)', timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer$ \n", 4, "marker")


@pytest.mark.parametrize("command", ["PROMPT_COMMAND=()", "unset PROMPT_COMMAND", "unset -f __ptyctl_prompt"])
async def test_marks_that_were_taken_away(bash: SessionHandle, command: str) -> None:
    await bash.exec("echo before")
    reply = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code) == ("prompt", None)
    assert reply.exit_code_reason
    reply = await bash.exec("echo after; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("after\n", 3, "marker")


async def test_a_failing_command_under_set_e_ends_the_shell(bash: SessionHandle) -> None:
    await bash.exec("set -e")
    reply = await bash.exec("echo last; (exit 5)", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (5, "eof")
    with refused(ErrorCode.REMOTE_CLOSED):
        await bash.exec("echo more")


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
@pytest.mark.parametrize("command", ["x=5", "break", "echo $?", "&& true"])
async def test_what_fish_refuses_to_run_ends_too(shell: SessionHandle, command: str) -> None:
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks"
    assert (reply.exit_code or 0) > 0
    assert reply.stdout


@pytest.mark.parametrize(
    ("shell", "command"),
    [("bash", "set -x"), ("zsh", "setopt xtrace"), ("zsh", "trap 'echo heard' DEBUG"), ("fish", "set -g fish_trace 1")],
    indirect=["shell"],
)
async def test_what_traces_commands_tells_nothing_of_the_marks(shell: SessionHandle, command: str) -> None:
    await shell.exec("cd /usr")
    await shell.exec(command)
    for line, code in (("echo hi", 0), ("sh -c 'exit 3'", 3)):
        reply = await shell.exec(line)
        assert (reply.exit_code, reply.done_reason) == (code, "marks")
        assert len(reply.stdout.splitlines()) <= 3
        assert "ptyctl" not in reply.stdout


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
async def test_a_function_in_place_of_what_fish_marks_are_made_with(shell: SessionHandle) -> None:
    await shell.exec("function printf; end")
    reply = await shell.exec("echo hi; sh -c 'exit 3'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 3, "marks")


@in_each
async def test_two_hundred_blocks_in_a_row(shell: SessionHandle) -> None:
    for number in range(200):
        reply = await shell.exec(f"echo {number}; sh -c 'exit {number}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"{number}\n", number, "marks")
    assert [block.exit_code for block in await blocks(shell)] == list(range(200))


@in_each
async def test_a_command_of_100_kilobytes(shell: SessionHandle) -> None:
    words = " ".join(f"word{number}" for number in range(12_000))
    assert len(words) > 100_000
    reply = await shell.exec(f"echo {words} | wc -w", timeout_ms=50_000)
    assert (reply.stdout.strip(), reply.exit_code, reply.done_reason) == ("12000", 0, "marks")


@in_each
async def test_a_command_of_two_thousand_lines(shell: SessionHandle) -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(2_000)]
    command = "\n".join(f"echo '{line}'" for line in lines) + "\nsh -c 'exit 3'"
    reply = await shell.exec(command, timeout_ms=50_000, max_output_bytes=1_000_000)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("\n".join(lines) + "\n", 3, "marks")
    assert (await blocks(shell))[0].cmd == command


@in_each
async def test_a_text_of_100_kilobytes_within_a_command(shell: SessionHandle) -> None:
    text = "\n".join(f'{number}\t$HOME `id` "quoted" !{number} \x01 é' for number in range(3_500))
    assert len(text) > 100_000
    reply = await shell.exec(f"printf %s '{text}' | sha256sum", timeout_ms=50_000)
    assert (reply.stdout.split()[0], reply.exit_code) == (hashlib.sha256(text.encode()).hexdigest(), 0)


@in_each
async def test_the_spool_has_nothing_but_the_output_between_the_marks(shell: SessionHandle) -> None:
    for command, output in (("echo hi", b"hi\n"), ("printf 'a\\nb'", b"a\nb"), ("echo", b"\n")):
        reply = await shell.exec(command)
        assert (await spool(shell)).encode()[int(reply.cursor) : int(reply.next_cursor)] == output


@in_each
async def test_a_progress_bar_is_one_line(shell: SessionHandle) -> None:
    script = r"i=0; while [ $i -le 100 ]; do printf '\r%3d%% [%s]' $i '====='; i=$((i+10)); done; echo"
    reply = await shell.exec(f'sh -c "{script}"'.replace("$", r"\$"))
    assert (reply.stdout, reply.exit_code) == ("100% [=====]\n", 0)


@in_each
async def test_background_jobs_end_nothing(shell: SessionHandle) -> None:
    assert (await shell.exec("sleep 0.3 &", timeout_ms=PATIENCE_MS)).exit_code == 0
    reply = await shell.exec("sleep 0.6; sh -c 'exit 2'", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (2, "marks")


@in_each
async def test_a_shell_that_is_killed(shell: SessionHandle) -> None:
    pid = "$fish_pid" if (await shell.exec("echo $FISH_VERSION")).stdout.strip() else "$$"
    reply = await shell.exec(f"echo last words; kill -9 {pid}", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason, reply.stdout) == (137, "eof", "last words\n")


@in_each
async def test_the_lines_of_prompt_marks_are_not_in_what_is_read(shell: SessionHandle, controller: Controller) -> None:
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
    reply = await execute(shell, cmd="echo end", until_regex=SENTINEL, timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks"


@in_each
async def test_the_prompt_marks_tell_the_directory_whatever_its_name(shell: SessionHandle, tmp_path: Path) -> None:
    for name in ("plain", "two words", "100%25;x", "é€😀", "new\nline", "tab\there", "bell\x07esc\x1b]0;x"):
        folder = tmp_path / name
        folder.mkdir()
        await shell.exec("cd " + "'" + str(folder) + "'")
        last = [line for line in (await spool(shell)).split("\n") if line.startswith(SENTINEL)][-1]
        fields = dict(field.split("=", 1) for field in last.split()[1:])
        assert base64.b64decode(fields["cwd_b64"]).decode() == str(folder)
        assert int(fields["ts"]) > 0


async def test_a_program_that_prints_the_exact_prompt_and_goes_on(open_session: Open) -> None:
    handle = await open_session(command=["bash", "--norc", "--noprofile"], env={"PS1": "here$ "})
    assert (await handle.exec("PS1='here$ '")).exit_code == 0
    reply = await handle.exec("printf 'here$ '; sleep 1.2; echo more; (exit 6)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("here$ more\n", 6, "marks")


@pytest.mark.parametrize("integration", ["auto", "off"])
async def test_a_builtin_that_asks_with_the_exact_prompt(open_session: Open, integration: str) -> None:
    """The shell itself is in front, but no line editor of its is."""
    handle = await open_session(shell_integration=integration)
    assert (await handle.exec("PS1='here$ '")).exit_code == 0
    asked = await handle.exec("read -p 'here$ ' answer; echo \"<$answer>\"; (exit 6)", timeout_ms=3_000)
    assert asked.timed_out
    await write(handle, data="mine\n")
    reply = await handle.wait(asked.block_id)
    assert (reply.stdout, reply.exit_code) == ("here$ mine\n<mine>\n", 6)
