"""`probe_shell`: finds out whether the far end is a POSIX shell, and ends its subscription."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.core.marker import AsciiMarker
from ptyctl.session.io.gate import SYSTEM
from ptyctl.session.runs.shell_probe import hidden_setup, probe_shell
from ptyctl.session.session import Session
from tests.session.conftest import Connect
from tests.session.scripted_session import connect_session, wait_until

PROMPT = "$ "


class Shell(MemoryChannel):
    """Prints the sum in the first line. It answers the second line with its prompt only, or not at all.

    `answers`: the text that each line with a sum prints in turn; `{}` stands for the sum.
    """

    def __init__(self, *, answers_second: bool, answers: Sequence[str] = ("{}",)) -> None:
        super().__init__(self._answer)
        self.lines: list[str] = []
        self._answers_second = answers_second
        self._answers = iter(answers)
        self._typed = ""

    def _answer(self, data: bytes) -> bytes:
        *lines, self._typed = (self._typed + data.decode()).split("\r")
        self.lines += lines
        answer = ""
        for line in lines:
            if numbers := re.search(r"\(\((\d+)\+(\d+)\)\)", line):
                printed = next(self._answers).format(int(numbers[1]) + int(numbers[2]))
                answer += f"{line}\r\n{printed}\r\n{PROMPT}"
            elif self._answers_second:
                answer += f"{line}\r\n{PROMPT}"
        return answer.encode()


async def session_at_prompt(connect: Connect, shell: Shell) -> Session:
    session = await connect(shell)
    shell.feed(PROMPT.encode())
    session.prompt.learn(PROMPT)
    return session


async def test_probe_shell_without_mark_in_second_line_returns_ascii_marker(connect: Connect) -> None:
    session = await session_at_prompt(connect, Shell(answers_second=True))
    subscribers = session.stream._publisher._subscribers
    found = await probe_shell(session.terminal, session.profile(), session.shell_nonce, SYSTEM)
    assert isinstance(found.marker, AsciiMarker)
    assert found.marker.dialect == "posix"
    assert session.stream._publisher._subscribers == subscribers


@pytest.mark.parametrize(
    ("answer", "dialect"),
    [
        ("bash: /{}: No such file or directory", "posix"),
        ("dash: 1: /{}: not found", "posix"),
        ("zsh: no such file or directory: /{}5.9", "zsh"),
        ("/{}", None),
    ],
)
async def test_probe_shell_that_does_not_echo_the_sum_is_known_by_its_error(
    connect: Connect, answer: str, dialect: str | None
) -> None:
    """PowerShell prints the path itself."""
    session = await session_at_prompt(connect, Shell(answers_second=True, answers=["function", answer]))
    found = await probe_shell(session.terminal, session.profile(), session.shell_nonce, SYSTEM)
    assert (found.marker and found.marker.dialect) == dialect


class StartingShell(Shell):
    """A shell that shows another prompt, for an Enter that was pressed before its first one, when a line is typed.

    `echoes_early`: the terminal driver shows that line before this prompt.
    """

    def __init__(self, *, echoes_early: bool) -> None:
        super().__init__(answers_second=True)
        self._echoes_early = echoes_early
        self._on_write = self._answer_enter_first
        self._answers_enter = False

    def _answer_enter_first(self, data: bytes) -> bytes:
        if self._answers_enter:
            return self._answer(data)
        self._answers_enter = True
        asyncio.get_running_loop().call_later(0.3, lambda: self.feed(self._answer(data)))
        return (data if self._echoes_early else b"") + f"\r\n{PROMPT}".encode()


@pytest.mark.parametrize("echoes_early", [True, False])
def test_probe_shell_after_late_answer_to_enter_finds_the_shell(tmp_path: Path, echoes_early: bool) -> None:
    async def check() -> None:
        session = await connect_session(tmp_path, shell := StartingShell(echoes_early=echoes_early))
        shell.feed(PROMPT.encode())
        session.prompt.learn(PROMPT)
        found = await probe_shell(session.terminal, session.profile(), session.shell_nonce, SYSTEM)
        assert (found.marker and found.marker.dialect, found.why) == ("posix", None)
        await session.close()

    run_virtually(check())


async def test_probe_shell_cancelled_in_second_line_leaves_no_subscription(connect: Connect) -> None:
    shell = Shell(answers_second=False)
    session = await session_at_prompt(connect, shell)
    subscribers = session.stream._publisher._subscribers
    probe = asyncio.create_task(probe_shell(session.terminal, session.profile(), session.shell_nonce, SYSTEM))
    await wait_until(lambda: len(shell.lines) == 2)
    assert len(session.stream._publisher._subscribers) == len(subscribers) + 1
    probe.cancel()
    await asyncio.wait({probe})
    assert probe.cancelled()
    assert session.stream._publisher._subscribers == subscribers


async def test_output_of_a_program_that_is_no_shell_is_shown(connect: Connect) -> None:
    session = await session_at_prompt(connect, Shell(answers_second=True, answers=("no", "no")))
    with hidden_setup(session.terminal, session.profile()):
        found = await probe_shell(session.terminal, session.profile(), session.shell_nonce, SYSTEM)
        assert session.display.source.end < session.stream.raw_size
    assert found.marker is None
    assert session.display.source.end == session.stream.raw_size
    rows = [row for row in (await session.screen.state()).snapshot.rows if row.strip()]
    assert rows == [f"{PROMPT}no", "no", PROMPT.rstrip()]  # without the typed lines


async def test_hidden_setup_that_fails_shows_what_was_received(connect: Connect) -> None:
    shell = Shell(answers_second=True)
    session = await session_at_prompt(connect, shell)

    class Failed(Exception):
        """An error of the set-up."""

    def fail() -> None:
        with hidden_setup(session.terminal, session.profile()):
            shell.feed(b"other text\r\n")
            raise Failed

    with pytest.raises(Failed):
        fail()
    assert "other text" in "\n".join((await session.screen.state()).snapshot.rows)
