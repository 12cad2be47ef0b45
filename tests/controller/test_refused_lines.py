"""Lines that the policy refuses: what stays in the shell, and what may be typed after them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import Client, serving

from .session_calls import PATIENCE_MS

POLICY = """
extends = ["guarded"]
[[rules]]
id = "refused"
regex = "forbidden"
decision = "deny"
reason = "a test"
[[rules]]
id = "asked"
regex = "questionable"
decision = "ask"
reason = "a question"
"""
SHELLS = {"bash": ["bash", "--norc"], "zsh": ["zsh", "-f"], "fish": ["fish", "--no-config"], "dash": ["dash"], "ksh": ["ksh"]}
APPROVER = Principal("bob", Kind.PERSON, Role.APPROVER)
PASTE = "\x1b[200~echo a\necho b\x1b[201~\n"


class Shell:
    """A session with a shell, as one task types into it."""

    def __init__(self, controller: LocalController, session_id: str) -> None:
        self._controller, self._session_id = controller, session_id

    async def type(self, text: str, approval_id: str | None = None, task: str = "one") -> None:
        fields: dict[str, object] = {"action": "write", "session_id": self._session_id, "task_id": task}
        if approval_id is not None:
            fields["approval_id"] = approval_id
        await self._controller.io(IoRequest.of({**fields, "data": text}))

    async def key(self, name: str) -> None:
        await self._controller.io(
            IoRequest.of({"action": "write", "session_id": self._session_id, "task_id": "one", "key": name})
        )

    async def until(self, regex: str) -> None:
        fields = {"action": "read", "session_id": self._session_id, "cursor": "0", "timeout_ms": PATIENCE_MS}
        reply = await self._controller.io(IoRequest.of({**fields, "until_regex": regex}))
        assert reply.matched, reply.chunk

    async def approved(self, text: str) -> None:
        """Type a line that needs an approval, let a person approve it, and type it then."""
        asked = await self.refused(text)
        assert asked.details["held"], asked
        await self.approve(asked)
        await self.type(text, asked.details["approval_id"])

    async def approve(self, asked: PtyctlError) -> None:
        """Approve the request of a refused line, as another person."""
        assert asked.code is ErrorCode.APPROVAL_PENDING, asked
        with serving(Client(APPROVER)):
            request = {"action": "approve", "approval_id": asked.details["approval_id"], "via": "cli"}
            await self._controller.approvals(ApprovalsRequest.of(request))

    async def refused(self, text: str, approval_id: str | None = None) -> PtyctlError:
        with pytest.raises(PtyctlError) as refused:
            await self.type(text, approval_id)
        return refused.value

    async def exec(self, command: str) -> str:
        fields = {"session_id": self._session_id, "cmd": command, "timeout_ms": PATIENCE_MS, "task_id": "one"}
        return (await self._controller.exec(ExecRequest.of(fields))).stdout


Start = Callable[[str], Awaitable[Shell]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with LocalController(Settings(state_dir=tmp_path / "state", policy=str(tmp_path / "policy.toml"))) as controller:

        async def start(name: str) -> Shell:
            require_program(SHELLS[name][0], SHELLS[name][0])
            request = {"action": "open", "protocol": "local", "command": SHELLS[name], "cwd": str(tmp_path)}
            reply = await controller.session(SessionRequest.of(request))
            assert reply.session_id is not None
            shell = Shell(controller, reply.session_id)
            await shell.exec("true")
            return shell

        yield start


@pytest.mark.parametrize("name", ["bash", "zsh", "dash", "ksh"])
async def test_refusal_within_here_document_holds_the_next_lines_of_its_writer(start: Start, tmp_path: Path, name: str) -> None:
    shell = await start(name)
    await shell.type("cat <<X\n")
    await shell.type("one\n")
    refused = await shell.refused("forbidden\n")
    assert (refused.code, refused.details["held"], refused.hint) == (ErrorCode.POLICY_DENIED, True, NextStep.LEAVE_UNFINISHED)
    for text in ("touch RAN\n", "x", "X\n"):
        held = await shell.refused(text)
        assert (held.code, held.details["reason"], held.hint) == (ErrorCode.BUSY, "continuation", NextStep.LEAVE_UNFINISHED)
    await shell.key("ctrl_c")
    await shell.exec("true")  # waits for the prompt: zsh and dash drop what is typed before it
    await shell.type("echo af''ter\n")
    await shell.until(r"after\s")
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "dash", "ksh"])
async def test_refused_part_of_a_line_within_here_document_is_erased_without_ending_it(start: Start, name: str) -> None:
    shell = await start(name)
    await shell.type("cat <<X\n")
    await shell.type("forbi")
    await shell.until("forbi")
    assert (await shell.refused("dden\n")).details["erased"] is True
    assert (await shell.refused("one\n")).code is ErrorCode.BUSY
    await shell.type("two\nX\n", task="other")  # ends the command, so that the input is not held any more
    await shell.until(r"X\s+(?:> )?two\s")  # a line that was typed ahead is echoed before the continuation prompt
    await shell.type("echo af''ter\n")
    await shell.until(r"after\s")


@pytest.mark.parametrize("typed", ["", "quest"])  # the beginning of the line, which is erased at the refusal
@pytest.mark.parametrize("name", ["bash", "zsh", "dash", "ksh"])
async def test_approved_line_of_here_document_is_typed_and_input_goes_on(start: Start, name: str, typed: str) -> None:
    shell = await start(name)
    await shell.type("tr a-z A-Z <<X\n")
    await shell.type("one\n")
    if typed:
        await shell.type(typed)
        await shell.until(typed)
    await shell.approved("questionable\n".removeprefix(typed))
    await shell.type("two\nX\n")
    await shell.until(r"ONE\s+QUESTIONABLE\s+TWO\s")


@pytest.mark.parametrize("name", SHELLS)
async def test_approved_last_line_of_quoted_text_ends_the_command(start: Start, name: str) -> None:
    shell = await start(name)
    await shell.type("echo '\n")
    await shell.type("quest")
    await shell.until("quest")
    await shell.approved("ionable' | tr a-z A-Z\n")
    await shell.until("QUESTIONABLE")


async def test_approval_of_a_line_in_an_unfinished_command_is_stale_in_the_next_one(start: Start) -> None:
    shell = await start("bash")
    await shell.type("cat <<X\n")
    asked = await shell.refused("questionable\n")
    await shell.type("X\nbash <<X\n", task="other")
    await shell.approve(asked)
    stale = await shell.refused("questionable\n", asked.details["approval_id"])
    assert (stale.code, stale.details["reason"]) == (ErrorCode.DECLINED, "stale")


async def test_refusal_at_the_prompt_holds_nothing(start: Start) -> None:
    shell = await start("bash")
    assert "held" not in (await shell.refused("forbidden\n")).details
    await shell.type("echo af''ter\n")
    await shell.until(r"after\s")


@pytest.mark.parametrize(
    ("name", "text"),
    [*((name, "echo a\necho b\n") for name in SHELLS), *((name, PASTE) for name in ("bash", "zsh", "fish"))],
)
async def test_several_lines_after_ctrl_c_at_the_prompt_are_typed(start: Start, name: str, text: str) -> None:
    shell = await start(name)
    for _ in range(2):
        await shell.type("abc")
        await shell.until("abc")
        await shell.key("ctrl_c")
    await shell.type(text)
    await shell.until(r"b\s+b\s|(?m)^b\s")


@pytest.mark.parametrize("then", ["paste", "exec"])
async def test_line_that_fish_keeps_at_ctrl_c_is_cleared_before_the_next(start: Start, then: str) -> None:
    """fish does not notice Ctrl-C for its line while it draws, or runs a function of a key."""
    shell = await start("fish")
    await shell.exec("function work; echo -n wor''king; while true; end; end; bind \\cg work")
    await shell.type("abc")
    await shell.until("abc")
    await shell.key("ctrl_g")
    await shell.until("working")
    await shell.key("ctrl_c")
    if then == "exec":
        assert await shell.exec("echo b") == "b\n"
    else:
        await shell.type(PASTE)
        await shell.until(r"(?m)^a\s+b\s")
