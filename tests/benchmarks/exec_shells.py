"""Rows exec-local and exec-ssh: `echo hi` in bash, from prompt to prompt."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fixtures.servers.openssh import OpenSshServer

from . import bare_loops
from .bare_loops import bare_pty, read_pty_until_ends, read_until_ends
from .libraries import netmiko_call, pexpect_bash, scrapli_call
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_milliseconds, measure, timed
from .servers import ssh_fields, sshd
from .sessions import opened_session
from .table import Aim, Row

COMMAND = "echo hi"
ANSWER = "hi"
PROMPT = "bench$ "

BARE_LOOP = "bare loop"

BASH = ("bash", "--norc", "--noprofile")
#: Prints an OSC before each prompt, as shell integration does, because that is part of the work.
PRINTED_MARKS = {"PS1": PROMPT, "PROMPT_COMMAND": r"printf '\033]7777;%s\007' $?"}


@asynccontextmanager
async def _local_ours() -> AsyncIterator[TimedCall]:
    async with opened_session(protocol="local", command=BASH) as session:

        async def call() -> str:
            reply = await session.exec(COMMAND)
            assert reply.exit_code == 0, reply
            return str(reply.stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _local_bare() -> AsyncIterator[TimedCall]:
    with bare_pty(BASH, PRINTED_MARKS) as master:
        read_pty_until_ends(master, PROMPT.encode())

        async def call() -> str:
            os.write(master, COMMAND.encode() + b"\r")
            return read_pty_until_ends(master, PROMPT.encode()).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _local_pexpect() -> AsyncIterator[TimedCall]:
    with pexpect_bash() as shell:

        async def call() -> str:
            return str(shell.run_command(COMMAND))

        yield timed(call, ANSWER)


async def _local_run(plan: Plan) -> Result:
    candidates = [Candidate(OURS, _local_ours), Candidate(BARE_LOOP, _local_bare), Candidate("pexpect", _local_pexpect)]
    return in_milliseconds(await measure(candidates, plan))


LOCAL_AIMS = (Aim("≤", 2, BARE_LOOP), Aim("≤", 0.02, "pexpect"))
LOCAL_ROW = Row("exec-local", f"exec `{COMMAND}` in a local shell", "ms", BARE_LOOP, LOCAL_AIMS, _local_run)


BARE_SSH = "bare asyncssh"

#: A bash without start-up files: a PROMPT_COMMAND could take most of the time.
SHELL = f"exec env PS1='{PROMPT}' bash --norc --noprofile"


@asynccontextmanager
async def _ssh_ours(server: OpenSshServer) -> AsyncIterator[TimedCall]:
    async with opened_session(**ssh_fields(server), command="bash --norc --noprofile") as session:

        async def call() -> str:
            reply = await session.exec(COMMAND)
            assert reply.exit_code == 0, reply
            return str(reply.stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _ssh_bare(server: OpenSshServer) -> AsyncIterator[TimedCall]:
    async with bare_loops.ssh(ssh_fields(server), SHELL) as process:
        await read_until_ends(process.stdout, PROMPT.encode())

        async def call() -> str:
            process.stdin.write(COMMAND.encode() + b"\r")
            return (await read_until_ends(process.stdout, PROMPT.encode())).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _ssh_scrapli(server: OpenSshServer) -> AsyncIterator[TimedCall]:
    login = {"username": server.username, "private_key_path": str(server.key_path)}
    async with scrapli_call(server.host, server.port, COMMAND, r"^.*[#$] ?$", "ssh2", first=SHELL, **login) as call:
        yield timed(call, ANSWER)


@asynccontextmanager
async def _ssh_netmiko(server: OpenSshServer) -> AsyncIterator[TimedCall]:
    login = {"username": server.username, "use_keys": True, "key_file": str(server.key_path)}
    async with netmiko_call(COMMAND, SHELL, device_type="linux", host=server.host, port=server.port, **login) as call:
        yield timed(call, ANSWER)


async def _ssh_run(plan: Plan) -> Result:
    with sshd() as server:
        candidates = [
            Candidate(OURS, lambda: _ssh_ours(server)),
            Candidate(BARE_SSH, lambda: _ssh_bare(server)),
            Candidate("scrapli", lambda: _ssh_scrapli(server)),
            Candidate("netmiko", lambda: _ssh_netmiko(server)),
        ]
        return in_milliseconds(await measure(candidates, plan))


SSH_AIMS = (Aim("≤", 1.6, BARE_SSH), Aim("≤", 1, "scrapli"))
SSH_ROW = Row("exec-ssh", f"exec `{COMMAND}` over SSH", "ms", BARE_SSH, SSH_AIMS, _ssh_run)
