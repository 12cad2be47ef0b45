"""Authorization of input: what the policy denies or holds never reaches the far end, however it is typed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ExecRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.pty import PtyExpectSend
from ptyctl.api.session import Pace
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.platforms import Platforms
from ptyctl.policy.evaluate import Evaluator
from ptyctl.policy.policy_file import load_policy
from ptyctl.policy.rules import Decision, Request, Verdict
from ptyctl.policy.shell_command import canonical_shell
from ptyctl.session.approvals import Approval, Approvals
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.expect_send import expect_send
from ptyctl.session.calls.lock import lock
from ptyctl.session.calls.mode_change import change_mode, save
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs import runs
from ptyctl.session.session import Session

from .crash_simulation import restore, simulate_crash
from .scripted_session import connect_session, run_command, split_at, wait_until, write_to

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
        self.judged: list[str] = []

    def verdict(self, request: Request) -> Verdict:
        self.judged.append(request.text)
        return evaluator().verdict(request)

    def verdict_by_rules(self, request: Request, *, known_only: bool = False) -> Verdict:
        return evaluator().verdict_by_rules(request, known_only=known_only)

    def unreadable(self, request: Request) -> Verdict:
        return evaluator().unreadable(request)


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
    assert (block.status, executed(console.device)) == ("cancelled", [])


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
    console.approvals.approve(reply.approval.approval_id, BOB, text="reload in 5")
    final = await execute(console.session, ExecRequest.of({"session_id": "s", "block_id": reply.block_id}), None)
    assert (final.edited, final.cmd, executed(console.device)) == (True, "reload in 5", ["reload in 5"])


async def test_edited_command_is_judged_as_its_callers(console: Supervised) -> None:
    reply = await run_command(console.session, "reload", timeout_ms=0)
    assert reply.approval is not None
    with pytest.raises(PtyctlError) as caught:
        console.approvals.approve(reply.approval.approval_id, BOB, text="boot system flash:x")
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
    assert console.session.blocks.get(reply.block_id).status == "cancelled"  # type: ignore[union-attr]


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

    def verdict(self, request: Request) -> Verdict:
        verdict = super().verdict(request)
        reads = request.text.startswith("show") or not request.text
        return verdict if reads else Verdict(Decision.DENY, (), "read only", request.text)


class AllowsBreak(Rules):
    """Allows `break`."""

    def verdict(self, request: Request) -> Verdict:
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
