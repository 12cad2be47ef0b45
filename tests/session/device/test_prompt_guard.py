"""`PromptGuard` on a scripted console: text in the line is cleared and reported before a run, or the run is refused."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.platforms import Platforms
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.mode_change import change_mode, save
from ptyctl.session.clients import lock_owner
from ptyctl.session.device.prompt_guard import PromptGuard
from ptyctl.session.device.prompt_wait import wait_for_prompt
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.session import Session
from tests.session.device.oracle_console import LONG, RELOAD, OracleConsole
from tests.session.scripted_session import PATIENCE_MS, connect_session, split_at, write_to

FAMILY = Platforms().get("cisco_ios")
HALF = "hostname OOPS"
COMMAND = "do show clock"
CLEARED = "half-typed text of 13 characters by task a was cleared from the line before the next command"


@asynccontextmanager
async def console(device: OracleConsole, *, learned: bool = True) -> AsyncIterator[Session]:
    with tempfile.TemporaryDirectory() as folder:
        fields = {"session_type": "console", "device_id": "c", "platform": "cisco_ios", "expect": FAMILY.expect()}
        session = await connect_session(Path(folder), device, **fields)
        session.set_platform(FAMILY)
        device.feed(device.prompt.encode())
        if learned:
            session.prompt.learn(device.prompt)
        try:
            yield session
        finally:
            await session.close(force=True)


async def take_lock(session: Session, task: str) -> None:
    session.leases.take_over(lock_owner(task), 600.0, session.terminal.now())


async def type_as(session: Session, task: str, keys: str, cuts: list[int] | None = None) -> None:
    await take_lock(session, task)
    for piece in split_at(keys.encode(), cuts or []):
        await write_to(session, data=piece.decode(), task_id=task)


async def run_as(session: Session, task: str, **fields: Any) -> ExecReply:
    await take_lock(session, task)
    request = {"session_id": "s", "task_id": task, "timeout_ms": PATIENCE_MS, **(fields or {"cmd": COMMAND})}
    return await execute(session, ExecRequest.of(request), None)


async def refused_reason(session: Session, device: OracleConsole) -> str:
    """The reason for which a run is refused; nothing is typed then."""
    device.written.clear()
    with pytest.raises(PtyctlError) as caught:
        await run_as(session, "b")
    assert caught.value.code is ErrorCode.BUSY
    assert caught.value.hint
    assert not device.written
    return str(caught.value.details["reason"])


KEYS = {
    "at the end": HALF,
    "cursor at the start": f"{HALF}\x01",
    "cursor within": f"{HALF}\x1b[D\x1b[D",
    "corrected": f"{HALF}X\x7f",
}


@pytest.mark.parametrize("latency_s", [0.0, 0.3])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_exec_on_half_typed_text_clears_and_reports_it(keys: str, latency_s: float) -> None:
    async def run() -> None:
        device = OracleConsole(latency_s)
        async with console(device) as session:
            await type_as(session, "a", keys)
            reply = await run_as(session, "b")
            assert reply.stdout == f"ran {COMMAND}\n"
            assert reply.notices == [CLEARED]
            assert device.executed == [COMMAND]

    run_virtually(run())


def test_exec_after_log_line_hid_half_typed_text_clears_it() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", HALF)
            device.log()
            reply = await run_as(session, "b")
            assert device.executed == [COMMAND]
            assert reply.notices == [CLEARED]

    run_virtually(run())


def test_exec_on_text_that_no_user_of_the_session_typed_clears_it() -> None:
    async def run(learned: bool) -> None:
        device = OracleConsole()
        async with console(device, learned=learned) as session:
            device.feed(device._hear(HALF.encode()))
            reply = await run_as(session, "b")
            assert device.executed == [COMMAND]
            assert reply.notices == [CLEARED.replace("task a", "an unknown user")]

    run_virtually(run(learned=True))
    run_virtually(run(learned=False))


def test_exec_on_text_that_the_device_does_not_delete_is_refused() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", HALF)
            device._on_write = lambda data: b""
            with pytest.raises(PtyctlError) as caught:
                await run_as(session, "b")
            assert (caught.value.code, caught.value.details["reason"]) == (ErrorCode.BUSY, "half_typed")
            assert b"\r" not in device.written

    run_virtually(run())


def test_mode_change_on_half_typed_text_clears_it() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", HALF)
            await take_lock(session, "b")
            assert await change_mode(session, "config", Writer("b")) == "config"
            assert session.notices.take("b") == [CLEARED]
            assert (device.text, device.executed) == ("", [])

    run_virtually(run())


def test_save_on_half_typed_text_clears_it() -> None:
    async def run() -> None:
        device = OracleConsole(prompt="SW1#")
        async with console(device) as session:
            await type_as(session, "a", HALF)
            await take_lock(session, "b")
            await save(session, Writer("b"))
            assert session.notices.take("b") == [CLEARED]
            assert (device.text, device.executed) == ("", ["write memory"])

    run_virtually(run())


@pytest.mark.parametrize(("line", "reason"), [(LONG, "pager"), (RELOAD, "question")])
def test_exec_at_anything_else_than_a_prompt_is_refused(line: str, reason: str) -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", f"{line}\r")
            assert await refused_reason(session, device) == reason
            assert device.executed == [line]

    run_virtually(run())


def test_exec_within_a_banner_text_is_refused() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", "banner motd #\r")
            device._on_write = lambda data: data.replace(b"\r", b"\r\n")
            device.feed(b"\r\x1b[KEnter TEXT message.  End with the character '#'.\r\n")
            await type_as(session, "a", "hello\r")
            assert await refused_reason(session, device) == "continuation"

    run_virtually(run())


def test_key_that_a_pager_read_causes_no_notice() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", f"{LONG}\r")
            await type_as(session, "a", "q")
            reply = await run_as(session, "b")
            assert (reply.stdout, reply.notices) == (f"ran {COMMAND}\n", None)
            assert device.executed == [LONG, COMMAND]

    run_virtually(run())


@pytest.mark.parametrize("pauses_s", [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
@pytest.mark.parametrize("count", [1, 100])
def test_exec_after_log_lines_hid_the_prompt_after_a_users_line_runs(pauses_s: tuple[float, float], count: int) -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            await type_as(session, "a", "vlan 7\r")
            await asyncio.sleep(pauses_s[0])
            for _ in range(count):
                device.log()
            await asyncio.sleep(pauses_s[1])
            assert (await run_as(session, "b")).stdout == f"ran {COMMAND}\n"
            assert device.executed == ["vlan 7", COMMAND]

    run_virtually(run())


def test_exec_at_an_unknown_question_of_a_users_line_that_log_lines_hide_is_refused() -> None:
    async def run() -> None:
        device = OracleConsole()
        async with console(device) as session:
            device._on_write = lambda data: b"\r\nNew name" if b"\r" in data else data
            await type_as(session, "a", "rename\r")
            device.log()
            assert await refused_reason(session, device) == "no_prompt"

    run_virtually(run())


def test_exec_right_after_an_entered_line_waits_for_its_answer() -> None:
    async def run() -> None:
        device = OracleConsole(latency_s=0.2)
        async with console(device) as session:
            await type_as(session, "a", "vlan 7\r")
            reply = await run_as(session, "b")
            assert reply.stdout == f"ran {COMMAND}\n"

    run_virtually(run())


@dataclass(frozen=True)
class Typed:
    """Task a types keys, in pieces; `expected` is the line as the keys leave it."""

    keys: str
    expected: str
    cuts: list[int]


WORDS = st.text("abc ", min_size=1, max_size=12).map(str.strip).filter(bool)
LINES = st.one_of(WORDS.map(lambda text: (text, text)), WORDS.map(lambda text: (f"{text}zz\x7f\x7f", text)))
STEPS = st.lists(
    st.one_of(
        st.builds(lambda line, cuts: Typed(line[0], line[1], cuts), LINES, st.lists(st.integers(0, 40), max_size=4)),
        st.sampled_from(["enter", "run", "run", "log", "page", "quit", "lines", "pause"]),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from([0.0, 0.04, 0.3]))
def test_executed_lines_are_exactly_those_that_a_task_asked_for(steps: list[Typed | str], latency_s: float) -> None:
    """Task a types, enters and leaves lines; task b runs commands; log lines come in between."""

    async def run() -> None:
        device, asked, refusals, line, number = OracleConsole(latency_s), list[str](), list[tuple[str, bool]](), "", 0
        async with console(device) as session:
            for step in steps:
                in_page = device.waits_for == "page"
                match step:
                    case Typed(keys, expected, cuts) if not in_page:
                        await type_as(session, "a", keys, cuts)
                        line += expected
                    case "enter" if not in_page:
                        await type_as(session, "a", "\r")
                        asked += [line] if line else []
                        line = ""
                    case "page" if not line and not in_page:
                        await type_as(session, "a", f"{LONG}\r")
                        asked.append(LONG)
                    case "quit" if in_page:
                        await type_as(session, "a", "q")
                    case "log":
                        device.log()
                    case "pause":
                        await asyncio.sleep(1.0)
                    case "run" | "lines":
                        number += 1
                        commands = [f"cmd {number}"] if step == "run" else [f"line {number}.{each}" for each in (1, 2)]
                        try:
                            await run_as(session, "b", **({"cmd": commands[0]} if step == "run" else {"lines": commands}))
                        except PtyctlError as error:
                            is_at_pager = device.waits_for == "page"  # which a log line may hide
                            refusals.append((error.details["reason"], is_at_pager))
                            line = line if device.text else ""
                        else:
                            asked += commands
                            line = ""
            await asyncio.sleep(1.0)
            assert device.executed == asked
            assert {reason for reason, _ in refusals} <= {"pager", "half_typed", "no_prompt"}
            assert ("no_prompt", False) not in refusals

    run_virtually(run())


def test_text_typed_before_the_shell_shows_its_prompt_is_cleared(tmp_path: Path) -> None:
    async def run() -> None:
        shell = MemoryChannel(lambda data: data.replace(b"\x03", b"^C\r\n# "))  # in canonical mode, like dash
        session = await connect_session(tmp_path, shell)
        session.prompt.learn("# ")
        shell.feed(b"# true\r\n")
        await write_to(session, data="tru", task_id="a")
        shell.feed(b"# ")
        await PromptGuard(session.terminal, session.profile()).clear_shell_line(lambda: False)
        assert session.terminal.gate.unfinished_line.untouched
        assert session.take_notices("b") == [CLEARED.replace("13", "3")]
        await session.close(force=True)

    run_virtually(run())


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_text_of_unmarked_zsh_that_arrives_after_its_prompt_is_cleared(tmp_path: Path, cut: int) -> None:
    """The output may be cut between the prompt and the text that the shell has put into the line."""

    async def run() -> None:
        shell = MemoryChannel(lambda data: b"^C\r\nhere> \x1b[?2004h" if data == b"\x03" else b"")
        session = await connect_session(tmp_path, shell)
        session.prompt.learn("here> ")
        text = b"touch FILLED; xxxxxxxx"
        shell.feed(b"\x1b[?2004l\r\nhere> " + text[:cut])
        asyncio.get_running_loop().call_later(0.3, shell.feed, text[cut:] + b"\x1b[?2004h")
        await PromptGuard(session.terminal, session.profile()).clear_text_of_unmarked_zsh()
        assert bytes(shell.written) == b"\x03"
        await session.close(force=True)

    run_virtually(run())


def test_exec_is_refused_if_a_user_types_while_the_line_is_cleared(tmp_path: Path) -> None:
    """What is typed after Ctrl-C is in the new line."""

    async def run() -> None:
        typing = list[asyncio.Task[object]]()

        def hear(data: bytes) -> bytes:
            if data == b"\x03":
                typing.append(asyncio.create_task(write_to(session, data="x", task_id="a")))
                return b"^C\r\n# "
            return b""

        shell = MemoryChannel(hear)
        session = await connect_session(tmp_path, shell)
        session.prompt.learn("# ")
        shell.feed(b"# ")
        await write_to(session, data="tru", task_id="a")
        with pytest.raises(PtyctlError) as caught:
            await PromptGuard(session.terminal, session.profile()).clear_shell_line(lambda: False)
        assert (caught.value.code, caught.value.details) == (ErrorCode.BUSY, {"reason": "half_typed"})
        assert typing
        assert not session.terminal.gate.unfinished_line.empty
        await session.close(force=True)

    run_virtually(run())


@pytest.mark.parametrize("shell_deletes", [True, False])
def test_text_typed_ahead_is_cleared_at_the_prompt_or_refused(tmp_path: Path, shell_deletes: bool) -> None:
    """The terminal of the far end does not delete text that it got before the command began: only the line editor does."""

    async def run() -> None:
        at_prompt, executed = False, list[bytes]()

        def hear(data: bytes) -> bytes:
            if at_prompt and b"\r" in data:
                executed.append(data)
            if not at_prompt:
                return b"sleep\r\n" if data.startswith(b"sleep") else b""
            return b"\x08 \x08" * len(HALF) if shell_deletes and b"\x15" in data else b""

        shell = MemoryChannel(hear)
        session = await connect_session(tmp_path, shell)
        session.prompt.learn("# ")
        shell.feed(b"# ")
        await write_to(session, data="sleep\n", task_id="a")
        await write_to(session, data=HALF, task_id="a")
        terminal, profile = session.terminal, session.profile()
        waiting = asyncio.create_task(wait_for_prompt(terminal, profile, terminal.now() + 5.0, SYSTEM))
        await asyncio.sleep(2.0)
        assert b"\x15" not in shell.written
        at_prompt = True
        shell.feed(b"# " + HALF.encode())
        if shell_deletes:
            assert await waiting
            assert session.take_notices("b") == [CLEARED]
        else:
            with pytest.raises(PtyctlError) as caught:
                await waiting
            assert caught.value.details == {"reason": "half_typed"}
            assert not terminal.gate.unfinished_line.empty
        assert executed == []
        await session.close(force=True)

    run_virtually(run())
