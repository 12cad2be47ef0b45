"""Shell integration with the user's own startup files and settings."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from fixtures.home import create_home
from fixtures.servers.programs import require_program
from ptyctl.api import WatchRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.core.screen import ScreenModel
from tests.controller.session_calls import PATIENCE_MS, Open, read


@pytest.mark.parametrize(
    "setting",
    [
        "set -e",
        "set -u",
        "set -eu -o pipefail",
        "set -f",
        "set -o noclobber",
        "IFS=7",
        "PS1='$ '",
        "PS1=''",
        "PS1='λ '",
        "PS1='\\n[\\t]\\n> '",
        "PS2='... '",
        "PROMPT_COMMAND='printf \"\\\\e]0;title\\\\a\"; false'",
        "PROMPT_COMMAND[3]='(exit 9)'",
        "PROMPT_COMMAND+=('false')",
        "trap 'echo ended' EXIT",
        "trap '' INT",
        "trap 'x=1' DEBUG",
        "trap 'echo failed >&2' ERR; set -E",
        "alias printf='echo no' local='echo no' echo='echo'",
        "printf() { builtin echo no; }; unset -f printf",
        "shopt -s extdebug",
        "set -o posix",
        "LC_ALL=C",
        "unset HISTFILE; set +o history",
        "cd /",
        "POSIXLY_CORRECT=1",
        "set -T",
    ],
)
async def test_bash_marks_work_with_user_setup(bash: SessionHandle, setting: str) -> None:
    await bash.exec(setting)
    for number in range(3):
        reply = await bash.exec(f"echo one {number}")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"one {number}\n", 0, "marks")
    reply = await bash.exec("echo two; sh -c 'exit 5' || (exit 7) || true")
    assert (reply.stdout.startswith("two\n"), reply.exit_code, reply.done_reason) == (True, 0, "marks")


@pytest.mark.parametrize(
    "setting",
    [
        "PROMPT_COMMAND='echo printed'",
        "PROMPT_COMMAND='(exit 9); echo printed; false'",
        "PROMPT_COMMAND='printf printed'",
        "PROMPT_COMMAND='echo printed # and a comment'",
        'PROMPT_COMMAND="echo printed; $PROMPT_COMMAND"',
        "PROMPT_COMMAND+='; echo printed'",
        "PROMPT_COMMAND+=('echo printed')",
        "PROMPT_COMMAND[5]='echo printed; false'",
        "PROMPT_COMMAND=('echo printed; false' \"${PROMPT_COMMAND[@]}\")",
        "PROMPT_COMMAND='echo printed'; trap 'echo trapped' ERR",
    ],
)
async def test_prompt_command_output_is_not_in_the_block(bash: SessionHandle, setting: str) -> None:
    await bash.exec(setting)
    for code in (0, 3, 0):
        reply = await bash.exec(f"echo one; sh -c 'exit {code}'")
        trapped = "trapped\n" if code and "trap" in setting else ""
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"one\n{trapped}", code, "marks")
    assert (await read(bash, cursor=reply.next_cursor, until_regex="printed", timeout_ms=PATIENCE_MS)).matched


async def test_prompt_command_sees_exit_status(bash: SessionHandle) -> None:
    await bash.exec("PROMPT_COMMAND='seen=$?'; PROMPT_COMMAND[1]='seen+=$?'")
    await bash.exec("(exit 6)")
    assert (await bash.exec('echo "$seen"')).stdout == "66\n"


@pytest.mark.parametrize(
    "setting",
    [
        "setopt nounset",
        "setopt errreturn",
        "setopt ksharrays",
        "setopt shwordsplit",
        "setopt no_prompt_sp",
        "PS1='$ '",
        "PS1=''",
        "unsetopt prompt_cr",
        "PROMPT_EOL_MARK=",
        "PROMPT_EOL_MARK='%%'",
        "setopt prompt_subst",
        "precmd() { echo before; }",
        "preexec() { : ; }",
        "setopt noglob",
        "setopt extended_glob null_glob",
        "RPS1='right'",
        "alias local='echo no' builtin='echo no' emulate='echo no'",
        "setopt interactive_comments",
        "emulate sh",
        "IFS=7",
        "setopt correct",
        "setopt hist_ignore_space",
    ],
)
async def test_zsh_marks_work_with_user_setup(open_session: Open, tmp_path: Path, setting: str) -> None:
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text(setting + "\n")
    zsh = await open_session(command=("zsh",), env={"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path)})
    for number in range(3):
        reply = await zsh.exec(f"printf one{number}; sh -c 'exit {number}'")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"one{number}", number, "marks")
    assert (await zsh.exec("echo $ZDOTDIR")).stdout == f"{tmp_path}\n"
    assert (await zsh.exec("echo ${PROMPT_EOL_MARK-none} | wc -l")).exit_code == 0


async def test_user_startup_files_are_read(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("PS1='mine> '\nPROMPT_COMMAND='here=1'\nalias greet='echo hello'\nset -u\nreturn\n")
    (tmp_path / ".zshrc").write_text("PS1='mine> '\nalias greet='echo hello'\nsetopt nounset\nreturn\n")
    create_home(tmp_path)
    (tmp_path / ".config/fish").mkdir(parents=True)
    (tmp_path / ".config/fish/config.fish").write_text(
        "function fish_prompt; echo -n 'mine> '; end\nalias greet 'echo hello'\n"
    )
    for program in ("bash", "zsh", "fish"):
        require_program(program, program)
        handle = await open_session(
            command=(program,), env={"HOME": str(tmp_path), "ZDOTDIR": "", "XDG_CONFIG_HOME": str(tmp_path / ".config")}
        )
        reply = await handle.exec("greet")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hello\n", 0, "marks"), program
        assert (await read(handle, cursor="0", until_regex="mine> $", timeout_ms=PATIENCE_MS)).matched, program
        assert ((await read(handle, mode="tail")).chunk or "").endswith("mine> "), program
        assert (await handle.exec("env | grep -E 'PTYCTL_(NONCE|NORC|HOOKS|ZDOTDIR)'")).stdout == ""


LOOP = "for n in 1 2; do echo $n; done"
CONTROL_CHARACTER = "echo 'a\tb'"


@pytest.mark.parametrize(
    ("program", "history", "kept"),
    [
        (
            ("bash", "--norc", "--noprofile"),
            "HISTTIMEFORMAT=; history | cut -c 8-",
            ["echo first", LOOP, CONTROL_CHARACTER, 'echo "it\'s"', "false"],
        ),
        (("zsh",), "fc -ln 1", ["echo first", LOOP, "echo 'a\\tb'", 'echo "it\'s"\\nfalse']),
    ],
)
async def test_history_of_a_shell_with_marks_has_no_wrapper(
    open_session: Open, program: tuple[str, ...], history: str, kept: list[str], tmp_path: Path
) -> None:
    require_program(program[0], program[0])
    (tmp_path / ".zshrc").touch()
    env = {"HISTFILE": str(tmp_path / "history"), "ZDOTDIR": str(tmp_path), "HISTCONTROL": "", "HISTIGNORE": "pwd"}
    shell = await open_session(command=program, env=env)
    for cmd in ("echo first", LOOP, CONTROL_CHARACTER, 'echo "it\'s"\nfalse'):
        assert (await shell.exec(cmd, timeout_ms=PATIENCE_MS)).done_reason == "marks"
    lines = (await shell.exec(history, timeout_ms=PATIENCE_MS)).stdout.splitlines()
    assert [line for line in lines if line.strip() != history] == kept


@pytest.mark.parametrize(
    ("shell", "typed"),
    [
        ("bash", ["echo one", "for i in 1; do echo $i; done"]),
        ("zsh", ["echo one", "for i in 1; do echo $i; done"]),
        ("fish", ["echo one", "for i in 1; echo $i; end"]),
    ],
    indirect=["shell"],
)
async def test_observer_of_a_shell_with_marks_sees_commands_as_given(shell: SessionHandle, typed: list[str]) -> None:
    for cmd in typed:
        assert (await shell.exec(cmd, timeout_ms=PATIENCE_MS)).done_reason == "marks"
    watch = shell.controller.watch(WatchRequest.of({"session_id": shell.session_id}))
    observed = ScreenModel(120, 40)
    observed.feed(b64decode((await anext(watch)).data_b64 or ""))
    await watch.aclose()
    rows = [row.rstrip() for row in observed.snapshot().rows if row.strip()]
    one, result = rows.index("one"), rows.index("1")  # the next prompt may be missing yet
    # the typed line wraps after a long prompt, which has the name of the host
    first, second = ("".join(row.ljust(120) for row in part).rstrip() for part in (rows[:one], rows[one + 1 : result]))
    prompt = first.removesuffix(typed[0])
    assert [first, second] == [f"{prompt}{text}" for text in typed]
