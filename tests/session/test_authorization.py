"""Authorization of input: what the policy denies or holds never reaches the far end, however it is typed."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.loop_turns import counted_turns
from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ExecRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.pty import PtyExpectSend
from ptyctl.api.session import Pace
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.platforms import Platforms
from ptyctl.policy.evaluate import Evaluator
from ptyctl.policy.policy_file import load_policy
from ptyctl.policy.rules import Decision, DecisionRequest, Verdict
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.session import authorization, verdict_thread
from ptyctl.session.approvals import Approval, Approvals
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.expect_send import expect_send
from ptyctl.session.calls.lock import lock
from ptyctl.session.calls.mode_change import change_mode, save
from ptyctl.session.enforcement import Enforcement
from ptyctl.session.foreground_reader import asks_password
from ptyctl.session.io.gate import Refusal, Writer
from ptyctl.session.judgement import Place
from ptyctl.session.runs import runs
from ptyctl.session.session import Session
from ptyctl.session.verdict_thread import LONG_TEXT, judge_in_thread

from .crash_simulation import restore, simulate_crash
from .scripted_session import connect_session, run_command, split_at, wait_until, write_to

pytestmark = pytest.mark.waits

BOB = Principal("bob", Kind.PERSON, Role.APPROVER)
RULES = """
extends = ["off"]
unreadable = "ask"

[[rules]]
id = "forbidden"
when = { platform = "*" }
command = ["erase"]
decision = "deny"
reason = "it destroys the start-up configuration"

[[rules]]
id = "held"
when = { platform = "*" }
command = ["reload"]
decision = "ask"
reason = "it interrupts the service"

[[rules]]
id = "breaks"
command = ["break"]
decision = "ask"
reason = "it stops the boot loader"

[[rules]]
id = "people"
when = { kind = "person" }
command = ["boot"]
decision = "deny"
reason = "people do not change what is booted"

[[rules]]
id = "noted"
when = { platform = "*" }
command = [["clear", "write"]]
decision = "warn"
reason = "counters or a file are lost"
"""


@cache
def evaluator() -> Evaluator:
    platforms = Platforms(None).all()
    return load_policy("rules", read=lambda name: RULES, platforms=platforms, read_shell=canonical_shell).evaluator


class Rules:
    """The policy of these tests; `judged` has the texts that it was asked about."""

    name = "rules"

    def __init__(self) -> None:
        self.identity: object = None
        #: The verdict on texts that the policy judges after it was loaded again, by the text.
        self.changed: dict[str, Verdict] = {}
        self.judged: list[str] = []
        #: The threads that judged texts.
        self.threads: set[int] = set()

    def verdict(self, request: DecisionRequest) -> Verdict:
        self.judged.append(request.text)
        self.threads.add(threading.get_ident())
        return self.changed.get(request.text) or evaluator().verdict(request)

    def reload(self, text: str, decision: Decision, rule: str) -> None:
        """Load the policy again with another rule for a text."""
        self.identity = object()
        self.changed[text] = replace(evaluator().verdict(DecisionRequest(text)), decision=decision, rules=(rule,), reason=rule)

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        return evaluator().verdict_by_rules(request, known_only=known_only)

    def unreadable(self, request: DecisionRequest) -> Verdict:
        return evaluator().unreadable(request)


class Rows:
    """An audit log in memory."""

    failure: str | None = None

    def __init__(self) -> None:
        self.recorded: list[dict[str, Any]] = []

    def record(self, event: str, **fields: object) -> None:
        self.recorded.append({"event": event, **{name: value for name, value in fields.items() if value is not None}})

    def check(self) -> None:
        pass


class Device(MemoryChannel):
    """A command line that echoes, records each submitted line in `lines`, and edits with Ctrl-U and Backspace."""

    def __init__(self) -> None:
        super().__init__(self.type)
        self.lines: list[str] = []
        self.line = ""

    def type(self, data: bytes) -> bytes:
        shown = ""
        for key in data.decode("utf-8", "replace"):
            if key in "\r\n":
                self.lines.append(self.line)
                shown, self.line = f"{shown}\r\nR1#", ""
            elif key in "\x15\x03":
                shown, self.line = shown + "\b \b" * len(self.line), ""
            elif key == "\x7f":
                shown, self.line = shown + "\b \b" * bool(self.line), self.line[:-1]
            elif key == "\0":  # ignored
                shown += "^@"
            elif key == "\x14":  # puts text into the next line, as `print -z` of zsh
                shown, self.line = shown + "\r\nR1#erase nvram:", "erase nvram:"
            elif key == "\x10":  # history
                shown, self.line = shown + "\b \b" * len(self.line) + "erase nvram:", "erase nvram:"
            elif key.isprintable():
                shown, self.line = shown + key, self.line + key
        return shown.encode()


class BusyDevice(Device):
    """Its commands do not end."""

    def type(self, data: bytes) -> bytes:
        return super().type(data).replace(b"R1#", b"")


class BreakDevice(Device):
    """A break inserts text."""

    async def send_break(self, duration_ms: int = 250) -> None:
        await super().send_break(duration_ms)
        self.feed(self.type(b"\x10"))


class LateDevice(Device):
    """It echoes after a delay, and has edited the line by then."""

    def type(self, data: bytes) -> bytes:
        asyncio.get_running_loop().call_later(0.3, lambda: self.feed(super(LateDevice, self).type(data)))
        return b""


class Supervised:
    """A session with these rules, its far end, and its approvals."""

    def __init__(self, session: Session, device: Device, approvals: Approvals, rules: Rules) -> None:
        self.session, self.device, self.approvals, self.rules = session, device, approvals, rules

    @property
    def requests(self) -> list[Approval]:
        return self.approvals.all()


async def supervised(folder: Path, device: Device | None = None) -> Supervised:
    device, approvals, rules = device or Device(), Approvals(), Rules()
    session = await connect_session(folder, device, platform="cisco_ios", probe_shell=False)
    session.set_platform(Platforms(None).get("cisco_ios"))
    session.authorization.set_policy(rules, approvals)
    device.feed(b"\r\nR1#")
    await wait_until(lambda: session.stream.raw_size > 0)
    return Supervised(session, device, approvals, rules)


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Supervised]:
    console = await supervised(tmp_path)
    yield console
    await console.session.close()


def executed(device: Device) -> list[str]:
    """The lines that the device ran, without empty ones."""
    return [line for line in device.lines if line]


async def refusal(call: object) -> PtyctlError:
    with pytest.raises(PtyctlError) as caught:
        await call  # type: ignore[misc]
    return caught.value


async def test_denied_command_is_not_typed_and_names_the_rule(console: Supervised) -> None:
    error = await refusal(run_command(console.session, "erase startup-config"))
    assert (error.code, error.details["rules"]) == (ErrorCode.POLICY_DENIED, ["forbidden"])
    assert executed(console.device) == []


async def test_denied_command_has_a_block_an_event_and_an_audit_row(console: Supervised) -> None:
    rows = Rows()
    console.session.activity.set_recorder(rows)
    await run_command(console.session, "show clock")
    begun, before = console.session.blocks.latest(), console.session.events.cursor
    error = await refusal(run_command(console.session, "erase startup-config", task_id="night"))
    (block,), _ = await console.session.blocks.since(2, 10)
    assert (block.cmd, block.status, block.refused, block.task_id) == ("erase startup-config", "cancelled", "denied", "night")
    assert (block.block_id, block.raw_end) == (error.details["block_id"], block.raw_begin)
    assert block.reason is not None
    assert "forbidden" in block.reason
    assert console.session.blocks.latest() is begun
    events, _ = console.session.events.since(before)
    assert [(event["type"], event["block"]["refused"]) for event in events] == [("block_refused", "denied")]
    (row,) = [row for row in rows.recorded if row["event"] == "denied"]
    assert (row["block_id"], row["text"], row["rules"], row["via"]) == (block.block_id, block.cmd, ["forbidden"], "exec")
    again = ExecRequest.of({"session_id": "s", "block_id": block.block_id})
    assert (await refusal(execute(console.session, again, None))).code is ErrorCode.POLICY_DENIED


async def test_denied_line_has_an_audit_row_without_a_secret(console: Supervised) -> None:
    rows = Rows()
    console.session.activity.set_recorder(rows)
    await refusal(write_to(console.session, data="erase nvram:\n", task_id="night"))
    await write_to(console.session, data="erase hunter2", sensitive=True)
    await refusal(write_to(console.session, data="\n"))
    first, second = [row for row in rows.recorded if row["event"] == "denied"]
    assert (first["task"], first["via"], first["text"], first["verdict"]) == ("night", "write", "erase nvram:", "deny")
    assert "text" not in second
    assert second["secret_bytes"] > 0
    assert not any("hunter2" in str(row) for row in rows.recorded)


class AskingDevice(Device):
    """A program that asks; `echoes`: whether it shows the answer."""

    def __init__(self, *, echoes: bool) -> None:
        super().__init__()
        self._echoes = echoes

    def type(self, data: bytes) -> bytes:
        shown = super().type(data).replace(b"R1#", b"")
        return shown if self._echoes else b""


async def ask(folder: Path, question: str, *, echoes: bool) -> tuple[Supervised, Rows]:
    asked, rows = await supervised(folder, AskingDevice(echoes=echoes)), Rows()
    asked.session.activity.set_recorder(rows)
    asked.session.prompt.learn("R1#")
    asked.device.feed(f"\r\n{question}".encode())
    await wait_until(lambda: asked.session.terminal.last_line().rstrip().endswith(question.strip()))
    return asked, rows


QUESTIONS = ["Kennwort: ", "סיסמה: ", "Code : ", "PIN? "]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("text", "by_key"), [("erase hunter2", False), ("erase hunter2", True), ("reload hunter2", True)])
async def test_refused_text_without_echo_is_recorded_by_its_length(
    tmp_path: Path, question: str, text: str, by_key: bool
) -> None:
    asked, rows = await ask(tmp_path, question, echoes=False)
    if by_key:
        for key in text:
            await write_to(asked.session, data=key)
    error = await refusal(write_to(asked.session, data="\n" if by_key else f"{text}\n"))
    assert error.code is ErrorCode.POLICY_DENIED
    assert "hunter2" not in f"{error.message} {error.details}"
    assert asked.requests == []
    (row,) = [row for row in rows.recorded if row["event"] == "denied"]
    assert row["secret_bytes"] == len(text)
    assert "hunter2" not in str(rows.recorded)
    await asked.session.close()


@pytest.mark.parametrize("by_key", [False, True])
async def test_answer_with_echo_is_held_for_an_approval(tmp_path: Path, by_key: bool) -> None:
    asked, _ = await ask(tmp_path, "What? ", echoes=True)
    if by_key:
        for key in "reload now":
            await write_to(asked.session, data=key)
        await wait_until(lambda: asked.session.terminal.last_line().endswith("now"))
    error = await refusal(write_to(asked.session, data="\n" if by_key else "reload now\n"))
    assert error.code is ErrorCode.APPROVAL_PENDING
    assert [request.text for request in asked.requests] == ["reload now"]
    await asked.session.close()


async def test_command_without_a_policy_that_could_be_loaded_has_no_block(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: DecisionRequest) -> Verdict:
        raise PtyctlError(ErrorCode.POLICY_DENIED, "no policy could be loaded")

    monkeypatch.setattr(console.rules, "verdict", fail)
    error = await refusal(run_command(console.session, "show clock"))
    assert (error.code, "block_id" in error.details) == (ErrorCode.POLICY_DENIED, False)
    assert (await console.session.blocks.since(1, 10))[0] == []


async def test_row_of_a_denied_secret_command_has_no_block_id(console: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    console.session.activity.set_recorder(rows)
    monkeypatch.setattr(Enforcement, "_is_secret", lambda self, writer, places, denied: True)
    await refusal(run_command(console.session, "erase hunter2"))
    (row,) = [row for row in rows.recorded if row["event"] == "denied"]
    assert ("block_id" in row, row["via"], "hunter2" in str(row)) == (False, "exec", False)


async def test_check_of_a_session_leaves_the_verdict_on_a_command_that_was_judged_ahead(console: Supervised) -> None:
    authorization, writer, text = (
        console.session.authorization,
        Writer("t"),
        "show users\n" * LONG_TEXT,
    )
    await authorization.judge_ahead(text, writer)
    await authorization.check("show clock", writer, None, None)
    authorization.judge_command(text, writer, "b1", is_quoted=True)
    assert console.rules.judged == [text, "show clock"]


async def test_long_texts_are_judged_outside_the_event_loop(console: Supervised) -> None:
    authorization, writer = console.session.authorization, Writer("t")
    text = "show clock\n" * 60
    await authorization.review(text.encode(), writer)
    await authorization.check(text, writer, None, None)
    await authorization.judge_ahead(text, writer)
    assert len(console.rules.judged) >= 3
    assert threading.get_ident() not in console.rules.threads
    authorization.judge_command(text, writer, "b1", is_quoted=True)
    assert threading.get_ident() not in console.rules.threads


async def test_thread_that_judges_reads_no_state_of_the_session(console: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[int]()
    monkeypatch.setattr(console.session.terminal, "echo_off", lambda: bool(threads.append(threading.get_ident())))
    await console.session.authorization.check("show clock\n" * LONG_TEXT, Writer("t"), None, "program")
    assert set(threads) == {threading.get_ident()}


async def test_long_edited_text_is_judged_outside_the_event_loop(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.rules.threads.clear()
    text = "show clock\n" * LONG_TEXT + "show users"
    await console.approvals.approve_edited(reply.approval.approval_id, BOB, text)
    assert (console.rules.judged[-1], threading.get_ident() in console.rules.threads) == (text, False)


async def test_edited_text_that_an_earlier_policy_has_judged_is_not_approved(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    monkeypatch.setattr(Rules, "identity", property(lambda rules: object(), lambda rules, value: None), raising=False)
    error = await refusal(console.approvals.approve_edited(reply.approval.approval_id, BOB, "show clock"))
    assert (error.code, console.requests[0].state) == (ErrorCode.BUSY, "pending")


async def test_long_command_that_was_judged_for_another_place_is_not_run(console: Supervised) -> None:
    authorization, writer, text = console.session.authorization, Writer("t"), "show users\n" * LONG_TEXT
    await authorization.judge_ahead(text, writer)
    console.device.feed(b"\r\nR1(config)#")
    await wait_until(lambda: console.session.terminal.last_line() == "R1(config)#")
    with pytest.raises(PtyctlError) as caught:
        authorization.judge_command(text, writer, "b1", is_quoted=True)
    assert (caught.value.code, caught.value.details["reason"]) == (ErrorCode.BUSY, "place_changed")


async def test_long_command_that_was_judged_by_an_earlier_policy_is_not_run(console: Supervised) -> None:
    authorization, writer = console.session.authorization, Writer("t")
    text = "show " + "x" * LONG_TEXT
    await authorization.judge_ahead(text, writer)
    console.rules.identity = object()
    with pytest.raises(PtyctlError) as caught:
        authorization.judge_command(text, writer, "b", is_quoted=True)
    assert caught.value.code is ErrorCode.BUSY


class Reloaded(Rules):
    """It allows everything until it is loaded again, at the end of a judgement in the thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.loads = 1
        for module in (verdict_thread, authorization):
            monkeypatch.setattr(module, "LONG_TEXT", 0)
            monkeypatch.setattr(module, "judge_in_thread", self.judge)

    async def judge(self, judge: Callable[[], Any]) -> Any:
        verdict = await judge_in_thread(judge)
        if self.loads:
            self.loads -= 1
            self.identity = object()
        return verdict

    def verdict(self, request: DecisionRequest) -> Verdict:
        return super().verdict(request if self.identity else replace(request, text="show clock"))

    def verdict_by_rules(self, request: DecisionRequest, *, known_only: bool = False) -> Verdict:
        request = request if self.identity else replace(request, text="show clock")
        return super().verdict_by_rules(request, known_only=known_only)


@pytest.mark.parametrize("keys", ["erase nvram:\n", "show clock\nerase nvram:\n", "\x10\n"])
async def test_line_that_an_earlier_policy_has_judged_is_judged_again(
    console: Supervised, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    console.session.authorization.set_policy(Reloaded(monkeypatch), console.approvals)
    error = await refusal(write_to(console.session, data=keys))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


async def test_keys_that_an_earlier_policy_has_judged_are_judged_again(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = console.session.authorization
    judge.set_policy(Reloaded(monkeypatch), console.approvals)
    monkeypatch.setattr(judge, "_places_of_keys", lambda keys, follows: (Place("cisco_ios"),))
    with pytest.raises(Refusal) as caught:
        await judge._judge_single_keys(b"erase nvram:", Writer("t"), follows=False)
    assert caught.value.error.code is ErrorCode.POLICY_DENIED


@pytest.mark.parametrize("keys", ["show clock\n", "\x10\n"])
async def test_line_whose_policy_is_loaded_again_during_each_judgement_is_busy(
    console: Supervised, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    rules = Reloaded(monkeypatch)
    rules.loads = 1 << 30
    console.session.authorization.set_policy(rules, console.approvals)
    error = await refusal(write_to(console.session, data=keys))
    assert (error.code, error.details["reason"], executed(console.device)) == (ErrorCode.BUSY, "place_changed", [])


async def test_lines_are_judged_again_if_the_policy_was_loaded_while_the_keys_after_them_were_judged(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, rules = console.session.authorization, Reloaded(monkeypatch)
    rules.loads = 0
    judge.set_policy(rules, console.approvals)

    async def judge_keys(data: bytes, writer: Writer) -> None:
        rules.identity = rules.identity or object()

    monkeypatch.setattr(judge, "_judge_keys", judge_keys)
    with pytest.raises(Refusal) as caught:
        await judge.review(b"erase nvram:\nkeys", Writer("t"))
    assert caught.value.error.code is ErrorCode.POLICY_DENIED


@pytest.mark.parametrize(
    ("line", "typed", "learned", "expected"),
    [
        ("Password:", "", "R1#", True),
        ("Password:", "s", "R1#", True),
        ("R1#show run | i password:", "show run | i password:", "R1#", False),
        ("R1#show run | i password:", "", "R1#", False),
        ("R2#show run | i password:", "show run | i password:", None, False),
        ("[sudo] password for a:", "secret", "$", True),
    ],
)
def test_line_asks_for_a_password_unless_it_shows_a_typed_command(
    line: str, typed: str, learned: str | None, expected: bool
) -> None:
    profile = Platforms(None).all()["cisco_ios"].profile
    assert asks_password(line, typed, learned, profile) is expected


async def test_other_tasks_run_while_the_keys_of_a_long_write_are_followed(console: Supervised) -> None:
    with counted_turns() as turns:
        assert await console.session.authorization.review(b"\x01" * 65_536 + b"\r", Writer("t")) == 0
    assert turns.count >= 20


async def test_verdict_that_takes_too_long_sends_nothing(console: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.session.judgement.VERDICT_S", -1.0)
    error = await refusal(console.session.gate.type("show clock\n" * 60, Writer("t")))
    assert error.code is ErrorCode.LIMIT_EXCEEDED
    assert console.device.lines == []


async def test_long_answer_is_refused_instead_of_judged_at_once(console: Supervised) -> None:
    with pytest.raises(PtyctlError) as caught:
        console.session.gate.type_now("a" * LONG_TEXT + "\n", Writer("t"))
    assert (caught.value.code, caught.value.details["reason"]) == (ErrorCode.POLICY_DENIED, "too_long")
    assert (console.device.lines, console.rules.judged) == ([], [])
    console.session.gate.type_now("a" * (LONG_TEXT - 1) + "\n", Writer("t"))
    await wait_until(lambda: executed(console.device) == ["a" * (LONG_TEXT - 1)])


async def test_warned_command_is_typed_and_reported(console: Supervised) -> None:
    reply = await run_command(console.session, "clear counters")
    assert reply.policy is not None
    assert (reply.policy.rules, executed(console.device)) == (["noted"], ["clear counters"])


async def test_held_command_runs_once_it_is_approved(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert (reply.done_reason, executed(console.device)) == ("approval", [])
    assert reply.approval is not None
    console.approvals.approve(reply.approval.approval_id, BOB)
    again = ExecRequest.of({"session_id": "s", "block_id": reply.block_id, "timeout_ms": 50_000})
    final = await execute(console.session, again, None)
    assert (final.done_reason, final.block_id, executed(console.device)) == ("prompt", reply.block_id, ["reload"])
    assert console.session.blocks.get(reply.block_id).status == "completed"  # type: ignore[union-attr]


async def test_command_judged_for_a_program_needs_an_approval_of_its_text_for_a_shell(console: Supervised) -> None:
    await run_command(console.session, "reload", timeout_ms=0)
    (request,) = console.requests
    console.approvals.approve(request.approval_id, BOB)
    check, approved = partial(console.session.authorization.check_for_shell, block_id="b", is_quoted=True), Writer()
    approved.review.record_approval(request, edited=False)
    check("show clock", Writer())
    check("reload", approved)
    for writer, text, code in (
        (Writer(), "reload", ErrorCode.BUSY),
        (approved, "reload in 5", ErrorCode.BUSY),
        (approved, "erase startup-config", ErrorCode.POLICY_DENIED),
    ):
        with pytest.raises(PtyctlError) as refused:
            check(text, writer)
        assert refused.value.code is code


async def test_tab_in_a_command_judged_for_a_program_is_a_key_for_a_shell(console: Supervised) -> None:
    text = "show clock\t"
    with pytest.raises(PtyctlError) as refused:
        console.session.authorization.check_for_shell(text, Writer(), "b", is_quoted=False)
    assert refused.value.details["reason"] == "place_changed"
    console.session.authorization.check_for_shell(text, Writer(), "b", is_quoted=True)


async def test_other_commands_run_while_one_is_held(console: Supervised) -> None:
    held = await run_command(console.session, "reload", timeout_ms=0)
    assert (await run_command(console.session, "show clock")).done_reason == "prompt"
    assert held.approval is not None
    console.approvals.approve(held.approval.approval_id, BOB)
    await wait_until(lambda: executed(console.device) == ["show clock", "reload"])


async def test_declined_command_reports_the_comment(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.approvals.decline(reply.approval.approval_id, BOB, comment="not before 22:00")
    again = ExecRequest.of({"session_id": "s", "block_id": reply.block_id})
    error = await refusal(execute(console.session, again, None))
    assert (error.code, error.details["comment"]) == (ErrorCode.DECLINED, "not before 22:00")
    block = console.session.blocks.get(reply.block_id)
    assert block is not None
    assert (block.status, block.refused, executed(console.device)) == ("cancelled", "declined", [])


async def test_wait_for_declined_command_that_is_no_longer_known_reports_why(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "KEPT_RUNS", 1)
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.approvals.decline(reply.approval.approval_id, BOB, comment="not before 22:00")
    await run_command(console.session, "show clock")
    again = ExecRequest.of({"session_id": "s", "cmd": "reload", "approval_id": reply.approval.approval_id})
    error = await refusal(execute(console.session, again, None))
    assert (error.code, error.details["comment"]) == (ErrorCode.DECLINED, "not before 22:00")


async def test_declined_command_does_not_end_the_output_that_an_answer_may_match(console: Supervised) -> None:
    await run_command(console.session, "show clock")
    shown = console.session.blocks.latest()
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.device.feed(b"\r\nSave? ")
    console.approvals.decline(reply.approval.approval_id, BOB)
    assert console.session.blocks.latest() is shown
    request = PtyExpectSend(session_id="s", expect="Save? ", send="n", from_cursor=0, timeout_ms=60_000)
    assert (await expect_send(console.session, request)).sent


async def test_command_declined_during_another_one_has_no_events_after_a_crash(tmp_path: Path) -> None:
    console = await supervised(tmp_path, BusyDevice())
    held = await run_command(console.session, "reload", timeout_ms=0)
    running = await run_command(console.session, "show tech", timeout_ms=0)
    await wait_until(lambda: executed(console.device) == ["show tech"])
    assert held.approval is not None
    console.approvals.decline(held.approval.approval_id, BOB)
    lost = await restore(await simulate_crash(console.session, tmp_path))
    assert [(block.block_id, block.status) for block in lost.blocks.all()] == [
        (running.block_id, "cancelled"), (held.block_id, "cancelled")
    ]  # fmt: skip
    rows = [json.loads(line) for line in (lost.stream.folder / "events.jsonl").read_text().splitlines()]
    ids = [row["block"]["block_id"] for row in rows if row["type"] in ("agent_block_begin", "agent_block_end")]
    assert ids == [running.block_id] * 2
    lost.release_files()


async def test_edited_command_runs_as_edited(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    await console.approvals.approve_edited(reply.approval.approval_id, BOB, "reload in 5")
    final = await execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None)
    assert (final.edited, final.cmd, executed(console.device)) == (True, "reload in 5", ["reload in 5"])


async def test_edited_command_is_judged_as_its_callers(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    with pytest.raises(PtyctlError) as caught:
        await console.approvals.approve_edited(reply.approval.approval_id, BOB, "boot system flash:x")
    assert (caught.value.code, caught.value.details["rules"]) == (ErrorCode.POLICY_DENIED, ["people"])
    assert executed(console.device) == []


async def test_approval_is_stale_after_the_line_was_used(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    await write_to(console.session, data="half")
    console.approvals.approve(reply.approval.approval_id, BOB)
    error = await refusal(execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None))
    assert (error.code, error.details["reason"], executed(console.device)) == (ErrorCode.DECLINED, "stale", [])


async def test_session_end_withdraws_held_command(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    await console.session.close()
    assert [request.state for request in console.requests] == ["withdrawn"]
    assert console.session.blocks.get(reply.block_id).refused == "withdrawn"  # type: ignore[union-attr]


async def test_written_line_that_is_held_is_erased_and_typed_after_approval(console: Supervised) -> None:
    await write_to(console.session, data="relo")
    error = await refusal(write_to(console.session, data="ad\n"))
    assert (error.code, executed(console.device)) == (ErrorCode.APPROVAL_PENDING, [])
    await wait_until(lambda: console.session.terminal.last_line() == "R1#")
    approval_id = error.details["approval_id"]
    console.approvals.approve(approval_id, BOB)
    await write_to(console.session, data="ad\n", approval_id=approval_id)
    assert executed(console.device) == ["reload"]
    error = await refusal(write_to(console.session, data="ad\n", approval_id=approval_id))
    assert (error.code, error.details["reason"], executed(console.device)) == (ErrorCode.DECLINED, "used", ["reload"])


async def test_unknown_line_is_read_from_the_screen(console: Supervised) -> None:
    await write_to(console.session, key="ctrl_p")
    error = await refusal(write_to(console.session, key="enter"))
    assert (error.code, error.details["rules"], executed(console.device)) == (ErrorCode.POLICY_DENIED, ["forbidden"], [])
    await wait_until(lambda: console.session.terminal.last_line() == "R1#")
    await write_to(console.session, data="show clock\n")
    assert executed(console.device) == ["show clock"]


@pytest.mark.parametrize("keys", ["era\0se nvram:", "\x10\x03\x10", "\x10\x15\x10", "era\x10"])
async def test_unknown_line_of_several_keys_is_read_from_the_screen(console: Supervised, keys: str) -> None:
    await write_to(console.session, data=keys)
    error = await refusal(write_to(console.session, data="\n"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


#: Output and events in the middle of a typed line.
INTERRUPTIONS: dict[str, Callable[[Supervised], object]] = {
    "prompt": lambda console: console.device.feed(b"\r\nR1#"),
    "prompt of another mode": lambda console: console.device.feed(b"\r\nR1(config)#"),
    "prompt mark": lambda console: console.device.feed(b"\x1b]133;A\x07\r\nR1#\x1b]133;B\x07"),
    "mark of a command": lambda console: console.device.feed(b"\x1b]133;C\x07\x1b]133;D;0\x07R1#"),
    "log line": lambda console: console.device.feed(b"\r\n%SYS-5-CONFIG_I: Configured from console\r\nR1#era"),
    "resize": lambda console: console.session.resize(30, 5),
}


@pytest.mark.parametrize("name", INTERRUPTIONS)
async def test_line_that_output_or_a_resize_interrupts_is_judged_whole(console: Supervised, name: str) -> None:
    await write_to(console.session, data="era")
    received = console.session.stream.raw_size
    INTERRUPTIONS[name](console)
    await wait_until(lambda: name == "resize" or console.session.stream.raw_size > received)
    error = await refusal(write_to(console.session, data="se nvram:\n"))
    assert (error.code, error.details["rules"]) == (ErrorCode.POLICY_DENIED, ["forbidden"])
    assert executed(console.device) == []


async def test_unknown_line_is_read_from_the_screen_after_a_resize(console: Supervised) -> None:
    await write_to(console.session, key="ctrl_p")
    console.session.resize(10, 5)
    error = await refusal(write_to(console.session, key="enter"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


async def test_late_echo_is_waited_for(tmp_path: Path) -> None:
    console = await supervised(tmp_path, LateDevice())
    await write_to(console.session, data="show")
    await asyncio.sleep(0.2)
    await write_to(console.session, key="ctrl_p")  # its echo comes 0.2 s after that of the first key
    error = await refusal(write_to(console.session, key="enter"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])
    await console.session.close()


async def test_text_that_nobody_has_typed_is_read_from_the_screen(console: Supervised) -> None:
    await run_command(console.session, "show clock")
    console.device.feed(console.device.type(b"\x14"))
    await wait_until(lambda: console.session.terminal.last_line() == "R1#erase nvram:")
    error = await refusal(write_to(console.session, data="\n"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, ["show clock"])


async def test_standing_approval_of_keys_holds_in_a_program_and_lifts_no_denial(console: Supervised) -> None:
    error = await refusal(write_to(console.session, data="reload\n"))
    console.approvals.approve(error.details["approval_id"], BOB, keys_s=60)
    assert (await refusal(write_to(console.session, data="reload\n"))).code is ErrorCode.APPROVAL_PENDING  # at the prompt
    console.device.feed(b"\r\nSystem configuration has been modified. Save? [yes/no]: ")
    await wait_until(lambda: console.session.terminal.last_line().endswith(": "))
    assert (await refusal(write_to(console.session, data="erase nvram:\n"))).code is ErrorCode.POLICY_DENIED
    await write_to(console.session, data="reload\n")
    assert executed(console.device) == ["reload"]


async def test_line_that_an_interrupt_cuts_is_judged_again(console: Supervised) -> None:
    console.session.set_pace(Pace(chars_per_s=300))
    paste = asyncio.ensure_future(write_to(console.session, data=f"show {'a' * 24} erase x1\n"))
    await wait_until(lambda: console.device.line != "")
    await write_to(console.session, key="ctrl_c")
    error = await refusal(paste)
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


async def test_command_that_an_interrupt_cuts_is_not_typed_to_its_end(console: Supervised) -> None:
    console.session.set_pace(Pace(chars_per_s=300))
    running = asyncio.ensure_future(run_command(console.session, f"show {'a' * 60} erase x1"))
    await wait_until(lambda: console.device.line != "")
    await write_to(console.session, key="ctrl_c")
    error = await refusal(running)
    assert (error.code, error.details["reason"], executed(console.device)) == (ErrorCode.BUSY, "interrupted", [])


async def test_cancelled_write_leaves_the_line_that_was_sent(console: Supervised) -> None:
    console.session.set_pace(Pace(chars_per_s=50))
    paste = asyncio.ensure_future(write_to(console.session, data="erase" + "z" * 60))
    await wait_until(lambda: console.device.line == "erase")
    paste.cancel()
    await asyncio.wait([paste])
    error = await refusal(write_to(console.session, data="\n"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


async def test_control_characters_of_a_command_that_is_typed_unquoted_are_not_sent(console: Supervised) -> None:
    console.session.authorization.set_policy(Rules(), console.approvals)
    error = await refusal(run_command(console.session, "show\x15erase nvram:"))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


async def test_approval_is_stale_at_another_prompt(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.device.feed(b"\r\nR2#")
    await wait_until(lambda: console.session.terminal.last_line() == "R2#")
    console.approvals.approve(reply.approval.approval_id, BOB)
    error = await refusal(execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None))
    assert (error.details["reason"], executed(console.device)) == ("stale", [])


@pytest.mark.parametrize(
    ("decision", "rule", "edited"),
    [(Decision.DENY, "held", None), (Decision.ASK, "new", None), (Decision.ASK, "new", "reload in 5")],
)
async def test_approval_of_a_command_is_stale_under_a_policy_that_denies_it_or_has_another_rule(
    console: Supervised, decision: Decision, rule: str, edited: str | None
) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.rules.reload(edited or "reload", decision, rule)
    if edited is None:
        console.approvals.approve(reply.approval.approval_id, BOB, same_s=60)
    else:
        await console.approvals.approve_edited(reply.approval.approval_id, BOB, edited)
    error = await refusal(execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None))
    block = console.session.blocks.get(reply.block_id)
    assert block is not None
    assert (error.code, error.details["reason"], block.refused) == (ErrorCode.DECLINED, "stale", "stale")
    assert (executed(console.device), console.approvals.grants_of(reply.approval.approval_id)) == ([], [])


async def test_approval_of_a_command_is_used_under_a_policy_whose_same_rule_asks(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    console.rules.reload("reload", Decision.ASK, "held")
    console.approvals.approve(reply.approval.approval_id, BOB)
    await execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None)
    assert executed(console.device) == ["reload"]


async def test_approval_of_a_long_command_is_stale_under_another_policy(console: Supervised) -> None:
    reply = await run_command(console.session, "reload " + "x" * LONG_TEXT, timeout_ms=0)
    assert reply.approval is not None
    console.rules.identity = object()
    console.approvals.approve(reply.approval.approval_id, BOB)
    error = await refusal(execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None))
    assert (error.details["reason"], executed(console.device)) == ("stale", [])


async def test_approval_of_a_written_line_is_stale_under_a_policy_that_denies_it(console: Supervised) -> None:
    approval_id = (await refusal(write_to(console.session, data="reload\n"))).details["approval_id"]
    await wait_until(lambda: console.session.terminal.last_line() == "R1#")
    console.approvals.approve(approval_id, BOB)
    console.rules.reload("reload", Decision.DENY, "held")
    error = await refusal(write_to(console.session, data="reload\n", approval_id=approval_id))
    assert (error.code, error.details["reason"], executed(console.device)) == (ErrorCode.DECLINED, "stale", [])


async def test_text_that_is_no_unicode_is_not_asked_about(console: Supervised) -> None:
    data = base64.b64encode(b"reload \xff\r").decode()
    error = await refusal(write_to(console.session, data=data, encoding="base64"))
    assert (error.code, console.requests, executed(console.device)) == (ErrorCode.POLICY_DENIED, [], [])


async def test_decline_is_reported_although_the_lock_has_changed(console: Supervised) -> None:
    session = console.session
    reply = await run_command(session, "reload", timeout_ms=0)
    assert reply.approval is not None
    await lock(session, "other", 60.0)
    console.approvals.decline(reply.approval.approval_id, BOB, comment="no")
    error = await refusal(execute(session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None))
    assert (error.code, error.details["comment"]) == (ErrorCode.DECLINED, "no")


async def test_break_is_judged_as_a_command(console: Supervised) -> None:
    error = await refusal(write_to(console.session, key="break"))  # only text can be approved
    assert (error.code, error.details["rules"], console.requests) == (ErrorCode.POLICY_DENIED, ["breaks"], [])
    console.session.authorization.set_policy(ReadOnly(), console.approvals)
    error = await refusal(write_to(console.session, key="break"))
    assert (error.code, error.details["canonical"], console.device.breaks) == (ErrorCode.POLICY_DENIED, "break", [])


async def test_line_that_a_break_may_have_changed_is_read_from_the_screen(tmp_path: Path) -> None:
    console = await supervised(tmp_path, BreakDevice())
    console.session.authorization.set_policy(AllowsBreak(), console.approvals)
    await write_to(console.session, key="break")
    await wait_until(lambda: console.session.terminal.last_line().endswith("erase nvram:"))
    error = await refusal(write_to(console.session, data="\n"))
    assert (error.code, len(console.device.breaks), executed(console.device)) == (ErrorCode.POLICY_DENIED, 1, [])
    await console.session.close()


async def test_save_that_the_policy_warns_of_reports_it(console: Supervised) -> None:
    writer = Writer("t")
    await save(console.session, writer)
    warning = writer.review.warning()
    assert warning is not None
    assert (warning.rules, executed(console.device)) == (["noted"], ["write memory"])
    assert any("policy warning" in notice for notice in console.session.take_notices("t") or ())


@pytest.mark.parametrize("change", [lambda s: change_mode(s, "config", Writer("t")), lambda s: save(s, Writer("t"))])
async def test_denied_mode_change_or_save_types_nothing(
    console: Supervised, change: Callable[[Session], Coroutine[None, None, object]]
) -> None:
    console.session.authorization.set_policy(ReadOnly(), console.approvals)
    error = await refusal(change(console.session))
    assert (error.code, executed(console.device)) == (ErrorCode.POLICY_DENIED, [])


class ReadOnly(Rules):
    """Denies everything but `show`."""

    def verdict(self, request: DecisionRequest) -> Verdict:
        verdict = super().verdict(request)
        reads = request.text.startswith("show") or not request.text
        return verdict if reads else Verdict(Decision.DENY, (), "read only", request.text)


class AllowsBreak(Rules):
    """Allows `break`."""

    def verdict(self, request: DecisionRequest) -> Verdict:
        verdict = super().verdict(request)
        return Verdict(Decision.ALLOW, (), "", request.text) if request.text == "break" else verdict


TEXTS = ["erase nvram:", "era", "se", " nvram:", "reload", "re", "load", "show clock", "x"]
INPUT = st.lists(
    st.sampled_from([*TEXTS, "\n", "\r", "\x15", "\x7f", "\x10"]),
    min_size=1,
    max_size=12,
).map("".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=INPUT, cuts=st.lists(st.integers(0, 200), max_size=6))
async def test_written_input_cut_anywhere_never_runs_a_denied_or_held_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: Sequence[int]
) -> None:
    console = await supervised(tmp_path_factory.mktemp("session"))
    for piece in split_at(text.encode(), cuts):
        with suppress(PtyctlError):
            await write_to(console.session, data=piece.decode())
    assert not [line for line in executed(console.device) if line.strip() in ("erase nvram:", "reload")]
    await console.session.close()


async def test_canonical_form_of_many_lines_is_recorded_once(console: Supervised) -> None:
    """Recorded with each line, it would make the audit log grow with the square of the input."""
    rows = list[dict[str, object]]()

    class AuditRows:
        failure = None

        def record(self, event: str, **fields: object) -> None:
            rows.append(fields)

        def check(self) -> None:
            pass

    console.session.activity.set_recorder(AuditRows())
    for _ in range(2):
        await write_to(console.session, data="show clock\nshow users\nshow version\n")
    assert [row["canonical"] is not None for row in rows] == [True, False, False] * 2
    assert {row["verdict"] for row in rows} == {"allow"}


async def test_session_that_ends_while_a_long_command_is_judged_refuses_it(
    console: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judge_ahead(text: str, writer: Writer) -> None:
        console.device.end()
        await wait_until(lambda: console.session.stream.ended is not None)

    monkeypatch.setattr(console.session.authorization, "judge_ahead", judge_ahead)
    error = await refusal(run_command(console.session, "reload " + "x" * LONG_TEXT, timeout_ms=0))
    assert (error.code, console.requests) == (ErrorCode.REMOTE_CLOSED, [])
