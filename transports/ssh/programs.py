"""Runs the programs that the OpenSSH configuration needs: `ssh -G`, Match exec, KnownHostsCommand, `ssh-keygen -Q`.

They run with the environment and in the directory of the caller. A daemon that serves another user has no caller: then they are
those of the daemon's own configuration, and get its environment.
"""

from __future__ import annotations

import os
import pwd
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transports.caller import absolute_path, environment, is_directory

#: Maximum size of a program's output, bytes. A known_hosts file of 100,000 lines has about 20 MB.
_MAX_OUTPUT = 64 * 1024 * 1024
_READ_BYTES = 65536
#: How long a killed program may take to end, seconds. One of another user, or stuck in the kernel, does not end.
_KILLED_S = 1.0


class ProgramFailed(Exception):
    """A program cannot be started, took too long, or printed too much."""


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """The environment and the working directory of a caller. Connections through its programs are not shared with others."""

    environment: tuple[tuple[str, str], ...] = field(repr=False)
    cwd: str

    @classmethod
    def of_caller(cls) -> ProgramContext:
        """Return that of the running task's caller."""
        cwd = absolute_path(".")
        return cls(tuple(sorted(environment().items())), cwd if is_directory(Path(cwd)) else "/")

    @property
    def variables(self) -> Mapping[str, str]:
        return dict(self.environment)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a subprocess, which leads its own session: a Ctrl-C at this process's terminal must not end it."""
        return {"env": dict(self.environment), "cwd": self.cwd, "start_new_session": True}

    @property
    def shell(self) -> str:
        """The shell that ssh(1) runs commands with."""
        return self.variables.get("SHELL") or "/bin/sh"


def local_user() -> str:
    """Return the name of the user that this process runs as; ssh(1) takes it from the password database too."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("LOGNAME") or os.environ.get("USER") or str(os.getuid())


def run_program(
    argv: Sequence[str],
    context: ProgramContext,
    deadline: float,
    *,
    standard_input: int = subprocess.DEVNULL,
    output: int = subprocess.PIPE,
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return exit status, stdout and stderr. Blocks: call it in a thread.

    What it leaves in the background may keep its output open, and is not waited for.

    Args:
        deadline: the time of `time.monotonic` at which it is killed, with all processes of its session.
        output: where its stdout goes.

    Raises:
        ProgramFailed
    """
    try:
        process = subprocess.Popen(argv, stdin=standard_input, stdout=output, stderr=subprocess.PIPE, **context.options)
    except (OSError, ValueError) as error:
        raise ProgramFailed(f"{argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}") from error
    try:
        printed = _read_output(process, deadline)
        return process.wait(), *printed
    except (ProgramFailed, OSError) as error:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)
        raise ProgramFailed(str(error)) from error
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _read_output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Read stdout and stderr until the process ends, and then what is left in the pipes."""
    stdout, stderr = bytearray(), bytearray()
    buffers = {
        pipe.fileno(): buffer for pipe, buffer in ((process.stdout, stdout), (process.stderr, stderr)) if pipe is not None
    }
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in (ended, *buffers):
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            ready: set[int] = set()
            while ended not in ready:
                ready = {key.fd for key, _ in selector.select(max(deadline - time.monotonic(), 0))}
                if not ready:
                    raise ProgramFailed(f"{_name(process)} did not end in time")
                for descriptor in buffers if ended in ready else ready:
                    if not _read_available(descriptor, buffers[descriptor]) and descriptor in ready:
                        selector.unregister(descriptor)
                    if len(buffers[descriptor]) > _MAX_OUTPUT:
                        raise ProgramFailed(f"{_name(process)} printed more than {_MAX_OUTPUT} bytes")
    finally:
        os.close(ended)
    return bytes(stdout), bytes(stderr)


def _read_available(descriptor: int, buffer: bytearray) -> bool:
    """Read what is in a pipe, up to the limit; return whether more may follow."""
    try:
        while len(buffer) <= _MAX_OUTPUT:
            data = os.read(descriptor, _READ_BYTES)
            buffer += data
            if not data:
                return False
    except BlockingIOError:
        pass
    return True


def _name(process: subprocess.Popen[bytes]) -> str:
    return str(process.args[0] if isinstance(process.args, (list, tuple)) else process.args)
