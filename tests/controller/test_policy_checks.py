"""The policy on programs that an open starts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ptyctl import LocalController
from ptyctl.api import Controller
from ptyctl.api.errors import ErrorCode
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.controller.policies import PolicyStore
from ptyctl.controller.policy_checks import MAX_PROGRAM_TEXT
from ptyctl.controller.settings import Settings
from ptyctl.policy.rules import DecisionRequest, Verdict
from ptyctl.session.verdict_thread import LONG_TEXT
from tests.controller.session_calls import Open, refused

#: A destructive command that does nothing here: the device does not exist.
MKFS = "mkfs.ext4 /dev/nope"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": ("mkfs.ext4", "/dev/nope")}, "erases a file system"),
        ({"command": f"true; {MKFS}"}, "erases a file system"),
        ({"command": ("sh", "-c", f"echo ready; {MKFS}")}, "erases a file system"),
        ({"command": ("env", "A=1", "mkfs.ext4", "/dev/nope")}, "erases a file system"),
        ({"env": {"PROMPT_COMMAND": MKFS}}, "erases a file system"),
        ({"env": {"PAGER": f"cat; {MKFS}"}}, "erases a file system"),
        ({"env": {"FCEDIT": MKFS}}, "erases a file system"),
        ({"env": {"LESSOPEN": f"|{MKFS}"}}, "erases a file system"),
        ({"command": ("bash", "-i"), "env": {"PS1": f"$({MKFS})$ "}}, "erases a file system"),
        ({"protocol": "ssh", "host": "127.0.0.1", "port": 1, "command": "reload", "platform": "cisco_ios"}, "restarts"),
        ({"protocol": "ssh", "host": "127.0.0.1", "port": 1, "command": MKFS}, "erases a file system"),
    ],
)
async def test_open_with_program_that_needs_an_approval_starts_nothing(
    open_session: Open, fields: dict[str, Any], reason: str
) -> None:
    with refused(ErrorCode.POLICY_DENIED, reason) as error:
        await open_session(**fields)
    assert error.value.hint == "open a shell, and run the command there, where a person can approve it"
    assert error.value.details["decision"] == "ask"


@pytest.mark.parametrize(
    "fields",
    [{"command": f"{MKFS}; : {'x' * LONG_TEXT}"}, {"command": "cat", "env": {"PAGER": f"{MKFS}; : {'x' * LONG_TEXT}"}}],
    ids=["command", "env"],
)
async def test_long_program_is_judged_outside_the_event_loop(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    threads, verdict = set[int](), PolicyStore.verdict

    def judge(store: PolicyStore, request: DecisionRequest) -> Verdict:
        threads.add(threading.get_ident())
        return verdict(store, request)

    monkeypatch.setattr(PolicyStore, "verdict", judge)
    with refused(ErrorCode.POLICY_DENIED, "erases a file system"):
        await open_reply(controller, **fields)
    assert threads
    assert threading.get_ident() not in threads


async def test_open_with_too_much_text_is_refused_before_it_is_judged(controller: Controller) -> None:
    with refused(ErrorCode.LIMIT_EXCEEDED) as error:
        await open_reply(controller, command=("cat",), env=dict.fromkeys(("PAGER", "EDITOR"), "x" * (MAX_PROGRAM_TEXT // 2)))
    assert error.value.details["limit"] == "max_program_text"


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ("sh", "-c", "echo ready; cat")},
        {"command": ("cat",)},
        {"command": ("bash", "--norc", "-i"), "env": {"PS1": "ready> ", "FOO": "1"}},
    ],
)
async def test_open_with_usual_program_is_allowed(controller: Controller, fields: dict[str, Any]) -> None:
    assert (await open_reply(controller, **fields)).message is None


async def test_open_with_program_that_cannot_be_judged_returns_a_warning(controller: Controller) -> None:
    reply = await open_reply(controller, command=("cat",), env={"LD_LIBRARY_PATH": "/nonexistent"})
    assert "LD_LIBRARY_PATH may change what runs" in (reply.message or "")


async def test_open_under_readonly_allows_variables_that_run_only_what_shows(tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path, policy="readonly")) as controller:
        reply = await open_reply(
            controller,
            command=("bash", "--norc"),
            env={"PAGER": "cat", "GIT_PAGER": "", "FOO": "1", "HISTFILE": "/nonexistent"},
        )
        assert reply.message is None
        for env in (
            {"PAGER": "vim"},
            {"SSH_ASKPASS": "vim"},
            {"PYTHONPATH": "/nonexistent"},
            {"GIT_CONFIG_COUNT": "1"},
            {"BASH_FUNC_ls%%": "() { touch x; }"},
            {"EDITOR": "sh -c 'touch x'"},
            {"HOME": "/nonexistent"},
            {"INPUTRC": "/nonexistent"},
        ):
            with refused(ErrorCode.POLICY_DENIED):
                await open_reply(controller, command=("bash", "--norc"), env=env)


async def open_reply(controller: Controller, **fields: Any) -> SessionReply:
    return await controller.session(SessionRequest.of({"action": "open", "protocol": "local", **fields}))
