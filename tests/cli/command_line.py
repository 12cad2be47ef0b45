"""Runs ptyctl commands in this process and captures their output and exit code."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from fixtures.forked_process import PTYCTL, ForkedProgram
from fixtures.processes import process_ids, words_of
from ptyctl.api.session import SessionRequest
from ptyctl.cli import run
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.daemon.client import RemoteController
from ptyctl.session.clients import Client, serving

BASH = ("--", "bash", "--norc", "--noprofile")
#: Start of the command lines that run `ptyctl` in another process.
PROGRAM = (sys.executable, "-c", PTYCTL)


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ptyctl(*arguments: str) -> CommandResult:
    """Run a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(list(arguments))
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
    out.flush()
    err.flush()
    return CommandResult(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def start(*arguments: str) -> ForkedProgram:
    """Start a command in another process."""
    return ForkedProgram(PTYCTL, *arguments)


def open_local(*options: str, command: tuple[str, ...] = BASH) -> str:
    """Open a local session and return its id."""
    result = ptyctl("open", "local", *options, *command)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}\n", result.out), result
    return result.out.strip()


def lock_as(principal: str, session_id: str, task_id: str) -> None:
    """Take the lock of a session as a task of an agent, as a server does for its clients."""

    async def lock() -> None:
        async with await RemoteController.connect(start=False) as controller:
            with serving(Client(Principal(principal, Kind.AGENT, Role.OPERATOR))):
                await controller.session(SessionRequest(action="lock", session_id=session_id, task_id=task_id))

    asyncio.run(lock())


def screen_rows(session_id: str) -> list[str]:
    """Return the rows of a session's screen."""
    rows: list[str] = ptyctl("screen", session_id, "--json").json["rows"]
    return rows


def is_one_line(text: str) -> bool:
    """Return whether `text` is one error message of ptyctl."""
    return text.startswith("ptyctl: ") and text.count("\n") == 1


def terminal_environment() -> dict[str, str]:
    """Return the variables that a command in another terminal needs to find this test's daemon."""
    return {name: value for name, value in os.environ.items() if name.startswith("PTYCTL_") or name == "HOME"}


def attach_pid(argument: str) -> int:
    """Return the process id of the `ptyctl attach` that has this argument."""
    for pid in process_ids():
        words = words_of(pid, "cmdline")
        if b"attach" in words and argument.encode() in words and words[0] == sys.executable.encode():
            return pid
    raise AssertionError(f"no ptyctl attach has the argument {argument}")
