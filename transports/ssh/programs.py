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
    argv: Sequence[str], context: ProgramContext, deadline: float, *, standard_input: int = subprocess.DEVNULL
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return exit status, stdout and stderr. Blocks: call it in a thread.

    Args:
        deadline: the time of `time.monotonic` at which it is killed, with all processes of its session.

    Raises:
        ProgramFailed
    """
    try:
        process = subprocess.Popen(
            argv, stdin=standard_input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **context.options
        )
    except (OSError, ValueError) as error:
        raise ProgramFailed(f"{argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}") from error
    with process:
        try:
            output = _read_output(process, deadline)
            process.wait(max(deadline - time.monotonic(), 0.001))
        except (ProgramFailed, subprocess.TimeoutExpired) as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, ProgramFailed):
                raise
            raise ProgramFailed(f"{argv[0]} did not end in time") from None
    return process.returncode, *output


def _read_output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Read stdout and stderr to their ends. A process that escaped the kill could keep them open for ever."""
    assert process.stdout is not None
    assert process.stderr is not None
    collected = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in collected:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise ProgramFailed(f"{_name(process)} did not end in time")
            for key, _ in ready:
                data = os.read(key.fd, _READ_BYTES)
                buffer = collected[key.fileobj]  # type: ignore[index]
                buffer += data
                if not data:
                    selector.unregister(key.fileobj)
                elif len(buffer) > _MAX_OUTPUT:
                    raise ProgramFailed(f"{_name(process)} printed more than {_MAX_OUTPUT} bytes")
    return bytes(collected[process.stdout]), bytes(collected[process.stderr])


def _name(process: subprocess.Popen[bytes]) -> str:
    return str(process.args[0] if isinstance(process.args, (list, tuple)) else process.args)
