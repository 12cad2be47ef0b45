"""The screen requests and replies. Rows and columns count from 0; times are epoch ms (docs/contracts.md, Screen)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .model import Id, Reply
from .pty import PtyReplyBase, PtyRequest


class PtyReadRaw(PtyRequest):
    """pty_read_raw: bytes exactly as they were received."""

    from_offset: int = Field(default=0, ge=0, description="a byte offset into the raw output: a resume_offset, or 0")
    max_bytes: int = Field(default=65_536, ge=1, le=4_194_304)


class PtyReadScreen(PtyRequest):
    """pty_read_screen: the screen now, or at an earlier point."""

    at: Annotated[int, Field(ge=0)] | Annotated[Id, Field(pattern=r"\D")] | None = Field(
        default=None, description="as it was: a raw_offset, or the end of a block_id"
    )
    attributes: bool = Field(default=False, description="also colours, bold, reverse ... of each row, in runs of columns")


class PtyReadScreenDeltas(PtyRequest):
    """pty_read_screen_deltas: changes of the screen since a cursor."""

    cursor: int = Field(default=0, ge=0, description="the resume_cursor of the last answer, or 0")
    limit: int = Field(default=50, ge=1, le=1000)


class PtyScreenStatus(PtyRequest):
    """pty_screen_status: title, size and cursor position."""


class PtyReadScrollback(PtyRequest):
    """pty_read_scrollback: the newest lines that have scrolled off the screen."""

    limit: int = Field(default=100, ge=1, le=1000, description="number of lines, newest")


class Position(Reply):
    """Cell of the cursor."""

    row: int
    col: int


class AttributeRun(Reply):
    """Cells of a row with the same attributes, from `begin` to `end` (exclusive). An absent attribute has its default value.

    A colour is a name (`red`, `brightred`), one of 256 (`color208`), or `#rrggbb`.
    """

    begin: int
    end: int
    fg: str | None = None
    bg: str | None = None
    bold: bool | None = None
    faint: bool | None = None
    italics: bool | None = None
    underline: bool | None = None
    blink: bool | None = None
    reverse: bool | None = None
    hidden: bool | None = None
    strikethrough: bool | None = None


class ScreenReply(PtyReplyBase):
    """The screen after `raw_offset` bytes: `rows_count` rows, without trailing blanks."""

    rows: list[str]
    cursor: Position
    cursor_visible: bool
    title: str
    alt_screen: bool
    cols: int
    rows_count: int
    ts: int
    raw_offset: int
    attributes: list[list[AttributeRun]] | None = None


class RawReply(PtyReplyBase):
    """Received bytes from `offset` to `resume_offset` (exclusive) as base64; `raw_size` is the number received so far."""

    data_b64: str
    offset: int
    resume_offset: int
    raw_size: int


class DeltaRow(Reply):
    """New text of one row."""

    row: int
    text: str


class ScreenDelta(Reply):
    """Rows whose text changed since the last delta.

    A delta with `cols` and `rows_count` contains all rows: the first of a recording, and the first after each resize.
    """

    type: Literal["screen_delta"] = "screen_delta"
    conversation_id: str
    session_id: str
    rows: list[DeltaRow]
    cursor: Position
    title: str
    alt_screen: bool
    cols: int | None = None
    rows_count: int | None = None
    ts: int

    def json_line(self) -> bytes:
        """Return one line of JSON with its newline."""
        return self.model_dump_json(exclude_none=True).encode() + b"\n"


class DeltasReply(PtyReplyBase):
    """Deltas from `cursor`; both cursors are byte offsets into screen.jsonl."""

    deltas: list[ScreenDelta]
    cursor: int
    resume_cursor: int


class ScreenStatusReply(PtyReplyBase):
    """State of the screen. `cursor` is the end of the deltas, `position` the cell of the terminal's cursor."""

    cursor: int
    title: str
    alt_screen: bool
    rows: int
    cols: int
    position: Position


class ScrollbackReply(PtyReplyBase):
    """Lines that scrolled off the top of the main screen, oldest first."""

    lines: list[str]
