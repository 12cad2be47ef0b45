"""The screen model: the state of a terminal after received bytes."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from typing import Any

from . import modes
from .dispatch import apply
from .emulator import STEP_COST, Emulator
from .fast_forward import (
    cursor_address,
    drawing_run_end,
    effective_settings,
    effective_sgr,
    frames_end,
    is_redraw_long_enough,
    last_change,
    may_join,
    partial_sgr_start,
    restore_rows,
    scroll_cut,
    text_run_end,
    unknown_grid,
    unknown_rows,
)
from .line_redraws import CursorWalk, Unknown, line_begin, lines_end, unknown_cells, walk_at, walk_begin, walk_end
from .parser import Tokenizer
from .redraw import ScreenFrame, render_frame, serialize
from .snapshot import ScreenSnapshot, Scrollback, restore_scrollback, stored_scrollback, take_scrollback, take_snapshot

#: Bytes that are skipped or drawn at a time, and the least that are tokenized at a time.
_PIECE_BYTES = 1 << 16
_MIN_PIECE_BYTES = 256
#: Limit of the deferred text, beyond which it is shortened or drawn.
_DEFERRED_BYTES = 1 << 20
#: Sizes of the last part of the input that is drawn to test whether it overwrites the rest: first these, then this fraction of
#: the input. A test is abandoned when it costs `_TRIAL_FACTOR` times as much as drawing text. After a failed test, the next
#: one follows when drawing has cost `_FAILURE_FACTOR` times as much as that test.
_TRIED_BYTES = (1 << 14, 1 << 16)
_TRIED_FRACTION = 8
_TRIAL_FACTOR = 4
_FAILURE_FACTOR = 8
#: Longer addresses do not begin frames.
_MAX_ADDRESS_BYTES = 16
#: Size of the parts of a walk, and of its last part; the numbers of last parts that are drawn as a test; and the limit of tests
#: with a shorter walk, which ends with the last part that remains visible.
_PART_BYTES, _LAST_PART_BYTES = 1 << 16, 1 << 14
_TRIED_PARTS = (1, 2, 3)
_MAX_SHORTER_WALKS = 6


class ScreenModel:
    """A terminal of `cols` by `rows`, fed with bytes. The result does not depend on how the bytes are split.

    Text without any sequences but SGR is deferred until the screen is read, so that a burst is not drawn line by line;
    everything else is drawn at once. `responses` are the terminal's responses to queries, in order; the owner of the model
    sends and clears them. While the list has 64 entries, further queries get no response.
    """

    def __init__(self, cols: int, rows: int, scrollback: int = 1000) -> None:
        self._emulator = Emulator(cols, rows, scrollback)
        self._tokenizer = Tokenizer()
        self._partial_sgr = b""
        self._deferred: list[bytes] = []
        self._deferred_size = 0
        #: The cost at which `_skip_overwritten` is tried again after a failure.
        self._try_at = 0

    @property
    def cols(self) -> int:
        return self._emulator.columns

    @property
    def rows(self) -> int:
        return self._emulator.lines

    @property
    def responses(self) -> list[bytes]:
        return self._emulator.responses

    def take_responses(self) -> list[bytes]:
        """Remove and return the responses to queries."""
        return self._emulator.take_responses()

    @property
    def settled(self) -> bool:
        """Whether the input so far ends outside a sequence."""
        return self._tokenizer.between_tokens and not self._partial_sgr

    @property
    def cost(self) -> int:
        """The cost of everything drawn so far, in cells of about 10 ns."""
        return self._emulator.cost

    def feed(self, data: bytes) -> None:
        """Process any bytes; never raises."""
        for _ in self.steps(data):
            pass

    def steps(self, data: bytes) -> Iterator[None]:
        """Process any bytes in steps of bounded cost. Until the last step, only `cost` and this iterator may be used."""
        data = self._partial_sgr + data
        whole = partial_sgr_start(data)
        data, self._partial_sgr = data[:whole], data[whole:]
        if not self._tokenizer.between_tokens or text_run_end(data, 0) < len(data):
            yield from self._process(self._take_deferred() + data)
        else:
            self._defer(data)
            if self._deferred_size >= _DEFERRED_BYTES:
                yield from self._shorten_deferred()

    def settle(self) -> Iterator[None]:
        """Draw the deferred text in steps of bounded cost."""
        if self._deferred:
            yield from self._draw_text(self._take_deferred())

    def resize(self, cols: int, rows: int) -> None:
        self._draw_deferred()
        self._emulator.charge(2 * rows, cols)
        self._emulator.resize(rows, cols)

    def snapshot(self, *, attributes: bool = False) -> ScreenSnapshot:
        """Return the contents of the screen, on request with the attributes of its cells."""
        self._draw_deferred()
        return take_snapshot(self._emulator, attributes=attributes)

    def frame(self, cols: int, rows: int) -> ScreenFrame:
        """Return the part of the screen that a terminal of that size shows."""
        self._draw_deferred()
        return render_frame(self._emulator, cols, rows)

    def scrollback(self, limit: int) -> list[str]:
        """Return up to `limit` of the newest lines that scrolled off the main screen, oldest first."""
        self._draw_deferred()
        return list(self.scrollback_range(None, limit).lines)

    def scrollback_range(self, first: int | None, limit: int, *, attributes: bool = False) -> Scrollback:
        """Return up to `limit` lines that scrolled off the main screen from a line number on; None for the newest ones.

        A line keeps its number. Numbers grow by 1 from line to line, and by more where text was skipped.
        """
        self._draw_deferred()
        return take_scrollback(self._emulator, first, limit, attributes=attributes)

    def stored_scrollback(self) -> dict[str, Any]:
        """Return all lines that scrolled off the main screen, with attributes, as values for JSON."""
        self._draw_deferred()
        return stored_scrollback(self._emulator)

    def restore_scrollback(self, stored: dict[str, Any]) -> None:
        """Replace the scrollback by the result of `stored_scrollback`. Raises KeyError, TypeError or ValueError."""
        restore_scrollback(self._emulator, stored)

    def serialize(self, scrollback: int = 0) -> bytes:
        """Return bytes that bring a fresh terminal of this size to the same state, a partial sequence included.

        `scrollback` is the number of lines above the screen that they draw too.
        """
        self._draw_deferred()
        return serialize(self._emulator, scrollback) + self._tokenizer.pending() + self._partial_sgr

    def copy(self) -> ScreenModel:
        """Return an independent copy. It is cheap: rows are shared."""
        other = copy.copy(self)
        other._emulator, other._tokenizer = self._emulator.copy(), self._tokenizer.copy()
        other._deferred = self._deferred.copy()
        return other

    def _defer(self, data: bytes) -> None:
        self._deferred.append(data)
        self._deferred_size += len(data)

    def _take_deferred(self) -> bytes:
        data = b"".join(self._deferred)
        self._deferred, self._deferred_size = [], 0
        return data

    def _draw_deferred(self) -> None:
        for _ in self.settle():
            pass

    def _shorten_deferred(self) -> Iterator[None]:
        """Drop deferred text that scrolls off the screen. Draw the rest if it is still too long."""
        data = self._take_deferred()
        begin = self._skip_scrolled_off(data, 0, len(data))
        if len(data) - begin < _DEFERRED_BYTES // 2:
            self._defer(data[begin:])
        else:
            yield from self._draw_text(data[begin:])

    def _draw_text(self, data: bytes) -> Iterator[None]:
        """Draw text without any sequences but SGR."""
        begin = self._skip_scrolled_off(data, 0, len(data))
        while begin < len(data):
            begin, tried = yield from self._skip_overwritten(data, begin)
            stop = min(len(data), tried)
            yield from self._draw(data, begin, stop)
            begin = stop

    def _process(self, data: bytes) -> Iterator[None]:
        """Draw `data`, except for trailing text, which is deferred."""
        begin = tried = 0
        while begin < len(data):
            end, stop = begin, begin + _PIECE_BYTES
            if self._tokenizer.between_tokens:
                if begin >= tried:
                    begin, tried = yield from self._skip_overwritten(data, begin)
                    stop = begin + _PIECE_BYTES
                end = text_run_end(data, begin)
                if end == len(data):
                    self._defer(data[begin:])
                    yield from self._shorten_deferred()
                    return
                begin = self._skip_scrolled_off(data, begin, end)
                if begin < tried:
                    stop = min(stop, tried)
            stop = min(len(data), max(end, stop))
            yield from self._draw(data, begin, stop)
            begin = stop

    def _skip_scrolled_off(self, data: bytes, begin: int, end: int) -> int:
        """Skip the part of a text run that provably scrolls off; return where to continue."""
        emulator = self._emulator
        if emulator.margins is not None or emulator.sides is not None or modes.REVERSE_WRAP in emulator.mode:
            return begin
        kept = 0 if emulator.alternate else emulator.scrollback
        at = scroll_cut(data, begin, end, 2 * emulator.lines - 1 + kept)
        if at > begin:
            emulator.skip_lines(data.count(b"\n", begin, at))
            self._tokenizer.skip()
            self._draw_all(effective_sgr(data, begin, at))
        return at

    def _skip_overwritten(self, data: bytes, begin: int) -> Generator[None, None, tuple[int, int]]:
        """Skip drawing that the end of its run overwrites. Return where to continue, and up to where not to try again."""
        emulator, cells, again = self._emulator, self.cols * self.rows, begin + _PIECE_BYTES
        if emulator.cost < self._try_at or not is_redraw_long_enough(len(data) - begin, cells):
            return begin, again
        if emulator.clusters.joining or emulator.protection_used or self._tokenizer.pending():
            return begin, again
        if emulator.alternate:
            end = drawing_run_end(data, begin)
        elif emulator.margins is not None or emulator.sides is not None:
            return begin, again
        elif cursor_address(data, begin, min(len(data), begin + _MAX_ADDRESS_BYTES)) > begin:
            return (yield from self._skip_redrawn_lines(data, begin, min(len(data), again)))
        else:
            end = frames_end(data, begin, self.cols, self.rows)
        if not is_redraw_long_enough(end - begin, cells) or may_join(data, begin, end):
            return begin, max(end, again)
        yield
        cost, most = emulator.cost, (end - begin) // _TRIED_FRACTION
        for tried in (*(size for size in _TRIED_BYTES if size < most), most):
            start = cursor_address(data, end - tried, end)
            if start == end:
                continue
            other = yield from self._draw_end(data, begin, start, end)
            unknown = unknown_rows(other._emulator.grid) if other is not None else None
            changed = begin
            if unknown:
                changed = start if emulator.alternate else (yield from last_change(data, begin, start, unknown))
            if other is not None and unknown is not None and changed == begin:
                restore_rows(other._emulator.grid, unknown)
                self._emulator, self._tokenizer = other._emulator, other._tokenizer
                return end, end
            if unknown and changed - begin < tried:
                return begin, changed
        self._try_at = emulator.cost + _FAILURE_FACTOR * (emulator.cost - cost)
        return begin, end

    def _skip_redrawn_lines(self, data: bytes, begin: int, again: int) -> Generator[None, None, tuple[int, int]]:
        """Skip redraws of lines that later ones overwrite. Return as `_skip_overwritten`."""
        emulator, cursor = self._emulator, self._emulator.cursor
        row, column = cursor.y, cursor.x
        if (address := cursor_address(data, begin, again)) < again:
            return begin, max(address, begin + 1)
        if (first := walk_begin(data, begin, again, column)) > begin:
            return begin, first
        walk = walk_at(data, begin, row, self.rows)
        yield
        if walk is None or 2 * (walk_end(walk, data, begin, again) - begin) < again - begin:
            return begin, again
        yield
        end = lines_end(data, begin, self.cols, column)
        yield
        points = yield from _line_begins(walk, data, begin, end)
        cost, end = emulator.cost, points[-1]
        for _ in range(_MAX_SHORTER_WALKS):
            if not is_redraw_long_enough(points[-1] - begin, self.cols * self.rows) or may_join(data, begin, points[-1]):
                return begin, max(end, again)
            visible = yield from self._draw_walk_end(walk, row, data, points)
            if visible is None:
                break
            if visible == 0:
                return points[-1], points[-1]
            del points[visible + 1 :]
        self._try_at = emulator.cost + _FAILURE_FACTOR * (emulator.cost - cost)
        return begin, end

    def _draw_walk_end(self, walk: CursorWalk, row: int, data: bytes, points: list[int]) -> Generator[None, None, int | None]:
        """Draw only the last parts of a walk if they overwrite the others, and return 0 in this case.

        Otherwise return the number of the point after the last part that may remain visible, or None if that is unknown.
        """
        before = self._emulator
        for size in _TRIED_PARTS:
            start = points[-1 - size] if size < len(points) else points[0]
            if start == points[0]:
                return None
            other = yield from self._draw_end(data, points[0], start, points[-1], row)
            unknown = unknown_cells(other._emulator.grid) if other is not None else None
            if other is None or unknown is None or (unknown.is_partial and modes.IRM in before.mode):
                continue
            changed = yield from _last_change(unknown, walk, row, data, points)
            if changed == 0:
                unknown.restore(other._emulator.grid)
                self._emulator, self._tokenizer = other._emulator, other._tokenizer
                return 0
            if points[changed] <= points[-1 - _TRIED_PARTS[-1] :][0]:
                return changed
        return None

    def _draw_end(
        self, data: bytes, begin: int, start: int, end: int, row: int | None = None
    ) -> Generator[None, None, ScreenModel | None]:
        """Draw a run from `start` on, on a copy with unknown cells. Return it, or None if that costs too much.

        `row`: the row in whose first column the cursor is at `start`, unless a cursor address follows.
        """
        other = self.copy()
        settings = effective_settings(data, begin, start)
        yield
        yield from other._draw(settings, 0, len(settings))
        if row is not None:
            other._emulator.begin_row(row)
        other._emulator.grid = unknown_grid(self._emulator.grid)
        limit = other.cost + _TRIAL_FACTOR * (end - start) * other._emulator.byte_cost
        for _ in other._draw(data, start, end):
            self._emulator.cost = other.cost
            if other.cost > limit:
                return None
            yield
        self._emulator.cost = other.cost
        return other

    def _draw(self, data: bytes, begin: int, end: int) -> Iterator[None]:
        emulator, cost = self._emulator, self._emulator.byte_cost
        size = min(max(STEP_COST // cost + 1, _MIN_PIECE_BYTES), _PIECE_BYTES)
        for piece in range(begin, end, size):
            emulator.collect_unused()
            emulator.cost += cost * min(size, end - piece)
            yield from apply(emulator, self._tokenizer.tokens(data[piece : min(end, piece + size)]))
            if emulator.cost >= emulator.pause_at:
                emulator.pause()
                yield

    def _draw_all(self, data: bytes) -> None:
        for _ in self._draw(data, 0, len(data)):
            pass


def _line_begins(walk: CursorWalk, data: bytes, begin: int, end: int) -> Generator[None, None, list[int]]:
    """Return offsets at which a walk is in the first column of its first row: `begin`, others in steps, and its end."""
    points = [begin]
    for limit in (*range(begin + _PART_BYTES, end - _PART_BYTES // 2, _PART_BYTES), end - _LAST_PART_BYTES):
        at = line_begin(walk, data, walk_end(walk, data, points[-1], max(limit, points[-1])), end)
        yield
        if at is None:
            break
        points.append(at)
    points.append(walk_end(walk, data, points[-1], end))
    return sorted(set(points))


def _last_change(unknown: Unknown, walk: CursorWalk, row: int, data: bytes, points: list[int]) -> Generator[None, None, int]:
    """Return the number of the point after the last part of a walk that may change unknown cells, or 0."""
    for number in range(len(points) - 1, 0, -1):
        if unknown.may_change(walk, row, data, points[number - 1], points[number]):
            return number
        yield
    return 0
