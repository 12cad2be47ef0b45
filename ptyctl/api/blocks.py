"""Blocks: the record of each command that ran in a session, and the blocks_* requests and reply."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .model import MAX_REPLY_BYTES, Id, Reply, Text, Unlisted
from .pty import PtyReplyBase, PtyRequest
from .session import BlockStatus

BlockOrigin = Literal["exec", "interactive", "typed"]
#: Why a command was not typed: the policy, or how the request for its approval ended.
BlockRefusal = Literal["denied", "declined", "expired", "withdrawn", "stale"]


class Block(Reply):
    """One command from start to end. Offsets are bytes into output.raw and the spool; times are epoch ms.

    Attributes:
        error_hints: the first lines in which a device reports an error: at most 5, of 200 characters.
        reason: why the block was cancelled or failed.
        refused: set if the command was not typed: the policy denies it, or it got no approval.
        prompt_before: the prompt before the echoed command, if the raw bytes contain it because no begin mark was received.
        prompt_after: the prompt that ended the block, if the raw bytes contain it.
        device: true if the command ran on a device's command line.
    """

    block_id: str
    seq: int
    session_id: str
    origin: BlockOrigin
    cmd: str
    cwd: str | None = None
    ts_begin: int
    ts_end: int | None = None
    status: BlockStatus
    exit_code: int | None = None
    error_hints: list[str] | None = None
    output_path: str
    raw_begin: int
    raw_end: int | None = None
    spool_begin: int
    spool_end: int | None = None
    task_id: str | None = None
    mode: str | None = None
    reason: str | None = None
    refused: BlockRefusal | None = None
    prompt_before: str | None = None
    prompt_after: str | None = None
    device: bool | None = None

    def json_bytes(self) -> bytes:
        """Return one line of JSON, without fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()


class BlocksSince(PtyRequest):
    """blocks_since: blocks that began or ended since a cursor, or the last ones."""

    cursor: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=1000)
    last: int | None = Field(default=None, ge=1, le=1000)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.last is not None and self.cursor:
            raise ValueError("give cursor or last, not both")
        return self


class BlocksGet(PtyRequest):
    """blocks_get: one block."""

    block_id: Id


class BlocksRead(PtyRequest):
    """blocks_read: the output of one block."""

    block_id: Id
    offset: int = Field(default=0, ge=0)
    max_bytes: int = Field(default=65_536, ge=1, le=MAX_REPLY_BYTES)
    format: Literal["text", "raw"] = "text"


class BlocksSearch(PtyRequest):
    """blocks_search: lines of the blocks' output that match."""

    query: Text = Field(min_length=1)
    regex: bool = False
    block_id: Id | None = None
    cmd: Text | None = None
    status: BlockStatus | None = None
    since_ts: Annotated[int | None, Unlisted] = None
    until_ts: Annotated[int | None, Unlisted] = None
    limit: int = Field(default=50, ge=1, le=1000)
    newest_first: bool = False
    context: int = Field(default=0, ge=0, le=20)
    from_cursor: int | None = Field(default=None, ge=0)


class Hit(Reply):
    """A matching line. `line` counts from 1 within the block; `offset` is the match's byte offset in the spool.

    Attributes:
        before, after: the adjacent lines of the block, with `context`.
    """

    block_id: str
    seq: int
    line: int
    offset: int
    text: str
    before: list[str] | None = None
    after: list[str] | None = None


class BlocksReply(PtyReplyBase):
    """Reply of every blocks_* tool. Each tool fills the fields that docs/contracts.md lists for it."""

    items: list[Block] | None = None
    block: Block | None = None
    data: str | None = None
    data_b64: str | None = None
    offset: int | None = None
    resume_offset: int | None = None
    size: int | None = None
    complete: bool | None = None
    hits: list[Hit] | None = None
    truncated: bool | None = None
    resume_cursor: int | None = None
