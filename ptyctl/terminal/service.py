"""Serves requests of the contract on a Controller."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shlex
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptyctl.api.blocks import BlocksReply, BlocksSince
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.pty import PtyEndSession
from ptyctl.api.session import SessionEntry, SessionRequest, TerminalInfo, Timeouts
from ptyctl.internal_error import internal_error

from .aliases import AliasPhase
from .controller_errors import from_controller
from .errors import TerminalError, TerminalErrorCode
from .request import CanonicalRequest, Execution, Identified, identify, parse
from .response import Outcome, Status, failure, success
from .runtime_mode import alias_phase, resolve_mode

_log = logging.getLogger(__name__)
#: Idle timeout of a headless session (ms).
_HEADLESS_LIFE_MS = 600_000
#: Limit of the output in one response: the contract has no other way to read what is left out of the middle.
_MAX_OUTPUT_BYTES = 1024 * 1024
#: Reads whose ends are remembered.
_MAX_READS = 1024
#: The shell of a headless command: none of the user's start-up files.
_HEADLESS_SHELL = ("bash", "--noprofile", "--norc")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A session that a caller of the contract has opened, or a closed session. `busy`: a command runs in it."""

    session_id: str
    mode: str
    terminal_id: str | None = None
    busy: bool = False
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class _Read:
    """The last read of a caller. `ended`: the command had ended."""

    block_id: str
    cursor: str
    ended: bool


class ServiceState:
    """What a server keeps between requests. Terminals are sessions, so it is little.

    Attributes:
        requests: number of requests so far.
        reads: the last reads, by principal, session and caller surface.
        naming: held while the id of a new terminal is chosen.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.reads: OrderedDict[tuple[str, str, str], _Read] = OrderedDict()
        self.naming = asyncio.Lock()


class TerminalService:
    """Serves the requests of one client on a Controller."""

    def __init__(self, controller: Controller, state: ServiceState, environment: Mapping[str, str], principal: str) -> None:
        """Create it. `environment` is that of the client, and `principal` the name that its reads are kept by."""
        self._controller = controller
        self._state = state
        self._environment = environment
        self._principal = principal

    async def handle(self, arguments: Any) -> dict[str, Any]:
        """Serve a request; every error is a response."""
        self._state.requests += 1
        identified = identify(arguments, self._state.requests)
        warn = False
        try:
            phase = alias_phase(self._environment)
            warn = phase is not AliasPhase.COMPAT
            request = parse(arguments, identified, phase)
            outcome = await self._perform(request)
        except TerminalError as error:
            return failure(identified, error, warn=warn)
        except PtyctlError as error:
            return failure(identified, from_controller(error), warn=warn)
        except Exception as error:  # noqa: BLE001 - the caller gets no exception text
            return failure(identified, self._internal(error, identified), warn=warn)
        return success(identified, outcome, warn=warn)

    async def _perform(self, request: CanonicalRequest) -> Outcome:
        self._check_runtime(request)
        if request.action == "list":
            return await self._list(request)
        if request.action == "read_output":
            return await self._read_output(request)
        if request.action == "terminate":
            return await self._terminate(request)
        assert request.invocation is not None, "the validation requires it"
        return await self._execute(request)

    def _check_runtime(self, request: CanonicalRequest) -> None:
        """Raise TerminalError for an adapter that is not available."""
        mode = resolve_mode(request.runtime.adapter_override, self._environment)
        if mode not in ("bundled", "local_or_bundled_auto"):
            message = f"the runtime adapter {mode} is not available in this version"
            raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, message, {"attempted_candidates": [mode]})
        if request.execution is not None and request.execution.pty is False:
            problem = [{"path": "execution.pty", "problem": "a terminal has one stream for stdout and stderr"}]
            raise TerminalError(
                TerminalErrorCode.INVALID_PAYLOAD, "execution.pty: false is not available", {"violations": problem}
            )

    # execute

    async def _execute(self, request: CanonicalRequest) -> Outcome:
        invocation, execution = request.invocation, request.execution or Execution()
        assert invocation is not None
        if invocation.intent == "open_only":
            terminal = await self._open_interactive(request, execution)
            return _outcome(terminal, "completed", {"running": False})
        if request.has_target:
            terminal = await self._find(request)
            command = _command_line(execution, request.runtime.cwd, execution.env)
            return await self._run(terminal, command, request)
        if invocation.mode == "interactive":
            terminal = await self._open_interactive(request, execution)
            return await self._run(terminal, _command_line(execution), request)
        terminal = await self._open(request, execution, TerminalInfo(mode="headless"), command=_HEADLESS_SHELL)
        try:
            return await self._run(terminal, _command_line(execution), request)
        except PtyctlError:
            await self._close(terminal)
            raise

    async def _open_interactive(self, request: CanonicalRequest, execution: Execution) -> Terminal:
        """Open a terminal that people see. Its id is made of the requested name, or is random."""
        async with self._state.naming:
            taken = {terminal.terminal_id for terminal in await self._terminals()}
            wanted = f"term_{execution.name or secrets.token_hex(4)}"
            numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
            terminal_id = next(name for name in (wanted, *numbered) if name not in taken)
            return await self._open(request, execution, TerminalInfo(mode="interactive", terminal_id=terminal_id))

    async def _open(
        self, request: CanonicalRequest, execution: Execution, info: TerminalInfo, command: tuple[str, ...] | None = None
    ) -> Terminal:
        workspace_id = request.runtime.workspace_id
        reply = await self._controller.session(
            SessionRequest.of(
                {
                    "action": "open",
                    "protocol": "local",
                    "command": command,
                    "cwd": request.runtime.cwd,
                    "env": execution.env,
                    "terminal": info.model_copy(update={"workspace_id": workspace_id}),
                    "timeouts": Timeouts(idle_timeout_ms=_HEADLESS_LIFE_MS if info.mode == "headless" else 0),
                }
            )
        )
        assert reply.session_id is not None, "a reply to open names the session"
        return Terminal(reply.session_id, info.mode, info.terminal_id)

    async def _run(self, terminal: Terminal, command: str, request: CanonicalRequest) -> Outcome:
        fields = {"session_id": terminal.session_id, "cmd": command, "timeout_ms": _timeout_ms(request)}
        reply = await self._controller.exec(ExecRequest.of({**fields, "max_output_bytes": _MAX_OUTPUT_BYTES}))
        return await self._command_outcome(terminal, reply, request)

    async def _command_outcome(self, terminal: Terminal, reply: ExecReply, request: CanonicalRequest) -> Outcome:
        """Return the state of a command. A headless session whose output was read to its end is closed."""
        running = reply.timed_out or reply.approval is not None or bool(reply.waiting_for_input)
        reads, reader = self._state.reads, self._reader(terminal, request)
        reads[reader] = _Read(reply.block_id, reply.next_cursor, ended=not running)
        reads.move_to_end(reader)
        while len(reads) > _MAX_READS:
            reads.popitem(last=False)
        if terminal.is_open and terminal.mode == "headless" and not running:
            await self._close(terminal)
        result: dict[str, Any] = {
            "stdout": reply.stdout,
            "stderr": reply.stderr,
            "exit_code": reply.exit_code,
            "running": running,
            "truncated": reply.output_truncated,
            "next_cursor": reply.next_cursor,
        }
        if reply.policy is not None:
            result |= {"authorization": "allowed_with_warning", "warning": reply.policy.reason}
        if reply.approval is not None:
            result["pending_approval"] = reply.approval.payload()
        if reply.waiting_for_input:
            result["waiting_for_input"] = True
        return _outcome(terminal, "accepted" if running else "completed", result)

    # read_output, terminate, list

    async def _read_output(self, request: CanonicalRequest) -> Outcome:
        terminal = await self._find(request)
        read = self._state.reads.get(self._reader(terminal, request))
        block_id = read.block_id if read is not None and not read.ended else await self._last_block(terminal)
        if block_id is None:
            return _outcome(terminal, "completed", {"stdout": "", "stderr": "", "running": False, "truncated": False})
        cursor = request.runtime.cursor or (read.cursor if read is not None and read.block_id == block_id else None)
        waits = "timeout_ms" in request.runtime.model_fields_set
        reply = await self._controller.exec(
            ExecRequest.of(
                {
                    "session_id": terminal.session_id,
                    "block_id": block_id,
                    "from_cursor": cursor,
                    "timeout_ms": _timeout_ms(request) if waits else 0,
                    "max_output_bytes": _MAX_OUTPUT_BYTES,
                }
            )
        )
        return await self._command_outcome(terminal, reply, request)

    async def _terminate(self, request: CanonicalRequest) -> Outcome:
        """End the running command. Close a headless session, an idle terminal, and on the legacy action `close` any."""
        terminal = await self._find(request)
        if terminal.busy:
            await self._controller.pty(PtyEndSession(session_id=terminal.session_id, force=True))
        if terminal.is_open and (terminal.mode == "headless" or not terminal.busy or request.compat.legacy_action == "close"):
            await self._close(terminal)
        return _outcome(terminal, "completed", {"running": False})

    async def _close(self, terminal: Terminal) -> None:
        """Close the session if it is open. An interactive one that another task has locked stays open."""
        try:
            force = terminal.mode == "headless"
            await self._controller.session(SessionRequest(action="close", session_id=terminal.session_id, force=force))
        except PtyctlError as error:
            if error.code not in (ErrorCode.ALREADY_CLOSED, ErrorCode.NOT_FOUND):
                raise

    async def _list(self, request: CanonicalRequest) -> Outcome:
        workspace = request.runtime.workspace_id
        items = [
            _item(entry, entry.terminal)
            for entry in await self._entries()
            if entry.terminal is not None and workspace in (None, entry.terminal.workspace_id)
        ]
        return Outcome("completed", {"items": items})

    # Terminals

    async def _entries(self) -> list[SessionEntry]:
        return (await self._controller.session(SessionRequest(action="list", details=True))).sessions or []

    async def _terminals(self) -> list[Terminal]:
        """Return the open terminals of this contract."""
        return [
            Terminal(entry.session_id, entry.terminal.mode, entry.terminal.terminal_id, busy=_is_busy(entry))
            for entry in await self._entries()
            if entry.terminal is not None and entry.state != "closed"
        ]

    async def _find(self, request: CanonicalRequest) -> Terminal:
        """Return the target. A closed session can be read by its id; an open one must be a terminal of this contract.

        Raises:
            TerminalError: NOT_FOUND, also if the two ids name two terminals.
        """
        target = request.target
        assert target is not None, "callers check it"
        assert request.has_target, "callers check it"
        for terminal in await self._terminals():
            names = (target.terminal_id or terminal.terminal_id, target.session_id or terminal.session_id)
            if names == (terminal.terminal_id, terminal.session_id):
                return terminal
        closed_id = target.session_id if target.terminal_id is None and request.action != "execute" else None
        if closed_id is not None and closed_id not in {entry.session_id for entry in await self._entries()}:
            await self._controller.pty(BlocksSince(session_id=closed_id, last=1))  # raises if there is none
            return Terminal(closed_id, "headless", is_open=False)
        raise TerminalError(TerminalErrorCode.NOT_FOUND, "there is no such terminal", target.model_dump(exclude_none=True))

    async def _last_block(self, terminal: Terminal) -> str | None:
        """Return the last command of a terminal, also of a closed one."""
        reply = await self._controller.pty(BlocksSince(session_id=terminal.session_id, last=1))
        assert isinstance(reply, BlocksReply)
        return reply.items[-1].block_id if reply.items else None

    def _reader(self, terminal: Terminal, request: CanonicalRequest) -> tuple[str, str, str]:
        """Return what identifies the reads of one terminal by a caller surface."""
        return self._principal, terminal.session_id, request.compat.caller_surface or ""

    def _internal(self, error: Exception, identified: Identified) -> TerminalError:
        """Log an unexpected exception under the caller's trace_id."""
        trace_id = identified.correlation.trace_id
        _log.error("terminal request failed", extra={"trace_id": trace_id, "request_id": identified.correlation.request_id})
        details = {**internal_error("memory_terminal_interactive", error).details, "trace_id": trace_id}
        return TerminalError(TerminalErrorCode.INTERNAL, "internal error in ptyctl", details)


def _timeout_ms(request: CanonicalRequest) -> int:
    return min(request.runtime.timeout_ms, MAX_WAIT_MS)


def _command_line(execution: Execution, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return the line for the shell. With `cwd` or `env`, they hold for this command alone."""
    assert execution.command is not None, "the validation requires it"
    words = (execution.command, *(execution.args or ()))
    if cwd is None and not env:
        return execution.command if execution.args is None else shlex.join(words)
    if execution.args is None:
        words = ("sh", "-c", execution.command)
    folder = () if cwd is None else ("-C", cwd)
    return shlex.join(("env", *folder, *(f"{name}={value}" for name, value in (env or {}).items()), *words))


def _is_busy(entry: SessionEntry) -> bool:
    return entry.state == "open" and entry.mode not in (None, "idle")


def _item(entry: SessionEntry, info: TerminalInfo) -> dict[str, Any]:
    command = entry.last_command
    item = {
        "session_id": entry.session_id,
        "terminal_id": info.terminal_id,
        "mode": info.mode,
        "workspace_id": info.workspace_id,
        "command": None if command is None else command.cmd,
        "running": _is_busy(entry),
        "exit_code": None if command is None else command.exit_code,
        "started_at": entry.created_at,
        "viewers": entry.observers,
        "pending_approvals": entry.pending_approvals or 0,
    }
    return {name: value for name, value in item.items() if value is not None}


def _outcome(terminal: Terminal, status: Status, result: Mapping[str, Any]) -> Outcome:
    return Outcome(status, result, terminal.session_id, terminal.terminal_id, terminal.mode)
