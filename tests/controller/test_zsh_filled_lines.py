"""Text that zsh puts into the next line (`print -z`, push-line): no command is typed after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.session import authorization
from ptyctl.session.device import prompt_guard
from ptyctl.session.io import input_echo
from tests.controller.session_calls import PATIENCE_MS, Open, execute, execute_when_free, read, refused, until, write

FILL = "touch FILLED; "
#: The policy allows this text.
HELD = "touch HELD; "
#: Commands of which the next line begins with that text, and what the notice on it says.
COMMANDS = {
    "print -z": (f"print -z '{FILL}'", " of 14 characters"),
    "pushln": (f"pushln '{FILL}'", " of 14 characters"),
    "only a blank": ("print -z ' '", " of 1 characters"),
    "two lines": (f"print -z $'{FILL}\\n{FILL}'", " of 29 characters"),
    "control characters": (f"print -z $'{FILL}\\0\\t;%\\x7f'", " of 19 characters"),
    "bytes that are not UTF-8": (f"print -z $'{FILL}\\xe9;\\xff'", None),
    "long text": (f"print -z '{FILL}'${{(l:4096::x:)}}", ""),
    "functions named as builtins": (f"read() {{ :; }}; print() {{ :; }}; builtin print -z '{FILL}'", " of 14 characters"),
    "function named builtin": (f"builtin() {{ :; }}; print -z '{FILL}'", " of 14 characters"),
    "disabled builtins": (f"print -z '{FILL}'; disable read print", " of 14 characters"),
    "errexit": (f"set -e; print -z '{FILL}'", " of 14 characters"),
    "nounset": (f"setopt nounset noclobber posixbuiltins; print -z '{FILL}'", " of 14 characters"),
    "emulation of sh": (f"emulate sh; print -z '{FILL}'", " of 14 characters"),
    "bytes as characters": (f"setopt nomultibyte; print -z '{FILL}'", " of 14 characters"),
    "prompt function": (f"precmd() {{ print -z '{FILL}'; unfunction precmd; }}", " of 14 characters"),
    "after a time": (f"sleep 0.2; print -z '{FILL}'", " of 14 characters"),
}
KEYS = {
    "print -z": f"print -z '{HELD}'\r",
    "accept-and-hold": "true \x1ba",
    "push-line": f"{HELD}\x1bqtrue\r",
    "text after it": f"print -z '{HELD}'\rtouch HELD",
}
#: The argument of `print -z`, and keys that submit a denied line then.
DENIED = [
    ("$word", "\r"),
    ("$word", " x\r"),
    ("$word", "\x1b[C\r"),
    ("${word%ED}", "ED\r"),
    ("$'\\n'$word", "\r"),
    ("$word$'\\nhere> '", "\r"),  # its last row looks like a prompt
    ("$word$'\\nhere> '", "ls\r"),
    ("$word$'\\nhere> '", "\x1b[C\r"),
    ("$word' '${(l:5000::x:)}", "\r"),
    # the text fills the first row, and the second one looks like a prompt
    ("$word';'$'" + r"\t" * 13 + "''here> ls'", "\x1b[C\r"),
    ("$word';'$'" + r"\x01" * 51 + "''here> ls'", "\x1b[C\r"),
    ("$word';'", f"\x1b[C{'':101}here> ls\r"),
]
#: Start-up files whose hooks put `$word` into the line of the next prompt, after ptyctl's prompt function.
_ONCE = (
    "put() { [[ -z $word ]] || { $@ $word; word=; } }; insert() { LBUFFER+=$1; }; hook() { put insert; }; zmodload zsh/zle\n"
)
HOOKS = {
    "later prompt function": "later() { put print -z; }; precmd_functions+=(later)",
    "line-init": "zle -N zle-line-init hook",
    "line-init as a hook": "autoload -Uz add-zle-hook-widget; zle -N hook; add-zle-hook-widget line-init hook",
    "line-init defined at the prompt": "later() { zle -N zle-line-init hook; }; precmd_functions+=(later)",
    "line-init that moves last": "move() { precmd_functions=(${precmd_functions:#move} move); zle -N zle-line-init hook; }\n"
    "precmd_functions+=(move)",
    "pre-redraw": "zle -N zle-line-pre-redraw hook",
    "pre-redraw as a hook": "autoload -Uz add-zle-hook-widget; zle -N hook\n"
    "later() { add-zle-hook-widget line-pre-redraw hook; }; precmd_functions+=(later)",
    "typed keys": "type() { put zle -U; }; zle -N zle-line-init type",
    "slow hook": "slow() { [[ -z $word ]] || sleep 0.3; put insert; }; zle -N zle-line-init slow",
}
RULES = """
extends = ["off"]
unreadable = "ask"

[[rules]]
id = "forbidden"
command = ["touch", "FILLED*"]
decision = "deny"
reason = "it leaves a file"
"""


def cleared(size: str) -> str:
    return f"text{size} that the shell had put into the line was cleared before the next command"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy, and the folder of the start-up files: a request to open a session with that variable would be judged."""
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "rules.toml"))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))


@pytest.fixture
async def zsh(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """A zsh in an empty folder; the parameter is its start-up file."""
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text(f"PS1='here> '\n{request.param}\n")
    (tmp_path / "folder").mkdir()
    return await open_session(command=("zsh",), cwd=str(tmp_path / "folder"))


in_emacs = pytest.mark.parametrize("zsh", ["bindkey -e"], indirect=True)
in_each_mode = pytest.mark.parametrize("zsh", ["bindkey -e", "bindkey -v"], indirect=True)


def files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize(("command", "size"), COMMANDS.values(), ids=COMMANDS)
@in_each_mode
async def test_exec_after_command_that_fills_the_next_line_runs_alone(
    zsh: SessionHandle, command: str, size: str | None, tmp_path: Path
) -> None:
    await execute(zsh, cmd=command, timeout_ms=PATIENCE_MS)
    reply = await execute(zsh, cmd="command printf '%s\\n' hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, files(tmp_path)) == ("hi\n", 0, [])
    assert size is None or reply.notices == [cleared(size)]
    following = await execute(zsh, cmd="command printf '%s\\n' on", timeout_ms=PATIENCE_MS)
    assert (following.stdout, following.notices) == ("on\n", None)


@pytest.mark.parametrize("zsh", [_ONCE + hooks for hooks in HOOKS.values()], ids=HOOKS, indirect=True)
async def test_text_of_later_hooks_is_cleared_before_exec_and_judged_with_typed_text(
    zsh: SessionHandle, tmp_path: Path
) -> None:
    for _ in range(2):  # the hooks see ptyctl's at the second prompt
        await execute(zsh, cmd=f"word='{FILL}'", timeout_ms=PATIENCE_MS)
        reply = await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.notices) == ("hi\n", 0, [cleared(" of 14 characters")])
        await execute(zsh, cmd="word='touch FIL'", timeout_ms=PATIENCE_MS)
        with refused(ErrorCode.POLICY_DENIED):
            await write(zsh, data="LED\r")
        assert (await execute_when_free(zsh, cmd="echo hi")).stdout == "hi\n"
    assert files(tmp_path) == []


@pytest.mark.parametrize("zsh", ["typeset -r IFS"], indirect=True)
async def test_exec_with_readonly_ifs_clears_text_of_the_shell(zsh: SessionHandle, tmp_path: Path) -> None:
    """Without IFS nothing keeps `read` from removing the blanks around the text."""
    for command, notices in (("true", None), (f"print -z '{FILL}'", [cleared(" of 13 characters")])):
        await execute(zsh, cmd=command, timeout_ms=PATIENCE_MS)
        reply = await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", 0, "marks")
        assert (reply.notices, files(tmp_path)) == (notices, [])


@in_emacs
async def test_exec_clears_all_texts_that_the_shell_puts_into_its_lines(zsh: SessionHandle, tmp_path: Path) -> None:
    await execute(zsh, cmd=f"print -z '{FILL}'; print -z ''; print -z 'echo '; print -z x", timeout_ms=PATIENCE_MS)
    for notices in ([cleared(" of 1 characters"), cleared(" of 5 characters")], [cleared(" of 14 characters")], None):
        reply = await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.notices, files(tmp_path)) == ("hi\n", notices, [])


@in_emacs
async def test_exec_with_too_many_texts_for_its_line_is_refused(zsh: SessionHandle) -> None:
    await execute(zsh, cmd="for n in {1..20}; do print -z 'echo '; done", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.BUSY, "half-typed"):
        await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)
    assert (await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


@in_emacs
async def test_prompt_with_an_empty_stack_keeps_status_and_history(zsh: SessionHandle) -> None:
    for command, stdout, code in (("true", "", 0), ("(exit 3)", "", 3), ("echo $?", "3\n", 0), ("fc -ln -3", None, 0)):
        reply = await execute(zsh, cmd=command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout if stdout is not None else None, reply.exit_code, reply.notices) == (stdout, code, None)
    assert reply.stdout.splitlines() == ["true", "(exit 3)", "echo $?"]


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@in_emacs
async def test_exec_after_keys_of_another_task_that_fill_the_next_line_runs_alone(
    zsh: SessionHandle, keys: str, tmp_path: Path
) -> None:
    await execute(zsh, cmd="true", task_id="a", timeout_ms=PATIENCE_MS)
    await write(zsh, "a", data=keys)
    reply = await execute_when_free(zsh, cmd="echo hi", task_id="b")
    assert (reply.stdout, reply.exit_code, files(tmp_path)) == ("hi\n", 0, [])


@pytest.mark.parametrize(("fill", "keys"), DENIED)
@in_emacs
async def test_denied_line_that_begins_with_text_of_the_shell_is_not_run(
    zsh: SessionHandle, fill: str, keys: str, tmp_path: Path
) -> None:
    await execute(zsh, cmd="word='touch FILLED'", timeout_ms=PATIENCE_MS)
    await execute(zsh, cmd=f"print -z {fill}", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.POLICY_DENIED):
        await write(zsh, data=keys)
    assert (await execute_when_free(zsh, cmd="echo hi")).stdout == "hi\n"
    assert files(tmp_path) == []


@in_emacs
async def test_allowed_line_that_begins_with_text_of_the_shell_runs(zsh: SessionHandle, tmp_path: Path) -> None:
    await execute(zsh, cmd="true", timeout_ms=PATIENCE_MS)
    await execute(zsh, cmd="print -z 'touch '", timeout_ms=PATIENCE_MS)
    assert (await read(zsh, cursor="0", until_regex="here> touch ?$", timeout_ms=PATIENCE_MS)).matched
    await write(zsh, data="OTHER\r")
    assert (await execute_when_free(zsh, cmd="echo hi")).stdout == "hi\n"
    assert [file.name for file in files(tmp_path)] == ["OTHER"]


@in_emacs
async def test_enter_typed_ahead_of_a_command_that_fills_the_next_line_is_refused(zsh: SessionHandle, tmp_path: Path) -> None:
    await execute(zsh, cmd="word='touch FILLED'", timeout_ms=PATIENCE_MS)
    await execute(zsh, cmd="echo $((40 + 2))x; read -r; print -z $word", timeout_ms=0)
    assert (await read(zsh, cursor="0", until_regex="42x\n", timeout_ms=PATIENCE_MS)).matched
    with refused(ErrorCode.POLICY_DENIED):
        await write(zsh, data="\r\r")
    assert files(tmp_path) == []


async def test_incomplete_line_typed_ahead_is_left_before_exec(open_session: Open, tmp_path: Path) -> None:
    """The editor first waits for a key at a continuation prompt, if the hook before the first key is the user's."""
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text("hook() { : }\nzle -N zle-line-pre-redraw hook\n")
    zsh = await open_session(command=("zsh",), cwd=str(tmp_path), env={"ZDOTDIR": str(tmp_path)})
    await execute(zsh, cmd="true", timeout_ms=PATIENCE_MS)
    await write(zsh, data="sleep 0.3\rfor i in 1 2\r", until_regex="for> ", timeout_ms=PATIENCE_MS)
    reply = await execute(zsh, cmd="echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert reply.duration_ms < 5_000


async def test_lines_typed_before_the_hooks_of_the_next_line_have_run_are_judged(open_session: Open, tmp_path: Path) -> None:
    """The line is not known until the shell has reported what its hooks have put into it."""
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text("zle-line-init() { sleep 0.3 }\nzle -N zle-line-init\n")
    zsh = await open_session(command=("zsh",), cwd=str(tmp_path), env={"ZDOTDIR": str(tmp_path)})
    await execute(zsh, cmd="true", timeout_ms=PATIENCE_MS)
    await write(zsh, data="sleep 0.3\recho $((40 + 2))x\r", until_regex="42x", timeout_ms=PATIENCE_MS)


#: The hook of the line editor is announced with each prompt, and its report can be lost and restored.
LOSES_REPORTS = """zle-line-init() { : }; zle -N zle-line-init
lose() { functions[saved]=$functions[__ptyctl_line]
__ptyctl_line() { zle -F $__ptyctl_fd; exec {__ptyctl_fd}<&-; __ptyctl_fd=; } }
restore() { functions[__ptyctl_line]=$functions[saved]; }"""


@pytest.mark.parametrize("zsh", [LOSES_REPORTS], indirect=True)
async def test_lost_report_of_the_line_is_waited_for_once_until_zsh_reports_again(
    zsh: SessionHandle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in authorization, input_echo:
        monkeypatch.setattr(module, "SETTLE_WAIT_S", 0.2)
    await execute(zsh, cmd="true", timeout_ms=PATIENCE_MS)
    await execute(zsh, cmd="lose", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.POLICY_DENIED, "not known for certain", "restart the shell"):
        await write(zsh, data="touch one\rtouch two\r")
    waits = (authorization, "SETTLE_WAIT_S"), (input_echo, "SETTLE_WAIT_S"), (prompt_guard, "SLOW_PROMPT_WAIT_S")
    for module, name in waits:
        monkeypatch.setattr(module, name, 10 * PATIENCE_MS)
    for _ in range(2):
        with refused(ErrorCode.POLICY_DENIED, "not known for certain", "restart the shell"):
            await write(zsh, data="touch one\rtouch two\r")
    assert files(tmp_path) == []
    # Its line is cleared by Ctrl-C. A zsh that is writing then may lose output, and report that with the next command.
    await execute(zsh, cmd="restore", timeout_ms=PATIENCE_MS)

    async def is_typed() -> bool:
        try:
            await write(zsh, data="touch one\recho $((40 + 2))x\r", until_regex="42x", timeout_ms=PATIENCE_MS)
        except PtyctlError as error:  # the run may end before zsh has reported the next line
            if error.code is not ErrorCode.POLICY_DENIED:
                raise
            return False
        return True

    await until(is_typed)
    assert [path.name for path in files(tmp_path)] == ["one"]


#: What fills the next line of a zsh without marks.
UNMARKED = {
    "print -z": f"print -z '{FILL}'",
    "text that looks like a prompt": f"print -z '{FILL}#'",
    "two texts": f"print -z '{FILL}'; print -z '{FILL}'",
    "long text": f"print -z '{FILL}'${{(l:200::x:)}}",
    "slow prompt": f"precmd() {{ sleep 0.3; print -z '{FILL}'; unfunction precmd; }}",
}


@pytest.mark.parametrize("typed", [False, True], ids=["run", "typed"])
@pytest.mark.parametrize("command", UNMARKED.values(), ids=UNMARKED)
async def test_exec_in_unmarked_zsh_after_text_in_the_next_line_runs_alone(
    open_session: Open, command: str, typed: bool, tmp_path: Path
) -> None:
    require_program("zsh", "zsh")
    zsh = await open_session(command=("zsh", "-f"), cwd=str(tmp_path), env={"PS1": "here> "}, shell_integration="off")
    await execute(zsh, cmd="RPROMPT=right", timeout_ms=PATIENCE_MS)
    if typed:
        await write(zsh, data=f"{command}\r")
    else:
        await execute(zsh, cmd=command, timeout_ms=PATIENCE_MS)
    for number in range(2):  # the second run shows that nothing is left
        reply = await execute_when_free(zsh, cmd=f"command printf '%s\\n' hi; (exit {number})")
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("hi\n", number, "marker")
        assert (cleared("") in (reply.notices or [])) == (number == 0)
    assert [file.name for file in tmp_path.iterdir() if "FILLED" in file.name] == []


async def test_exec_in_unmarked_zsh_with_changing_prompts_keeps_the_status(open_session: Open, tmp_path: Path) -> None:
    """Neither the prompt at the right edge nor another prompt is taken for text in the line."""
    require_program("zsh", "zsh")
    zsh = await open_session(command=("zsh", "-f"), cwd=str(tmp_path), shell_integration="off")
    await execute(zsh, cmd="setopt promptsubst; PS1='%~ %# '; RPROMPT='$((++n)) right'", timeout_ms=PATIENCE_MS)
    for command, stdout in (("(exit 3)", ""), ("echo $?; cd /; (exit 4)", "3\n"), ("echo $?", "4\n")):
        reply = await execute(zsh, cmd=command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.notices) == (stdout, None)
