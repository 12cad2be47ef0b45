"""Typed input on real programs and devices: the policy judges it by the program that reads it."""

from __future__ import annotations

import asyncio
import os
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.frr import Zebra
from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api import ExecRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.settings import Settings
from ptyctl.core.control_sequences import PASTE_BEGIN, PASTE_END
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.simulator import Quirks
from tests.controller.conversation import Pty
from tests.controller.session_calls import BASH, PATIENCE_MS, write
from tests.integration.devices.test_sessions_with_quirks import switch_with
from tests.integration.test_ssh_exec import target
from tests.session.secret_search import files_containing

BOB = Principal("bob", Kind.PERSON, Role.APPROVER)
POLICY = """
extends = ["off"]
unparsed = "warn"
unreadable = "ask"

[[rules]]
id = "made"
when = { platform = "*" }
command = ["touch", "FORBIDDEN"]
decision = "deny"
reason = "the file must not exist"

[[rules]]
id = "secret"
when = { where = "program" }
regex = "^:?secret"
decision = "deny"
reason = "no program gets it"

[[rules]]
id = "clock"
command = ["show", "clock"]
decision = "deny"
reason = "the time is a secret"

[[rules]]
id = "version"
command = ["show", "version"]
decision = "deny"
reason = "the version is a secret"
"""
#: The command that starts a program, what it shows then, and keys that a rule denies.
PROGRAMS = {
    "vim command": (("vim", "-u", "NONE", "-N"), r"~", "\x1b:secret"),
    "vim shell command": (("vim", "-u", "NONE", "-N"), r"~", "\x1b:!touch FORBIDDEN"),
    "vim inserted text": (("vim", "-u", "NONE", "-N"), r"~", "isecret\x1b:secret"),
    "less shell command": (("less", "/etc/passwd"), r":", "!touch FORBIDDEN"),
    "python": (("python3", "-q"), r">>> ", "secret = 1"),
    "cat": (("cat", "/etc/passwd", "-"), r"root:", "secret"),
    "line for the shell below": (("tail", "-n", "+1", "-f", "/etc/passwd"), r"root:", "touch FORBIDDEN"),
}


#: A policy for input of programs, where the shell below may run everything.
PROGRAM_POLICY = """
extends = ["off"]
programs = "{}"

[[rules]]
id = "quit"
when = {{ where = "program" }}
regex = "^q$"
decision = "allow"
reason = "it ends the program"

[[rules]]
id = "written"
command = [">", "*/held"]
decision = "ask"
reason = "a person must approve the file"
"""
#: Reads single keys, and shows each.
MENU = """#!/usr/bin/env python3
import os, tty
tty.setcbreak(0)
print("menu:", flush=True)
while key := os.read(0, 1):
    print("<" + key.decode() + ">", end="", flush=True)
"""
#: Shows a prompt, waits for the file `go`, and then reads a line key by key into the file `line`.
EDITOR = """#!/usr/bin/env python3
import os, tty
print("db> ", end="", flush=True)
open("go").close()
tty.setcbreak(0)
line = b""
while not line.endswith(b"\\n"):
    line += os.read(0, 1)
open("line", "wb").write(line)
"""
#: A program of this name that asks for a password, and runs its arguments.
SUDO = """#!/bin/sh
stty -echo; printf '[sudo] password for root: '; read -r x; stty echo; echo "got $x" > got; echo; exec "$@"
"""
#: Shows that it runs, and then copies its input to its output.
NOTE = "#!/bin/sh\necho ready >&2; exec cat\n"
SECRET = "hunter2 rm -rf $x"


@asynccontextmanager
async def controller_of(folder: Path, policy: str = POLICY) -> AsyncIterator[LocalController]:
    (folder / "policy.toml").write_text(policy)
    async with LocalController(Settings(state_dir=folder / "state", policy=str(folder / "policy.toml"))) as controller:
        yield controller


@pytest.fixture
def trusted_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that is named `sudo` counts as a program with privileges."""
    monkeypatch.setattr("transports.local.is_privileged_program", lambda pid: True)


@pytest.fixture
async def policed(tmp_path: Path) -> AsyncIterator[Controller]:
    async with controller_of(tmp_path) as controller:
        yield controller


async def refusal_of(session: SessionHandle, **fields: str) -> PtyctlError:
    with pytest.raises(PtyctlError) as caught:
        await write(session, **fields)
    assert caught.value.code is ErrorCode.POLICY_DENIED, caught.value
    return caught.value


async def write_each(session: SessionHandle, keys: str) -> None:
    for key in keys:
        await write(session, data=key)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_line_typed_into_a_program_is_judged_there(policed: Controller, tmp_path: Path, name: str) -> None:
    (program, *arguments), shown, keys = PROGRAMS[name]
    command = " ".join((require_program(program, program), *arguments))
    async with await SessionHandle.open(policed, protocol="local", command=BASH, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await write(shell, data="secret=1\n")  # at the prompt, the rule for programs does not apply
        await write(shell, data=f"{command}\n", until_regex=shown, timeout_ms=PATIENCE_MS)
        await shell.screen(until_idle_ms=200, timeout_ms=PATIENCE_MS)
        await write(shell, data=keys)
        error = await refusal_of(shell, data="\n")
        assert error.details["rules"] in (["made"], ["secret"])
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize("ahead", [False, True])
async def test_command_that_escape_runs_in_the_compatible_mode_of_vim_is_judged(
    policed: Controller, tmp_path: Path, ahead: bool
) -> None:
    command = f"{require_program('vim', 'vim')} -u NONE -C\n"
    async with await SessionHandle.open(policed, protocol="local", command=BASH, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        if not ahead:
            await write(shell, data=command, until_regex="~", timeout_ms=PATIENCE_MS)
        await refusal_of(shell, data=f"{command if ahead else ''}:!touch FORBIDDEN\x1b")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("keys", ["#touch FORBIDDEN\x1b1#", "#touch FORBIDDEN\x1b#", "true\x1bv", "true\x1b0v"])
async def test_key_that_submits_in_the_command_mode_of_vi_is_judged(
    policed: Controller, tmp_path: Path, shell: str, keys: str
) -> None:
    command = BASH if shell == "bash" else (require_program("zsh", "zsh"), "-f")
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path)) as session:
        await session.exec("set -o vi", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write_each(session, keys)
        assert caught.value.code is ErrorCode.POLICY_DENIED
        assert not (tmp_path / "FORBIDDEN").exists()


#: More macros than a shell reports.
MANY_MACROS = (
    "".join(f'"\\C-x{key}": "echo {key * 100}\\r"\n' for key in string.ascii_letters) + '"\\C-t": "touch FORBIDDEN\\r"\n'
)
#: Start-up files with bindings, and keys that then run a command which a rule denies.
BOUND = {
    "vi mode of inputrc": ("bash", ".inputrc", "set editing-mode vi\n", "true\x1bv"),
    "vi mode of inputrc, after Ctrl-C": ("bash", ".inputrc", "set editing-mode vi\n", "true\x1b\x03v"),
    "vi mode of inputrc, later": ("bash", ".inputrc", "set editing-mode vi\n", "true\x1b0v"),
    "macro of inputrc": ("bash", ".inputrc", '"\\C-t": "touch FORBIDDEN\\r"\n', "\x14"),
    "end of a line of inputrc": ("bash", ".inputrc", '"\\e[15~": " FORBIDDEN\\n"\n', "touch\x1b[15~"),
    "command of bashrc": ("bash", ".bashrc", "bind -x '\"\\C-t\": touch FORBIDDEN'\n", "\x14"),
    "last of many macros of inputrc": ("bash", ".inputrc", MANY_MACROS, "\x14"),
    "macro in the command mode of vi": ("bash", ".inputrc", 'set keymap vi-command\n"K": "itouch FORBIDDEN\\r"\n'
                                        "set editing-mode vi\n", "\x1bK"),
    "macro of zshrc": ("zsh", ".zshrc", "bindkey -s '^T' 'touch FORBIDDEN^M'\n", "\x14"),
    "vi mode of zshrc": ("zsh", ".zshrc", "bindkey -v\nautoload -U edit-command-line; zle -N edit-command-line\n"
                         "bindkey -M vicmd v edit-command-line\n", "true\x1bv"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
async def test_key_that_a_start_up_file_has_bound_is_judged(policed: Controller, tmp_path: Path, name: str) -> None:
    shell, file, text, keys = BOUND[name]
    (tmp_path / file).write_text(text)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\ntouch FORBIDDEN\n")
    editor.chmod(0o755)
    env = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "VISUAL": str(editor), "EDITOR": str(editor), "PS1": "$ "}
    command = (require_program(shell, shell),)
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path), env=env) as session:
        await session.exec("true", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write_each(session, keys)
        assert caught.value.code is ErrorCode.POLICY_DENIED
        assert (await session.exec("echo a", timeout_ms=PATIENCE_MS)).stdout == "a\n"
        assert not (tmp_path / "FORBIDDEN").exists()


async def test_key_that_bash_has_bound_is_judged_in_a_dash_that_runs_in_it(policed: Controller, tmp_path: Path) -> None:
    (tmp_path / ".inputrc").write_text('"\\C-t": "touch FORBIDDEN\\r"\n')
    env = {"HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=("bash",), cwd=str(tmp_path), env=env) as session:
        await session.exec("true", timeout_ms=PATIENCE_MS)
        start = f"PS1='dash> ' {require_program('dash', 'dash')}\n"
        await write(session, data=start, until_regex="(?m)^dash> $", timeout_ms=PATIENCE_MS)
        for keys in ("\x14", "touch FORBIDDEN\n", "true\x14\n", "true; touch FORBIDDEN\n"):
            with pytest.raises(PtyctlError) as caught:
                await write_each(session, keys)
            assert caught.value.code is ErrorCode.POLICY_DENIED, keys
        assert (await session.exec("echo again", timeout_ms=PATIENCE_MS)).stdout == "again\n"
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("bindkey -s '^T' 'touch FORBIDDEN^M'", "\x14"),
        ("bindkey -s q 'touch FORBIDDEN^M'", "q"),
        ("bindkey -v; bindkey -s -M vicmd K 'itouch FORBIDDEN^M'", "\x1bK"),
    ],
)
async def test_key_of_zsh_that_a_sourced_file_has_bound_is_judged(
    policed: Controller, tmp_path: Path, text: str, keys: str
) -> None:
    (tmp_path / "later").write_text(text)
    (tmp_path / ".zshrc").write_text("PS1='$ '\n")
    command, env = (require_program("zsh", "zsh"),), {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path), env=env) as session:
        await session.exec(". ./later", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write_each(session, keys)
        assert caught.value.code is ErrorCode.POLICY_DENIED
        assert (await session.exec("echo *", timeout_ms=PATIENCE_MS)).stdout.split()[:1] == ["later"]


@pytest.mark.parametrize("counter", ["$((__ptyctl_count + 9))", "999999999999"])
async def test_forged_report_of_a_macro_on_enter_does_not_hide_the_line(
    policed: Controller, tmp_path: Path, counter: str
) -> None:
    forge = f"""printf '\\e]7717;%s;%s;P;0;0,%%%%0As"\\\\C-m": "true\\\\C-m";/\\a' "$__ptyctl_nonce" "{counter}\""""
    env = {"HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=("bash",), cwd=str(tmp_path), env=env) as session:
        await session.exec(forge, timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write_each(session, "touch FORBIDDEN\r")
        assert caught.value.code is ErrorCode.POLICY_DENIED
        assert not (tmp_path / "FORBIDDEN").exists()


async def test_word_moves_and_v_in_a_shell_without_vi_mode_need_no_approval(policed: Controller, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=("bash",), cwd=str(tmp_path), env=env) as session:
        await session.exec("true", timeout_ms=PATIENCE_MS)
        await write_each(session, "cho val\x1bb\x01e\x1bf\x1bfvv\n")
        assert (await session.screen(until_regex="(?m)^valvv", timeout_ms=PATIENCE_MS)).matched


async def test_v_after_escape_is_not_typed_where_the_mode_of_the_editor_is_not_known(
    policed: Controller, tmp_path: Path
) -> None:
    (tmp_path / ".inputrc").write_text("set editing-mode vi\n")
    env = {"HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=("dash",), cwd=str(tmp_path), env=env) as session:
        await session.exec("true", timeout_ms=PATIENCE_MS)
        await write(session, data="bash --norc\n")
        await write(session, data="echo begun\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write_each(session, "true\x1b0v")
        assert (caught.value.code, caught.value.details["reason"]) == (ErrorCode.POLICY_DENIED, "unreadable")


@asynccontextmanager
async def shell_in(controller: Controller, folder: Path) -> AsyncIterator[SessionHandle]:
    """A shell in a folder, at its prompt; the programs of the folder are found first."""
    for name, text in (("menu", MENU), ("editor", EDITOR), ("sudo", SUDO), ("note", NOTE)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    async with await SessionHandle.open(controller, protocol="local", command=BASH, cwd=str(folder), env=env) as shell:
        await shell.exec("PS1='$ '", timeout_ms=PATIENCE_MS)
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        yield shell


@asynccontextmanager
async def shell_on(protocol: str, controller: Controller, folder: Path, sshd: OpenSshServer) -> AsyncIterator[SessionHandle]:
    """A shell of this machine in a folder, or one over SSH, at its prompt."""
    if protocol == "local":
        async with shell_in(controller, folder) as shell:
            yield shell
    else:
        async with await SessionHandle.open(controller, **target(sshd)) as shell:
            await shell.exec("true", timeout_ms=PATIENCE_MS)
            yield shell


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("protocol", ["local", "ssh"])
async def test_first_command_runs_once_it_is_approved_unless_the_folder_changes(
    tmp_path: Path, sshd: OpenSshServer, protocol: str, moves: bool
) -> None:
    fields = target(sshd) if protocol == "ssh" else {"protocol": "local", "command": BASH}
    async with (
        controller_of(tmp_path, PROGRAM_POLICY.format("allow")) as controller,
        await SessionHandle.open(controller, **fields) as shell,
    ):
        held = await shell.exec(f"echo x >> {tmp_path}/held", timeout_ms=1)
        assert (await shell.screen(until_regex=r"(?m)[#$%>] *$", timeout_ms=PATIENCE_MS)).matched
        if moves:
            await shell.exec("cd /", timeout_ms=PATIENCE_MS)
        assert held.approval is not None
        controller.approval_requests.approve(held.approval.approval_id, BOB)
        more = ExecRequest.of({"session_id": shell.session_id, "block_id": held.block_id, "timeout_ms": PATIENCE_MS})
        if moves:
            with pytest.raises(PtyctlError) as caught:
                await controller.exec(more)
            assert caught.value.code is ErrorCode.DECLINED
        else:
            assert (await controller.exec(more)).exit_code == 0
        assert (tmp_path / "held").exists() is not moves


async def test_completion_typed_before_the_prompt_is_read_after_it(tmp_path: Path) -> None:
    rule = '[[rules]]\nid = "word"\ncommand = ["denyme"]\ndecision = "deny"\nreason = "it is a test"\n'
    program, go = tmp_path / "denyme", tmp_path / "go"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    os.mkfifo(go)
    (tmp_path / "begun").write_text("begun\n")
    async with controller_of(tmp_path, POLICY + rule) as controller, shell_in(controller, tmp_path) as shell:
        await write(shell, data="cat begun go\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        await write(shell, data="deny\t\x1b[F", until_regex=r"\^\[\[F", timeout_ms=PATIENCE_MS)
        await asyncio.to_thread(go.write_text, "")  # the shell gets what was typed once `cat` has ended
        assert (await shell.screen(until_regex="denyme", timeout_ms=PATIENCE_MS)).matched
        error = await refusal_of(shell, data="\n")
        assert error.details["rules"] == ["word"]
        assert not (tmp_path / "ran").exists()


async def pending_of(session: SessionHandle, **fields: str) -> str:
    """Write, and return the id of the approval request that this needs."""
    with pytest.raises(PtyctlError) as caught:
        await write(session, **fields)
    assert caught.value.code is ErrorCode.APPROVAL_PENDING, caught.value
    return str(caught.value.details["approval_id"])


async def start_menu(shell: SessionHandle) -> None:
    """Start a program that reads single keys."""
    await write(shell, data="menu\n", until_regex="(?m)^menu:", timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("keys", [{"data": "y"}, {"key": "down"}, {"data": "\x1b"}, {"data": "yq"}, {"data": "\n"}])
async def test_single_key_for_a_program_is_denied_where_programs_are(tmp_path: Path, keys: dict[str, str]) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format("deny")) as controller, shell_in(controller, tmp_path) as shell:
        await start_menu(shell)
        await refusal_of(shell, **keys)
        reply = await write(shell, data="q", until_regex="<q>", timeout_ms=PATIENCE_MS)
        assert "<y>" not in str(reply.chunk)


async def test_key_typed_before_the_program_reads_is_denied_too(tmp_path: Path) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format("deny")) as controller, shell_in(controller, tmp_path) as shell:
        await refusal_of(shell, data="menu\ny")
        await write(shell, data="echo begun")  # the shell reads it
        await write(shell, data=" twice\n", until_regex="(?m)^begun twice", timeout_ms=PATIENCE_MS)
        await write(shell, data="for x in 1 2; do\n", until_regex="(?m)^> $", timeout_ms=PATIENCE_MS)
        await write(shell, data="echo a$x")
        await write(shell, data="\ndone\n", until_regex="(?m)^a2", timeout_ms=PATIENCE_MS)


async def test_line_for_the_fork_of_a_shell_is_judged_as_that_of_a_program(tmp_path: Path) -> None:
    """A program that is about to start has the name of the shell, as a subshell has."""
    async with controller_of(tmp_path, PROGRAM_POLICY.format("deny")) as controller, shell_in(controller, tmp_path) as shell:
        await write(shell, data="(echo be''gun; read -r x)\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        await refusal_of(shell, data="y\n")


async def test_key_typed_ahead_of_a_program_that_reads_keys_is_denied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with controller_of(tmp_path, PROGRAM_POLICY.format("deny")) as controller, shell_in(controller, tmp_path) as shell:
        await write(shell, data="cat go; menu\n")
        with await asyncio.to_thread((tmp_path / "go").open, "w"):  # returns when `cat` has opened it
            await refusal_of(shell, data="y")  # the terminal reads lines until the menu begins
        assert (await shell.screen(until_regex="(?m)^menu:", timeout_ms=PATIENCE_MS)).matched
        reply = await write(shell, data="q", until_regex="<q>", timeout_ms=PATIENCE_MS)
        assert "<y>" not in str(reply.chunk)


async def test_key_for_a_program_is_held_where_programs_ask(tmp_path: Path) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format("ask")) as controller, shell_in(controller, tmp_path) as shell:
        await start_menu(shell)
        approval_id = await pending_of(shell, data="y")
        controller.approval_requests.approve(approval_id, BOB)
        await write(shell, data="y", approval_id=approval_id, until_regex="<y>", timeout_ms=PATIENCE_MS)
        controller.approval_requests.approve(await pending_of(shell, data="n"), BOB, keys_s=600)
        await write(shell, data="jk", until_regex="<j><k>", timeout_ms=PATIENCE_MS)


async def test_keys_of_a_program_are_not_judged_where_programs_are_allowed(tmp_path: Path) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format("allow")) as controller, shell_in(controller, tmp_path) as shell:
        await start_menu(shell)
        await write(shell, data="yn", until_regex="<y><n>", timeout_ms=PATIENCE_MS)


@pytest.mark.usefixtures("trusted_sudo")
@pytest.mark.parametrize("programs", ["allow", "ask", "deny"])
@pytest.mark.parametrize("command", ["sudo true", "sudo dd of=copy count=0", "sudo head -c 4 /dev/null"])
async def test_password_at_the_prompt_of_sudo_is_not_judged(tmp_path: Path, programs: str, command: str) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format(programs)) as controller, shell_in(controller, tmp_path) as shell:
        await write(shell, data=f"{command}\n", until_regex="password for root: $", timeout_ms=PATIENCE_MS)
        await write(shell, data=f"{SECRET}\n", until_regex=r"[#$] $", timeout_ms=PATIENCE_MS)
        assert (tmp_path / "got").read_text() == f"got {SECRET}\n"
        approval_id = await pending_of(shell, data="echo x > ./held\n")
        assert "hunter2" not in str(controller.approval_requests.get(approval_id).held)
    assert files_containing(tmp_path / "state", SECRET[:14]) == []  # the base64 form of a short text is in other texts too


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("before", ["sudo true\n", "sud\x1b[Co true\n"], ids=["known line", "unknown line"])
async def test_password_at_a_prompt_over_ssh_is_no_command_and_not_stored(
    tmp_path: Path, sshd: OpenSshServer, integration: str, before: str
) -> None:
    (tmp_path / "sudo").write_text(SUDO)
    (tmp_path / "sudo").chmod(0o755)
    fields = target(sshd, shell_integration=integration)
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "deny"')
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as shell:
        for command in (f"cd {tmp_path}; PATH=$PWD:$PATH; PS1='$ '", "true"):  # the prompt is learned
            await shell.exec(command, timeout_ms=PATIENCE_MS)
        await write(shell, data=before, until_regex="password for root: $", timeout_ms=PATIENCE_MS)
        for data in (SECRET[:3], SECRET[3:], "\n"):
            await write(shell, data=data)
        assert (await shell.screen(until_regex=r"(?m)root: *\n(.*\n)*.*[#$%>] *$", timeout_ms=PATIENCE_MS)).matched
        assert (tmp_path / "got").read_text() == f"got {SECRET}\n"
        await pending_of(shell, data="echo x > ./held\n")
    assert files_containing(tmp_path / "state", SECRET[:14]) == []


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("line", ["echo x > ./held", "ech\x1b[Co x > ./held"], ids=["known keys", "unknown keys"])
async def test_line_that_wraps_over_ssh_is_judged_whole(
    tmp_path: Path, sshd: OpenSshServer, integration: str, line: str
) -> None:
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "deny"')
    fields = target(sshd, shell_integration=integration)
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as shell:
        await shell.exec(f"cd {tmp_path}", timeout_ms=PATIENCE_MS)
        for width in (108, 111, 112, 115):  # a wrap in a word, before a blank, behind `>`, and at a blank
            prompt = f"u@host:/{'p' * (width - 10)}$ "
            for command in (f"PS1='{prompt}'", "true"):  # the prompt is learned
                await shell.exec(command, timeout_ms=PATIENCE_MS)
            await write(shell, data="echo\x1b[C begun\n")  # an unknown line, so that the next one is read from the screen
            assert (await shell.screen(until_regex=r"(?m)^begun\n+u@host:/p+\$ *$", timeout_ms=PATIENCE_MS)).matched
            with pytest.raises(PtyctlError) as caught:
                await write(shell, data=f"{line}\n")
            # without marks, or with keys of unknown effect, the reading may be uncertain: then it is refused
            is_certain = integration == "auto" and "\x1b" not in line
            expected = {ErrorCode.APPROVAL_PENDING} if is_certain else {ErrorCode.APPROVAL_PENDING, ErrorCode.POLICY_DENIED}
            assert caught.value.code in expected, caught.value
            assert (await shell.exec("echo *", timeout_ms=PATIENCE_MS)).stdout.split() == ["policy.toml", "state"]


#: Shells, and how they set the prompt `$ `, and then, except for bash, one at the right edge.
PROMPTS = {
    "bash": (BASH, "PS1='$ '", "true"),
    "zsh": (("zsh", "-f"), "PS1='$ '", "RPROMPT=right ZLE_RPROMPT_INDENT=0"),
    "fish": (
        ("fish", "--no-config"),
        "function fish_prompt; printf '$ '; end",
        "function fish_right_prompt; printf right; end",
    ),
}
#: Lines of several rows in a terminal of 120 columns, with keys after which the cursor may be in another row than the last one.
WRAPPED_LINES = {
    "wraps at a blank": f"echo {'x' * 112} > ./held\x01",
    "begins behind its end": f" > ./held\x01echo {'x' * 112}",
    "several lines": f"{PASTE_BEGIN.decode()}echo 'x\ny' > ./held{PASTE_END.decode()}" + "\x1b[D" * 13,
    "continues behind a right prompt": f"{PASTE_BEGIN.decode()}echo x >\\\n./held{PASTE_END.decode()}\x1b[C",
}


@pytest.mark.parametrize("shell", PROMPTS)
async def test_line_is_judged_to_its_end_below_the_cursor(tmp_path: Path, shell: str) -> None:
    program, *prompts = PROMPTS[shell]
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "ask"')
    fields = {"protocol": "local", "command": (require_program(program[0], shell), *program[1:]), "cwd": str(tmp_path)}
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as session:
        for command in (*prompts, "true"):  # the prompt is learned
            await session.exec(command, timeout_ms=PATIENCE_MS)
        for name, line in WRAPPED_LINES.items():
            with pytest.raises(PtyctlError) as caught:
                await write(session, data=f"{line}\n")
            assert caught.value.code in (ErrorCode.APPROVAL_PENDING, ErrorCode.POLICY_DENIED), name
            await session.exec("true", timeout_ms=PATIENCE_MS)
            assert not (tmp_path / "held").exists(), name
        await write(session, data=f"ech\x1b[Co {'x' * 130} > ok\n")
        await session.exec("true", timeout_ms=PATIENCE_MS)
        assert (tmp_path / "ok").exists()


async def test_line_over_ssh_at_a_prompt_of_another_host_is_judged_whole(tmp_path: Path, sshd: OpenSshServer) -> None:
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "ask"')
    fields = target(sshd, shell_integration="off")
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as shell:
        for command in (f"cd {tmp_path}", "PS1='u@host:~$ '", "true"):  # the prompt is learned
            await shell.exec(command, timeout_ms=PATIENCE_MS)
        await write(shell, data="PS1='u@other:~$ '\n")
        assert (await shell.screen(until_regex=r"(?m)^u@other:~\$ *$", timeout_ms=PATIENCE_MS)).matched
        await write(shell, data="ech\x1b[Co begun > /dev/null\n")
        with pytest.raises(PtyctlError) as caught:
            await write(shell, data=f"ech\x1b[Co {'x' * 102} > ./held\n")  # the blank is in the last of 120 columns
        assert caught.value.code in (ErrorCode.APPROVAL_PENDING, ErrorCode.POLICY_DENIED)
        assert not (tmp_path / "held").exists()
        error = await refusal_of(shell, data=f"ech\x1b[Co {'x' * 102} > ./held {'# > $ ' * 200}\n")  # too many readings
        assert error.details["reason"] == "unreadable"
        await refusal_of(shell, key="enter")  # the line is still there
        await write(shell, key="ctrl_c")
        assert not (tmp_path / "held").exists()


#: Lines that begin at the learned prompt, and whose last rows do not show it: several rows with the cursor in the last one, and
#: a combining character that bash counts as columns in the encoding of the server, so that it draws wrong rows.
LINES_WITHOUT_PROMPT = {
    "several rows": f"{PASTE_BEGIN.decode()}echo 'x\ny' > ./held{PASTE_END.decode()}\x01",
    "wrong rows": f"echo {'x' * 104}e\u0301 > ./held\x01\x05\x1b[D\x1b[D",
}


@pytest.mark.parametrize("shell", ["bash", "fish"])
async def test_line_over_ssh_that_was_begun_at_the_prompt_is_not_taken_for_input_of_a_program(
    tmp_path: Path, sshd: OpenSshServer, shell: str
) -> None:
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "ask"')
    program, prompt, _ = PROMPTS[shell]
    fields = target(sshd, shell_integration="off", command=(require_program(program[0], shell), *program[1:]))
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as session:
        for command in (f"cd {tmp_path}", prompt, "true"):  # the prompt is learned
            await session.exec(command, timeout_ms=PATIENCE_MS)
        for name, line in LINES_WITHOUT_PROMPT.items():
            with pytest.raises(PtyctlError) as caught:
                await write(session, data=f"{line}\n")
            assert caught.value.code in (ErrorCode.APPROVAL_PENDING, ErrorCode.POLICY_DENIED), name
            await session.exec("true", timeout_ms=PATIENCE_MS)  # the line was deleted
            assert not (tmp_path / "held").exists(), name


async def test_line_that_bash_draws_in_another_encoding_does_not_run(tmp_path: Path) -> None:
    policy = PROGRAM_POLICY.format("allow").replace('extends = ["off"]', 'extends = ["off"]\nunreadable = "deny"')
    fields = {"protocol": "local", "command": BASH, "cwd": str(tmp_path), "pty": {"cols": 80, "rows": 24}}
    fields["env"] = {"HOME": str(tmp_path), "LC_ALL": "C"}
    async with controller_of(tmp_path, policy) as controller, await SessionHandle.open(controller, **fields) as shell:
        for command in ("PS1='$ '", "true"):
            await shell.exec(command, timeout_ms=PATIENCE_MS)
        for padding in (64, 68):
            line = f"echo {'p' * padding}e\u0301 > ./held"
            await refusal_of(shell, data=line + 10 * "\x1b[D" + "\n")
            await shell.exec("true", timeout_ms=PATIENCE_MS)
            assert not (tmp_path / "held").exists(), padding


#: Keys that end a program which asks for a password, or more text than it takes: a shell gets the rest.
LEAVING = ["\x03", "\x1c", "\x04", "\x03" + " " * 60_000, "\n", "x" * 4090 + "; "]


async def test_text_for_a_line_editor_that_starts_after_its_prompt_is_judged_as_its_own(
    tmp_path: Path, policed: Controller
) -> None:
    async with shell_in(policed, tmp_path) as shell:
        os.mkfifo(tmp_path / "go")
        await write(shell, data="editor\n", until_regex="db> $", timeout_ms=PATIENCE_MS)
        writing = asyncio.create_task(write(shell, data="$1 FORBIDDEN;\n"))  # a shell may run any program here
        await asyncio.to_thread((tmp_path / "go").write_text, "")
        await writing
        assert (await shell.screen(until_regex=r"(?m)[#$] ?$", timeout_ms=PATIENCE_MS)).matched
        assert (tmp_path / "line").read_text() == "$1 FORBIDDEN;\n"


@pytest.mark.parametrize("line", ["fc -s tou", "!tou", "f''c -s tou"])
@pytest.mark.parametrize("protocol", ["local", "ssh"])
async def test_line_of_the_history_that_the_shell_reads_below_a_program_is_refused(
    tmp_path: Path, policed: Controller, sshd: OpenSshServer, protocol: str, line: str
) -> None:
    (tmp_path / "begun").write_text("begun\n")
    async with shell_on(protocol, policed, tmp_path, sshd) as shell:
        # shows that it runs, and reads no input
        reply = await write(shell, data=f"tail -f {tmp_path}/begun\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        assert reply.matched
        assert (await refusal_of(shell, data=f"{line}\n")).details["reason"] == "unreadable"
        await write(shell, data=line[0])
        assert (await refusal_of(shell, data=f"{line[1:]}\n")).details["reason"] == "unreadable"


async def test_exclamation_mark_in_the_answer_to_a_question_over_ssh_is_text(policed: Controller, sshd: OpenSshServer) -> None:
    async with await SessionHandle.open(policed, **target(sshd)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        asks = "python3 -c 'print(input(\"Name? \"))'"
        await write(shell, data=f"{asks}\n", until_regex=r"Name\? $", timeout_ms=PATIENCE_MS)
        await write(shell, data="no!such\n", until_regex="(?m)^no!such", timeout_ms=PATIENCE_MS)


async def ask_password(shell: SessionHandle, command: str = "sudo true") -> None:
    await write(shell, data=f"{command}\n", until_regex="password for root: $", timeout_ms=PATIENCE_MS)


async def answer_password(controller: Controller, shell: SessionHandle, text: str) -> dict[str, Any]:
    terminal = Pty(controller, session_id=shell.session_id)
    return await terminal.call("pty_expect_send", expect="for root: ", send=text, from_cursor=0, timeout_ms=PATIENCE_MS)


@pytest.mark.usefixtures("trusted_sudo")
@pytest.mark.parametrize("keys", LEAVING, ids=["ctrl-c", "ctrl-backslash", "ctrl-d", "ctrl-c long", "enter", "long"])
async def test_answer_to_a_question_for_a_password_is_judged_after_keys_that_leave_it(
    tmp_path: Path, policed: Controller, keys: str
) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await ask_password(shell)
        reply = await answer_password(policed, shell, f"{keys}touch FORBIDDEN\n")
        assert reply.get("error") == "policy_denied", reply
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.usefixtures("trusted_sudo")
@pytest.mark.parametrize("keys", LEAVING, ids=["ctrl-c", "ctrl-backslash", "ctrl-d", "ctrl-c long", "enter", "long"])
async def test_line_written_after_keys_that_leave_a_question_for_a_password_is_judged(
    tmp_path: Path, policed: Controller, keys: str
) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await ask_password(shell)
        await refusal_of(shell, data=f"{keys}touch FORBIDDEN\n")
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.usefixtures("trusted_sudo")
async def test_answer_is_judged_where_a_letter_interrupts_the_question_for_a_password(
    tmp_path: Path, policed: Controller
) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await ask_password(shell, "stty intr x; sudo true")
        reply = await answer_password(policed, shell, "xtouch FORBIDDEN\n")
        assert reply.get("error") == "policy_denied", reply


@pytest.mark.usefixtures("trusted_sudo")
async def test_answer_to_a_question_for_a_password_is_not_judged(tmp_path: Path, policed: Controller) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await ask_password(shell)
        reply = await answer_password(policed, shell, "old\x15touch FORBIDDEN\n")
        assert reply["ok"], reply
        assert (await shell.screen(until_regex=r"(?m)[#$] ?$", timeout_ms=PATIENCE_MS)).matched
        assert (tmp_path / "got").read_text() == "got touch FORBIDDEN\n"


async def test_line_for_a_shell_that_is_named_sudo_is_judged(tmp_path: Path, policed: Controller) -> None:
    async with shell_in(policed, tmp_path) as shell:
        (tmp_path / "sudo").unlink()
        (tmp_path / "sudo").symlink_to(require_program("dash", "dash"))
        await write(shell, data="PS1='own> ' sudo\n", until_regex="(?m)^own> $", timeout_ms=PATIENCE_MS)
        await write(shell, data="stty -echo\n", until_regex="(?m)^own> $", timeout_ms=PATIENCE_MS)
        await refusal_of(shell, data="touch FORBIDDEN\n")


@pytest.mark.parametrize(
    ("modes", "line"), [("iuclc", "TOUCH FORBIDDEN\n"), ("igncr", "tou\rch FORBIDDEN\n"), ("istrip -iutf8", "true\u028a\n")]
)
async def test_line_for_a_terminal_that_changes_its_characters_is_refused(
    tmp_path: Path, policed: Controller, modes: str, line: str
) -> None:
    env = {"PS1": "$ "}
    command = (require_program("dash", "dash"),)
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path), env=env) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await write(shell, data=f"stty {modes}; echo begun\n", until_regex="(?m)^([$] )?begun\n.*[$] $", timeout_ms=PATIENCE_MS)
        assert (await refusal_of(shell, data=line)).details["reason"] == "unreadable"
        assert (await shell.exec("true", timeout_ms=1)).done_reason == "approval"


async def test_line_after_a_change_of_modes_in_the_same_write_is_refused(tmp_path: Path, policed: Controller) -> None:
    command = (require_program("dash", "dash"),)
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        assert (await refusal_of(shell, data="stty iuclc\nTOUCH FORBIDDEN\n")).details["reason"] == "unreadable"


@pytest.mark.parametrize(
    "keys", ["ouch FORBIDDEN\x01t", "touch FORBIDDEN\x02\x06", "\x10\x10"], ids=["edited", "moved", "history"]
)
async def test_unknown_line_of_a_shell_that_does_not_echo_is_refused(tmp_path: Path, policed: Controller, keys: str) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await shell.exec("stty -echo", timeout_ms=PATIENCE_MS)
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        assert (await refusal_of(shell, data=f"{keys}\n")).details["reason"] == "unreadable"


async def test_keys_without_text_at_the_empty_line_of_a_shell_that_does_not_echo_are_sent(
    tmp_path: Path, policed: Controller
) -> None:
    async with shell_in(policed, tmp_path) as shell:
        await shell.exec("stty -echo", timeout_ms=PATIENCE_MS)
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await shell.write("\x0c\x04")
        assert (await shell.read(until_regex="never", timeout_ms=PATIENCE_MS)).eof


@pytest.mark.parametrize(
    ("command", "term", "setting"),
    [
        (("zsh",), "dumb", "true"),
        (("zsh",), "xterm", "setopt singlelinezle"),
        (("bash", "--norc", "--noprofile"), "xterm", "bind 'set horizontal-scroll-mode on'"),
    ],
    ids=["zsh dumb", "zsh", "bash"],
)
async def test_line_that_scrolls_sideways_is_refused(
    tmp_path: Path, policed: Controller, command: tuple[str, ...], term: str, setting: str
) -> None:
    (tmp_path / ".zshrc").write_text("bindkey -e; PS1='$ '\n")
    fields: dict[str, Any] = {"env": {"ZDOTDIR": str(tmp_path), "PS1": "$ "}, "pty": {"term": term}, "cwd": str(tmp_path)}
    path = (require_program(command[0], command[0]), *command[1:])
    async with await SessionHandle.open(policed, protocol="local", command=path, **fields) as shell:
        await shell.exec(setting, timeout_ms=PATIENCE_MS)
        for line, keys in ((f"touch FORBIDDEN; : {'x' * 150}", "\x01\x05"), (f": {'x' * 150}; touch FORBIDDEN", "\x05\x01")):
            await write(shell, data=line)
            await write(shell, data=keys)
            assert (await refusal_of(shell, data="\n")).details["reason"] == "unreadable"
        assert not (tmp_path / "FORBIDDEN").exists()


async def test_lines_for_an_approved_command_are_input_of_a_program(tmp_path: Path) -> None:
    async with controller_of(tmp_path, PROGRAM_POLICY.format("allow")) as controller, shell_in(controller, tmp_path) as shell:
        approval_id = await pending_of(shell, data="note > ./held\n")
        controller.approval_requests.approve(approval_id, BOB)
        await write(shell, data="note > ./held\n", approval_id=approval_id, until_regex="(?m)^ready", timeout_ms=PATIENCE_MS)
        for line in ("one\n", "it isn't\n", "two\n", "isn't three\n"):
            await write(shell, data=line)
        await pending_of(shell, data="echo x > ./held\n")  # the shell may read it
        await write(shell, key="ctrl-d")
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        assert (tmp_path / "held").read_text() == "one\nit isn't\ntwo\nisn't three\n"


@pytest.mark.parametrize("text", ["!!", "!to", "fc -s"])
async def test_line_of_the_history_that_is_not_known_is_not_run(policed: Controller, tmp_path: Path, text: str) -> None:
    async with await SessionHandle.open(policed, protocol="local", command=BASH, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write(shell, data=f"{text}\n")
        assert caught.value.code in (ErrorCode.POLICY_DENIED, ErrorCode.APPROVAL_PENDING)


@pytest.mark.parametrize("name", ["fish", "dash"])
async def test_exclamation_mark_is_text_in_a_shell_without_history_expansion(
    policed: Controller, tmp_path: Path, name: str
) -> None:
    command, env = (require_program(name, name),), {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path), env=env) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await write(shell, data="echo no!such !command\n", until_regex="(?m)^no!such !command", timeout_ms=PATIENCE_MS)
        assert (await shell.exec("echo a!b", timeout_ms=PATIENCE_MS)).stdout == "a!b\n"
        await refusal_of(shell, data="touch FORBIDDEN!\n; touch FORBIDDEN\n")


@pytest.mark.parametrize("name", ["bash", "zsh"])
async def test_exclamation_mark_may_recall_a_line_in_a_shell_below(policed: Controller, tmp_path: Path, name: str) -> None:
    env = {"HOME": str(tmp_path), "PS1": "$ "}
    async with await SessionHandle.open(policed, protocol="local", command=("dash",), cwd=str(tmp_path), env=env) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        start = {"bash": "bash --norc --noprofile", "zsh": "zsh -f"}[name]
        await write(shell, data=f"{require_program(name, start.split()[0])} {start.partition(' ')[2]}\n")
        await write(shell, data="echo begun\n", until_regex="(?m)^begun", timeout_ms=PATIENCE_MS)
        assert (await refusal_of(shell, data="echo no!such\n")).details["reason"] == "unreadable"
        await write(shell, data="echo 'no!such'\n", until_regex="(?m)^no!such", timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("keys", ["sh\tclo\t", "show clocc\x08", "show clock\x01"])
async def test_edited_line_of_zebra_is_judged(policed: Controller, zebra: Zebra, keys: str) -> None:
    auth = {"password": zebra.password, "enable_secret": zebra.enable_password}
    where = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr", "auth": auth}
    async with await SessionHandle.open(policed, **where) as device:
        await device.exec("show history", timeout_ms=PATIENCE_MS)
        await write(device, data=keys)
        await refusal_of(device, data="\n")
        assert (await device.exec("show history", timeout_ms=PATIENCE_MS)).done_reason == "prompt"


async def test_password_typed_at_a_device_is_not_stored(policed: Controller, tmp_path: Path, zebra: Zebra) -> None:
    auth = {"password": zebra.password}
    where = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr", "auth": auth}
    async with await SessionHandle.open(policed, **where) as device:
        await write(device, data="enable\n", until_regex="Password: *$", timeout_ms=PATIENCE_MS)
        await write(device, data="a-mistaken-secret\n", until_regex="Password: *$", timeout_ms=PATIENCE_MS)
        await write(device, data=f"{zebra.enable_password}\n", until_regex="# *$", timeout_ms=PATIENCE_MS)
    assert files_containing(tmp_path / "state", "a-mistaken-secret") == []


@pytest.mark.parametrize("quirks", [Quirks(), Quirks(echo_repaints=True), Quirks(syslog_every=1)])
async def test_edited_line_of_the_simulator_is_judged(policed: Controller, quirks: Quirks) -> None:
    async with switch_with(quirks, policed) as device:
        await device.exec("show users", timeout_ms=PATIENCE_MS)
        await write(device, data="show clocc\x7f")
        await refusal_of(device, data="k\n")
        assert (await device.exec("show users", timeout_ms=PATIENCE_MS)).done_reason == "prompt"


@pytest.mark.parametrize("protocol", ["local", "ssh"])
async def test_response_of_an_exec_is_judged_when_it_is_sent(
    policed: Controller, tmp_path: Path, sshd: OpenSshServer, protocol: str
) -> None:
    fields = target(sshd) if protocol == "ssh" else {"protocol": "local", "command": BASH}
    asks = f"cd {tmp_path}; read -p 'Which file? ' x; echo got $x"
    async with await SessionHandle.open(policed, **fields) as shell:
        answered = [{"match": r"Which file\? $", "send": "harmless\n"}]
        reply = await shell.exec(asks, responses=answered, timeout_ms=PATIENCE_MS)
        assert reply.stdout.endswith("got harmless\n")
        denied = [{"match": r"Which file\? $", "send": "touch FORBIDDEN\n"}]
        reply = await shell.exec(asks, responses=denied, timeout_ms=PATIENCE_MS)
        assert reply.done_reason == "question"
        assert "the policy denies this text (rule made)" in " ".join(reply.notices or ())
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize("name", ["tcsh", "nu"])
@pytest.mark.parametrize("nested", [False, True])
async def test_line_for_a_shell_of_unknown_grammar_is_judged_by_words_anywhere(
    policed: Controller, tmp_path: Path, name: str, nested: bool
) -> None:
    """The stand-ins have the names of such shells, and run nothing."""
    (tmp_path / name).write_text("#!/bin/sh\nprintf '%% '; while read -r x; do echo \"got $x\"; printf '%% '; done\n")
    (tmp_path / name).chmod(0o755)
    command = BASH if nested else (str(tmp_path / name),)
    async with await SessionHandle.open(policed, protocol="local", command=command, cwd=str(tmp_path)) as shell:
        if nested:
            await shell.exec("true", timeout_ms=PATIENCE_MS)
            await write(shell, data=f"./{name}\n", until_regex="(?m)^% $", timeout_ms=PATIENCE_MS)
        error = await refusal_of(shell, data="foreach x (a) touch FORBIDDEN ; end\n")
        assert error.details["rules"] == ["made"]
        await write(shell, data="\x15foreach x (a) echo b ; end\n", until_regex="got foreach", timeout_ms=PATIENCE_MS)
