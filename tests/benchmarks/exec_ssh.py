"""`echo hi` in a bash behind a real sshd, from prompt to prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fixtures.servers.openssh import OpenSshServer

from . import bare, ours
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure, timed
from .libraries import netmiko_call, scrapli_call
from .servers import ssh_fields, sshd
from .streams import read_until_ends
from .table import Aim, Row

COMMAND = "echo hi"
ANSWER = "hi"
PROMPT = "bench$ "
FLOOR = "bare asyncssh"

#: A bash that read nobody's start-up files: a PROMPT_COMMAND of somebody's would be all that is measured.
SHELL = f"exec env PS1='{PROMPT}' bash --norc --noprofile"


@asynccontextmanager
async def _ours(server: OpenSshServer) -> AsyncIterator[Once]:
    async with ours.session(**ssh_fields(server), command="bash --norc --noprofile") as session:

        async def call() -> str:
            reply = await session.exec(COMMAND)
            assert reply.exit_code == 0, reply
            return str(reply.stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _bare(server: OpenSshServer) -> AsyncIterator[Once]:
    async with bare.ssh(ssh_fields(server), SHELL) as process:
        await read_until_ends(process.stdout, PROMPT.encode())

        async def call() -> str:
            process.stdin.write(COMMAND.encode() + b"\r")
            return (await read_until_ends(process.stdout, PROMPT.encode())).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _scrapli(server: OpenSshServer) -> AsyncIterator[Once]:
    login = {"username": server.username, "private_key_path": str(server.key_path)}
    async with scrapli_call(server.host, server.port, COMMAND, r"^.*[#$] ?$", "ssh2", first=SHELL, **login) as call:
        yield timed(call, ANSWER)


@asynccontextmanager
async def _netmiko(server: OpenSshServer) -> AsyncIterator[Once]:
    login = {"username": server.username, "use_keys": True, "key_file": str(server.key_path)}
    async with netmiko_call(COMMAND, SHELL, device_type="linux", host=server.host, port=server.port, **login) as call:
        yield timed(call, ANSWER)


async def _run(plan: Plan) -> Result:
    with sshd() as server:
        contestants = [
            Contestant(OURS, lambda: _ours(server)),
            Contestant(FLOOR, lambda: _bare(server)),
            Contestant("scrapli", lambda: _scrapli(server)),
            Contestant("netmiko", lambda: _netmiko(server)),
        ]
        return in_milliseconds(await measure(contestants, plan))


AIMS = (Aim("≤", 2, FLOOR), Aim("≤", 0.4, "scrapli"))
ROW = Row("exec-ssh", f"exec `{COMMAND}` over SSH", "ms", FLOOR, AIMS, _run)
