"""What the tools of the screen answer (CONTRACTS, Screen): always `ok`; rows and columns count from 0, times are epoch ms."""

from __future__ import annotations

from typing import Literal

from .model import Reply
from .pty_replies import PtyErrorCode


class Position(Reply):
    """The cursor's cell."""

    row: int
    col: int


class AttributeRun(Reply):
    """Cells of a row from `begin` to before `end` that look alike; what is not told is the terminal's default.

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


class ScreenAnswer(Reply):
    ok: bool = True
    error: PtyErrorCode | None = None
    message: str | None = None
    hint: str | None = None


class ScreenReply(ScreenAnswer):
    """What stands on the screen after `raw_offset` bytes: `rows` without trailing blanks, `rows_count` of them."""

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


class RawReply(ScreenAnswer):
    """`data_b64` are the bytes as they came, from `offset` to before `resume_offset`; `raw_size` is how many came so far."""

    data_b64: str
    offset: int
    resume_offset: int
    raw_size: int


class DeltaRow(Reply):
    row: int
    text: str


class ScreenDelta(Reply):
    """Rows whose text has changed since the last delta. One with `cols` and `rows_count` has all rows: the first of a
    recording, and each after a resize."""

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
        return self.model_dump_json(exclude_none=True).encode() + b"\n"


class DeltasReply(ScreenAnswer):
    """`cursor` and `resume_cursor` are byte offsets into screen.jsonl."""

    deltas: list[ScreenDelta]
    cursor: int
    resume_cursor: int


class ScreenStatusReply(ScreenAnswer):
    """`cursor` is the end of the deltas, `position` that of the screen."""

    cursor: int
    title: str
    alt_screen: bool
    rows: int
    cols: int
    position: Position


class ScrollbackReply(ScreenAnswer):
    """Lines that have left the main screen at its top, the oldest first."""

    lines: list[str]
