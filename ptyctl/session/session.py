"""A session: one id, one transcript, its leases and cursors; it outlives its channels (design, section 2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import Expect, SessionEntry
from ptyctl.core.lease import Lease, Leases
from ptyctl.core.prompt import Expectations
from ptyctl.core.states import State, next_state
from transports.channel import Channel
from transports.errors import ChannelEnded, ChannelError, Unsupported

from .errors import from_channel
from .gate import Gate
from .notices import Notices
from .runs import Runs
from .spec import Limits, Spec
from .stream import Stream
from .terminal import Terminal

#: A task that read within this time is an observer.
OBSERVER_S = 60.0


class Session:
    """Owns one terminal. Doors call it through the controller; it never calls them."""

    def __init__(self, session_id: str, spec: Spec, folder: Path, limits: Limits) -> None:
        self.session_id = session_id
        self.spec = spec
        self.state: State = "opening"
        self.incarnation = 0
        self.closed_why = ""
        self.expect = spec.expect
        self.cols, self.rows = spec.pty.cols, spec.pty.rows
        self.channel: Channel | None = None
        self.created_at = int(time.time() * 1000)
        self.last_activity_at = self.created_at
        self.leases = Leases()
        self.notices = Notices()
        self.stream = Stream(folder, limits.window_bytes, limits.quota_bytes)
        self.stream.on_end = self._channel_ended
        self.stream.on_gap = self._gap
        self.gate = Gate(
            self.leases,
            self.open_channel,
            self.stream.pulse,
            console=spec.console,
            paced=spec.console or spec.protocol == "telnet",
        )
        terminal = Terminal(self.stream, self.gate, prompts=spec.pty.enabled)
        self.runs = Runs(terminal, program=spec.program, probing=spec.probing)
        self.stream.on_osc = self.runs.osc
        self._readers: dict[str, float] = {}
        self._users = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def connect(self, channel: Channel) -> None:
        """Takes a channel and opens it: the first, or a new incarnation after the last has ended.

        Raises:
            PtyctlError: what kept the channel from opening.
        """
        if self.incarnation:
            self._to("reconnect")
            self.runs.new_incarnation()
        if self.channel is not None:
            await self.channel.close(force=True)  # its program may live on, without its terminal
        self.incarnation += 1
        self.stream.begin_incarnation(self.incarnation)
        self.channel = channel
        try:
            await channel.open(self.stream)
        except ChannelError as error:
            if self.state in ("opening", "reconnecting"):
                self._to("broke")
            self.stream.ended = error
            self.channel = None  # a channel that did not open leaves nothing behind
            raise from_channel(error) from None
        if self._closing is not None:  # the session was closed while its channel was on the way
            await channel.close(force=True)
            self.open_channel()
        if self.stream.ended is None:
            self._to("opened")
        self.write_meta()

    def open_channel(self) -> Channel:
        """The channel to write to.

        Raises:
            PtyctlError: ALREADY_CLOSED, or REMOTE_CLOSED with why it ended.
        """
        if self.state == "open" and self.channel is not None:
            return self.channel
        if self.state == "closed":
            raise self.already_closed()
        why = self.stream.ended.message if self.stream.ended is not None else f"it is {self.state}"
        raise PtyctlError(
            ErrorCode.REMOTE_CLOSED,
            f"the far end of session {self.session_id} is gone: {why}; read what is left, then open again",
            {"state": self.state},
        )

    def already_closed(self) -> PtyctlError:
        """What everything but reading answers on a closed session."""
        return PtyctlError(
            ErrorCode.ALREADY_CLOSED,
            f"session {self.session_id} is closed ({self.closed_why}); its history can still be read, or open a new one",
        )

    def expectations(self, override: Expect | None = None) -> Expectations:
        """The session's patterns, with a call's own in front."""
        fields = {**self.expect.model_dump(exclude_none=True), **(override.model_dump(exclude_none=True) if override else {})}
        shell = self.spec.program is not None or (self.spec.platform == "linux")
        errors = fields.get("error_regexes", () if shell else None)
        return Expectations.of(fields.get("prompt_regex"), fields.get("pager_regexes"), errors)

    def resize(self, cols: int, rows: int) -> None:
        channel = self.open_channel()
        try:
            if not channel.pty_enabled:
                raise Unsupported("this session has no terminal to resize")
            channel.resize(cols, rows)
        except ChannelError as error:
            raise from_channel(error) from None
        self.cols, self.rows = cols, rows
        self.stream.transcript.note("resize", int(time.time() * 1000), cols=cols, rows=rows)

    async def close(self, *, force: bool = False, why: str = "closed") -> None:
        """Ends the session for good; what it received stays readable. All who close wait for the one end, and it comes even
        when they go away."""
        await asyncio.shield(self._begin_close(force, why))

    def _begin_close(self, force: bool, why: str) -> asyncio.Task[None]:
        if self._closing is None:
            self._to("close")
            self._stop_idleness()
            self._closing = asyncio.create_task(self._close(force, why), name=f"close {self.session_id}")
        return self._closing

    async def _close(self, force: bool, why: str) -> None:
        await self.runs.close()
        if self.channel is not None:
            await self.channel.close(force=force)
        self.write_meta(closed_reason=why)
        self.stream.close()

    def lease(self) -> Lease | None:
        return self.leases.current(asyncio.get_running_loop().time())

    @contextmanager
    def in_use(self, task_id: str | None, *, reading: bool = False) -> Iterator[None]:
        """A call uses the session: as long as one does, it is not idle."""
        now = asyncio.get_running_loop().time()
        self.last_activity_at = int(time.time() * 1000)
        self._users += 1
        self._stop_idleness()
        if reading:
            self._readers[task_id or ""] = now
        try:
            yield
        finally:
            self._users -= 1
            self.watch_idleness()

    def watch_idleness(self) -> None:
        """Starts anew to count the time until an unused session is closed."""
        self._stop_idleness()
        if self.spec.idle_timeout_s and not self._users and self.state != "closed":
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self.spec.idle_timeout_s, self._close_as_idle)

    def observers(self) -> int:
        """How many others than the lock's holder have read within the last minute; those without a task_id count as one."""
        now = asyncio.get_running_loop().time()
        lease = self.lease()
        self._readers = {task: at for task, at in self._readers.items() if now - at < OBSERVER_S}
        return len(self._readers.keys() - ({lease.holder} if lease else set()))

    def exit_code(self) -> int | None:
        status = self.channel.exit_status if self.channel is not None else None
        return None if status is None else status.shell_code

    def entry(self) -> SessionEntry:
        """The session's row in `list`."""
        spec, lease = self.spec, self.lease()
        return SessionEntry(
            session_id=self.session_id,
            protocol=spec.protocol,
            host=spec.host,
            port=spec.port,
            username=spec.username,
            session_type=spec.session_type,
            device_id=spec.device_id,
            platform=spec.platform,
            state=self.state,
            mode=self.runs.mode,
            pty=spec.pty.model_copy(update={"cols": self.cols, "rows": self.rows}),
            lock_holder=lease.holder if lease else None,
            lock_expires_at=epoch_ms(lease.expires_at) if lease else None,
            observers=self.observers(),
            created_at=self.created_at,
            last_activity_at=self.last_activity_at,
            bytes_received=self.stream.normaliser.raw,
            bytes_sent=self.gate.bytes_sent,
            spool_size=self.stream.end,
            disk_bytes=self.stream.transcript.disk_bytes(),
            incarnation=self.incarnation,
        )

    def write_meta(self, **more: object) -> None:
        """meta.json: what the session is and how far its files go."""
        self.stream.transcript.write_meta({**self.entry().payload(), **more})

    def _channel_ended(self, reason: ChannelError) -> None:
        if self.state != "closed":
            self._to("ended" if isinstance(reason, ChannelEnded) else "broke")
            self.write_meta(ended_reason=reason.message)

    def _to(self, event: str) -> None:
        self.state = next_state(self.state, event)  # type: ignore[arg-type]

    def _gap(self) -> None:
        self.notices.post("gap: the disk or the quota is full; output from here on is kept in memory only, and not for long")

    def _stop_idleness(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _close_as_idle(self) -> None:
        self._begin_close(False, "idle_timeout_ms passed without use")


def epoch_ms(monotonic_s: float) -> int:
    """A time of the loop's clock as epoch ms, for those outside."""
    return int((time.time() + monotonic_s - asyncio.get_running_loop().time()) * 1000)
