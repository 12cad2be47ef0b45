"""`echo hi` in a local bash, from prompt to prompt."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from . import ours
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure, timed
from .libraries import pexpect_bash
from .local_pty import bare_pty, read_until_ends
from .table import Aim, Row

COMMAND = "echo hi"
ANSWER = "hi"
FLOOR = "bare loop"

BASH = ("bash", "--norc", "--noprofile")
PROMPT = "bench$ "
#: A shell that announces each prompt with an OSC, as ours does: that is a part of the work.
MARKS = {"PS1": PROMPT, "PROMPT_COMMAND": r"printf '\033]7777;%s\007' $?"}


@asynccontextmanager
async def _ours() -> AsyncIterator[Once]:
    async with ours.session(protocol="local", command=BASH) as session:

        async def call() -> str:
            reply = await session.exec(COMMAND)
            assert reply.exit_code == 0, reply
            return str(reply.stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _bare() -> AsyncIterator[Once]:
    with bare_pty(BASH, MARKS) as master:
        read_until_ends(master, PROMPT.encode())

        async def call() -> str:
            os.write(master, COMMAND.encode() + b"\r")
            return read_until_ends(master, PROMPT.encode()).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _pexpect() -> AsyncIterator[Once]:
    with pexpect_bash() as shell:

        async def call() -> str:
            return str(shell.run_command(COMMAND))

        yield timed(call, ANSWER)


async def _run(plan: Plan) -> Result:
    contestants = [Contestant(OURS, _ours), Contestant(FLOOR, _bare), Contestant("pexpect", _pexpect)]
    return in_milliseconds(await measure(contestants, plan))


AIMS = (Aim("≤", 3, FLOOR), Aim("≤", 0.02, "pexpect"))
ROW = Row("exec-local", f"exec `{COMMAND}` in a local shell", "ms", FLOOR, AIMS, _run)
