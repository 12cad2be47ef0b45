"""blocks_*: what ran in a session, from its begin to its end (CONTRACTS, blocks)."""

from __future__ import annotations

from typing import Literal

from .model import Reply

BlockOrigin = Literal["exec", "interactive", "typed"]
BlockStatus = Literal["running", "interactive", "completed", "failed", "cancelled"]


class Block(Reply):
    """Offsets are bytes into output.raw and the spool; times are epoch ms. `reason` says why it was cancelled or failed.

    Where no mark told the begin, the raw bytes hold the prompt and the echo of the command in front of the output
    (`prompt_before`), and the prompt that ended it behind (`prompt_after`). `device`: it ran on a device's command line.
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
    output_path: str
    raw_begin: int
    raw_end: int | None = None
    spool_begin: int
    spool_end: int | None = None
    task_id: str | None = None
    mode: str | None = None
    reason: str | None = None
    prompt_before: str | None = None
    prompt_after: str | None = None
    device: bool | None = None

    def json_bytes(self) -> bytes:
        """One line of JSON, without the fields that are not known yet."""
        return self.model_dump_json(exclude_none=True).encode()
