"""Shell integration over SSH and Telnet: bash and zsh print marks; other shells use the marker strategy."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from fixtures.servers.telnetd import running_telnetd
from ptyctl import LocalController, SessionHandle
from ptyctl.api.blocks import Block, BlocksReply, BlocksSince
from ptyctl.api.handle import call_pty
from ptyctl.api.pty import PtyExecBlock
from tests.controller.session_calls import PATIENCE_MS, read, write
from tests.integration.concurrent_cases import run_cases
from tests.integration.test_ssh_exec import Start

BASH = ("bash", "--norc", "--noprofile")
ZSH = ("zsh", "-f", "-i")


async def block_of(session: SessionHandle, number: int) -> Block:
    """Wait until block `number` (from 1) has ended, and return it."""
    request = BlocksSince.of({"session_id": session.session_id, "limit": 1000})
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            items = (await call_pty(session.controller, request, BlocksReply)).items or ()
            if len(items) >= number and items[number - 1].ts_end is not None:
                return items[number - 1]
            await asyncio.sleep(0.02)  # the Controller protocol has no event to await


async def test_marks_are_the_default_over_ssh(start: Start) -> None:
    session = await start(*BASH, shell_integration=None)
    assert (await session.exec("echo far")).done_reason == "marks"


@pytest.mark.parametrize("command", [BASH, ZSH, ()])
async def test_marks_give_output_and_exit_code(start: Start, command: tuple[str, ...]) -> None:
    session = await start(*command)
    for line, stdout, code in [
        ("echo hi", "hi\n", 0),
        ("false", "", 1),
        ("(exit 3)", "", 3),
        ("no-such-command 2>/dev/null", "", 127),
        ("printf 'no newline'", "no newline", 0),
        ('for n in 1 2; do\n\techo "line $n!"\ndone', "line 1!\nline 2!\n", 0),
        ("seq 1 500", "".join(f"{n}\n" for n in range(1, 501)), 0),
    ]:
        reply = await session.exec(line)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (stdout, code, "marks"), line


async def test_text_that_bash_prints_before_each_output_does_not_hide_its_version(start: Start) -> None:
    session = await start("env", "PS0=run ", *BASH)
    assert (await session.exec("echo hi")).done_reason == "marks"


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("program", ["bash", "zsh", "dash", "busybox"])
async def test_functions_named_as_builtins_in_startup_file_do_not_change_commands(
    start: Start, tmp_path: Path, program: str, integration: str
) -> None:
    for name in ("command", "builtin", "printf"):
        for file in (".bashrc", ".zshrc"):
            with (tmp_path / file).open("a") as startup:
                startup.write(f"{name}() {{ echo function; }}\n")
    require_program(program, program)
    arguments = ("sh",) if program == "busybox" else ()
    variables = (f"HOME={tmp_path}", f"ZDOTDIR={tmp_path}", f"ENV={tmp_path}/.bashrc")
    session = await start("env", *variables, program, *arguments, shell_integration=integration)
    for number in range(2):
        reply = await session.exec(f"echo one\nsh -c 'exit {number}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("one\n", number)


async def check_functions_named_eval_and_echo_do_not_hide_the_shell(
    start: Start, folder: Path, program: str, integration: str, body: str
) -> None:
    folder.mkdir()
    for file in (".bashrc", ".zshrc"):
        (folder / file).write_text(f"eval() {{ {body}; }}\necho() {{ {body}; }}\n")
    variables = (f"HOME={folder}", f"ZDOTDIR={folder}", "HISTFILE=/dev/null")
    session = await start("env", *variables, program, shell_integration=integration)
    for number in range(2):
        reply = await session.exec(f"printf 'one\\n'\nsh -c 'exit {number}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("one\n", number)
    assert reply.done_reason == ("marks" if integration == "auto" else "marker")


async def test_functions_named_eval_and_echo_do_not_hide_the_shell(start: Start, tmp_path: Path) -> None:
    cases = product(("bash", "zsh"), ("auto", "off"), ("printf 'function\\n'", ":"))
    check = check_functions_named_eval_and_echo_do_not_hide_the_shell
    await run_cases({" ".join(case): partial(check, start, tmp_path / str(n), *case) for n, case in enumerate(cases)})


@pytest.mark.parametrize("command", [(*BASH, "-a"), ("zsh", "-a", "-f", "-i")])
async def test_shell_that_exports_all_variables_exports_no_nonce(start: Start, command: tuple[str, ...]) -> None:
    session = await start(*command)
    assert (await session.exec("true")).done_reason == "marks"
    folder = Path((await block_of(session, 1)).output_path).parents[1]
    nonces = set(re.findall(rb"\x1b\]7717;(\w+);", (folder / "output.raw").read_bytes()))
    environment = (await session.exec("env")).stdout.encode()
    assert nonces
    assert [nonce for nonce in nonces if nonce in environment] == []


@pytest.mark.parametrize(
    ("command", "hooks"),
    [(BASH, "unset PROMPT_COMMAND; PS0="), (ZSH, "precmd_functions=() preexec_functions=() PROMPT_EOL_MARK=")],
)
async def test_run_that_removes_hooks_and_changes_prompt_ends_soon_with_a_notice(
    start: Start, command: tuple[str, ...], hooks: str
) -> None:
    session = await start(*command)
    assert (await session.exec("true")).done_reason == "marks"
    durations_ms = []
    for number in range(5):  # a busy machine may delay each of them, but not all
        reply = await session.exec(f"{hooks}; PS1='new{number}: '", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, any("hooks" in notice for notice in reply.notices or ())) == ("", True)
        reply_after = await session.exec("echo hi; false")
        assert (reply_after.stdout, reply_after.exit_code, reply_after.done_reason) == ("hi\n", 1, "marks")
        durations_ms.append(reply.duration_ms)
        if min(durations_ms) < 400:  # with the time to run the command
            break
    assert min(durations_ms) < 400


async def check_typed_command_makes_block(start: Start, command: tuple[str, ...]) -> None:
    session = await start(*command)
    await session.exec("true")
    await read(session, cursor="0", until_idle_ms=400, timeout_ms=PATIENCE_MS)
    await write(session, data="sh -c 'echo typed; exit 4'\n")
    block = await block_of(session, 2)
    assert (block.origin, block.cmd, block.exit_code) == ("typed", "sh -c 'echo typed; exit 4'", 4)
    assert (await session.exec("echo after")).stdout == "after\n"


async def test_typed_command_makes_block(start: Start) -> None:
    await run_cases({shell[0]: partial(check_typed_command_makes_block, start, shell) for shell in (BASH, ZSH)})


@pytest.mark.parametrize("control", ["", "ignoreboth", "ignoredups"])
async def test_bash_history_excludes_integration(start: Start, control: str) -> None:
    session = await start(*BASH, env={"HISTCONTROL": control, "HISTFILE": "/dev/null", "PS1": "mine> "})
    assert (await session.exec("echo first")).done_reason == "marks"
    lines = (await session.exec("history")).stdout.splitlines()
    assert [line.split(None, 1)[1] for line in lines] == ["echo first", "history"]


@pytest.mark.parametrize("option", ["histignorespace", "nohistignorespace"])
async def test_zsh_history_excludes_integration_and_keeps_option(start: Start, option: str) -> None:
    session = await start(*ZSH[:1], "-o", option, *ZSH[1:])
    assert (await session.exec("echo first")).done_reason == "marks"
    assert (await session.exec("fc -l -n 1")).stdout.splitlines() == ["echo first"]
    assert (await session.exec("echo $options[histignorespace]")).stdout == ("off\n" if option.startswith("no") else "on\n")
    assert (await session.exec("echo ${+__ptyctl_kept}")).stdout == "0\n"


async def check_zsh_history_file_excludes_integration(start: Start, tmp_path: Path, option: str, editing: str) -> None:
    tmp_path.mkdir()
    (tmp_path / ".zshrc").write_text("autoload -Uz compinit && compinit -D\n")
    env = {"HISTFILE": str(tmp_path / "history"), "SAVEHIST": "100", "ZDOTDIR": str(tmp_path)}
    session = await start("zsh", "-o", option, "-o", editing, "-i", env=env)
    assert (await session.exec("echo first")).done_reason == "marks"
    assert (await session.exec("exit")).done_reason == "eof"
    lines = [line.rpartition(";")[2] for line in (tmp_path / "history").read_text().splitlines()]
    assert lines == ["echo first", "exit"]


async def test_zsh_history_file_excludes_integration(start: Start, tmp_path: Path) -> None:
    cases = product(("appendhistory", "incappendhistory", "sharehistory"), ("emacs", "vi"))
    check = check_zsh_history_file_excludes_integration
    await run_cases({" ".join(case): partial(check, start, tmp_path / " ".join(case), *case) for case in cases})


@pytest.mark.parametrize("control", ["", "ignorespace"])
async def test_bash_history_file_excludes_integration(start: Start, tmp_path: Path, control: str) -> None:
    session = await start(*BASH, env={"HISTFILE": str(tmp_path / "history"), "HISTCONTROL": control})
    assert (await session.exec("echo first")).done_reason == "marks"
    assert (await session.exec("exit")).done_reason == "eof"
    assert (tmp_path / "history").read_text().splitlines() == ["echo first", "exit"]


async def test_integration_keeps_prompt_and_aliases(start: Start) -> None:
    session = await start(*BASH)
    await write(session, data="alias local=false while=false greet='echo hello'; PS1='mine> '\n")
    await read(session, cursor="0", until_regex="\nmine> ", timeout_ms=PATIENCE_MS)
    assert (await session.exec('echo "[$PS1]"')).stdout == "[mine> ]\n"
    reply = await session.exec("greet")
    assert (reply.stdout, reply.done_reason) == ("hello\n", "marks")


async def check_nested_shell_uses_marker_and_marks_resume_after_exit(start: Start, command: tuple[str, ...]) -> None:
    session = await start(*command)
    assert (await session.exec("echo outer")).done_reason == "marks"
    assert (await session.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    reply = await session.exec("echo inner; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", 3, "marker")
    reply = await session.exec("exit 7", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (7, "marks")
    for code in (4, 5):
        reply = await session.exec(f"echo outer again; (exit {code})")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer again\n", code, "marks")


async def test_nested_shell_uses_marker_and_marks_resume_after_exit(start: Start) -> None:
    check = check_nested_shell_uses_marker_and_marks_resume_after_exit
    await run_cases({shell[0]: partial(check, start, shell) for shell in (BASH, ZSH)})


async def check_fish_and_nested_shell_use_marker(start: Start, integration: str) -> None:
    session = await start("fish", "--no-config", shell_integration=integration)
    long = "x" * 2_000
    for line, stdout, code in [
        ("echo hi; false", "hi\n", 1),
        (f"echo {long}", f"{long}\n", 0),
        ("sh", "", None),
        ("echo inner; (exit 3)", "inner\n", 3),
        ("exit", "", None),
        ("echo outer; sh -c 'exit 4'", "outer\n", 4),
    ]:
        reply = await session.exec(line, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (stdout, code, "marker" if code is not None else "prompt")


async def test_fish_and_nested_shell_use_marker(start: Start) -> None:
    await run_cases({mode: partial(check_fish_and_nested_shell_use_marker, start, mode) for mode in ("auto", "off")})


async def check_fish_nested_in_shell_without_marks_runs_commands(start: Start, command: tuple[str, ...]) -> None:
    fish = require_program("fish", "fish")
    session = await start(*command, shell_integration="off")
    for line, stdout in [("echo out", "out\n"), (f"{fish} --no-config", ""), ("echo in; and true", "in\n"), ("exit", "")]:
        assert (await session.exec(line, timeout_ms=PATIENCE_MS)).stdout == stdout
    reply = await session.exec("echo out; (exit 5)")
    assert (reply.stdout, reply.exit_code) == ("out\n", 5)


async def test_fish_nested_in_shell_without_marks_runs_commands(start: Start) -> None:
    check = check_fish_nested_in_shell_without_marks_runs_commands
    await run_cases({shell[0]: partial(check, start, shell) for shell in (BASH, ZSH)})


async def check_question_equal_to_prompt_does_not_end_command(start: Start, command: str, integration: str) -> None:
    session = await start(*BASH, shell_integration=integration)
    assert (await session.exec("PS1='here$ '")).exit_code == 0
    asked = await session.exec(f'{command}; echo "<$answer>"; (exit 6)', timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.exit_code) == ("question", None)
    await write(session, data="mine\n")
    reply = await session.wait(asked.block_id)
    assert (reply.stdout, reply.exit_code) == ("here$ mine\n<mine>\n", 6)


async def test_question_equal_to_prompt_does_not_end_command(start: Start) -> None:
    cases = product(("read -p 'here$ ' answer", 'read -e -p "$PS1" answer'), ("auto", "off"))
    check = check_question_equal_to_prompt_does_not_end_command
    await run_cases({" ".join(case): partial(check, start, *case) for case in cases})


async def test_pty_exec_block_as_first_command_has_exit_code(start: Start) -> None:
    session = await start(*BASH)
    request = PtyExecBlock.of({"session_id": session.session_id, "cmd": "echo first; (exit 6)"})
    await session.controller.pty(request)
    assert (await block_of(session, 1)).exit_code == 6
    assert (await session.exec("echo second")).done_reason == "marks"


async def test_marks_over_telnet_without_line_editor(controller: LocalController, tmp_path: Path) -> None:
    async with running_telnetd(tmp_path) as telnetd:
        fields = {"protocol": "telnet", "host": telnetd.host, "port": telnetd.port, "shell_integration": "auto"}
        async with await SessionHandle.open(controller, **fields) as session:
            for code in (0, 3):
                reply = await session.exec(f"echo far; (exit {code})")
                assert (reply.stdout, reply.exit_code, reply.done_reason) == ("far\n", code, "marks")


async def test_shell_without_integration_uses_marker(start: Start) -> None:
    for session in (
        await start(*BASH, shell_integration="off"),
        await start("dash", "-i"),
        await start("busybox", "sh"),
    ):
        reply = await session.exec("echo plain; (exit 5)")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("plain\n", 5, "marker")


async def test_ssh_inside_local_shell_uses_marker_and_marks_resume_after_exit(
    controller: LocalController, sshd: OpenSshServer
) -> None:
    ssh = require_program("ssh", "openssh-client")
    options = f"-F none -i {sshd.key_path} -o UserKnownHostsFile={sshd.known_hosts} -p {sshd.port}"
    async with await SessionHandle.open(controller, protocol="local", command=BASH) as session:
        reply = await session.exec(f"{ssh} {options} {sshd.host} 'echo one; exit 3'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marks")
        reply = await session.exec(f"{ssh} {options} -t {sshd.host} bash --norc --noprofile", timeout_ms=PATIENCE_MS)
        assert (reply.done_reason, reply.exit_code) == ("prompt", None)
        reply = await session.exec("echo $SSH_TTY; (exit 4)", timeout_ms=PATIENCE_MS)
        assert (reply.stdout.startswith("/dev/"), reply.exit_code, reply.done_reason) == (True, 4, "marker")
        reply = await session.exec("exit 5", timeout_ms=PATIENCE_MS)
        assert (reply.exit_code, reply.done_reason) == (5, "marks")


async def test_function_of_the_marker_is_defined_once(start: Start) -> None:
    session = await start(*BASH, shell_integration="off")
    for number in range(2):
        assert (await session.exec(f"echo {number}", timeout_ms=PATIENCE_MS)).done_reason == "marker"
    output = (Path((await block_of(session, 1)).output_path).parents[1] / "output.raw").read_bytes()
    assert output.replace(b"\r", b"").count(b"033]7717") == 1


async def test_text_that_zsh_puts_into_the_next_line_is_cleared_over_ssh(start: Start) -> None:
    session = await start(*ZSH)
    assert (await session.exec("print -z 'echo FILLED '")).done_reason == "marks"
    reply = await session.exec("echo hi")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 0, "marks")
    assert reply.notices == ["text of 12 characters that the shell had put into the line was cleared before the next command"]
