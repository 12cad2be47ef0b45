"""Arguments are data in every shell, and what fish reads in another way than bash is judged as that."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.shells import quote_words
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.terminal.service import ServiceState, TerminalService

#: A program that writes its arguments, each followed by NUL.
WRITE_ARGUMENTS = "#!/bin/sh\nprintf '%s\\0' \"$@\"\n"
SHELLS = {
    "bash": ("bash", "--norc", "-c"),
    "zsh": ("zsh", "-f", "-c"),
    "fish": ("fish", "--no-config", "-c"),
    "dash": ("dash", "-c"),
    "ksh": ("ksh", "-c"),
    "mksh": ("mksh", "-c"),
    "busybox": ("busybox", "sh", "-c"),
}
NASTY = [
    "%s\n",
    "\\",
    "; other-command #",
    "=ls",
    "'",
    "\\'",
    "'\\",
    '"$(x)`y`"',
    "~",
    "*",
    "a\\\\b",
    "",
    "-",
    "!x",
    "{a,b}",
    "%self",
    "#",
    "é\\é",
    "\t",
    "x\ty",
    "\x01b",
    "\x1b[A",
    "\r; other-command",
    "\x7f\x7fother-command",
    "a\n\tb\n",
]
ARGUMENTS = st.lists(st.sampled_from(NASTY) | st.text("'\"\\ $`;|&<>()[]{}*?~!#%=^@,\n\tax0é", max_size=8), max_size=5)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments") / "write-arguments"
    path.write_text(WRITE_ARGUMENTS)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25, deadline=None)
@given(arguments=ARGUMENTS)
def test_quoted_arguments_reach_the_program_in_each_shell(program: Path, shell: str, arguments: list[str]) -> None:
    require_program(SHELLS[shell][0], SHELLS[shell][0])
    line = quote_words((str(program), *arguments))
    written = subprocess.run([*SHELLS[shell], line], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True).stdout
    assert written.decode().split("\0")[:-1] == (arguments or [""])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "dash", "ksh", "mksh"])
async def test_arguments_environment_and_folder_of_a_request_are_data_in_each_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Path, shell: str
) -> None:
    monkeypatch.setenv("SHELL", require_program(shell, shell))
    folder = tmp_path / "a'b\\; touch M #"
    folder.mkdir()
    arguments = [each for each in NASTY if each and each.replace("\n", "").replace("\t", "").isprintable()]  # as shown
    async with LocalController() as controller:
        service = TerminalService(controller, ServiceState(), {}, "me")
        opened = await service.handle({"action": "execute", "invocation": {"mode": "interactive", "intent": "open_only"}})
        target = {"session_id": opened["identity"]["session_id"]}
        execution = {
            "command": "sh",
            "args": ["-c", f'pwd; printf "%s\\n" "$V"; {program} "$@" | tr "\\0" "|"', "x", *arguments],
        }
        response = await service.handle(
            {
                "action": "execute",
                "invocation": {"mode": "interactive", "intent": "execute_command"},
                "execution": {**execution, "env": {"V": "\\' '; touch M #"}},
                "runtime": {"cwd": str(folder), "timeout_ms": 50_000},
                "target": target,
            }
        )
    expected = f"{folder}\n\\' '; touch M #\n" + "".join(f"{each}|" for each in arguments)
    assert (response["result"]["stdout"].rstrip("\n"), response["result"]["exit_code"]) == (expected.rstrip("\n"), 0), response
    assert not list(tmp_path.rglob("M"))


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lists=st.lists(ARGUMENTS, min_size=4, max_size=8))
@example(lists=[["\t", "x\ty"], NASTY])
async def test_arguments_are_data_in_a_terminal_of_each_shell(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, lists: list[list[str]]
) -> None:
    path = require_program(SHELLS[shell][0], SHELLS[shell][0])
    monkeypatch.setenv("SHELL", path)
    command = {"command": [path, "sh"]} if shell == "busybox" else {}  # the others have marks where they can
    async with LocalController(Settings(state_dir=tmp_path / "state", policy="off")) as controller:
        reply = await controller.session(SessionRequest.of({"action": "open", "protocol": "local", **command}))
        assert reply.session_id is not None
        for arguments in lists:
            line = quote_words((str(program), *arguments)) + " | tr '\\000' '|' | od -An -v -tx1"
            done = await controller.exec(ExecRequest.of({"session_id": reply.session_id, "cmd": line, "timeout_ms": 50_000}))
            expected = "".join(f"{each}|" for each in arguments or [""])
            assert bytes.fromhex(done.stdout) == expected.encode(), (arguments, done)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["'", '"', "\\", ";", " ", "echo ", "mark", "m", "\\x61", "rk", "#", "(", ")", "\n", "`", "$", "&", "|", ">"]
        ),
        max_size=14,
    )
)
def test_command_that_fish_runs_is_found_in_the_text(tmp_path_factory: pytest.TempPathFactory, parts: Sequence[str]) -> None:
    fish, text, folder = require_program("fish", "fish"), "".join(parts), tmp_path_factory.mktemp("fish")
    setup = f"function mark; command touch {folder}/ran; end; cd {folder}"
    subprocess.run([fish, "--no-config", "-C", setup, "-c", text], capture_output=True, stdin=subprocess.DEVNULL, timeout=50)
    if (folder / "ran").exists():
        form = canonical_shell(text, "fish")
        assert form.opaque or any(command.match((("mark",),)) for command in form.commands)


@pytest.mark.parametrize("begins", ["fish --no-config", "bash --norc"])
async def test_command_that_fish_reads_otherwise_is_refused_by_readonly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    monkeypatch.setenv("SHELL", require_program("fish", "fish"))
    text = f"echo '\\' '; touch {tmp_path}/M #'"
    async with LocalController(Settings(state_dir=tmp_path / "state", policy="readonly")) as controller:
        reply = await controller.session(SessionRequest.of({"action": "open", "protocol": "local", "command": begins.split()}))
        assert reply.session_id is not None
        request = ExecRequest.of({"session_id": reply.session_id, "cmd": text, "timeout_ms": 50_000})
        if begins.startswith("bash"):
            assert (await controller.exec(request)).stdout == f"\\ ; touch {tmp_path}/M #\n"
        else:
            with pytest.raises(PtyctlError) as refused:
                await controller.exec(request)
            assert refused.value.code is ErrorCode.POLICY_DENIED
    assert not (tmp_path / "M").exists()
