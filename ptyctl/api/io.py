"""ptyctl_session_io: write input and read output (docs/contracts.md, ptyctl_session_io)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .model import MAX_PATTERNS, MAX_REPLY_BYTES, Addressed, Id, Reply, RequestPart, Text, Unlisted, check_fields
from .policy import PolicyWarning

Encoding = Literal["utf-8", "base64"]
IoAction = Literal["write", "read"]

#: Longest wait of any call. Many MCP clients abandon a call after 60 s.
MAX_WAIT_MS = 55_000
DEFAULT_READ_BYTES = 65_536
#: Wait of a call that gives no `timeout_ms`.
DEFAULT_WAIT_MS = 15_000

_ADDRESS = "session_id conversation_id client_id"
#: Fields that set the condition of a wait, and the text to return.
_WAIT = "mode timeout_ms max_bytes until_regex until_any include_match until_idle_ms input_hints encoding"
#: Optional fields of each action.
_ACTIONS = {
    "write": f"{_ADDRESS} data key sensitive repeat_ms approval_id return_pending not_after {_WAIT}",
    "read": f"{_ADDRESS} cursor max_lines {_WAIT}",
}
#: Content that each mode returns, and the fields that it excludes.
_EXCLUDED = {
    "tail": ("is a snapshot", ("cursor", "data", "key", "until_regex", "until_any", "include_match", "until_idle_ms")),
    "screen": ("shows the present screen", ("cursor", "max_bytes", "include_match", "encoding")),
    "history": (
        "does not wait",
        ("data", "key", "until_regex", "until_any", "include_match", "until_idle_ms", "input_hints"),
    ),
}


class InputHints(RequestPart):
    """RE2 patterns that indicate a question if they match at the end of a chunk."""

    wait_for_regexes: tuple[str, ...] = Field(default=(), max_length=MAX_PATTERNS, fail_fast=True)


class IoRequest(Addressed):
    """Write `data` or `key`, and wait for the response if a condition is given; or read output."""

    action: IoAction
    data: Text | None = Field(default=None, description="\\n is Enter")
    key: str | None = Field(default=None, max_length=256, description="enter, ctrl_c, up, f1, break, ...")
    encoding: Encoding | None = None
    sensitive: bool | None = Field(default=None, description="a secret: only its length is kept")
    mode: Literal["cursor", "tail", "screen", "history"] | None = None
    cursor: str | None = Field(default=None, description="next_cursor of a reply; default: from now on")
    timeout_ms: int | None = Field(default=None, ge=0)
    max_bytes: int | None = Field(default=None, ge=1, le=MAX_REPLY_BYTES)
    max_lines: int | None = Field(default=None, ge=1)
    until_regex: str | None = None
    until_any: tuple[str, ...] | None = Field(
        default=None, min_length=1, max_length=MAX_PATTERNS, fail_fast=True, description="several; match_index tells which"
    )
    include_match: bool | None = None
    until_idle_ms: int | None = Field(default=None, ge=1)
    input_hints: Annotated[InputHints | None, Unlisted] = None
    repeat_ms: int | None = Field(default=None, ge=20, description="write again until a pattern matches")
    approval_id: Id | None = Field(default=None, description="of APPROVAL_PENDING: the same call again")
    return_pending: Annotated[bool, Unlisted] = False
    not_after: Annotated[int | None, Unlisted] = Field(default=None, description="epoch ms: write nothing if it is later")

    @property
    def waits(self) -> bool:
        """Whether a write waits for the response."""
        conditions = (self.timeout_ms, self.until_regex, self.until_any, self.until_idle_ms, self.mode)
        return any(condition is not None for condition in conditions)

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        check_fields(self, self.action, "", _ACTIONS[self.action])
        if self.action == "write" and (self.data is None) == (self.key is None):
            raise ValueError("write needs exactly one of data and key")
        if self.key is not None and self.encoding is not None:
            raise ValueError("encoding goes with data, not with key")
        if self.until_regex is not None and self.until_any is not None:
            raise ValueError("give until_regex or until_any, not both")
        if self.repeat_ms is not None and self.until_regex is None and self.until_any is None:
            raise ValueError("repeat_ms needs until_regex or until_any: it repeats until one matches")
        if self.max_lines is not None and self.mode != "tail":
            raise ValueError('max_lines needs mode "tail"')
        shows, excluded = _EXCLUDED.get(self.mode or "", ("", ()))
        excluded = tuple(name for name in excluded if (name, self.action) != ("encoding", "write"))  # there it is that of data
        if given := [name for name in excluded if getattr(self, name) is not None]:
            raise ValueError(f'mode "{self.mode}" {shows} and takes no {", ".join(given)}')
        if self.mode == "history" and self.cursor is None:
            raise ValueError('mode "history" needs a cursor')
        return self


class IoReply(Reply):
    """Reply of the tool ptyctl_session_io: the fields of `WriteReply`, `ReadReply` and `ScreenReadReply`."""

    action: IoAction
    notices: list[str] | None = None
    policy: PolicyWarning | None = None
    edited: bool | None = None
    bytes_written: int | None = None
    chunk: str | None = None
    encoding: Encoding | None = None
    next_cursor: str | None = None
    buffer_start_cursor: str | None = None
    buffer_end_cursor: str | None = None
    matched: bool | None = None
    match_index: int | None = None
    idle_reached: bool | None = None
    timed_out: bool | None = None
    eof: bool | None = None
    waiting_for_input: bool | None = None
    truncated: bool | None = None
    dropped_bytes: int | None = None
    buffered_bytes: int | None = None
    buffer_limit_bytes: int | None = None
    max_bytes_reached: bool | None = None
    message: str | None = None
    rows: list[str] | None = None
    cursor_row: int | None = None
    cursor_col: int | None = None
    title: str | None = None
    alt_screen: bool | None = None
    cols: int | None = None
    rows_count: int | None = None


class WriteReply(Reply):
    """Reply of `write`. `next_cursor` is the end of the output before the write: the answer can be read from there."""

    action: IoAction
    bytes_written: int
    next_cursor: str
    policy: PolicyWarning | None = None
    edited: bool | None = None
    notices: list[str] | None = None


class ReadResult(Reply):
    """Base of the replies of `read`: where to continue, and which conditions ended the wait.

    Attributes:
        next_cursor: the cursor for the next read.
        eof: the far end has ended, and there is no more output.
        match_index: index in `until_any` of the pattern that matched.
        waiting_for_input: whether one of the given `input_hints` matches; None without hints.
    """

    action: IoAction
    next_cursor: str
    matched: bool
    idle_reached: bool
    timed_out: bool
    eof: bool
    match_index: int | None = None
    waiting_for_input: bool | None = None
    notices: list[str] | None = None


class ReadReply(ReadResult):
    """Reply of `read` with mode `cursor`, `tail` or `history`.

    Attributes:
        max_bytes_reached: true if `max_bytes` or its default ended the chunk; otherwise None.
        message: how the dropped bytes can be read.
        truncated: the cursor was older than the buffer; `dropped_bytes` are missing in front of `chunk`.
    """

    chunk: str
    encoding: Encoding
    buffer_start_cursor: str
    buffer_end_cursor: str
    truncated: bool
    dropped_bytes: int
    buffered_bytes: int
    buffer_limit_bytes: int
    max_bytes_reached: bool | None = None
    message: str | None = None


class ResponseReply(ReadReply):
    """Reply of `write` with a condition: the number of bytes written, and what was received, the echo included."""

    bytes_written: int


class ScreenReadReply(ReadResult):
    """Reply of `read` with mode `screen`: `rows_count` rows without trailing blanks; positions count from 0."""

    rows: list[str]
    cursor_row: int
    cursor_col: int
    title: str
    alt_screen: bool
    cols: int
    rows_count: int
