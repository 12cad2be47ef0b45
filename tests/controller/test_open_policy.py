"""The policy on programs that an open starts."""

from __future__ import annotations

from typing import Any

import pytest

from ptyctl.api import Controller
from ptyctl.api.errors import ErrorCode
from ptyctl.api.session import SessionReply, SessionRequest
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


async def open_reply(controller: Controller, **fields: Any) -> SessionReply:
    return await controller.session(SessionRequest.of({"action": "open", "protocol": "local", **fields}))
