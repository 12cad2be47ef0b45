"""The screen requests and replies. Rows and columns count from 0; times are epoch ms (docs/contracts.md, Screen)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .io import DEFAULT_WAIT_MS
from .model import MAX_REPLY_BYTES, Id, Reply, Unlisted
from .pty import PtyReplyBase, PtyRequest, Timeout


class PtyReadRaw(PtyRequest):
    """pty_read_raw: bytes exactly as they were received."""

    from_offset: int = Field(default=0, ge=0)
    max_bytes: int = Field(default=65_536, ge=1, le=MAX_REPLY_BYTES)


class PtyReadScreen(PtyRequest):
    """pty_read_screen: the screen now, at an earlier point, or once it matches a pattern or has not changed for a time."""

    at: Annotated[int, Field(ge=0)] | Annotated[Id, Field(pattern=r"\D")] | None = Field(
        default=None, description="a raw_offset or block_id"
    )
    attributes: bool = False
    paint: Annotated[bool, Unlisted] = False
    until_regex: str | None = None
    until_idle_ms: int | None = Field(default=None, ge=1)
    timeout_ms: Timeout = DEFAULT_WAIT_MS

    @model_validator(mode="after")
    def _check_conditions(self) -> Self:
        if self.at is not None and (self.until_regex is not None or self.until_idle_ms is not None):
            raise ValueError("at shows a past screen and takes no until_regex and until_idle_ms")
        if self.paint and (self.until_regex is not None or self.until_idle_ms is not None):
            raise ValueError("paint takes no until_regex and until_idle_ms")
        return self


class PtyReadScreenDeltas(PtyRequest):
    """pty_read_screen_deltas: changes of the screen since a cursor."""

    cursor: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=1000)


class PtyScreenStatus(PtyRequest):
    """pty_screen_status: title, size and cursor position."""


class PtyReadScrollback(PtyRequest):
    """pty_read_scrollback: lines that have scrolled off the screen, from a line number on, or the newest."""

    from_line: int | None = Field(default=None, ge=0)
    limit: int = Field(default=100, ge=1, le=1000)
    attributes: bool = False


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
    """The screen after `raw_offset` bytes: `rows_count` rows, without trailing blanks; after a wait, what ended it.

    `data_b64`, with `paint`: bytes that paint it on a blank terminal of its size, which can then continue from `raw_offset`.
    """

    rows: list[str]
    cursor: Position
    cursor_visible: bool
    title: str
    alt_screen: bool
    cols: int
    rows_count: int
    ts: int
    raw_offset: int
    matched: bool | None = None
    idle_reached: bool | None = None
    timed_out: bool | None = None
    attributes: list[list[AttributeRun]] | None = None
    data_b64: str | None = None


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
    """Lines that scrolled off the top of the main screen, oldest first, and the number of the first of them.

    `oldest_line` is the number of the oldest line that can be read, `end_line` the number after the newest.
    """

    lines: list[str]
    from_line: int
    oldest_line: int
    end_line: int
    attributes: list[list[AttributeRun]] | None = None
