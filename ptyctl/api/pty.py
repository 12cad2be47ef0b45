"""pty_* and blocks_*: requests of the deterministic terminal model, and of its screen (CONTRACTS, pty_*, blocks_*, Screen)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .blocks import BlockStatus
from .io import MAX_WAIT_MS
from .model import Id, Request, Text, Value, Word
from .session import Columns

MatchType = Literal["substring", "regex", "prompt", "eof"]
ExpectType = Literal["substring", "regex", "prompt"]
Timeout = Annotated[int, Field(ge=0, description=f"how long this call waits, at most {MAX_WAIT_MS}")]
Offset = Annotated[int, Field(ge=0, description="a byte offset into the spool: a resume_cursor, or 0 for all")]

DEFAULT_WAIT_MS = 15_000
#: Tools that make a conversation's terminal on first use; to all others an unknown one is not_found.
CREATING = frozenset({"pty_exec_block", "pty_exec_interactive", "pty_exec_interactive_expect", "pty_send"})

#: Tools that only look. Those of them that look at what was work on a closed terminal too.
READING = frozenset(
    {
        "pty_wait_for", "pty_wait_prompt", "pty_read_spool", "pty_status", "blocks_since", "blocks_get", "blocks_read",
        "blocks_search", "pty_read_raw", "pty_read_screen", "pty_read_screen_deltas", "pty_screen_status",
        "pty_read_scrollback",
    }
)  # fmt: skip
#: Tools that a closed terminal answers: reads of its history, and one more close.
HISTORY = (READING - {"pty_status"}) | {"pty_close"}


class PtyRequest(Request):
    """Which terminal: a conversation's own, or any open session. `task_id` is who writes."""

    TOOL: ClassVar[str]

    conversation_id: Id | None = None
    client_id: Id = "default"
    session_id: Id | None = None
    task_id: Id | None = None

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if (self.conversation_id is None) == (self.session_id is None):
            raise ValueError("give conversation_id (a terminal of your own) or session_id (an open session), not both")
        return self


class PtyExecBlock(PtyRequest):
    TOOL = "pty_exec_block"
    cmd: Word
    cwd: Word | None = None


class PtyExecInteractive(PtyRequest):
    TOOL = "pty_exec_interactive"
    cmd: Word
    cwd: Word | None = None


class Step(Value):
    """Waits for `expect`, then sends `send` at once."""

    expect: Text
    expect_type: ExpectType = "substring"
    send: Text
    timeout_ms: int | None = Field(None, ge=0)
    sensitive: bool = False


class PtyExecInteractiveExpect(PtyRequest):
    TOOL = "pty_exec_interactive_expect"
    cmd: Word
    cwd: Word | None = None
    steps: tuple[Step, ...] = Field(max_length=100)
    timeout_ms: Timeout = DEFAULT_WAIT_MS


class PtyWaitFor(PtyRequest):
    TOOL = "pty_wait_for"
    match: Text | None = None
    match_type: MatchType = "substring"
    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS

    @model_validator(mode="after")
    def _matches_something(self) -> Self:
        if self.match_type in ("substring", "regex") and not self.match:
            raise ValueError(f'match_type "{self.match_type}" needs match, and it must not be empty')
        return self


class PtyWaitPrompt(PtyRequest):
    TOOL = "pty_wait_prompt"
    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS


class PtyExpectSend(PtyRequest):
    TOOL = "pty_expect_send"
    expect: Text = Field(min_length=1)
    send: Text
    expect_type: ExpectType = "substring"
    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS
    sensitive: bool = False


class PtySend(PtyRequest):
    TOOL = "pty_send"
    data: Text
    sensitive: bool = False


class PtyCtrlC(PtyRequest):
    TOOL = "pty_ctrl_c"


class PtyCtrlD(PtyRequest):
    TOOL = "pty_ctrl_d"


class PtyEnter(PtyRequest):
    TOOL = "pty_enter"


class PtyReadSpool(PtyRequest):
    TOOL = "pty_read_spool"
    from_cursor: Offset
    max_bytes: int = Field(65_536, ge=1, le=4_194_304)


class PtyStatus(PtyRequest):
    TOOL = "pty_status"


class PtyEndSession(PtyRequest):
    TOOL = "pty_end_session"
    force: bool = False


class PtyReset(PtyRequest):
    TOOL = "pty_reset"


class PtyResize(PtyRequest):
    TOOL = "pty_resize"
    cols: Columns
    rows: Columns


class PtyClose(PtyRequest):
    TOOL = "pty_close"
    force: bool = False


class BlocksSince(PtyRequest):
    TOOL = "blocks_since"
    cursor: int = Field(0, ge=0)
    limit: int = Field(50, ge=1, le=1000)


class BlocksGet(PtyRequest):
    TOOL = "blocks_get"
    block_id: Id


class BlocksRead(PtyRequest):
    TOOL = "blocks_read"
    block_id: Id
    offset: int = Field(0, ge=0)
    max_bytes: int = Field(65_536, ge=1, le=4_194_304)
    format: Literal["text", "raw"] = "text"


class BlocksSearch(PtyRequest):
    TOOL = "blocks_search"
    query: Text = Field(min_length=1)
    regex: bool = False
    block_id: Id | None = None
    cmd: Text | None = Field(None, description="a part of the command")
    status: BlockStatus | None = None
    since_ts: int | None = None
    until_ts: int | None = None
    limit: int = Field(50, ge=1, le=1000)


class PtyReadRaw(PtyRequest):
    TOOL = "pty_read_raw"
    from_offset: int = Field(0, ge=0, description="a byte offset into the raw output: a resume_offset, or 0")
    max_bytes: int = Field(65_536, ge=1, le=4_194_304)


class PtyReadScreen(PtyRequest):
    TOOL = "pty_read_screen"
    at: Annotated[int, Field(ge=0)] | Annotated[Id, Field(pattern=r"\D")] | None = Field(
        None, description="as it was: a raw_offset, or the end of a block_id"
    )
    attributes: bool = Field(False, description="also colours, bold, reverse ... of each row, in runs of columns")


class PtyReadScreenDeltas(PtyRequest):
    TOOL = "pty_read_screen_deltas"
    cursor: int = Field(0, ge=0, description="the resume_cursor of the last answer, or 0")
    limit: int = Field(50, ge=1, le=1000)


class PtyScreenStatus(PtyRequest):
    TOOL = "pty_screen_status"


class PtyReadScrollback(PtyRequest):
    TOOL = "pty_read_scrollback"
    limit: int = Field(100, ge=1, le=1000, description="so many lines, the newest")


#: Every tool of the surface and its request.
PTY_REQUESTS: dict[str, type[PtyRequest]] = {
    request.TOOL: request
    for request in (
        PtyExecBlock,
        PtyExecInteractive,
        PtyExecInteractiveExpect,
        PtyWaitFor,
        PtyWaitPrompt,
        PtyExpectSend,
        PtySend,
        PtyCtrlC,
        PtyCtrlD,
        PtyEnter,
        PtyReadSpool,
        PtyStatus,
        PtyEndSession,
        PtyReset,
        PtyResize,
        PtyClose,
        BlocksSince,
        BlocksGet,
        BlocksRead,
        BlocksSearch,
        PtyReadRaw,
        PtyReadScreen,
        PtyReadScreenDeltas,
        PtyScreenStatus,
        PtyReadScrollback,
    )
}

Payload = dict[str, Any]
