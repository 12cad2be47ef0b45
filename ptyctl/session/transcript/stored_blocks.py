"""The blocks of a session in memory, as recovery passes them to the session."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ptyctl.api.blocks import Block

from .block_recovery import is_discarded

#: A row of the file: the fields of a `Block` that are not None.
BlockRow = dict[str, Any]


@dataclass(slots=True)
class StoredBlocks:
    """Blocks, oldest first.

    One that has ended is in memory as the bytes of its row: 100,000 objects would take 360 MB, and the garbage collector would
    stop the event loop for 0.2 s each time it visits them.

    Attributes:
        blocks: each block by its id: the bytes of its row, or an object if it has not ended. A session adds rows.
        unfinished: the blocks without an end.
        rows: the block id of each row in blocks.jsonl.
        last_seq: the number of the last block, or 0.
        raw_end, spool_end: the largest offsets in the rows.
    """

    blocks: dict[str, Block | BlockRow | bytes] = field(default_factory=dict)
    unfinished: dict[str, Block] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    last_seq: int = 0
    raw_end: int = 0
    spool_end: int = 0
    _discarded: set[str] = field(default_factory=set)

    def add(self, block: Block) -> None:
        """Add a row of blocks.jsonl, which replaces the previous row of the block."""
        block_id = sys.intern(block.block_id)  # one object in all collections
        self.rows.append(block_id)
        self.last_seq = max(self.last_seq, block.seq)
        self.raw_end = max(self.raw_end, block.raw_begin, block.raw_end or 0)
        self.spool_end = max(self.spool_end, block.spool_begin, block.spool_end or 0)
        if block.ts_end is None:
            self.blocks[block_id] = self.unfinished[block_id] = block
        else:
            self.blocks[block_id] = block.json_bytes()
            self.unfinished.pop(block_id, None)
        if is_discarded(block):
            self._discarded.add(block_id)
        else:
            self._discarded.discard(block_id)

    def typed(self) -> list[str]:
        """Return the ids of the blocks whose command was typed. Refused ones may follow the last one."""
        return [block_id for block_id in self.blocks if block_id not in self._discarded]


def store_blocks(rows: Iterable[Block]) -> StoredBlocks:
    """Return the blocks of rows. 100,000 blocks take some seconds: call it in a thread."""
    stored = StoredBlocks()
    for block in rows:
        stored.add(block)
    return stored
