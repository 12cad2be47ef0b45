"""Terminal queries (DSR, DA, XTVERSION, DECRQM, OSC colours ...): detection in received output, and replies.

Programs ask their terminal for the cursor position, its type or its modes, and wait. The session replies from its screen: once
for each query, when the query has just arrived. Output pauses after a query, so in a flood only the end needs to be searched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ptyctl.api.errors import PtyctlError
from ptyctl.core.control_sequences import ESC
from ptyctl.core.screen import QueryDetector
from ptyctl.session.io.errors import log_background_error
from ptyctl.session.io.gate import Gate
from ptyctl.session.io.output_stream import OutputStream
from transports.channel import Channel

from .screen import Screen
from .screen_replay import MAX_REPLIES

#: Replies are limited by a token bucket: this rate per second after a first burst.
BURST = MAX_REPLIES
REPLIES_PER_S = 64.0
#: After this time a reply is dropped: the program has stopped waiting, and another one would get it (seconds).
LATE_S = 1.0
#: A reply is held back for this time. If the shell returns to its prompt meanwhile, the reply would be typed into the next
#: command, for example after `cat` of a file that contains queries (seconds).
HOLD_S = 0.004
#: A program that asks and then waits has left canonical mode within this time, and one that gets no reply within it may be at
#: work instead of waiting (seconds).
RAW_MODE_S = 0.1


class TokenBucket:
    """A rate limit. Times are seconds of any monotonic clock."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._tokens = float(burst)
        self._updated = 0.0

    def available(self, now: float) -> int:
        """Return the number of available tokens."""
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._per_s)
        self._updated = now
        return int(self._tokens)

    def take(self, count: int) -> None:
        """Take tokens."""
        self._tokens -= count


class QueryResponder:
    """Types the screen's replies to the queries that a `QueryListener` reports."""

    def __init__(
        self,
        screen: Screen,
        gate: Gate,
        stream: OutputStream,
        channel: Callable[[], Channel | None],
        command_unread: Callable[[int], bool],
    ) -> None:
        """See `Display` for `channel` and `command_unread`."""
        self._screen = screen
        self._gate = gate
        self._stream = stream
        self._channel = channel
        self._command_unread = command_unread
        self._limit = TokenBucket(BURST, REPLIES_PER_S)
        self._searching = self._pending = False
        self._asked_at = 0.0
        self._asked_raw = 0
        self._task: asyncio.Task[None] | None = None

    def output_may_hold_query(self, raw: int) -> None:
        """Make the screen keep replies to queries from raw offset `raw` on: this output is about to be searched."""
        self._searching = True
        if not self._screen.collecting_replies and self._can_reply():
            self._screen.collect_replies_from(raw)

    def queries_detected(self, raw_end: int | None) -> None:
        """Reply to the queries up to `raw_end`, or stop collecting replies if there are none (None)."""
        self._searching = False
        now = asyncio.get_running_loop().time()
        if raw_end is not None and self._screen.collecting_replies and self._limit.available(now):
            self._pending, self._asked_at, self._asked_raw = True, now, raw_end
            self._task = self._task or asyncio.create_task(self._reply(), name="terminal query replies")
        elif self._task is None:
            self._screen.collect_replies_from(None)

    async def close(self) -> None:
        """Stop replying."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _reply(self) -> None:
        try:
            while self._pending:
                self._pending, asked_at, raw = False, self._asked_at, self._asked_raw
                async with self._screen.current() as replay:
                    replies = replay.take_replies()
                    self._screen.collect_replies_from(replay.raw if self._pending or self._searching else None)
                if replies and await self._still_awaited(raw):
                    await self._type(replies, asked_at)
        except PtyctlError:  # the screen is too far behind the output
            self._pending = False
        except OSError as error:
            self._pending = False
            log_background_error(error, "replying to terminal queries")
        finally:
            self._task = None
            if not self._searching:
                self._screen.collect_replies_from(None)

    def _can_reply(self) -> bool:
        channel = self._channel()
        return channel is not None and channel.pty_enabled

    async def _still_awaited(self, raw: int) -> bool:
        """Return whether the program that asked at `raw` probably still waits."""
        now = asyncio.get_running_loop().time
        asked_at, is_repeated = now(), False
        while (channel := self._channel()) is not None:
            # remote: a shell's mark from before it left canonical mode has arrived after this pause
            await asyncio.sleep(2 * HOLD_S if channel.canonical is None else HOLD_S)
            # first, as a shell leaves canonical mode after its mark, which can be read from then on
            canonical = channel.canonical
            read, size = channel.input_is_read(), self._stream.raw_size
            await channel.read_pending()
            if self._reader_changed(raw):
                return False
            if not canonical and (read is None or (read and self._stream.raw_size == size)):
                if is_repeated or channel.leads_foreground() is not True:
                    return True
                is_repeated = True  # the shell itself: a prompt whose mark is late, or a command of the shell that waits
            waited_s = now() - asked_at
            if waited_s >= LATE_S or (canonical and read is not False and waited_s >= RAW_MODE_S):
                return False
            # a shell that is busy may be about to show its prompt
            if not canonical and waited_s >= RAW_MODE_S and channel.leads_foreground() is False:
                return True
        return False

    def _reader_changed(self, raw: int) -> bool:
        """Return whether a shell has returned to its prompt or a command was typed: another program would get the reply."""
        return self._stream.reader_changed_raw >= raw or self._command_unread(raw)

    async def _type(self, replies: list[bytes], asked_at: float) -> None:
        now = asyncio.get_running_loop().time()
        if not self._can_reply() or now - asked_at > LATE_S:
            return
        replies = replies[: self._limit.available(now)]
        self._limit.take(len(replies))
        if replies:
            with suppress(PtyctlError):
                await self._gate.reply(b"".join(replies))


#: Chunks that arrive within this time after a search are collected (seconds). If they exceed FLOOD_BYTES, they are a flood and
#: are not kept in memory: only so many bytes of its end are searched, which takes less than 3 ms. Programs that asked earlier
#: no longer wait.
COLLECT_S = 0.002
FLOOD_BYTES = 16 * 1024


class QueryListener:
    """Searches received chunks for queries and reports to the responder.

    `read_tail(size)` returns up to `size` bytes of the end of the output.
    """

    def __init__(self, responder: QueryResponder, read_tail: Callable[[int], bytes]) -> None:
        self._responder = responder
        self._read_tail = read_tail
        self._loop = asyncio.get_running_loop()
        self._detector = QueryDetector()
        self._chunks: list[bytes] = []
        self._flooded = False
        self._collected_bytes = 0
        self._raw_end = 0
        self._next_search_at = 0.0
        self._timer: asyncio.Handle | None = None

    def received(self, raw: int, data: bytes) -> None:
        """Take a chunk that begins at raw offset `raw`."""
        self._raw_end = raw + len(data)
        if self._timer is not None:
            self._collected_bytes += len(data)
            if not self._flooded:
                self._chunks.append(data)
        elif ESC in data or self._detector.partial:
            now = self._loop.time()
            if now >= self._next_search_at and len(data) < FLOOD_BYTES:
                self._next_search_at = now + COLLECT_S
                if self._detector.feed(data):
                    self._responder.output_may_hold_query(raw)
                    self._responder.queries_detected(self._raw_end - self._detector.bytes_after)
                return
            self._collected_bytes = len(data)
            self._chunks.append(data)
            self._responder.output_may_hold_query(raw)
            self._timer = self._loop.call_later(COLLECT_S, self._search)

    def reset(self) -> None:
        """Drop incomplete queries: the terminal has ended or is replaced."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._chunks.clear()
        self._flooded = False
        self._detector = QueryDetector()

    def _search(self) -> None:
        if self._collected_bytes >= FLOOD_BYTES:
            self._flooded, self._collected_bytes = True, 0
            self._chunks.clear()
            self._timer = self._loop.call_later(COLLECT_S, self._search)
            return
        data = b"".join(self._chunks)
        if self._flooded:
            self._detector = QueryDetector()
            try:
                data = self._read_tail(FLOOD_BYTES)
            except OSError as error:  # these queries get no reply
                log_background_error(error, "searching output for terminal queries")
                data = b""
        found = self._detector.feed(data)
        self._chunks.clear()
        self._flooded, self._timer = False, None
        self._next_search_at = self._loop.time() + COLLECT_S
        self._responder.queries_detected(self._raw_end - self._detector.bytes_after if found else None)
