"""Judged input of a program of this machine: which program gets a key, and whether it has read those before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.pty import PtyExpectSend
from ptyctl.platforms import Platforms
from ptyctl.policy.evaluate import Evaluator
from ptyctl.policy.policy_file import load_policy
from ptyctl.policy.rules import DecisionRequest, Verdict
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.session import foreground_reader
from ptyctl.session.approvals import Approvals
from ptyctl.session.calls.expect_send import expect_send
from ptyctl.session.io.gate import Split, Writer
from ptyctl.session.session import Session

from .scripted_session import connect_session, wait_until, write_to

pytestmark = pytest.mark.waits

RULES = """
extends = ["off"]
programs = "{programs}"
unparsed = "{unparsed}"
unreadable = "ask"

[[rules]]
id = "removal"
command = ["rm"]
decision = "deny"
reason = "files are kept"

[[rules]]
id = "copy"
command = ["cp"]
decision = "ask"
reason = "a person looks at copies"
"""
PROMPT = b"$ "
SHELL = (100, "bash")
SUDO = (200, "sudo")
SQLITE = (300, "sqlite3")


class LocalTerminal(MemoryChannel):
    """A terminal of this machine, whose programs do nothing. The test sets what the system reports of them."""

    def __init__(self) -> None:
        super().__init__()
        self.program = SHELL
        self.wakeup_count = 1
        self.is_canonical = False
        self.is_read = True
        self.echo = True
        self.is_rewriting = False
        self.unread = b""

    async def read_pending(self) -> None:
        data, self.unread = self.unread, b""
        if data:
            self.feed(data)
        await super().read_pending()

    @property
    def rewrites_input(self) -> bool:
        return self.is_rewriting

    @property
    def canonical(self) -> bool | None:
        return self.is_canonical

    @property
    def kill_key(self) -> bytes:
        return b"\x15" if self.is_canonical else b""

    @property
    def echo_off(self) -> bool:
        return not self.echo

    def leads_foreground(self) -> bool | None:
        return self.program == SHELL

    def foreground_program(self) -> tuple[int, str] | None:
        return self.program

    def wakeups(self) -> int | None:
        return self.wakeup_count

    def input_is_read(self) -> bool | None:
        return self.is_read

    def reads_line(self) -> bool:
        return self.is_canonical and self.is_read

    def reads_password(self) -> bool:
        return self.program == SUDO and not self.echo

    def start_work(self) -> None:
        """A program starts that does not read."""
        self.program, self.is_canonical, self.is_read = (400, "make"), True, False
        self.wakeup_count += 10
        self.feed(b"\r\n")

    def start_sqlite(self) -> None:
        """A program whose line editor waits starts."""
        self.program, self.is_canonical = SQLITE, False
        self.wakeup_count += 10
        self.feed(b"\r\nsqlite> ")

    def ask_password(self) -> None:
        """`sudo` starts, and waits for a password."""
        self.program, self.is_canonical, self.echo = SUDO, True, False
        self.wakeup_count += 10
        self.feed(b"\r\nPassword: ")


class Rules:
    """A policy with these rules."""

    name = "rules"
    identity: object = None

    def __init__(self, programs: str, unparsed: str) -> None:
        self._evaluator: Evaluator = load_policy(
            "rules",
            read=lambda name: RULES.format(programs=programs, unparsed=unparsed),
            platforms=Platforms(None).all(),
            read_shell=canonical_shell,
        ).evaluator

    def verdict(self, request: DecisionRequest) -> Verdict:
        return self._evaluator.verdict(request)

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        return self._evaluator.verdict_by_rules(request, known_only=known_only)

    def unreadable(self, request: DecisionRequest) -> Verdict:
        return self._evaluator.unreadable(request)


class Shell:
    """A session of a shell in such a terminal."""

    def __init__(self, session: Session, terminal: LocalTerminal) -> None:
        self.session, self.terminal = session, terminal

    @property
    def sent(self) -> str:
        return self.terminal.written.decode()

    async def refusal(self, data: str) -> PtyctlError:
        """Write what is refused, and return why."""
        before = self.sent
        with pytest.raises(PtyctlError) as caught:
            await write_to(self.session, data=data)
        assert self.sent.removeprefix(before) in ("", "\x15", "\x03")
        return caught.value

    def type_now(self, data: str) -> PtyctlError | None:
        """Type at once; return why it is refused."""
        before = self.sent
        try:
            self.session.gate.type_now(data, Writer("t"))
        except PtyctlError as error:
            assert self.sent == before
            return error
        return None


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a program that works as long as the test takes, however slow the machine is."""
    monkeypatch.setattr(foreground_reader, "_READER_WAIT_S", 100.0)


async def shell_in(folder: Path, *, programs: str = "deny", unparsed: str = "allow", prompt: str | None = "$ ") -> Shell:
    terminal = LocalTerminal()
    session = await connect_session(folder, terminal, protocol="local", host=None, program="bash")
    session.authorization.set_policy(Rules(programs, unparsed), Approvals())
    session.terminal.prompt.learned = prompt
    terminal.feed(PROMPT)
    await wait_until(lambda: session.stream.raw_size > 0)
    return Shell(session, terminal)


@pytest.mark.parametrize(("prompt", "is_canonical"), [("$ ", False), (None, False), (None, True)])
async def test_key_after_an_enter_that_the_shell_has_not_taken_is_judged_for_the_next_program(
    tmp_path: Path, prompt: str | None, is_canonical: bool
) -> None:
    shell = await shell_in(tmp_path, prompt=prompt)
    shell.terminal.is_canonical = is_canonical
    await write_to(shell.session, data="menu\n")  # the terminal passes it on late: no program has woken up
    assert (await shell.refusal("y")).code is ErrorCode.POLICY_DENIED
    shell.terminal.wakeup_count += 1
    shell.terminal.feed(b"menu\r\n$ ")
    await write_to(shell.session, data="y")
    assert shell.sent == "menu\ry"


@pytest.mark.parametrize("prompt", ["$ ", None])
async def test_keys_at_the_first_prompt_are_not_judged_for_a_program(tmp_path: Path, prompt: str | None) -> None:
    shell = await shell_in(tmp_path, prompt=prompt)
    shell.terminal.is_read = False  # it still starts
    await write_to(shell.session, data="y")
    assert shell.sent == "y"


async def test_line_after_a_late_enter_of_several_lines_is_no_password(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    terminal = shell.terminal
    sent: list[bytes] = []

    def far_end(data: bytes) -> bytes:
        sent.append(data)
        if b"".join(sent).count(b"\r") == 1:
            terminal.program, terminal.is_canonical, terminal.echo = SUDO, True, False
            terminal.wakeup_count += 10
        return b""

    terminal._on_write = far_end
    terminal.capacity = len("sudo true\r")
    writing = asyncio.ensure_future(write_to(shell.session, data="sudo true\nfirst\n"))
    await wait_until(lambda: terminal.capacity == 0)
    terminal.unblock()
    await writing
    assert (await shell.refusal("rm x\n")).details["rules"] == ["removal"]
    terminal.wakeup_count += 1  # it has read the first answer, and asks again
    await write_to(shell.session, data="rm x\n")
    assert shell.sent.endswith("rm x\r")


async def test_line_after_an_enter_that_ends_the_question_between_two_checks_is_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo takes the Enter and runs a command while the daemon asks the system, one fact after the other, who reads."""
    shell = await shell_in(tmp_path)
    terminal = shell.terminal
    await write_to(shell.session, data="sudo true\n")
    terminal.ask_password()

    def end_question() -> bool:
        if terminal.written.endswith(b"rm x"):
            terminal.echo = True
            terminal.wakeup_count += 1
        return True

    monkeypatch.setattr(terminal, "input_is_read", end_question)
    with pytest.raises(PtyctlError) as caught:
        await write_to(shell.session, data="\nrm x\n")
    assert (caught.value.code, shell.sent) == (ErrorCode.POLICY_DENIED, "sudo true\r\rrm x\x15")


@pytest.mark.usefixtures("patient")
async def test_line_for_a_program_that_still_works_waits_for_its_line_editor(tmp_path: Path) -> None:
    """The shell below would read this line and the one before as one command, with a word that it does not know."""
    shell = await shell_in(tmp_path, programs="allow")
    terminal = shell.terminal
    await write_to(shell.session, data="sqlite3\n")
    terminal.start_sqlite()
    await write_to(shell.session, data="print 'a\n")
    terminal.is_canonical, terminal.is_read = True, False  # it has left its line editor to answer
    terminal.feed(b"print 'a\r\n")
    writing = asyncio.ensure_future(write_to(shell.session, data="'; $x 1\n"))
    assert not (await asyncio.wait([writing], timeout=0.05))[0]
    terminal.start_sqlite()
    await writing
    assert shell.sent == "sqlite3\rprint 'a\r'; $x 1\r"


async def test_line_for_a_program_without_a_line_editor_is_judged_after_the_line_before(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    await write_to(shell.session, data="cat\n")
    shell.terminal.program, shell.terminal.is_canonical = (300, "cat"), True
    shell.terminal.feed(b"\r\n")
    await write_to(shell.session, data="echo 'a\n")
    assert (await shell.refusal("'; rm x\n")).details["rules"] == ["removal"]


@pytest.mark.parametrize("unparsed", ["ask", "deny"])
async def test_line_that_a_working_program_may_leave_to_the_shell_is_judged_as_unparsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unparsed: str
) -> None:
    monkeypatch.setattr(foreground_reader, "_READER_WAIT_S", 0.05)
    shell = await shell_in(tmp_path, programs="allow", unparsed=unparsed)
    await write_to(shell.session, data="make\n")
    shell.terminal.start_work()
    error = await shell.refusal('declare "$n=1"\n')
    assert error.code is (ErrorCode.APPROVAL_PENDING if unparsed == "ask" else ErrorCode.POLICY_DENIED)
    await write_to(shell.session, data="echo a\n")
    assert shell.sent.endswith("echo a\r")


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("reader", ["line", "keys", "prompt"])
async def test_line_that_may_be_left_to_the_shell_waits_until_something_reads(tmp_path: Path, reader: str) -> None:
    shell = await shell_in(tmp_path, programs="allow", unparsed="deny")
    await write_to(shell.session, data="sqlite3\n")
    shell.terminal.start_work()
    writing = asyncio.ensure_future(write_to(shell.session, data="insert $((n))\n"))
    assert not (await asyncio.wait([writing], timeout=0.05))[0]
    if reader == "line":
        shell.terminal.is_read = True
    elif reader == "keys":
        shell.terminal.start_sqlite()
    else:
        shell.terminal.program, shell.terminal.is_canonical, shell.terminal.is_read = SHELL, False, True
        shell.terminal.feed(b"\r\n" + PROMPT)
        with pytest.raises(PtyctlError, match="policy denies"):
            await writing
        return
    await writing
    assert shell.sent.endswith("$((n))\r")


async def test_answer_typed_at_once_that_may_be_left_to_the_shell_is_judged_as_unparsed(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, programs="allow", unparsed="deny")
    await write_to(shell.session, data="make\n")
    shell.terminal.start_work()
    assert (error := shell.type_now("echo $((n))\n")) is not None
    assert error.code is ErrorCode.POLICY_DENIED
    shell.terminal.is_read = True
    assert shell.type_now("echo $((n))\n") is None


async def test_line_is_read_after_the_output_that_the_kernel_has(tmp_path: Path) -> None:
    """A shell may complete a line, and show it, while the system is asked whether it has read the keys."""
    shell = await shell_in(tmp_path)
    await write_to(shell.session, data="r\t")
    shell.terminal.wakeup_count += 1
    shell.terminal.feed(b"r")
    await wait_until(shell.session.stream.signal.request_settled)
    shell.terminal.unread = b"m x "
    assert (await shell.refusal("\n")).details["rules"] == ["removal"]


async def test_line_with_several_readings_is_continued_as_it_was_typed(tmp_path: Path) -> None:
    """A reading with a part of the prompt (`~# cp`) would make a comment of the next line."""
    judge = (await shell_in(tmp_path, programs="allow")).session.authorization
    judge.lose_line()
    judge.typed(b"cp \\")
    judge._note_readings(["~# cp \\", "cp \\"])
    judge.typed(b"\r")
    assert judge._line.continued == "cp \\\n"


@pytest.mark.parametrize(("program", "incomplete"), [("cat", False), ("bash", True)])
async def test_prompt_follows_an_open_quote_only_if_a_program_has_read_it(
    tmp_path: Path, program: str, incomplete: bool
) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    await write_to(shell.session, data=f"{program}\n")
    shell.terminal.program, shell.terminal.is_canonical = (300, program), True
    shell.terminal.feed(b"\r\n")
    await write_to(shell.session, data="it's\n")
    assert shell.session.gate.unfinished_line.incomplete is incomplete


@pytest.mark.parametrize("is_read", [True, False])
async def test_answer_to_a_question_for_a_password_waits_until_it_is_read(tmp_path: Path, is_read: bool) -> None:
    shell = await shell_in(tmp_path)
    await write_to(shell.session, data="sudo true\n")
    shell.terminal.ask_password()
    shell.terminal.is_read = False
    request = PtyExpectSend(session_id="s", task_id="t", expect="word: ", send="rm x\n", from_cursor=0, timeout_ms=5_000)
    answering = asyncio.ensure_future(expect_send(shell.session, request))
    assert not (await asyncio.wait([answering], timeout=0.05))[0]
    if is_read:
        shell.terminal.is_read = True
    else:
        shell.terminal.program, shell.terminal.echo = SHELL, True
    assert (await answering).sent is is_read
    assert shell.sent == ("sudo true\rrm x\r" if is_read else "sudo true\r")


async def test_answer_typed_at_once_is_judged_by_lines_and_keys(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    assert shell.type_now("true\n") is None
    shell.terminal.wakeup_count += 1
    shell.terminal.feed(b"true\r\n$ ")
    for data, rules in (("rm x\n", ["removal"]), ("true\nrm x\n", ["removal"]), ("true\ny", [])):
        error = shell.type_now(data)
        assert error is not None
        assert (error.code, error.details["rules"]) == (ErrorCode.POLICY_DENIED, rules)
    held = shell.type_now("cp a b\n")
    assert held is not None
    assert held.code is ErrorCode.APPROVAL_PENDING


@pytest.mark.parametrize("data", ["true\n", "true\nls\n"])
async def test_line_is_unreadable_where_the_terminal_rewrites_input(tmp_path: Path, data: str) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    shell.terminal.is_rewriting = True
    assert (await shell.refusal(data)).details["reason"] == "unreadable"
    error = shell.type_now(data)
    assert error is not None
    assert error.details["reason"] == "unreadable"
    shell.terminal.is_rewriting = False
    await write_to(shell.session, data="true\n")


async def test_line_that_was_rewritten_when_it_was_typed_is_unreadable(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    shell.terminal.is_canonical = shell.terminal.is_rewriting = True
    await write_to(shell.session, data="RM")
    shell.terminal.is_rewriting = False
    await write_to(shell.session, data=" x")
    assert (await shell.refusal("\n")).details["reason"] == "unreadable"


@pytest.mark.parametrize("data", ["\x10\n", "tr\t\n", "true\n!tr\n", "true\n\x10\n"])
async def test_answer_typed_at_once_that_is_not_known_is_unreadable(tmp_path: Path, data: str) -> None:
    shell = await shell_in(tmp_path, programs="allow")
    error = shell.type_now(data)
    assert error is not None
    assert (error.code, error.details["reason"]) == (ErrorCode.POLICY_DENIED, "unreadable")


async def test_answer_typed_at_once_after_other_lines_is_no_password(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    shell.terminal.ask_password()
    error = shell.type_now("hunter2\nrm x\n")
    assert error is not None
    assert error.code is ErrorCode.POLICY_DENIED
    assert shell.type_now("rm x\n") is None


@pytest.mark.parametrize(
    ("data", "judged", "split"),
    [
        (b"echo", 0, Split(4, 0, 0)),
        (b"echo a\r", 0, Split(6, 0, 1)),
        (b"echo a\r", 1, Split(7, 1, 0)),
        (b"a\rb\rc", 1, Split(3, 1, 1)),
        (b"a\rb\rc", 2, Split(5, 2, 0)),
        (b"a\tb\rc", 0, Split(3, 0, 1)),
        (b"\x1b[200~a\rb\x1b[201~\r", 0, Split(7, 0, 1)),
    ],
)
async def test_input_is_split_before_the_first_key_that_is_not_judged(
    tmp_path: Path, data: bytes, judged: int, split: Split
) -> None:
    shell = await shell_in(tmp_path)
    assert shell.session.authorization.split(data, judged) == split
