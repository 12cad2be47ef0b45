"""The prompt guard on real shells: the next command runs alone, regardless of text in the line."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.session.clients import Client, serving
from ptyctl.session.line_reader import LineReader
from tests.controller.session_calls import PATIENCE_MS, Open, execute, execute_when_free, read, refused, until, write

pytestmark = pytest.mark.waits

SHELLS = {
    "bash": (("bash", "--norc", "--noprofile"), "set -o emacs"),
    "bash vi": (("bash", "--norc", "--noprofile"), "set -o vi"),
    "zsh": (("zsh",), "bindkey -e"),
    "zsh vi": (("zsh",), "bindkey -v"),
    "fish": (("fish", "--no-config"), "true"),
    "dash": (("dash",), "true"),
}
HALF = "touch HALF"
KEYS = {
    "half-typed text": HALF,
    "cursor at the start": f"{HALF}\x01",
    "escape, which is vi command mode": f"{HALF}\x1b",
    "escape alone": "\x1b",
    "reverse search": "\x12tru",
    "line of the history": "\x1b[A",
    "paste of two lines": "\x1b[200~touch HALF\ntouch HALF\x1b[201~",
    "heredoc": "cat <<E\n",
    "open quote": "echo 'a\n",
}


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No policy: it refuses a paste of several lines once keys were changed, which these tests type."""
    monkeypatch.setenv("PTYCTL_POLICY", "off")


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """A shell after one command, at its prompt, in an empty folder."""
    command, first = SHELLS[request.param]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    handle = await open_session(command=command, env={"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path)}, cwd=str(folder))
    await execute(handle, cmd=first, task_id="a", timeout_ms=PATIENCE_MS)
    assert (await read(handle, cursor="0", until_regex=r"[^\n]$", timeout_ms=PATIENCE_MS)).matched
    if command[0] in ("bash", "zsh"):  # dash has no line editor, and fish without its configuration no bracketed paste
        await until_editor_reads(tmp_path / "state" / "sessions" / handle.session_id / "output.raw")
    return handle


async def until_editor_reads(output: Path) -> None:
    """Wait until the line editor has turned bracketed paste on: it takes the lines of an earlier paste for typed ones."""

    async def reads() -> bool:
        data = output.read_bytes()
        return data.rfind(b"\x1b[?2004h") > data.rfind(b"\x1b[?2004l")

    await until(reads)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("shell", SHELLS, indirect=True)
async def test_exec_after_keys_of_another_task_runs_its_command_alone(shell: SessionHandle, keys: str, tmp_path: Path) -> None:
    begin = (await write(shell, "a", data=keys)).next_cursor
    if keys[0] != "\x1b":  # an escape alone shows nothing
        await read(shell, cursor=begin, timeout_ms=PATIENCE_MS)
    reply = await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "slow_prompt"),
    [("bash", "PROMPT_COMMAND='sleep 0.6'"), ("zsh vi", "precmd() { sleep 0.6; }")],
    indirect=["shell"],
)
async def test_exec_waits_for_the_prompt_that_answers_ctrl_c_however_late(
    shell: SessionHandle, slow_prompt: str, tmp_path: Path
) -> None:
    """The line feed of Ctrl-C comes at once; a command typed then would end with the prompt, and the status of Ctrl-C."""
    await execute(shell, cmd=slow_prompt, task_id="a", timeout_ms=PATIENCE_MS)
    await write(shell, "a", data=HALF)
    replies = [await execute(shell, cmd=f"echo {word}", task_id="b", timeout_ms=PATIENCE_MS) for word in ("one", "two")]
    assert [(reply.stdout, reply.exit_code) for reply in replies] == [("one\n", 0), ("two\n", 0)]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("shell", ["zsh vi"], indirect=True)
async def test_paste_after_changed_keys_is_sent_without_reading_the_screen(
    shell: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen shows the paste at its end. zsh submits a line of it if the next byte takes more than a second."""

    async def fail(*_: object) -> None:
        raise AssertionError("the screen was read within the paste")

    monkeypatch.setattr(LineReader, "read", fail)
    await write(shell, "a", data=KEYS["paste of two lines"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "zsh vi", "fish"], indirect=True)
async def test_exec_after_a_paste_that_was_typed_ahead_and_cut_runs_its_command_alone(
    shell: SessionHandle, tmp_path: Path
) -> None:
    """zsh shows a paste at its end: until then its line looks like the prompt alone."""
    await type_ahead(shell, f"\x1b[200~{HALF}", tmp_path / "begun")
    reply = await execute_when_free(shell, cmd="echo hi", task_id="b")
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "zsh vi", "fish"], indirect=True)
async def test_exec_after_an_incomplete_line_that_was_typed_ahead_runs_its_command_alone(
    shell: SessionHandle, tmp_path: Path
) -> None:
    """The prompt after the first line is not the answer to the second one."""
    await type_ahead(shell, f"true\n{HALF} \\\n", tmp_path / "begun")
    reply = await execute_when_free(shell, cmd="echo hi", task_id="b")
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert list((tmp_path / "folder").iterdir()) == []


async def type_ahead(shell: SessionHandle, keys: str, begun: Path) -> None:
    """Task A types keys while a command of task B runs, which creates the file `begun`; return after its end."""
    run = asyncio.create_task(execute(shell, cmd=f"touch {begun}; sleep 0.5", task_id="b", timeout_ms=PATIENCE_MS))

    async def runs() -> bool:
        return begun.exists()

    await until(runs)
    await write(shell, "a", data=keys)
    await run


@pytest.mark.parametrize("shell", ["fish"], indirect=True)
async def test_exec_ends_a_paste_that_was_cut_before_its_command(shell: SessionHandle, tmp_path: Path) -> None:
    await write(shell, "a", data=f"\x1b[200~{HALF}")
    assert (await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)).stdout == "hi\n"
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS, indirect=True)
async def test_cleared_text_is_reported_with_its_task_and_length(shell: SessionHandle) -> None:
    begin = (await write(shell, "a", data=HALF)).next_cursor
    await read(shell, cursor=begin, until_regex="HALF", timeout_ms=PATIENCE_MS)
    reply = await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert reply.notices == ["half-typed text of 10 characters by task a was cleared from the line before the next command"]


@pytest.mark.parametrize("shell", ["bash"], indirect=True)
async def test_cleared_text_of_another_principal_is_reported_with_it(shell: SessionHandle) -> None:
    with serving(Client(Principal("ci", Kind.AGENT, Role.OPERATOR))):
        begin = (await write(shell, "a", data=HALF)).next_cursor
        await read(shell, cursor=begin, until_regex="HALF", timeout_ms=PATIENCE_MS)
    reply = await execute(shell, cmd="echo hi", task_id="a", timeout_ms=PATIENCE_MS)
    assert reply.notices == [
        "half-typed text of 10 characters by task a of ci was cleared from the line before the next command"
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"], indirect=True)
async def test_key_that_a_program_read_causes_neither_interrupt_nor_notice(shell: SessionHandle, tmp_path: Path) -> None:
    require_program("less", "less")
    (tmp_path / "rows").write_text("".join(f"row {number}\n" for number in range(200)))
    await write(shell, "a", data=f"less {tmp_path}/rows\n")
    await read(shell, cursor="0", until_regex="(?m)^row 20", timeout_ms=PATIENCE_MS)
    end = (await write(shell, "a", data="q")).next_cursor

    async def is_idle() -> bool:
        return (await shell.status()).mode == "idle"

    await until(is_idle)
    reply = await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert reply.notices is None
    assert "^C" not in ((await read(shell, cursor=end, timeout_ms=0)).chunk or "")


async def test_exec_while_an_entered_command_begins_is_busy(open_session: Open) -> None:
    bash = await open_session()
    await execute(bash, cmd="true", timeout_ms=PATIENCE_MS)
    await write(bash, "a", data="sleep 30\n")
    with refused(ErrorCode.BUSY, "sleep 30"):
        await execute(bash, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    await write(bash, "a", key="ctrl_c")


async def test_text_typed_ahead_in_a_bash_without_marks_does_not_run(open_session: Open, tmp_path: Path) -> None:
    bash = await open_session(shell_integration="off", cwd=str(tmp_path))
    # the text is typed before the prompt, which is late
    await execute(bash, cmd="mkdir folder; cd folder; PROMPT_COMMAND='sleep 0.2'", task_id="a", timeout_ms=PATIENCE_MS)
    await write(bash, "a", data=f"sleep 0.5\n{HALF}")
    assert (await execute_when_free(bash, cmd="echo hi", task_id="b")).stdout == "hi\n"
    assert list((tmp_path / "folder").iterdir()) == []


NARROW = {"cols": 40, "rows": 24}
WRAPPED = f"{HALF} {'x' * 300}"
#: Shells without marks that draw the whole line again, whose prompt fills its row, or whose prompt is another one each time.
REDRAWN = {
    "fish": (("fish", "--no-config"), "true"),
    "fish with a wide prompt": (("fish", "--no-config"), f"function fish_prompt; echo -n '{'w' * 70}> '; end"),
    "dash with changing prompts": (("dash",), "PS1='n$(date +%N)$ '"),
}


@pytest.mark.parametrize("keys", [HALF, WRAPPED], ids=["in one row", "wrapped"])
@pytest.mark.parametrize(("command", "first"), REDRAWN.values(), ids=REDRAWN)
async def test_exec_in_an_unmarked_shell_clears_text_after_any_prompt(
    open_session: Open, tmp_path: Path, command: tuple[str, ...], first: str, keys: str
) -> None:
    require_program(command[0], command[0])
    (tmp_path / "folder").mkdir()
    shell = await open_session(command=command, shell_integration="off", cwd=str(tmp_path / "folder"), pty=NARROW)
    await execute(shell, cmd=first, task_id="a", timeout_ms=PATIENCE_MS)
    begin = (await write(shell, "a", data=keys)).next_cursor
    await read(shell, cursor=begin, until_idle_ms=100, timeout_ms=PATIENCE_MS)
    reply = await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert reply.notices == [
        f"half-typed text of {len(keys)} characters by task a was cleared from the line before the next command"
    ]
    assert list((tmp_path / "folder").iterdir()) == []


async def test_text_for_a_program_in_an_unmarked_shell_is_not_cleared(open_session: Open, tmp_path: Path) -> None:
    """A user has entered a line since the last command, so that something else than the shell may read."""
    dash = await open_session(command=("dash",), shell_integration="off", cwd=str(tmp_path))
    await execute(dash, cmd="PS1='n$(date +%N)$ '", task_id="a", timeout_ms=PATIENCE_MS)
    begin = (await write(dash, "a", data="printf 'give '; read answer\n")).next_cursor
    assert (await read(dash, cursor=begin, until_regex="give $", timeout_ms=PATIENCE_MS)).matched
    begin = (await write(dash, "a", data="half")).next_cursor
    assert (await read(dash, cursor=begin, until_regex="half$", timeout_ms=PATIENCE_MS)).matched
    with refused(ErrorCode.BUSY, "half-typed") as caught:
        await execute(dash, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert caught.value.details == {"reason": "half_typed"}


@pytest.mark.parametrize("command", [("bash", "--norc", "--noprofile"), ("zsh", "-f"), ("dash",)], ids=["bash", "zsh", "dash"])
async def test_command_of_an_unmarked_shell_that_reads_gets_no_text_of_a_repeated_exec(
    open_session: Open, command: tuple[str, ...]
) -> None:
    require_program(command[0], command[0])
    shell = await open_session(command=command, shell_integration="off", env={"HISTFILE": "/dev/null"})
    await execute(shell, cmd="true", task_id="a", timeout_ms=PATIENCE_MS)
    await read(shell, cursor="0", until_idle_ms=200, timeout_ms=PATIENCE_MS)
    begin = (await write(shell, "a", data="read answer\n")).next_cursor
    await read(shell, cursor=begin, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    for _ in range(3):
        with refused(ErrorCode.BUSY, "no prompt") as caught:
            await execute(shell, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "no_prompt"}
    await write(shell, "a", data="given\n")
    assert (await execute_when_free(shell, cmd="echo $answer", task_id="b")).stdout == "given\n"


async def test_exec_at_a_program_whose_first_prompt_is_late_waits_for_it(open_session: Open) -> None:
    program = "sleep 1.5; while printf 'dev1# ' && read line; do echo ran $line; done"
    device = await open_session(command=("python3", "-c", f"import os; os.execvp('sh', ['sh', '-c', {program!r}])"))
    replies = [await execute(device, cmd=cmd, timeout_ms=PATIENCE_MS) for cmd in ("one", "two")]
    assert [(reply.stdout, reply.done_reason) for reply in replies] == [("ran one\n", "prompt"), ("ran two\n", "prompt")]


async def test_key_typed_before_the_first_prompt_of_dash_is_refused_until_it_is_deleted(
    open_session: Open, tmp_path: Path
) -> None:
    """Nothing reads ^R before dash starts: the terminal echoes it, and no Ctrl-C of the session may end the program."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    start = f"trap '' INT; read -r go < {gate}; trap - INT; exec dash"
    dash = await open_session(command=("sh", "-c", start), env={"PS1": "here$ "})
    await write(dash, "a", data="\x12")
    with refused(ErrorCode.BUSY, "half-typed") as caught:
        await execute(dash, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert caught.value.details == {"reason": "half_typed"}
    assert "delete the typed line with Ctrl-U or Ctrl-C" in (caught.value.hint or "")
    with gate.open("w") as opened:
        opened.write("go\n")
    assert (await read(dash, cursor="0", until_regex=r"here\$ $", timeout_ms=PATIENCE_MS)).matched
    await write(dash, "a", key="ctrl_u")
    assert (await execute(dash, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


async def test_search_of_a_zsh_without_marks_is_left(open_session: Open) -> None:
    require_program("zsh", "zsh")
    zsh = await open_session(command=("zsh", "-f"), env={"HISTFILE": "/dev/null", "PS1": "here%% "})
    assert (await read(zsh, cursor="0", until_regex="here% $", timeout_ms=PATIENCE_MS)).matched
    await write(zsh, "a", data="\x12")
    assert (await read(zsh, cursor="0", until_regex="bck-i-search", timeout_ms=PATIENCE_MS)).matched
    assert (await execute(zsh, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


async def test_exec_at_a_program_that_prints_nothing_is_refused_unless_the_end_is_given(open_session: Open) -> None:
    cat = await open_session(command=("cat",))
    with refused(ErrorCode.BUSY, "no prompt") as caught:
        await execute(cat, cmd="one", timeout_ms=PATIENCE_MS)
    assert caught.value.details == {"reason": "no_prompt"}
    assert (await execute(cat, cmd="one", until_idle_ms=2_000, timeout_ms=PATIENCE_MS)).stdout == "one\n"


async def test_terminal_query_before_the_first_prompt_is_answered(open_session: Open) -> None:
    program = (
        "import os,sys,tty; tty.setraw(0); os.write(1, b'\\x1b[6n'); reply = b''\n"
        "while not reply.endswith(b'R'): reply += os.read(0, 1)\n"
        "os.system('stty sane'); print('dev1# ', end='', flush=True)\n"
        "for line in sys.stdin: print('ran', line, end='dev1# ', flush=True)"
    )
    device = await open_session(command=("python3", "-c", program))
    assert (await execute(device, cmd="one", timeout_ms=PATIENCE_MS)).stdout == "ran one\n"


@pytest.mark.parametrize(
    "fields", [{"cmd": "echo hi"}, {"cmd": "echo hi", "rc_mode": {"enabled": False}}, {"lines": ["echo hi"]}]
)
@pytest.mark.parametrize("program", ["tmux -S {folder}/socket -f /dev/null", "vim -n -u NONE", "less /etc/services"])
async def test_full_screen_program_typed_by_write_gets_no_command(
    open_session: Open, program: str, fields: dict[str, Any], runtime_dir: RuntimeDir
) -> None:
    require_program(program.split()[0], program.split()[0])
    env = {"PS1": "here$ ", "HISTFILE": "/dev/null", "SHELL": require_program("sh", "dash")}
    shell = await open_session(shell_integration="off", env=env)
    assert (await execute(shell, cmd="export PS1='here$ '", timeout_ms=PATIENCE_MS)).exit_code == 0
    await write(shell, "a", data=f"{program.format(folder=runtime_dir.path)}\n")  # a short path

    async def is_full_screen() -> bool:
        return (await read(shell, mode="screen", timeout_ms=0)).alt_screen or False

    await until(is_full_screen)
    for _ in range(2):
        with refused(ErrorCode.BUSY, "full-screen") as caught:
            await execute(shell, **fields, timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "editor"}
    if program.startswith("tmux"):  # its server is a daemon
        await write(shell, "a", data="tmux kill-server\n")
        await read(shell, cursor="0", until_regex=r"\[(server )?exited\]", timeout_ms=PATIENCE_MS)
