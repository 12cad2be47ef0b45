"""User-defined aliases and functions with the names of builtins that a wrapped command needs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.conversation import Pty
from tests.controller.session_calls import PATIENCE_MS, MakeController, Open, execute, refused

#: Several lines, so that it cannot be typed as it is.
WRAPPED = "printf '%s\\n' one\nsh -c 'exit 3'"


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "dash"])
@pytest.mark.parametrize("name", ["command", "eval", "builtin", "printf"])
async def test_alias_named_as_builtin_does_not_change_commands(
    open_session: Open, tmp_path: Path, shell: str, name: str, integration: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    options = ("--norc",) if shell == "bash" else ()
    handle = await open_session(command=(shell, *options), env={"ZDOTDIR": str(tmp_path)}, shell_integration=integration)
    await handle.exec(f"alias {name}='echo aliased'", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        reply = await handle.exec(WRAPPED.replace("printf", "\\printf"), timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("one\n", 3)


@pytest.mark.parametrize(
    ("shell", "names"),
    [
        *itertools.product(["bash", "zsh"], ["command", "eval", "builtin", "printf", "eval printf", "command eval"]),
        ("bash", "command builtin"),  # zsh has no other way to its builtin printf
    ],
)
async def test_function_named_as_builtin_does_not_change_commands(
    open_session: Open, tmp_path: Path, shell: str, names: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    options = ("--norc",) if shell == "bash" else ()
    handle = await open_session(command=(shell, *options), env={"ZDOTDIR": str(tmp_path)})
    for name in names.split():
        await handle.exec(f"{name}() {{ echo function; }}", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        reply = await handle.exec("echo one\nsh -c 'exit 3'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marks")
    assert (await handle.exec(f"{names.split()[0]} x")).stdout == "function\n"


#: What the functions do: nothing else, or pass their arguments on and print more.
BODIES = ["echo function", 'echo function; "$@"']
BASH_NAMES = ["command", "eval", "builtin", "printf", "command printf", "command builtin", "builtin eval"]
#: dash and busybox find eval, a special builtin, before a function, and refuse a function of that name.
ASH_NAMES = ["command", "builtin", "printf", "command printf"]
UNMARKED = {
    "bash": ("bash", "--norc"),
    "bash as sh": ("bash", "--posix", "--norc"),
    "bash without a line editor": ("bash", "--norc", "--noediting"),
    "restricted bash": ("bash", "--restricted", "--norc"),
    "zsh": ("zsh", "-f"),
    "dash": ("dash",),
    "busybox": ("busybox", "sh"),
}


def define_functions(names: str, body: str) -> str:
    return "\n".join(f"{name}() {{ {body}; }}" for name in names.split())


async def open_unmarked(open_session: Open, shell: str, **env: str) -> SessionHandle:
    command = UNMARKED[shell]
    require_program(command[0], command[0])
    return await open_session(command=command, env=env, shell_integration="off")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("shell", "names"),
    [
        *itertools.product(["bash", "bash without a line editor"], BASH_NAMES),
        *itertools.product(["bash as sh"], ["command", "builtin", "printf", "command builtin"]),
        *itertools.product(["zsh"], ["command", "eval", "builtin", "printf", "command builtin printf", "command eval"]),
        *itertools.product(["dash", "busybox"], ASH_NAMES),
    ],
)
async def test_function_named_as_builtin_does_not_change_commands_without_marks(
    open_session: Open, tmp_path: Path, shell: str, names: str, body: str
) -> None:
    handle = await open_unmarked(open_session, shell)
    (tmp_path / "functions").write_text(define_functions(names, body))
    defined = await handle.exec(f". {tmp_path}/functions", timeout_ms=PATIENCE_MS)
    assert (defined.stdout, defined.exit_code, defined.done_reason) == ("", 0, "marker")
    for command in ("echo one\nsh -c 'exit 3'", "echo 'o\tne' | tr -d '\t'; sh -c 'exit 3'"):  # a tab is typed in another form
        reply = await handle.exec(command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marker")
    assert (await handle.exec("echo $?")).stdout == "3\n"
    reply = await execute(handle, cmd="echo one", rc_mode={"marker_prefix": "<<"}, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("one\n", 0)
    assert (await handle.exec(f"{names.split()[0]} true")).stdout == "function\n"


#: What a command is wrapped in has these letters and digits in its expansions.
_IFS = "IFS=abcdefilmnotuv0123456789_"


@pytest.mark.parametrize(
    ("shell", "integration", "name"),
    [
        *itertools.product(["bash", "zsh"], ["auto", "off"], ["", "eval", "command"]),
        *itertools.product(["dash", "busybox", "ksh", "mksh"], ["off"], ["", "command"]),
    ],
)
async def test_characters_in_ifs_do_not_change_commands(
    open_session: Open, tmp_path: Path, shell: str, name: str, integration: str
) -> None:
    """They would split the word before eval, and the status."""
    require_program(shell, shell)
    (tmp_path / ".zshrc").write_text("setopt shwordsplit\n")
    command = {"bash": ("bash", "--norc"), "busybox": ("busybox", "sh")}.get(shell, (shell,))
    env = {"ZDOTDIR": str(tmp_path), "ENV": "/dev/null", "HISTFILE": "/dev/null"}
    handle = await open_session(command=command, env=env, shell_integration=integration)
    await handle.exec(f"{name}() {{ echo function; }}" if name else ":", timeout_ms=PATIENCE_MS)
    await handle.exec(_IFS, timeout_ms=PATIENCE_MS)
    for line, output in [("for i in 1; do echo one; done; sh -c 'exit 30'", "one"), ("echo \"$?\"\nsh -c 'exit 30'", "30")]:
        reply = await handle.exec(line, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == (f"{output}\n", 30)
        assert reply.done_reason == ("marks" if integration == "auto" else "marker")


async def test_function_named_as_builtin_does_not_change_commands_in_restricted_bash(open_session: Open) -> None:
    handle = await open_unmarked(open_session, "restricted bash")
    await handle.exec(define_functions("command printf", "echo function"), timeout_ms=PATIENCE_MS)
    reply = await handle.exec("echo one\nsh -c 'exit 3'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marker")


@pytest.mark.parametrize(("shell", "variable"), [("dash", "ENV"), ("busybox", "ENV"), ("bash", "")])
async def test_function_of_startup_file_does_not_change_commands_without_marks(
    open_session: Open, tmp_path: Path, shell: str, variable: str
) -> None:
    require_program(shell, shell)
    startup = tmp_path / ".bashrc"
    startup.write_text(define_functions("command printf builtin", "echo function"))
    command = ("busybox", "sh") if shell == "busybox" else (shell,)
    env = {"HOME": str(tmp_path)} | ({variable: str(startup)} if variable else {})
    handle = await open_session(command=command, env=env, shell_integration="off")
    for _ in range(2):
        reply = await handle.exec("echo one\nsh -c 'exit 3'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marker")


@pytest.mark.parametrize("shell", ["dash", "busybox"])
async def test_error_in_special_builtin_under_function_named_command_has_its_exit_code(open_session: Open, shell: str) -> None:
    """Without the builtin `command`, the error ends the line before the end mark, which the session requests at the prompt."""
    handle = await open_unmarked(open_session, shell)
    await handle.exec(define_functions("command", "echo function"), timeout_ms=PATIENCE_MS)
    reply = await handle.exec("echo one; export a-b=1; echo never", timeout_ms=PATIENCE_MS)
    assert reply.stdout.startswith("one\n")
    assert "never\n" not in reply.stdout
    assert (reply.exit_code, reply.done_reason) == (2, "marker")
    reply = await handle.exec("echo $?; sh -c 'exit 4'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("2\n", 4)


@pytest.mark.parametrize("prefix", ["", "<<"])
@pytest.mark.parametrize(("shell", "names"), [("bash", "command builtin eval"), ("zsh", "builtin eval")])
async def test_command_that_cannot_be_evaluated_is_not_run_and_reported(
    open_session: Open, tmp_path: Path, shell: str, names: str, prefix: str
) -> None:
    handle = await open_unmarked(open_session, shell)
    await handle.exec(define_functions(names, "echo function"), timeout_ms=PATIENCE_MS)
    mode = {"rc_mode": {"marker_prefix": prefix}} if prefix else {}
    with refused(ErrorCode.UNSUPPORTED, "was not run", "unset -f eval"):
        await execute(handle, cmd=f"touch {tmp_path}/ran\ntouch {tmp_path}/ran", timeout_ms=PATIENCE_MS, **mode)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("names", ["", "command", "eval", "builtin", "command builtin"])
async def test_function_named_as_builtin_does_not_change_command_in_directory(
    make_controller: MakeController, tmp_path: Path, names: str
) -> None:
    pty = Pty(await make_controller(state_dir=tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    await pty.run(define_functions(names, "echo function") or "true")
    block = await pty.run("pwd\nsh -c 'exit 3'", cwd=str(folder))
    assert (block["text"], block["exit_code"]) == (f"{folder}\n", 3)
