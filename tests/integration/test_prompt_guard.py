"""The prompt guard on FRR, on the simulated switch, and over SSH."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from fixtures.servers.frr import Zebra
from fixtures.servers.programs import require_program
from ptyctl import LocalController
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.settings import Settings
from ptyctl.session.runs import strategy_selector
from ptyctl.simulator import SimulatedSwitch
from tests.controller.session_calls import PATIENCE_MS, execute, execute_when_free, read, refused, session, write
from tests.integration.concurrent_cases import run_cases
from tests.integration.test_ssh_exec import Start
from tests.session.scripted_session import wait_until

pytestmark = pytest.mark.waits

HALF = "hostname OOPS"
CLEARED = "half-typed text of {} characters by task a was cleared from the line before the next command"
KEYS = {
    "at the end": (HALF, 13),
    "cursor at the start": (f"{HALF}\x01", 13),
    "cut word": ("hostname OOP\x7f", 11),
    "help": ("host?", 4),
}


async def type_and_unlock(handle: SessionHandle, keys: str) -> None:
    """Task a types keys, waits for their echo, and leaves the console to task b."""
    await session(handle.controller, "lock", session_id=handle.session_id, task_id="a", force=True)
    begin = (await write(handle, "a", data=keys)).next_cursor
    await read(handle, cursor=begin, until_idle_ms=100, timeout_ms=PATIENCE_MS)
    await session(handle.controller, "unlock", session_id=handle.session_id, task_id="a")
    await session(handle.controller, "lock", session_id=handle.session_id, task_id="b")


async def open_console(
    controller: LocalController, port: int, platform: str, username: str | None, **auth: str
) -> SessionHandle:
    user = {"username": username} if username else {}
    fields = {"protocol": "telnet", "host": "127.0.0.1", "port": port, "platform": platform, "auth": auth, **user}
    console = {"session_type": "console", "device_id": "c", "task_id": "b", "acquire_lock": True}
    handle = await SessionHandle.open(controller, **fields, **console)
    await execute(handle, cmd="do show version", mode="config", task_id="b", timeout_ms=PATIENCE_MS)
    return handle


@pytest.mark.parametrize(("keys", "size"), KEYS.values(), ids=KEYS)
async def test_half_typed_line_on_frr_is_cleared_before_exec_and_mode(
    controller: LocalController, zebra: Zebra, keys: str, size: int
) -> None:
    handle = await open_console(
        controller, zebra.port, "frr", None, password=zebra.password, enable_secret=zebra.enable_password
    )
    await type_and_unlock(handle, keys)
    reply = await execute(handle, cmd="do show version", task_id="b", timeout_ms=PATIENCE_MS)
    assert "FRRouting" in reply.stdout
    assert reply.notices == [CLEARED.format(size)]
    await type_and_unlock(handle, keys)
    reply = await execute(handle, cmd="show running-config", mode="privileged", task_id="b", timeout_ms=PATIENCE_MS)
    assert (reply.notices, reply.mode) == ([CLEARED.format(size)], "privileged")
    assert f"hostname {zebra.hostname}\n" in reply.stdout


async def check_run_ends_although_another_task_types(handle: SessionHandle, cmd: str, next_cmd: str) -> str:
    """Task b runs `cmd`, and task a types without Enter meanwhile; the next run is alone. Return both outputs."""
    begin = (await read(handle, timeout_ms=0)).next_cursor
    run = asyncio.create_task(execute(handle, cmd=cmd, task_id="b", timeout_ms=PATIENCE_MS))
    await read(handle, cursor=begin, until_regex=cmd, timeout_ms=PATIENCE_MS)
    cursor = (await write(handle, "a", data=HALF)).next_cursor
    reply = await run
    assert (reply.done_reason, reply.timed_out) == ("prompt", False)
    assert HALF not in reply.stdout
    await read(handle, cursor=cursor, until_regex=HALF, timeout_ms=PATIENCE_MS)
    following = await execute(handle, cmd=next_cmd, task_id="b", timeout_ms=PATIENCE_MS)
    assert following.notices == [CLEARED.format(13)]
    return reply.stdout + following.stdout


async def test_run_on_frr_ends_although_another_task_types_after_its_prompt(controller: LocalController, zebra: Zebra) -> None:
    auth = {"password": zebra.password, "enable_secret": zebra.enable_password}
    fields = {"protocol": "telnet", "host": "127.0.0.1", "port": zebra.port, "platform": "frr", "auth": auth}
    async with await SessionHandle.open(controller, **fields) as handle:
        await execute(handle, cmd="do show version", mode="config", task_id="b", timeout_ms=PATIENCE_MS)
        stdout = await check_run_ends_although_another_task_types(handle, "do show running-config", "do show running-config")
        assert stdout.count(f"hostname {zebra.hostname}\n") == 2


async def test_run_on_the_switch_ends_although_another_task_types_after_its_prompt(controller: LocalController) -> None:
    async with SimulatedSwitch(password="pw-of-admin", enable_secret="pw-of-enable") as switch:
        handle = await SessionHandle.open(
            controller,
            protocol="telnet",
            host="127.0.0.1",
            port=switch.telnet_port,
            username="admin",
            platform="cisco_ios",
            auth={"password": "pw-of-admin", "enable_secret": "pw-of-enable"},
        )
        await execute(handle, cmd="show clock", mode="privileged", task_id="b", timeout_ms=PATIENCE_MS)
        stdout = await check_run_ends_although_another_task_types(handle, "configure terminal", "do show clock")
        assert "UTC" in stdout


async def check_half_typed_line(start: Start, tmp_path: Path, name: str, integration: str) -> None:
    handle = await start(*SHELLS[name], shell_integration=integration)
    folder = tmp_path / f"{name} {integration}"
    folder.mkdir()
    await execute(handle, cmd=f"cd '{folder}'", task_id="a", timeout_ms=PATIENCE_MS)
    await type_and_unlock(handle, "touch HALF_RAN")
    await session(handle.controller, "unlock", session_id=handle.session_id, task_id="b")
    reply = await execute(handle, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.notices) == ("hi\n", 0, [CLEARED.format(14)])
    assert list(folder.iterdir()) == []


async def test_half_typed_line_on_sshd_is_cleared_before_exec(start: Start, tmp_path: Path) -> None:
    cases = [(name, integration) for name in ("bash", "zsh") for integration in ("auto", "off")]
    await run_cases({" ".join(case): partial(check_half_typed_line, start, tmp_path, *case) for case in cases})


SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config"),
    "dash": ("dash",),
}


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "first command"])
async def test_wrapped_text_on_sshd_in_a_fish_without_a_command_is_cleared(start: Start, tmp_path: Path, nested: bool) -> None:
    """fish draws its line again, over several rows and without bracketed paste."""
    fish = (require_program("fish", "fish"), "--no-config", "--init-command", "function fish_prompt; echo -n 'here> '; end")
    command = ("bash", "--norc", "--noprofile") if nested else fish
    handle = await start(*command, shell_integration="off", pty={"cols": 40, "rows": 24})
    if nested:
        await execute(handle, cmd="true", task_id="a", timeout_ms=PATIENCE_MS)
        await write(handle, "a", data=shlex.join(fish) + "\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert (await read(handle, cursor="0", until_regex="(^|\n)here> $", timeout_ms=PATIENCE_MS)).matched
    begin = (await write(handle, "a", data=f"cd {folder}\n")).next_cursor
    await read(handle, cursor=begin, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    begin = (await write(handle, "a", data=f"touch {folder}/HALF {'x' * 300}\x01")).next_cursor
    await read(handle, cursor=begin, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    reply = await execute_when_free(handle, cmd="echo hi", task_id="b")
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    assert list(folder.iterdir()) == []


#: Asks a question of the form of its argument after each line `ask`, and reports the answer.
ASKING = """
import sys
print(end='sw1#', flush=True)
for line in sys.stdin:
    if line == 'ask\\n':
        print(end=sys.argv[1], flush=True)
        print('answer', repr(sys.stdin.readline()))
    elif line.strip():
        print('ran', line, end='')
    print(end='sw1#', flush=True)
"""


@pytest.mark.parametrize("platform", [None, "cisco_ios"])
async def test_question_that_a_users_line_leads_to_on_sshd_gets_neither_enter_nor_command(
    start: Start, tmp_path: Path, platform: str | None
) -> None:
    (tmp_path / "device.py").write_text(ASKING)

    async def check(question: str) -> None:
        handle = await start(sys.executable, "-u", str(tmp_path / "device.py"), question, platform=platform)
        await execute(handle, cmd="show clock", task_id="a", timeout_ms=PATIENCE_MS)
        written = await write(handle, "a", data="ask\n", until_regex=f"{question}$", timeout_ms=PATIENCE_MS)
        for fields in ({"cmd": "show version"}, {"lines": ["one", "two"]}):
            with refused(ErrorCode.BUSY):
                await execute(handle, **fields, task_id="b", timeout_ms=PATIENCE_MS)
        assert "answer" not in ((await read(handle, cursor=written.next_cursor, timeout_ms=0)).chunk or "")
        await write(handle, "a", data="no\n", until_regex="answer 'no.*\nsw1#$", timeout_ms=PATIENCE_MS)
        assert (await execute(handle, cmd="show version", task_id="b", timeout_ms=PATIENCE_MS)).stdout == "ran show version\n"

    questions = ("Overwrite the file. ", "Enter new name: ", "Are you sure you want to continue ")
    await run_cases({question: partial(check, question) for question in questions})


@pytest.mark.parametrize("name", ["bash", "zsh", "dash"])
async def test_program_that_a_user_runs_on_sshd_without_marks_gets_no_command(
    start: Start, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await start(*SHELLS[name], shell_integration="off")
    await execute(handle, cmd="true", task_id="a", timeout_ms=PATIENCE_MS)
    await write(handle, "a", data="cat\n")
    for module, wait in ((strategy_selector, "FIRST_PROMPT_WAIT_S"), (strategy_selector, "FIRST_MARK_WAIT_S")):
        monkeypatch.setattr(module, wait, 1.0)
    for _ in range(2):
        with refused(ErrorCode.BUSY, "no prompt") as caught:
            await execute(handle, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "no_prompt"}
    await write(handle, "a", key="ctrl_c")
    assert (await execute_when_free(handle, cmd="echo hi", task_id="b")).stdout == "hi\n"


async def type_ahead(start: Start, tmp_path: Path, name: str) -> None:
    handle = await start(*SHELLS[name], shell_integration="off")
    folder = tmp_path / name
    folder.mkdir()
    await execute(handle, cmd=f"cd '{folder}'", task_id="a", timeout_ms=PATIENCE_MS)
    await write(handle, "a", data="sleep 0.5\ntouch HALF_RAN")
    assert (await execute_when_free(handle, cmd="echo hi", task_id="b")).stdout == "hi\n"
    assert list(folder.iterdir()) == []


async def test_text_typed_ahead_on_sshd_without_marks_does_not_run(start: Start, tmp_path: Path) -> None:
    await run_cases({name: partial(type_ahead, start, tmp_path, name) for name in SHELLS})


async def test_text_that_the_terminal_driver_has_discarded_before_fish_on_sshd_prevents_no_command(
    controller: LocalController, start: Start
) -> None:
    """As Ctrl-C does between the end of a command and the line editor; fish shows nothing for it at an empty prompt."""
    require_program("fish", "fish")
    handle = await start(*SHELLS["fish"], shell_integration="off")
    await execute(handle, cmd="true", task_id="a", timeout_ms=PATIENCE_MS)
    begin = (await write(handle, "a", data="touch HALF_RAN")).next_cursor
    await read(handle, cursor=begin, until_regex="HALF_RAN", timeout_ms=PATIENCE_MS)
    opened = await controller._registry.find(handle.session_id)
    assert opened.channel is not None
    opened.channel.write(b"\x15")
    await wait_until(lambda: opened.terminal.last_line() == opened.terminal.learned_prompt)
    reply = await execute(handle, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.notices) == ("hi\n", None)


READ = "printf '%s/N] ' 'Sure? [y'; read x; touch HALF_RAN\n"
READ_IN_FISH = "read -P (printf '%s/N] ' 'Sure? [y') x; and touch HALF_RAN\n"


async def check_commands_are_refused(start: Start, tmp_path: Path, name: str) -> None:
    handle = await start(*SHELLS[name], shell_integration="off")
    folder = tmp_path / name
    folder.mkdir()
    await execute(handle, cmd=f"cd '{folder}'", task_id="a", timeout_ms=PATIENCE_MS)
    busy = {
        "pager": ("seq 500 | more\n", "--More--"),
        "question": (READ_IN_FISH if name == "fish" else READ, r"\[y/N\]"),
        "no_prompt" if name == "fish" else "continuation": ("echo 'a\n", "'a"),  # fish shows nothing there
    }
    for reason, (keys, shown) in busy.items():
        begin = (await write(handle, "a", data=keys)).next_cursor
        await read(handle, cursor=begin, until_regex=shown, timeout_ms=PATIENCE_MS)
        await read(handle, cursor=begin, until_idle_ms=200, timeout_ms=PATIENCE_MS)
        with refused(ErrorCode.BUSY) as caught:
            await execute(handle, cmd="echo hi", task_id="b", timeout_ms=PATIENCE_MS)
        assert caught.value.details["reason"] == reason
        leave = {"data": "q"} if reason == "pager" else {"key": "ctrl_c"}
        begin = (await write(handle, "a", **leave)).next_cursor
        await read(handle, cursor=begin, until_regex=r"[#$] $", timeout_ms=PATIENCE_MS)
        assert (await execute_when_free(handle, cmd="echo hi", task_id="b")).stdout == "hi\n", reason
    assert list(folder.iterdir()) == []


async def test_shell_on_sshd_without_marks_takes_no_command_at_anything_but_its_prompt(start: Start, tmp_path: Path) -> None:
    await run_cases({name: partial(check_commands_are_refused, start, tmp_path, name) for name in SHELLS})


async def test_pager_and_question_of_another_task_on_the_switch_are_not_answered(tmp_path: Path) -> None:
    async with (
        LocalController(Settings(state_dir=tmp_path / "state", policy="off")) as controller,
        SimulatedSwitch(password="pw-of-admin", enable_secret="pw-of-enable") as switch,
    ):
        handle = await open_console(
            controller, switch.telnet_port, "cisco_ios", "admin", password="pw-of-admin", enable_secret="pw-of-enable"
        )
        await type_and_unlock(handle, "do terminal length 5\ndo show running-config\n")
        with refused(ErrorCode.BUSY, "pager") as caught:
            await execute(handle, cmd="do show clock", task_id="b", timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "pager"}
        await type_and_unlock(handle, "q")
        reply = await execute(handle, cmd="do show clock", task_id="b", timeout_ms=PATIENCE_MS)
        assert ("UTC" in reply.stdout, reply.notices) == (True, None)
        await type_and_unlock(handle, "end\nreload\n")
        with refused(ErrorCode.BUSY, "question"):
            await execute(handle, cmd="show clock", task_id="b", timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("platform", [None, "cisco_ios"])
async def test_device_over_ssh_without_pty_gets_no_shell_code(
    controller: LocalController, platform: str | None, tmp_path: Path
) -> None:
    async with SimulatedSwitch(password="pw-of-admin", enable_secret="pw-of-enable") as switch:
        options = {"host_key_fingerprint": switch.host_key_fingerprint, "use_openssh_config": False}
        handle = await SessionHandle.open(
            controller,
            protocol="ssh",
            host="127.0.0.1",
            port=switch.ssh_port,
            username="admin",
            auth={"password": "pw-of-admin"},
            pty={"enabled": False},
            ssh_options=options,
            **({"platform": platform} if platform else {}),
        )
        reply = await execute(handle, cmd="show clock", timeout_ms=PATIENCE_MS)
        assert "UTC" in reply.stdout
        (log,) = (tmp_path / "state").glob("sessions/*/input.jsonl")
        typed = "".join(json.loads(row).get("data", "") for row in log.read_text().splitlines())
        assert "printf" not in typed
        assert "__ptyctl" not in typed
