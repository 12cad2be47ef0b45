"""Serves requests of the contract on a Controller."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ptyctl.api.blocks import BlocksReply, BlocksSince
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.handle import call_pty
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.pty import PtyEndSession, PtyReply
from ptyctl.api.session import PtyOptions, SessionEntry, SessionRequest, TerminalInfo, Timeouts
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.call_memory import DurableCallMemory, RepeatableCall, repeatable, was_refused
from ptyctl.core.shells import quote_word, quote_words
from ptyctl.internal_error import internal_error
from ptyctl.trace import tracing

from .adapters.base import AdapterController, BundledAdapter, ConnectInput
from .adapters.runtimes import Runtimes
from .aliases import AliasPhase
from .errors import TerminalError, TerminalErrorCode, from_controller
from .request import CanonicalRequest, Execution, Identified, identify, parse, repeat_id
from .response import Outcome, Status, failure, success
from .runtime_mode import alias_phase

_LOG = logging.getLogger(__name__)

#: Idle timeout of a headless session (ms).
_HEADLESS_LIFE_MS = 600_000
#: Limit of the output in one response: the contract has no other way to read the omitted middle.
_MAX_OUTPUT_BYTES = 1024 * 1024
#: Number of remembered positions of reads, and of remembered closed terminals.
_MAX_KEPT = 1024
#: Errors for a session that has ended.
_GONE = (ErrorCode.ALREADY_CLOSED, ErrorCode.NOT_FOUND, ErrorCode.REMOTE_CLOSED)
#: Terminals that one request and its repetitions open at most.
_MAX_OPENS = 8
#: Errors with which a command was not executed, and will not be.
_VERDICTS = (ErrorCode.DECLINED, ErrorCode.FORBIDDEN, ErrorCode.POLICY_DENIED)
#: How long the terminal of a failed request may take to close (seconds).
_CLOSE_TIMEOUT_S = 5.0
#: The shell of a headless command: none of the user's start-up files.
_HEADLESS_SHELL = ("bash", "--noprofile", "--norc")


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A session that a caller of the contract has opened, or a closed session."""

    session_id: str
    mode: str
    terminal_id: str | None = None
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class _Read:
    """The last read of a caller: its ends in stdout and in stderr, and whether the command had ended."""

    block_id: str
    cursor: str
    stderr_chars: int
    ended: bool


class ServiceState:
    """State that a server keeps between requests. Terminals are sessions, and not part of it.

    Attributes:
        requests: number of requests so far.
        calls: those of repeated requests, for runtimes that do not remember them.
        tasks: requests that continue if their clients leave.
        reads: the last reads, by principal, session and caller surface.
        closed: sessions of terminals that were terminated, by principal and terminal id.
        naming: held while the id of a new terminal is chosen.
        runtimes: connections to other runtimes than the server's own.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.runtimes = Runtimes()
        self.reads: OrderedDict[tuple[str, str, str], _Read] = OrderedDict()
        self.closed: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.calls = DurableCallMemory()
        self.tasks: set[asyncio.Task[dict[str, Any]]] = set()
        self.naming = asyncio.Lock()

    def count_request(self) -> int:
        """Count a request; return its number."""
        self.requests += 1
        return self.requests

    async def close(self) -> None:
        """Cancel the requests, close the connections to other runtimes, and end the programs that were started for them.

        Sessions stay open.
        """
        await cancel_and_wait(*self.tasks)
        await self.runtimes.close()


class TerminalService:
    """Serves the requests of one client, each on the runtime that it selects."""

    def __init__(
        self,
        controller: Controller,
        state: ServiceState,
        environment: Mapping[str, str],
        principal: str,
        *,
        others_allowed: bool = False,
    ) -> None:
        """Create the service.

        Args:
            controller: that of this server, the runtime `bundled`.
            environment: that of the client.
            principal: the name that the client's reads are kept by.
            others_allowed: whether the client may use another runtime than that of the server.
        """
        self._others_allowed = others_allowed
        self._bundled = BundledAdapter(controller)
        self._state = state
        self._runtimes, self._tasks = state.runtimes, state.tasks
        self._environment = environment
        self._principal = principal

    async def handle(self, arguments: Any) -> dict[str, Any]:
        """Serve a request; every error is a response."""
        identified = identify(arguments, self._state.count_request())
        warn = False
        with tracing(identified.correlation.trace_id):
            try:
                phase = alias_phase(self._environment)
                warn = phase is not AliasPhase.COMPAT
                request = parse(arguments, identified, phase)
                repeat = repeat_id(self._principal, request)
            except Exception as error:  # noqa: BLE001 - the caller gets no exception text
                return failure(identified, _terminal_error(error), warn=warn)
            work = self._perform(identified, request, repeat, warn=warn)
            if repeat is None:
                return await work
            task = asyncio.create_task(work, name="terminal request")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return await asyncio.shield(task)

    async def _perform(
        self, identified: Identified, request: CanonicalRequest, repeat: str | None, *, warn: bool
    ) -> dict[str, Any]:
        """Perform a valid request. Every error becomes a response. `repeat`: the id that makes its calls repeatable."""
        actions: _Actions | None = None
        try:
            what = ConnectInput(identified.correlation.trace_id)
            async with self._runtimes.using(
                request.runtime, self._environment, what, self._bundled, others_allowed=self._others_allowed
            ) as adapter:
                actions = _Actions(AdapterController(adapter, self._state.calls), self._state, self._principal, repeat)
                outcome = await actions.perform(request)
        except Exception as error:  # noqa: BLE001 - the caller gets no exception text
            left_open = None if actions is None else actions.left_open
            identity = None if left_open is None else (left_open.session_id, left_open.terminal_id)
            response = failure(identified, _terminal_error(error), warn=warn, identity=identity)
        else:
            response = success(identified, outcome, warn=warn)
        if actions is not None and actions.repeated:
            response["resolved"]["repeated"] = True
        return response


def _terminal_error(error: Exception) -> TerminalError:
    """Return the error of a response for an exception. An unexpected one is logged."""
    if isinstance(error, TerminalError):
        return error
    return from_controller(error if isinstance(error, PtyctlError) else internal_error("memory_terminal_interactive", error))


def _was_not_executed(error: BaseException) -> bool:
    """Return whether a command was certainly not executed."""
    return was_refused(error) or (isinstance(error, PtyctlError) and error.code in _VERDICTS)


class _Actions:
    """Performs the actions of one request on a Controller.

    Attributes:
        left_open: the terminal that a failed request has opened, if it is still open.
        repeated: whether the request was performed before, and its answer is that of the first time.
    """

    def __init__(self, controller: Controller, state: ServiceState, principal: str, repeat: str | None) -> None:
        self.left_open: Terminal | None = None
        self.repeated = False
        self._repeat = repeat
        self._controller = controller
        self._reads, self._closed, self._naming = state.reads, state.closed, state.naming
        self._principal = principal

    async def perform(self, request: CanonicalRequest) -> Outcome:
        if request.action == "list":
            return await self._list(request)
        if request.action == "read_output":
            return await self._read_output(request)
        if request.action == "terminate":
            return await self._terminate(request)
        assert request.invocation is not None, "the validation requires it"
        return await self._execute(request)

    # execute

    async def _execute(self, request: CanonicalRequest) -> Outcome:
        invocation, execution = request.invocation, request.execution or Execution()
        assert invocation is not None
        if invocation.intent == "open_only":
            terminal, self.repeated = await self._open_terminal(request, execution)
            return _outcome(terminal, "completed", {"running": False})
        if request.has_target:
            terminal = await self._find(request)
            command = _command_line(execution, request.runtime.cwd, execution.env)
            return await self._run(terminal, command, request)
        for attempt in range(_MAX_OPENS):
            terminal, reopened = await self._open_terminal(request, execution, attempt)
            try:
                return await self._run(terminal, _command_line(execution), request)
            except PtyctlError as error:
                # The terminal of an earlier request that has executed nothing is closed: this one opens another.
                is_gone = error.code in _GONE and was_refused(error)
                if not reopened or not is_gone or attempt + 1 == _MAX_OPENS:
                    await self._leave(terminal, error)
                    raise
            except (Exception, asyncio.CancelledError) as error:
                await self._leave(terminal, error)
                raise
        raise AssertionError("the last attempt returns or raises")

    async def _leave(self, terminal: Terminal, error: BaseException) -> None:
        """Close the terminal of a failed request, unless a command may be running in it."""
        if isinstance(error, asyncio.CancelledError):
            if terminal.mode == "headless" and self._repeat is None:  # no client knows its id
                await self._try_close(terminal)
            return
        is_lost = isinstance(error, PtyctlError) and error.code is ErrorCode.IO_ERROR
        is_ended = terminal.mode == "headless" and isinstance(error, PtyctlError) and not is_lost
        if not ((is_ended or _was_not_executed(error)) and await self._try_close(terminal)):
            self.left_open = terminal

    async def _open_terminal(self, request: CanonicalRequest, execution: Execution, attempt: int = 0) -> tuple[Terminal, bool]:
        """Open a terminal; return it, and whether an earlier request with the same id has opened it."""
        step = f"open {attempt}"
        assert request.invocation is not None
        if request.invocation.mode == "headless":
            return await self._open(request, execution, TerminalInfo(mode="headless"), step, command=_HEADLESS_SHELL)
        async with self._naming:
            taken = {terminal.terminal_id for terminal in await self._terminals()}
            wanted = f"term_{execution.name or secrets.token_hex(4)}"
            numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
            terminal_id = next(name for name in (wanted, *numbered) if name not in taken)
            info = TerminalInfo(mode="interactive", terminal_id=terminal_id)
            terminal, reopened = await self._open(request, execution, info, step)
        if reopened:
            ids = {known.session_id: known.terminal_id for known in await self._terminals()}
            terminal = replace(terminal, terminal_id=ids.get(terminal.session_id))
        return terminal, reopened

    async def _open(
        self,
        request: CanonicalRequest,
        execution: Execution,
        info: TerminalInfo,
        step: str,
        command: tuple[str, ...] | None = None,
    ) -> tuple[Terminal, bool]:
        workspace_id = request.runtime.workspace_id
        opening = SessionRequest.of(
            {
                "action": "open",
                "protocol": "local",
                "command": command,
                "cwd": request.runtime.cwd,
                "env": execution.env,
                "pty": PtyOptions(enabled=False) if execution.pty is False else None,
                "shell_integration": "off" if execution.pty is False else None,  # it needs prompts
                "terminal": info.model_copy(update={"workspace_id": workspace_id}),
                "timeouts": Timeouts(idle_timeout_ms=_HEADLESS_LIFE_MS if info.mode == "headless" else 0),
            }
        )
        with self._step(step) as call:
            reply = await self._controller.session(opening)
        assert reply.session_id is not None, "a reply to open names the session"
        return Terminal(reply.session_id, info.mode, info.terminal_id), call.repeated

    async def _run(self, terminal: Terminal, command: str, request: CanonicalRequest) -> Outcome:
        fields = {"session_id": terminal.session_id, "cmd": command, "timeout_ms": _timeout_ms(request)}
        exec_request = ExecRequest.of({**fields, "max_output_bytes": _MAX_OUTPUT_BYTES})
        with self._step("exec") as call:
            try:
                reply = await self._controller.exec(exec_request)
            finally:
                self.repeated = call.repeated
        return await self._command_outcome(terminal, reply, request)

    @contextmanager
    def _step(self, name: str) -> Iterator[RepeatableCall]:
        """Make a call of a request that can be repeated repeatable."""
        if self._repeat is None:
            yield RepeatableCall("")
            return
        with repeatable(f"{self._repeat} {name}", durable=True) as call:
            yield call

    async def _command_outcome(self, terminal: Terminal, reply: ExecReply, request: CanonicalRequest) -> Outcome:
        """Return the state of a command. A headless session whose output was read to its end is closed."""
        running = reply.timed_out or reply.approval is not None or bool(reply.waiting_for_input)
        reader = self._reader(terminal, request)
        read = self._reads.get(reader)
        seen = read.stderr_chars if read is not None and read.block_id == reply.block_id and not read.ended else 0
        if request.runtime.cursor is not None or reply.output_truncated or self.repeated:
            seen = 0
        if read is None or not self.repeated:  # a repeated answer moves no read position
            _keep(self._reads, reader, _Read(reply.block_id, reply.next_cursor, len(reply.stderr), ended=not running))
        if terminal.is_open and terminal.mode == "headless" and not running:
            await self._close(terminal)
        result: dict[str, Any] = {
            "stdout": reply.stdout,
            "stderr": reply.stderr[seen:],
            "exit_code": reply.exit_code,
            "running": running,
            "truncated": reply.output_truncated,
            "next_cursor": reply.next_cursor,
        }
        if reply.policy is not None:
            result |= {"authorization": "allowed_with_warning", "warning": reply.policy.reason}
        if reply.approval is not None:
            result |= {"authorization": None, "pending_approval": reply.approval.payload()}
        if reply.waiting_for_input:
            result["waiting_for_input"] = True
        return _outcome(terminal, "accepted" if running else "completed", result)

    # read_output, terminate, list

    async def _read_output(self, request: CanonicalRequest) -> Outcome:
        terminal = await self._find(request)
        read = self._reads.get(self._reader(terminal, request))
        block_id = read.block_id if read is not None and not read.ended else await self._last_block(terminal.session_id)
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
        """End the running command. Close a headless session, and a terminal that is named by its `terminal_id`."""
        terminal = await self._find(request)
        if terminal.is_open:
            closes = terminal.mode == "headless" or (request.target is not None and request.target.terminal_id is not None)
            try:
                await call_pty(self._controller, PtyEndSession(session_id=terminal.session_id, force=True), PtyReply)
            except PtyctlError as error:
                if error.code not in (*_GONE, ErrorCode.UNSUPPORTED, ErrorCode.BUSY):
                    raise
                closes = True  # the command is the shell's own: they end together
            if closes:
                await self._close(terminal)
        return _outcome(terminal, "completed", {"running": False})

    async def _close(self, terminal: Terminal) -> None:
        """Close the session if it is open. An interactive one that another task has locked stays open."""
        try:
            force = terminal.mode == "headless"
            await self._controller.session(SessionRequest(action="close", session_id=terminal.session_id, force=force))
        except PtyctlError as error:
            if error.code not in _GONE:
                raise
        if terminal.terminal_id is not None:
            _keep(self._closed, (self._principal, terminal.terminal_id), terminal.session_id)

    async def _try_close(self, terminal: Terminal) -> bool:
        """Close the terminal of a failed request; return whether it is closed. The caller reports the first error."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._close(terminal)
        except Exception as error:  # noqa: BLE001 - the first error is reported
            _LOG.warning("a terminal was left open", extra={"session": terminal.session_id, "why": str(error)})
            return False
        return True

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
            Terminal(entry.session_id, entry.terminal.mode, entry.terminal.terminal_id)
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
        if request.action == "terminate" and target.terminal_id is not None:
            closed = self._closed.get((self._principal, target.terminal_id))
            if closed is not None and target.session_id in (None, closed):
                return Terminal(closed, "interactive", target.terminal_id, is_open=False)
        closed_id = target.session_id if target.terminal_id is None and request.action != "execute" else None
        if closed_id is not None and closed_id not in {entry.session_id for entry in await self._entries()}:
            await self._last_block(closed_id)  # raises if there is no such session
            return Terminal(closed_id, "headless", is_open=False)
        raise TerminalError(TerminalErrorCode.NOT_FOUND, "there is no such terminal", target.model_dump(exclude_none=True))

    async def _last_block(self, session_id: str) -> str | None:
        """Return the last command of a session, also of a closed one. Raises PtyctlError."""
        reply = await call_pty(self._controller, BlocksSince(session_id=session_id, last=1), BlocksReply)
        return reply.items[-1].block_id if reply.items else None

    def _reader(self, terminal: Terminal, request: CanonicalRequest) -> tuple[str, str, str]:
        """Return the name under which reads of one terminal by a caller surface are kept."""
        return self._principal, terminal.session_id, request.compat.caller_surface or ""


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Remember a value, and forget the oldest one of too many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MAX_KEPT:
        kept.popitem(last=False)


def _timeout_ms(request: CanonicalRequest) -> int:
    return min(request.runtime.timeout_ms, MAX_WAIT_MS)


def _command_line(execution: Execution, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return the line for the shell. With `cwd` or `env`, they hold for this command alone."""
    assert execution.command is not None, "the validation requires it"
    words = (execution.command, *(execution.args or ()))
    if cwd is None and not env:
        return execution.command if execution.args is None else quote_words(words)
    if execution.args is None:
        words = ("sh", "-c", execution.command)
    folder = () if cwd is None else ("-C", cwd)
    assignments = (f"{name}={quote_word(value)}" for name, value in (env or {}).items())
    return " ".join((quote_words(("env", *folder)), *assignments, quote_words(words)))


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
        "runtime_session_id": info.runtime_session_id,
    }
    return {name: value for name, value in item.items() if value is not None}


def _outcome(terminal: Terminal, status: Status, result: Mapping[str, Any]) -> Outcome:
    return Outcome(status, result, terminal.session_id, terminal.terminal_id, terminal.mode)
