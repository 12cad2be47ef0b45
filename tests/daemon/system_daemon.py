"""A system daemon and its clients, each in a process of a separate user. Needs root."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fixtures.daemons import remove_folder
from fixtures.forked_process import ForkedDaemon, ForkedProcess
from fixtures.home import wait_until_unused
from fixtures.servers.programs import require
from ptyctl.api.errors import PtyctlError
from ptyctl.core import json_lines
from ptyctl.daemon.connection import hello_line, open_connection
from ptyctl.daemon.control import BlockingClient
from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.main import run
from ptyctl.daemon.runtime_dir import RuntimeDir

#: The daemon's uid and group, of no account of the machine. Members of the group may connect.
DAEMON, GROUP = 61000, 62000
ALICE, BOB, CAROL, UNKNOWN = 61001, 61002, 61003, 61004
#: Limit of the wait for the programs of the sessions of a daemon that has ended (seconds).
END_LIMIT_S = 120.0

#: prctl(2), capabilities(7)
_PR_SET_KEEPCAPS, _CAPABILITY_VERSION, _DAC_OVERRIDE = 8, 0x20080522, 1 << 1

Call = tuple[str, dict[str, Any]]


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Drop the privileges of the process to those of a user."""
    os.setgroups(list(groups))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def serve(uid: int, gid: int, system: bool) -> int:
    """Run a daemon as this user, which can read all files: the interpreter may be in root's home directory."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_KEEPCAPS, 1)
    become(uid, gid, ())
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)(*2 * [_DAC_OVERRIDE])
    assert libc.capset(header, sets) == 0
    return run(system=system)


def call_daemon(uid: int, gid: int, groups: Sequence[int], calls: Sequence[Call]) -> int:
    """Make calls as this user and print their replies or errors, and as the first value how the connection failed, or None."""
    become(uid, gid, groups)
    try:
        with BlockingClient(RuntimeDir()) as client:
            print(json.dumps([None, *(_reply(client, *call) for call in calls)]))
    except PtyctlError as error:
        print(json.dumps([error.payload()]))
    except DaemonError as error:
        print(json.dumps([{"message": error.message, "hint": error.hint}]))
    sys.stdout.flush()
    return 0


def _reply(client: BlockingClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return client.call(method, params)
    except PtyctlError as error:
        return error.payload()


def call_tools(uid: int, gid: int, groups: Sequence[int], calls: Sequence[Call]) -> int:
    """As `call_daemon`, over MCP."""
    become(uid, gid, groups)
    runtime_dir = RuntimeDir()
    hello = hello_line("mcp", to_system=True, toolsets="all")
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with open_connection(runtime_dir, hello) as link, link.makefile("rwb") as stream:

        def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            stream.write(json_lines.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            stream.flush()
            while True:
                answer: dict[str, Any] = json_lines.decode(stream.readline())
                if answer.get("id") == number:
                    return answer

        ask(0, "initialize", client)
        stream.write(json_lines.encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        replies = [
            ask(number, "tools/call", {"name": name, "arguments": arguments})["result"]["structuredContent"]
            for number, (name, arguments) in enumerate(calls, 1)
        ]
    print(json.dumps([None, *replies]), flush=True)
    return 0


class Answers(NamedTuple):
    """How the connection failed, or None, and the replies or errors of the calls."""

    refusal: dict[str, Any] | None
    replies: list[dict[str, Any]]


class SystemDaemon:
    """The folders of a system daemon, and the daemon while it is up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime, self.state, self.config = folder / "run", folder / "state", folder / "config.toml"
        for path, mode in ((self.runtime, 0o2750), (self.state, 0o700)):
            path.mkdir()
            os.chown(path, DAEMON, GROUP)
            path.chmod(mode)
        self.process: ForkedDaemon | None = None

    @property
    def environment(self) -> dict[str, str]:
        """That of the daemon and of its clients; theirs also has the name of its user."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "PTYCTL_RUNTIME_DIR": str(self.runtime),
            "PTYCTL_STATE_DIR": str(self.state),
            "PTYCTL_CONFIG": str(self.config),
            "PTYCTL_DEVICES_FILE": str(self.folder / "devices.toml"),
        }

    def configure(self, access: str) -> None:
        """Write the configuration."""
        self.config.write_text(access)
        self.config.chmod(0o644)

    def start(self, *, system: bool = True) -> None:
        """Start the daemon, or one that serves its own user only, and wait until it listens."""
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self.process = ForkedDaemon(log, self.environment, partial(serve, DAEMON, GROUP, system))
        finally:
            os.close(log)
        with self.process.stdout:
            assert self.process.stdout.read(), (self.folder / "log").read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon. After SIGUSR2, the next one continues its sessions."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    async def call(
        self, uid: int, *calls: Call, mcp: bool = False, gid: int | None = None, groups: Sequence[int] = (GROUP,)
    ) -> Answers:
        """Let a new process of a user make calls."""
        function = call_tools if mcp else call_daemon
        return await asyncio.to_thread(self._call, function, uid, uid if gid is None else gid, groups, calls)

    def _call(self, *arguments: Any) -> Answers:
        function, *rest = arguments
        output, write_end = os.pipe()
        environment = {**self.environment, "PTYCTL_SYSTEM_USER": str(DAEMON)}
        with open(os.devnull, "rb") as null, os.fdopen(output) as reader:  # noqa: PTH123 - not a path of the project
            process = ForkedProcess(function, *rest, files=(null.fileno(), write_end, 2), environment=environment)
            os.close(write_end)
            printed = reader.read()
            process.wait()
        refusal, *replies = json.loads(printed)
        return Answers(refusal, replies)

    def audit_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the audit log, which are complete once the daemon has ended."""
        files = sorted((self.state / "audit").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@contextmanager
def system_daemon(access: str | None = None) -> Iterator[SystemDaemon]:
    """Yield a system daemon with this configuration, which is up; without one, only its folders."""
    require(os.geteuid() == 0, "needs root, to run processes of other users")
    folder = Path(tempfile.mkdtemp(prefix="ptyctl-", dir="/tmp"))  # the path of a socket must be short
    folder.chmod(0o755)
    daemon = SystemDaemon(folder)
    try:
        if access is not None:
            daemon.configure(access)
            daemon.start()
        yield daemon
    finally:
        daemon.stop()
        wait_until_unused(folder, END_LIMIT_S)  # of the sessions' programs
        remove_folder(folder)
