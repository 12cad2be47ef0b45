"""A session: one id, one transcript, its leases and cursors; it outlives its channels (design, section 2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptyctl.api.errors import PtyctlError
from ptyctl.api.session import Expect, SessionEntry
from ptyctl.core.lease import Lease, Leases
from ptyctl.core.prompt import Expectations
from ptyctl.core.renderer import WidthHistory
from ptyctl.core.states import SessionState, next_state
from ptyctl.platforms import Platform, common
from ptyctl.session import meta, refusals
from ptyctl.session.device.accounts import NOBODY
from ptyctl.session.line.errors import from_channel
from ptyctl.session.line.gate import Gate, Writer
from ptyctl.session.line.input_log import InputLog
from ptyctl.session.line.pulse import Pulse
from ptyctl.session.line.stream import Stream
from ptyctl.session.line.terminal import Terminal
from ptyctl.session.runs.blocks import Blocks
from ptyctl.session.runs.driving import Driver
from ptyctl.session.runs.events import Events
from ptyctl.session.runs.run import Run
from ptyctl.session.runs.runs import Runs
from ptyctl.session.runs.shells import new_nonce
from ptyctl.session.screen.display import Display
from ptyctl.session.transcript.going_on import OpenBlock
from ptyctl.session.transcript.meta_file import MetaFile
from ptyctl.session.transcript.recovery import Kept, new_folder
from transports.channel import Channel
from transports.errors import ChannelBroken, ChannelEnded, ChannelError

from .notices import Notices
from .retrying import Retry
from .size import same_size
from .spec import Limits, Spec
from .usage import Usage

#: A stored lease that expires within this time is written again at the next heartbeat, before the heartbeat returns.
LEASE_MARGIN_S = 5.0


class Session:
    """Owns one terminal. Doors call it through the controller; it never calls them."""

    def __init__(self, session_id: str, spec: Spec, folder: Path, limits: Limits, kept: Kept | None = None) -> None:
        """`kept` is what a killed server left in the folder (recovery); `recall` then says the rest."""
        new = kept is None
        kept = kept or new_folder(folder, limits.quota_bytes)
        self.session_id = session_id
        self.spec = spec
        self.state: SessionState = "opening"
        self.incarnation = kept.incarnation
        self.closed_why = ""
        self.expect = spec.expect
        #: How the device speaks, where that is known, who we are there, and what came of the last login.
        self.platform: Platform | None = None
        self.accounts = NOBODY
        self.arrival: str | None = None
        self.cols, self.rows = spec.pty.cols, spec.pty.rows
        self.channel: Channel | None = None
        self.created_at = int(time.time() * 1000)
        self.leases = Leases()
        self.changes = Pulse()
        self.notices = Notices()
        self.stream = Stream(folder, limits.window_bytes, limits.quota_bytes, kept)
        self._meta_file = MetaFile(folder)
        self.stream.widths = WidthHistory(spec.pty.cols, kept.resizes)
        paced = spec.console or spec.protocol == "telnet"
        self.gate = Gate(self.leases, self.open_channel, self.stream.pulse, console=spec.console, paced=paced)
        self.input_log = InputLog(folder)
        self.events = Events(folder, self.stream, session_id, self.changes, kept.told)
        self.events.conversation_id = spec.conversation_id or session_id
        self.blocks = Blocks(session_id, folder, self.stream, kept.blocks)
        self.events.catch_up(self.blocks.all())
        size = (self.cols, self.rows)
        self.display = Display(folder, self.stream, self.gate, size, lambda: self.channel, new=new)
        self.display.deltas.conversation_id = self.events.conversation_id
        self.terminal = Terminal(self.stream, self.gate, prompts=spec.pty.enabled)
        self.driver = Driver(self.terminal, program=spec.program, probing=spec.probing, hooking=spec.hooking)
        self.runs = Runs(self.terminal, self.driver, first_seq=self.blocks.last_seq() + 1)
        self.hooks_nonce = new_nonce()
        self.usage = Usage(spec.idle_timeout_s, self._close_as_idle, self.notices)
        #: Whether this process may write to its files, and no other. What is only history is held by nobody.
        self.held = True
        #: While its line is lost and connected anew by itself.
        self.retry: Retry | None = None
        self.on_state: Callable[[Session], None] = lambda session: None
        self.on_line_lost: Callable[[ChannelError], None] = lambda reason: None
        self._closing: asyncio.Future[None] | None = None
        self._listen()

    def _listen(self) -> None:
        """Each part tells the session, and that the others, what happens in it."""
        self.stream.on_end, self.stream.on_gap, self.stream.on_mark = self._channel_ended, self._gap, self.runs.marked
        self.gate.on_input, self.gate.on_secret = self._typed, self.stream.arm
        self.display.unread = lambda raw: self.runs.current is not None and self.runs.current.unread(raw)
        self.runs.on_begin = lambda run: self.events.begin(self.blocks.begin(run), run)
        self.runs.on_end = self._run_ended
        self.terminal.width = lambda: self.cols
        self.terminal.channel = lambda: self.channel

    async def connect(self, channel: Channel) -> None:
        """Takes a channel and opens it: the first, or a new incarnation after the last has ended.

        Raises:
            PtyctlError: what kept the channel from opening.
        """
        if self.incarnation and self.state != "reconnecting":
            self._to("reconnect")
        if self.channel is not None:
            await self.channel.close(force=True)  # its program may live on, without its terminal
        self.incarnation += 1
        typed_nonce = new_nonce()
        self.stream.begin_incarnation(self.incarnation, (typed_nonce, self.hooks_nonce))
        self.driver.new_incarnation(typed_nonce, self.hooks_nonce, self.spec.hooked)
        self.channel = channel
        self.write_meta()
        try:
            await channel.open(self.stream)
        except ChannelError as error:
            if self.state in ("opening", "reconnecting") and self.retry is None:
                self._to("broke")
            self.stream.ended = error
            self.channel = None  # a channel that did not open leaves nothing behind
            raise from_channel(error) from None
        if self._closing is not None:  # the session was closed while its channel was on the way
            await channel.close(force=True)
            self.open_channel()
        if self.stream.ended is None:
            self.retry = None
            self._to("opened")
            same_size(self)
        self.write_meta()

    async def go_on(self, channel: Channel, running: OpenBlock | None) -> None:
        """Takes the channel of a program that has outlived the process which held it, in the incarnation that it was in."""
        typed_nonce, self.hooks_nonce = self.stream.go_on()
        self.driver.new_incarnation(typed_nonce, self.hooks_nonce, self.spec.hooked)
        self.channel = channel
        if running is not None:
            self.runs.go_on(running)
        await channel.open(self.stream)
        if self.stream.ended is None:
            self._to("opened")
        self.notices.post("the server was replaced; the terminal and all that runs in it went on")
        self.write_meta()

    def begin_retrying(self, retry: Retry) -> None:
        """Its line is lost, and somebody will connect it anew; see Retry."""
        self.retry = retry
        if self.state != "reconnecting":
            self._to("reconnect")

    def give_up(self, why: str) -> None:
        """Nobody connects it anew by himself."""
        self.retry = None
        if self.state == "reconnecting":
            self._to("broke")
        self.notices.post(f"it is not connected again: {why}")
        self.events.note("reconnecting_given_up", reason=why)
        self.write_meta()

    def tell(self, message: str, sender: str | None) -> None:
        """A message of a person to all who use it. It is shown on terminals: control characters could act there."""
        told = "".join(letter if letter.isprintable() else " " for letter in f"{sender or 'a person'}: {message}")
        self.notices.post(f"message from {told}")
        self.events.note("message", message=message, sender=sender)

    def open_channel(self) -> Channel:
        """The channel to write to.

        Raises:
            PtyctlError: ALREADY_CLOSED, or REMOTE_CLOSED with why it ended.
        """
        if self.state == "open" and self.channel is not None:
            return self.channel
        if self.state == "closed":
            raise self.already_closed()
        if self.retry is not None:
            raise self.retry.refusal(self.session_id, asyncio.get_running_loop().time())
        why = self.stream.ended.message if self.stream.ended is not None else f"it is {self.state}"
        raise refusals.far_end_gone(self.session_id, self.state, why)

    def already_closed(self) -> PtyctlError:
        return refusals.already_closed(self.session_id, self.closed_why)

    def expectations(self, override: Expect | None = None) -> Expectations:
        """The session's patterns, with a call's own in front."""
        expect = self.expect if override is None else self.expect.model_copy(update=override.model_dump(exclude_none=True))
        errors = expect.error_regexes
        if errors is None and (self.spec.program is not None or self.spec.platform == "linux"):
            errors = ()
        profile = (self.platform or common()).profile
        return Expectations.of(expect.prompt_regex, expect.pager_regexes, errors, expect.settle_ms, profile)

    async def close(self, *, force: bool = False, why: str = "on request") -> None:
        """Ends the session for good; what it received stays readable. All who close wait for the one end, and it comes even
        when they go away."""
        await asyncio.shield(self._begin_close(force, why))

    def _begin_close(self, force: bool, why: str) -> asyncio.Future[None]:
        if self._closing is None:
            self.retry = None
            self._to("close")
            self.closed_why = why
            self.usage.end()
            self._closing = asyncio.create_task(self._close(force, why), name=f"close {self.session_id}")
        return self._closing

    async def _close(self, force: bool, why: str) -> None:
        await self.runs.close()
        if self.channel is not None:
            await self.channel.close(force=force)
        await self.display.close()
        self.write_meta()
        self.let_go()

    def flush(self) -> None:
        """Writes down what waits to be."""
        self.stream.release_held()
        self.stream.flush()
        self.blocks.flush()
        self.events.flush()
        self.write_meta()

    def let_go(self) -> None:
        """Leaves the files to whoever wants to go on with them; they can still be read here."""
        self.held = False
        self._meta_file.cancel_postponed()
        self.usage.end()
        self.display.end_writing()
        self.blocks.close()
        self.input_log.close()
        self.events.close()
        self.stream.close()

    def recall(self, kept: dict[str, Any]) -> None:
        """What its meta.json says of a session that an earlier process had: it was closed, or is lost with that process."""
        meta.recall(self, kept)
        self.stream.ended = ChannelBroken("the server that held its terminal has ended")
        if kept["state"] != "closed":
            self._to("broke")
            return
        self._to("close")
        self.closed_why = kept["closed_reason"]
        self._closing = asyncio.get_running_loop().create_future()
        self._closing.set_result(None)
        self.let_go()

    def lease(self) -> Lease | None:
        return self.leases.current(asyncio.get_running_loop().time())

    def observers(self) -> list[str]:
        """See Usage.observers."""
        lease = self.lease()
        return self.usage.observers(lease.holder if lease else None)

    def exit_code(self) -> int | None:
        status = self.channel.exit_status if self.channel is not None else None
        return None if status is None else status.shell_code

    def entry(self) -> SessionEntry:
        """The session's row in `list`."""
        return meta.entry(self)

    def write_meta(self, **more: object) -> None:
        """meta.json: what the session is and how far its files go."""
        self._meta_file.write({**meta.meta(self), **more})

    def persist_extended_lease(self) -> None:
        """Write an extended lease to meta.json, in most cases later and outside the event loop.

        After a crash the stored lease applies: it may expire earlier than the extended one, but never later, and it is still
        in force when the postponed write is due. Otherwise the file is written now.
        """
        lease, stored = self.lease(), (self._meta_file.stored or {}).get("lock_until")
        due = asyncio.get_running_loop().time() + LEASE_MARGIN_S
        if lease is not None and stored is not None and due <= stored <= lease.expires_at:
            self._meta_file.write_postponed(lambda: meta.meta(self))
        else:
            self.write_meta()

    def _channel_ended(self, reason: ChannelError) -> None:
        if self.state != "closed":
            self._to("ended" if isinstance(reason, ChannelEnded) else "broke")
            self.runs.far_end_gone()
            self.on_line_lost(reason)
            self.write_meta(ended_reason=reason.message)

    def _run_ended(self, run: Run) -> None:
        if run.done_reason == "eof" and run.exit_code is None:
            run.exit_code = self.exit_code()  # the command has ended the shell, and its exit code is the shell's
        self.events.end(self.blocks.end(run))

    def _to(self, event: str) -> None:
        self.state = next_state(self.state, event)  # type: ignore[arg-type]
        self.on_state(self)
        self.changes.beat()

    def _typed(self, writer: Writer, data: bytes, secret: bool) -> None:
        if not writer.system:
            self.runs.typing()
        self.input_log.record(writer, data, secret)

    def _gap(self) -> None:
        self.notices.post("gap: the disk or the quota is full; output from here on is kept in memory only, and not for long")

    def _close_as_idle(self) -> None:
        self._begin_close(False, "idle_timeout_ms passed without use")
