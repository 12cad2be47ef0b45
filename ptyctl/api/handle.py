"""`SessionHandle`: one session as a Python object with typed methods, over any Controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

from .blocks import Block, BlocksReply, BlocksSearch, BlocksSince, Hit
from .config import ConfigRequest, ResizeReply
from .controller import Controller
from .exec import DEFAULT_EXEC_TIMEOUT_MS, DEFAULT_MAX_OUTPUT_BYTES, ExecReply, ExecRequest, RcMode, Response
from .io import DEFAULT_WAIT_MS, Encoding, InputHints, IoRequest, ReadReply, ResponseReply, ScreenReadReply, WriteReply
from .model import Request
from .operator import WatchItem, WatchRequest
from .pty import PtyReplyBase, PtyRequest, decode_error
from .session import (
    Auth,
    BlockStatus,
    CloseReply,
    Expect,
    LockReply,
    OpenReply,
    ProtocolName,
    PtyOptions,
    SessionReply,
    SessionRequest,
    SessionType,
    ShellName,
    SshOptions,
    StatusReply,
    TelnetOptions,
    Timeouts,
    UnlockReply,
)

PtyReplyT = TypeVar("PtyReplyT", bound=PtyReplyBase)
RequestT = TypeVar("RequestT", bound=Request)

_BLOCKS_PER_PAGE = 1000
#: Interval at which the state of a session that is being opened is read (seconds).
_OPENING_POLL_S = 0.5


class OpenOptions(TypedDict, total=False):
    """Keyword parameters of an open. Either `protocol` or `device` is required; docs/transports.md explains each one."""

    protocol: ProtocolName
    """`local`, `ssh` or `telnet`."""
    device: str
    """Name of a device in the inventory."""
    host: str
    """Host name or address, for `ssh` and `telnet`."""
    port: int
    """TCP port; the protocol's own unless given."""
    username: str
    """User to log in as."""
    auth: Auth
    """Credentials."""
    pty: PtyOptions
    """Size and type of the terminal."""
    timeouts: Timeouts
    """Time limits of the connection attempt and of an unused session."""
    ssh_options: SshOptions
    """Host key policy, jump hosts, keepalive."""
    telnet_options: TelnetOptions
    """Line ending, keepalive."""
    command: str | Sequence[str]
    """Program to run instead of the login shell, as a command line or as argv."""
    cwd: str
    """Working directory of a local program."""
    env: Mapping[str, str]
    """Environment variables to add."""
    expect: Expect
    """Patterns of the device's prompt, pager and errors."""
    platform: str
    """Device family, or `auto` to detect it."""
    session_type: SessionType
    """`console` for a session that all clients share by `device_id`."""
    device_id: str
    """Name of the console."""
    acquire_lock: bool
    """Whether to lock the session for `task_id`."""
    lock_ttl_ms: int
    """Lifetime of the lock."""
    task_id: str
    """Name of the caller's task, which owns locks and writes."""
    shell_integration: Literal["auto", "off"]
    """Whether a remote shell may be set up to report the start and end of each command."""
    shell: ShellName
    """The shell at the prompt, which is not tested then."""
    node: str
    """In a fleet: the node that opens the session."""


async def until_open(controller: Controller, opened: SessionReply) -> SessionReply:
    """Wait until an open that continues after its call has ended. Returns the reply of the open with the state reached.

    Raises:
        PtyctlError: why the session could not be opened.
    """
    if opened.state != "opening":
        return opened
    request = SessionRequest.of({"action": "status", "session_id": opened.session_id})
    while True:
        status = await controller.session(request)
        if status.state != "opening":
            break
        await asyncio.sleep(_OPENING_POLL_S)
    lock = {name: getattr(status, name) for name in ("lock_holder", "lock_principal", "lock_expires_at", "fence")}
    return opened.model_copy(update={"state": status.state, "message": None, **lock})


class SessionHandle:
    """One open session. Leaving `async with` closes it. All methods raise PtyctlError.

    Attributes:
        session_id: id of the session.
        task_id: name of the task that writes, sent with every call.
        cursor: where the next `read` continues.
    """

    def __init__(
        self,
        controller: Controller,
        session_id: str,
        task_id: str | None = None,
        *,
        cursor: str = "0",
        opened: OpenReply | None = None,
    ) -> None:
        self.controller = controller
        self.session_id = session_id
        self.task_id = task_id
        self.cursor = cursor
        self._opened = opened

    @classmethod
    async def open(cls, controller: Controller, **options: Unpack[OpenOptions]) -> Self:
        """Open a session, or return the open session of a console. Waits as long as the connection and the login take."""
        request = SessionRequest.of({"action": "open", **options})
        opened = OpenReply.of(await until_open(controller, await controller.session(request)))
        return cls(controller, opened.session_id, request.task_id, cursor=opened.next_cursor, opened=opened)

    @classmethod
    async def attach(cls, controller: Controller, session_id: str, task_id: str | None = None) -> Self:
        """Return a handle of a session that is open already. Its first `read` returns output from now on."""
        await controller.session(SessionRequest.of({"action": "status", "session_id": session_id}))
        read = IoRequest.of({"action": "read", "session_id": session_id, "timeout_ms": 0})
        return cls(controller, session_id, task_id, cursor=ReadReply.of(await controller.io(read)).next_cursor)

    @property
    def opened(self) -> OpenReply:
        """The reply of `open`.

        Raises:
            AttributeError: the session was not opened by this handle.
        """
        if self._opened is None:
            raise AttributeError("this handle did not open its session")
        return self._opened

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def exec(
        self,
        cmd: str,
        *,
        timeout_ms: int = DEFAULT_EXEC_TIMEOUT_MS,
        until_idle_ms: int | None = None,
        until_regex: str | None = None,
        rc_mode: RcMode | None = None,
        expect: Expect | None = None,
        responses: Sequence[Response] | None = None,
        mode: str | None = None,
        parse: bool | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        cancel_after_ms: int | None = None,
        grep: str | None = None,
        grep_context: int = 0,
        task_id: str | None = None,
    ) -> ExecReply:
        """Run a command and wait until it ends or `timeout_ms` has passed.

        Args:
            cmd: the command as it would be typed.
            timeout_ms: maximum wait of this call; the command continues after it.
            until_idle_ms: also return if there is no output for this time.
            until_regex: also return if the output matches this RE2 pattern.
            rc_mode: whether a printed marker gives the exit code.
            expect: patterns of prompt, pager and errors for this command.
            responses: automatic answers to questions.
            mode: device mode to enter first.
            parse: return the output as objects too, in `parsed`.
            max_output_bytes: longer output is cut in the middle.
            cancel_after_ms: interrupt the command after this time.
            grep: return only lines that match this RE2 pattern.
            grep_context: number of lines before and after each match.
            task_id: replaces the handle's task for this call.
        """
        request = self._request(
            ExecRequest,
            cmd=cmd,
            timeout_ms=timeout_ms,
            until_idle_ms=until_idle_ms,
            until_regex=until_regex,
            rc_mode=rc_mode,
            expect=expect,
            responses=responses,
            mode=mode,
            parse=parse,
            max_output_bytes=max_output_bytes,
            cancel_after_ms=cancel_after_ms,
            grep=grep,
            grep_context=grep_context,
            task_id=task_id,
        )
        return await self.controller.exec(request)

    async def wait(
        self,
        block_id: str,
        *,
        timeout_ms: int = DEFAULT_EXEC_TIMEOUT_MS,
        until_idle_ms: int | None = None,
        until_regex: str | None = None,
        parse: bool | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        cancel_after_ms: int | None = None,
        grep: str | None = None,
        grep_context: int = 0,
        from_cursor: str | None = None,
        task_id: str | None = None,
    ) -> ExecReply:
        """Wait again for a running command; see `exec` for the parameters. `from_cursor` returns only what is new since."""
        request = self._request(
            ExecRequest,
            block_id=block_id,
            timeout_ms=timeout_ms,
            until_idle_ms=until_idle_ms,
            until_regex=until_regex,
            parse=parse,
            max_output_bytes=max_output_bytes,
            cancel_after_ms=cancel_after_ms,
            grep=grep,
            grep_context=grep_context,
            from_cursor=from_cursor,
            task_id=task_id,
        )
        return await self.controller.exec(request)

    async def write(
        self, data: str, *, encoding: Encoding | None = None, sensitive: bool | None = None, task_id: str | None = None
    ) -> WriteReply:
        """Type text; a newline is Enter. The transcript keeps only the length of `sensitive` input."""
        fields = {"data": data, "encoding": encoding, "sensitive": sensitive, "task_id": task_id}
        return WriteReply.of(await self.controller.io(self._request(IoRequest, action="write", **fields)))

    async def key(self, key: str, *, task_id: str | None = None) -> WriteReply:
        """Press a key by name: enter, ctrl_c, up, f1 ..."""
        request = self._request(IoRequest, action="write", key=key, task_id=task_id)
        return WriteReply.of(await self.controller.io(request))

    async def send(
        self,
        data: str | None = None,
        *,
        key: str | None = None,
        sensitive: bool | None = None,
        until_regex: str | None = None,
        until_any: Sequence[str] | None = None,
        until_idle_ms: int | None = None,
        timeout_ms: int = DEFAULT_WAIT_MS,
        repeat_ms: int | None = None,
        input_hints: InputHints | None = None,
        task_id: str | None = None,
    ) -> ResponseReply:
        """Type text or press a key, and wait for the response. The next `read` continues after it.

        Args:
            data: the text.
            key: a key by name, instead of `data`.
            sensitive: keep only the length of the input in the transcript.
            until_regex: wait for this RE2 pattern. It does not match in the echo of a line.
            until_any: wait for one of these patterns; `match_index` of the reply tells which matched.
            until_idle_ms: wait until there is no output for this time.
            timeout_ms: maximum wait. Without another condition, wait until the response pauses.
            repeat_ms: type again at this interval until a pattern matches.
            input_hints: patterns of questions, for `waiting_for_input`.
            task_id: replaces the handle's task for this call.
        """
        request = self._request(
            IoRequest,
            action="write",
            data=data,
            key=key,
            sensitive=sensitive,
            until_regex=until_regex,
            until_any=until_any,
            until_idle_ms=until_idle_ms,
            timeout_ms=timeout_ms,
            repeat_ms=repeat_ms,
            input_hints=input_hints,
            task_id=task_id,
        )
        reply = ResponseReply.of(await self.controller.io(request))
        self.cursor = reply.next_cursor
        return reply

    async def read(
        self,
        *,
        mode: Literal["cursor", "tail"] | None = None,
        cursor: str | None = None,
        timeout_ms: int | None = None,
        max_bytes: int | None = None,
        max_lines: int | None = None,
        until_regex: str | None = None,
        until_any: Sequence[str] | None = None,
        include_match: bool | None = None,
        until_idle_ms: int | None = None,
        input_hints: InputHints | None = None,
        encoding: Encoding | None = None,
    ) -> ReadReply:
        """Read output from where the last read ended, and wait for it if a condition is given.

        Args:
            mode: `tail` returns the end of the output at once.
            cursor: read from this position instead.
            timeout_ms: maximum wait.
            max_bytes: maximum size of the chunk.
            max_lines: maximum number of lines, with mode `tail`.
            until_regex: wait for this RE2 pattern.
            until_any: wait for one of these patterns; `match_index` tells which matched.
            include_match: whether the chunk includes the match.
            until_idle_ms: wait until there is no output for this time.
            input_hints: patterns of questions, for `waiting_for_input`.
            encoding: `base64` returns bytes unchanged.
        """
        reply = await self.controller.io(
            self._request(
                IoRequest,
                action="read",
                mode=mode,
                cursor=self.cursor if cursor is None and mode != "tail" else cursor,
                timeout_ms=timeout_ms,
                max_bytes=max_bytes,
                max_lines=max_lines,
                until_regex=until_regex,
                until_any=until_any,
                include_match=include_match,
                until_idle_ms=until_idle_ms,
                input_hints=input_hints,
                encoding=encoding,
            )
        )
        read = ReadReply.of(reply)
        self.cursor = read.next_cursor
        return read

    async def screen(
        self,
        *,
        until_regex: str | None = None,
        until_idle_ms: int | None = None,
        timeout_ms: int | None = None,
        input_hints: InputHints | None = None,
    ) -> ScreenReadReply:
        """Return the screen, now or when it matches `until_regex` or has not changed for `until_idle_ms`."""
        request = self._request(
            IoRequest,
            action="read",
            mode="screen",
            until_regex=until_regex,
            until_idle_ms=until_idle_ms,
            timeout_ms=timeout_ms,
            input_hints=input_hints,
        )
        return ScreenReadReply.of(await self.controller.io(request))

    def watch(self, *, from_offset: int | None = None) -> AsyncGenerator[WatchItem, None]:
        """Follow the session: the current screen, or all output from the raw offset `from_offset`; then each change."""
        return self.controller.watch(self._request(WatchRequest, from_offset=from_offset))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield rows of events.jsonl as they are written (blocks, locks taken over, resets), until the session is closed."""
        async with aclosing(self.watch()) as items:
            async for item in items:
                if item.event is not None:
                    yield item.event

    async def blocks(self) -> list[Block]:
        """Return all blocks, oldest first."""
        return await fetch_blocks(self.controller, self.session_id)

    async def search(
        self,
        query: str,
        *,
        regex: bool = False,
        block_id: str | None = None,
        cmd: str | None = None,
        status: BlockStatus | None = None,
        since_ts: int | None = None,
        until_ts: int | None = None,
        limit: int = 50,
    ) -> list[Hit]:
        """Return lines of the blocks' output that contain `query`, or match it as an RE2 pattern.

        Args:
            query: the text or pattern.
            regex: whether `query` is a pattern.
            block_id: search one block only.
            cmd: search blocks whose command contains this text.
            status: search blocks of this status.
            since_ts: search blocks that ran after this time (epoch ms).
            until_ts: search blocks that ran before this time (epoch ms).
            limit: maximum number of lines.
        """
        request = BlocksSearch.of(
            _given(
                session_id=self.session_id,
                query=query,
                regex=regex,
                block_id=block_id,
                cmd=cmd,
                status=status,
                since_ts=since_ts,
                until_ts=until_ts,
                limit=limit,
            )
        )
        return (await call_pty(self.controller, request, BlocksReply)).hits or []

    async def lock(
        self,
        *,
        lock_ttl_ms: int | None = None,
        wait_ms: int | None = None,
        force: bool | None = None,
        reason: str | None = None,
        task_id: str | None = None,
    ) -> LockReply:
        """Take or extend the lock.

        Args:
            lock_ttl_ms: lifetime of the lock.
            wait_ms: maximum time to wait in the queue.
            force: take the lock from its holder.
            reason: shown to the other users when the lock is taken by force.
            task_id: replaces the handle's task for this call.
        """
        request = self._request(
            SessionRequest,
            action="lock",
            lock_ttl_ms=lock_ttl_ms,
            wait_ms=wait_ms,
            force=force,
            reason=reason,
            task_id=task_id,
        )
        return LockReply.of(await self.controller.session(request))

    async def unlock(self, *, task_id: str | None = None) -> UnlockReply:
        """Release the lock, or leave the queue."""
        return UnlockReply.of(await self.controller.session(self._request(SessionRequest, action="unlock", task_id=task_id)))

    async def heartbeat(self, *, lock_ttl_ms: int | None = None, task_id: str | None = None) -> LockReply:
        """Extend the lock."""
        request = self._request(SessionRequest, action="heartbeat", lock_ttl_ms=lock_ttl_ms, task_id=task_id)
        return LockReply.of(await self.controller.session(request))

    async def status(self) -> StatusReply:
        """Return state, mode, lock holder, queue and observers."""
        return StatusReply.of(await self.controller.session(self._request(SessionRequest, action="status")))

    async def resize(self, cols: int, rows: int) -> ResizeReply:
        """Change the terminal's size."""
        request = self._request(ConfigRequest, action="resize", cols=cols, rows=rows)
        return ResizeReply.of(await self.controller.config(request))

    async def close(self, *, force: bool = False) -> CloseReply:
        """Close the session; with `force`, also while another task holds the lock. The transcript stays readable."""
        return CloseReply.of(await self.controller.session(self._request(SessionRequest, action="close", force=force or None)))

    def _request(self, kind: type[RequestT], **fields: Any) -> RequestT:
        if fields.get("task_id") is None:
            fields["task_id"] = self.task_id
        return kind.of(_given(session_id=self.session_id, **fields))


async def call_pty(controller: Controller, request: PtyRequest, kind: type[PtyReplyT]) -> PtyReplyT:
    """Perform a pty_*, blocks_* or screen tool and return its reply, which has the type `kind`.

    Raises:
        PtyctlError: the error of a reply with `ok` false.
    """
    reply = await controller.pty(request)
    if not reply.ok:
        raise decode_error(reply)
    assert isinstance(reply, kind)
    return reply


async def fetch_blocks(controller: Controller, session_id: str) -> list[Block]:
    """Return all blocks of a session in their current state, oldest first."""
    blocks: dict[int, Block] = {}
    cursor, items = 0, True
    while items:
        request = BlocksSince.of({"session_id": session_id, "cursor": cursor, "limit": _BLOCKS_PER_PAGE})
        reply = await call_pty(controller, request, BlocksReply)
        items, cursor = bool(reply.items), reply.resume_cursor or 0
        blocks |= {block.seq: block for block in reply.items or ()}
    return [blocks[seq] for seq in sorted(blocks)]


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
