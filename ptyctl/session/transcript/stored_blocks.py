"""The blocks of a session in memory, as recovery passes them to the session."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ptyctl.api.blocks import Block

from .block_recovery import is_discarded

#: Number of blocks in memory as objects (about 3.6 KB each). Older ones are in memory as rows, or dropped if not on disk.
RECENT_BLOCKS = 16_384
#: Rows that are freed at once: the interpreter does nothing else meanwhile.
_FREED_ROWS = 1000

#: A row of the file: the fields of a `Block` that are not None.
BlockRow = dict[str, Any]


@dataclass(slots=True)
class StoredBlocks:
    """Blocks, oldest first.

    Attributes:
        blocks: each block by its id: as an object, as a row until it is read, or as the bytes of its row.
        recent: the ids of those that are not bytes.
        typed: the ids of those whose command was typed. Some that were refused may follow the last one.
        rows: the block id of each row in blocks.jsonl.
        last_seq: the number of the last block, or 0.
    """

    blocks: dict[str, Block | BlockRow | bytes] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=deque)
    typed: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    last_seq: int = 0


def store_blocks(rows: list[Block]) -> StoredBlocks:
    """Return the blocks of rows, and clear the list. 100,000 blocks take about a second: call it in a thread."""
    stored = StoredBlocks(rows=[block.block_id for block in rows], last_seq=max((block.seq for block in rows), default=0))
    latest = {block.block_id: block for block in rows}
    older = len(latest) - RECENT_BLOCKS
    for number, (block_id, block) in enumerate(latest.items()):
        if not is_discarded(block):
            stored.typed.append(block_id)
        if number < older and block.ts_end is not None:
            stored.blocks[block_id] = block.json_bytes()
        else:
            stored.blocks[block_id] = block
            stored.recent.append(block_id)
    while latest:
        for _ in range(min(len(latest), _FREED_ROWS)):
            latest.popitem()
    while rows:
        del rows[-_FREED_ROWS:]
    return stored
