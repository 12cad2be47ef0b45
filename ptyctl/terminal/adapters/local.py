"""The adapter that starts a program as `PROGRAM daemon --stdio-handshake` and speaks to it over its pipes."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ptyctl.cancellation import cancel_and_wait
from ptyctl.core import json_lines
from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.handshake import ClientHandshake, HandshakeError, Ready
from ptyctl.terminal.runtime_mode import BINARY, TOKEN, LocalSettings

from .base import ConnectInput
from .rpc_adapter import RpcAdapter, RuntimeStreams, exchange

ARGUMENTS = ("daemon", "--stdio-handshake")
#: Names that are looked up in PATH, in this order.
PROGRAM_NAMES = ("interactive-terminal", "ptyctl")
_TRANSIENT_ERRORS = (errno.EADDRINUSE, errno.EAGAIN, errno.ETXTBSY)
_TRANSIENT_OUTPUT = ("EADDRINUSE", "Address already in use")
#: How long a program may take to exit after SIGTERM (seconds).
_EXIT_TIMEOUT_S = 2.0
_MAX_DIAGNOSTIC = 200

NEXT_ACTION = f"install ptyctl on the PATH of the server, or set {BINARY} to the absolute path of a program"


class Candidate(NamedTuple):
    """A program that may be the runtime, and where it was found."""

    source: Literal["configured", "path"]
    path: str


@dataclass(slots=True)
class Attempts:
    """The candidates that were tried, and why each failed."""

    candidates: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def failed(self, candidate: str, reason: str, message: str) -> None:
        """Add a failure."""
        if candidate not in self.candidates:
            self.candidates.append(candidate)
        self.errors.append({"candidate": candidate, "reason": reason, "message": message})

    def details(self, next_action: str) -> dict[str, Any]:
        """Return the details of the error that reports them."""
        return {"attempted_candidates": self.candidates, "spawn_errors": self.errors, "next_action": next_action}


def find_problem(path: str) -> tuple[str, str] | None:
    """Return why a file cannot be started: a reason and a message; None if it can."""
    file = Path(path)
    if not file.is_file():
        return "missing", "there is no such file"
    return None if os.access(file, os.X_OK) else ("not_executable", "the file is not executable")


def find_in_path(name: str, search_path: str) -> tuple[str | None, tuple[str, str] | None]:
    """Return the program that an absolute directory of a PATH has; or None, and the reason and a message."""
    folders = os.pathsep.join(folder for folder in search_path.split(os.pathsep) if Path(folder).is_absolute())
    path = shutil.which(name, path=folders) if folders else None
    if path is None:
        return None, ("missing", "it is not in an absolute directory of PATH")
    try:
        unsafe = _is_unsafe(Path(path)) or _is_unsafe(Path(path).resolve())
    except OSError as error:
        return None, ("missing", error.strerror or "it cannot be examined")
    if unsafe:
        return None, ("unsafe_permissions", f"another user can change or replace {path}")
    return path, None


def _is_unsafe(file: Path) -> bool:
    """Return whether a user other than root and this one can write a file or replace it. Raises OSError."""
    own, folder = file.stat(), file.parent.stat()
    if not {own.st_uid, folder.st_uid} <= {0, os.geteuid()}:
        return True
    replaceable = bool(folder.st_mode & stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return replaceable or bool(own.st_mode & stat.S_IWOTH)


class LocalAdapter(RpcAdapter):
    """Starts the first candidate that becomes ready. Ends only programs that it has started."""

    adapter_type = "local"

    def __init__(self, settings: LocalSettings, environment: Mapping[str, str], *, strict: bool = True) -> None:
        """Create the adapter.

        Args:
            environment: of the program. It gets no token.
            strict: whether a configured program that cannot be started is an error of the setting.
        """
        super().__init__(settings.request_timeout_ms)
        self._settings = settings
        self._environment = {name: value for name, value in environment.items() if name not in (TOKEN, "PTYCTL_TOKEN")}
        self._strict = strict
        self._process: Process | None = None
        self._errors: asyncio.Task[None] | None = None

    async def _open(self, what: ConnectInput) -> tuple[RuntimeStreams, Ready]:
        attempts = Attempts()
        for candidate in await asyncio.to_thread(self._discover, attempts):
            attempts.candidates.append(candidate.path)
            opened = await self._start(candidate, what, attempts) or await self._retry(candidate, what, attempts)
            if opened is not None:
                return opened
        reasons = {error["reason"] for error in attempts.errors} - {"missing"}
        details = {"adapter": self.adapter_type, **attempts.details(NEXT_ACTION)}
        if reasons == {"timeout"}:
            details["timeout_ms"] = self._settings.spawn_timeout_ms
            raise TerminalError(TerminalErrorCode.TIMEOUT, "the interactive terminal was not ready in time", details)
        raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, "no interactive terminal could be started", details)

    def _discover(self, attempts: Attempts) -> list[Candidate]:
        """Return the programs that exist and are executable, and record the others. Raises TerminalError."""
        found = []
        if (binary := self._settings.binary) is not None:
            problem = find_problem(binary)
            if problem is None:
                found.append(Candidate("configured", binary))
            elif self._strict:
                message = f"the configured program cannot be started: {problem[1]}"
                details = {"setting": BINARY, "reason": problem[0], "attempted_candidates": [binary]}
                raise TerminalError(TerminalErrorCode.INVALID_PAYLOAD, message, details)
            else:
                attempts.failed(binary, *problem)
        for name in PROGRAM_NAMES if self._settings.search_path else ():
            path, problem = find_in_path(name, self._settings.search_path)
            if path is not None:
                found.append(Candidate("path", path))
            elif problem is not None:
                attempts.failed(name, *problem)
        return found

    async def _retry(self, candidate: Candidate, what: ConnectInput, attempts: Attempts) -> tuple[RuntimeStreams, Ready] | None:
        """Start the candidate once more if its failure may be transient."""
        if attempts.errors[-1]["reason"] != "transient":
            return None
        return await self._start(candidate, what, attempts)

    async def _start(self, candidate: Candidate, what: ConnectInput, attempts: Attempts) -> tuple[RuntimeStreams, Ready] | None:
        """Start a program and exchange the handshake. Record the failure and return None if it is not ready in time."""
        try:
            process = await asyncio.create_subprocess_exec(
                candidate.path, *ARGUMENTS, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/", env=self._environment,
                start_new_session=True, limit=json_lines.MAX_REPLY_LINE_BYTES,
            )  # fmt: skip
        except OSError as error:
            reason = "transient" if error.errno in _TRANSIENT_ERRORS else "not_startable"
            attempts.failed(candidate.path, reason, error.strerror or "it cannot be started")
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        streams = RuntimeStreams(process.stdout, process.stdin, candidate.path)
        handshake = ClientHandshake(what.trace_id, None, what.runtime_session_id)
        try:
            async with asyncio.timeout(self._settings.spawn_timeout_ms / 1000):
                ready = await exchange(streams, handshake)
        except TimeoutError:
            attempts.failed(candidate.path, "timeout", f"it was not ready within {self._settings.spawn_timeout_ms} ms")
        except (HandshakeError, OSError) as error:
            attempts.failed(candidate.path, *await _diagnose(process, error))
        else:
            self._process = process
            self._errors = asyncio.create_task(_discard(process), name="runtime errors")
            return streams, ready
        finally:
            if self._process is not process:
                await _end(process)
        return None

    async def _closed(self) -> None:
        if self._process is not None:
            await _end(self._process)
        await cancel_and_wait(self._errors)
        self._process = self._errors = None


async def _diagnose(process: Process, error: HandshakeError | OSError) -> tuple[str, str]:
    """Return the reason and a message of a failed handshake; for a program that has exited, its status and last error line."""
    if isinstance(error, HandshakeError) and error.reason != "protocol":
        return error.reason, error.message
    output = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_TIMEOUT_S if process.stdout is not None and process.stdout.at_eof() else 0):
            assert process.stderr is not None
            output = await process.stderr.read(65536)
            await process.wait()
    if process.returncode is None:
        return "protocol", str(error)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    last = "".join(c for c in (lines[-1] if lines else "") if c.isprintable())[:_MAX_DIAGNOSTIC]
    transient = process.returncode == os.EX_TEMPFAIL or any(text in last for text in _TRANSIENT_OUTPUT)
    message = f"it exited with status {process.returncode} during the handshake"
    return "transient" if transient else "exited", f"{message}: {last}" if last else message


async def _discard(process: Process) -> None:
    """Read and discard the program's stderr after the handshake, so that the program does not block."""
    assert process.stderr is not None
    while await process.stderr.read(65536):
        pass


async def _end(process: Process) -> None:
    """End a program that this adapter has started: by SIGTERM, then SIGKILL."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(_EXIT_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:  # a program that it has started may hold its pipes open
        transport.close()
