"""The marks in output.raw that follow a block's begin: whether its command began, ended, and the shell showed a prompt again.

Each byte is read once. Only parts with marks are normalised, which their offsets in the spool need: the normaliser continues
from the last row of the timeline with its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ptyctl.api.blocks import Block
from ptyctl.core.marks import OSC_NUMBER, MarkReader, PlacedMark
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.renderer import EXAMINED_LINE_BYTES

from .jsonl import end_of_rows, read_rows_backwards
from .raw_log import RawLog
from .timeline import is_timeline_row

#: A command's begin mark follows its echo; it is searched for within this distance of the block's begin.
ECHO_BYTES = 1 << 20
#: output.raw is read in pieces of this size.
_PIECE_BYTES = 1 << 20
#: The longest mark that may begin in the previous piece.
_MARK_BYTES = 16 * 1024
#: Rows of the timeline that are searched backwards for a stored state of the normaliser.
_ROWS = 256
_ANY_MARK = b"\x1b]%b;" % OSC_NUMBER


@dataclass(slots=True)
class BlockMarks:
    """The first marks of each kind after a block's begin; None for each that is not there.

    Attributes:
        begin, end: of the command.
        prompt: the first one after `begin`.
        shown: the first two prompts before `begin`.
        output_begin: the last begin mark within `ECHO_BYTES`.
    """

    begin: PlacedMark | None = None
    end: PlacedMark | None = None
    prompt: PlacedMark | None = None
    shown: list[PlacedMark] = field(default_factory=list)
    output_begin: PlacedMark | None = None

    def add(self, placed: PlacedMark, *, in_echo: bool) -> None:
        """Add the next mark. Marks after `prompt` are ignored."""
        kind = placed.mark.kind
        if self.prompt is not None or kind == "line":
            return
        if kind == "begin":
            self.begin = self.begin or placed
            self.output_begin = placed if in_echo else self.output_begin
        elif kind == "end":
            self.end = self.end or (placed if self.begin else None)
        elif self.begin is not None:
            self.prompt = placed
        elif len(self.shown) < 2:
            self.shown.append(placed)


class BlockMarksReader:
    """Reads the marks of blocks, once for each block.

    The last of the nonces is that of the shell's integration; see `MarkReader`.
    """

    def __init__(self, raw: RawLog, nonces: Iterable[str]) -> None:
        self._raw = raw
        self._nonces = tuple(nonces)
        self._timeline = raw.path.with_name("timeline.jsonl")
        sources = b"|".join(nonce.encode() for nonce in self._nonces)
        self._mark = re.compile(rb"\x1b\]%b;(?:%b);[0-9]+;[BEP][^\x07\x1b]*(?:\x07|\x1b\\)" % (OSC_NUMBER, sources))
        self._read: dict[str, tuple[BlockMarks, BlockMarks]] = {}

    def of_block(self, block: Block) -> BlockMarks:
        """Return the marks after the start of a block."""
        return self._of(block)[0]

    def of_shell(self, block: Block) -> BlockMarks:
        """Return the marks of a block that the shell's integration has sent."""
        return self._of(block)[1]

    def follows_prompt(self, block: Block) -> bool:
        """Return whether a prompt mark is in the output before a block."""
        before = self._raw.read(max(block.raw_begin - EXAMINED_LINE_BYTES, 0), block.raw_begin)
        return any(b";P;" in found.group() for found in self._mark.finditer(before))

    def _of(self, block: Block) -> tuple[BlockMarks, BlockMarks]:
        if block.block_id not in self._read:
            self._read[block.block_id] = self._collect(block)
        return self._read[block.block_id]

    def _collect(self, block: Block) -> tuple[BlockMarks, BlockMarks]:
        marks, of_shell = BlockMarks(), BlockMarks()
        for placed in self._marks_after(block) if self._nonces else ():
            in_echo = placed.raw_end <= block.raw_begin + ECHO_BYTES
            marks.add(placed, in_echo=in_echo)
            if placed.mark.nonce == self._nonces[-1]:
                of_shell.add(placed, in_echo=in_echo)
                if of_shell.prompt is not None:
                    break
        return marks, of_shell

    def _marks_after(self, block: Block) -> Iterator[PlacedMark]:
        """Yield the marks after a block's begin, from pieces in which a mark may be."""
        reader: Normaliser | None = None
        end, before = self._raw.persisted_size, b""
        for at in range(block.raw_begin, end, _PIECE_BYTES):
            piece = self._raw.read(at, min(at + _PIECE_BYTES, end))
            has_mark = self._ends_mark(before, piece)
            before = piece[-_MARK_BYTES:]
            if not has_mark:
                continue
            if reader is None:
                reader = self._begin(block)
            if reader.raw < at:
                reader = self._advance(reader, max(at - _MARK_BYTES, block.raw_begin))
                reader.feed(self._raw.read(reader.raw, at))
            reader.feed(piece)
            yield from reader.marks
            reader.marks.clear()

    def _ends_mark(self, before: bytes, piece: bytes) -> bool:
        """Return whether a mark ends in a piece of output. `before` is the end of the piece that precedes it."""
        data = before + piece
        return _ANY_MARK in data and any(found.end() > len(before) for found in self._mark.finditer(data))

    def _begin(self, block: Block) -> Normaliser:
        """Return the normaliser at a block's begin.

        It begins at the start of the command's line, because a CR there may be held back.
        """
        line = self._raw.read(max(block.raw_begin - EXAMINED_LINE_BYTES, 0), block.raw_begin).rpartition(b"\n")[2]
        row = self._row_before(block.raw_begin - len(line))
        marks = MarkReader(*self._nonces) if row is None else _mark_reader(row)
        reader = Normaliser(block.raw_begin - len(line), 0, marks)
        reader.feed(line)
        reader.spool = block.spool_begin
        reader.marks.clear()
        return reader

    def _advance(self, reader: Normaliser, raw: int) -> Normaliser:
        """Return a normaliser at an offset or shortly before it. The skipped output has no marks."""
        row = self._row_before(raw)
        if row is not None and row["raw"] > reader.raw:
            state = row["resume"]
            in_line, blanks = state["in_line"], state.get("blanks", 0)
            return Normaliser(row["raw"], row["spool"], _mark_reader(row), in_line=in_line, blanks=blanks)
        while reader.raw < raw:
            reader.feed(self._raw.read(reader.raw, min(reader.raw + _PIECE_BYTES, raw)))
        return reader

    def _row_before(self, raw: int) -> dict[str, Any] | None:
        """Return the last row with the normaliser's state, up to an offset in output.raw, that has the same nonces."""
        end = end_of_rows(self._timeline, lambda row: bool(row["raw"] <= raw), is_timeline_row)
        for count, (_, row) in enumerate(read_rows_backwards(self._timeline, end, is_timeline_row)):
            state = row.get("resume")
            if state is not None:
                return row if tuple(state["marks"]) == self._nonces else None
            if row["kind"] == "incarnation" or count == _ROWS:
                break
        return None


def _mark_reader(row: dict[str, Any]) -> MarkReader:
    state = row["resume"]
    return MarkReader.resume(state["marks"], line_follows="line_follows" in state)
