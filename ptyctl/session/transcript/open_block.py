"""A session whose program lives on after its server was killed: the next server goes on with it, in the same incarnation.

Its terminal was kept open (design, section 9); what was printed meanwhile is still to be read. What ran goes on running, and
its end is told by marks: a shell that sends none leaves its open block cancelled, as the one who drove it is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptyctl.api.blocks import Block
from ptyctl.core.marks import OSC_NUMBER

from .block_recovery import output_begin
from .raw_log import RawLog

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block that has no end yet. Offsets are those of its output, as far as it had begun."""

    block: Block
    raw_begin: int | None
    spool_begin: int | None


def open_block(blocks: list[Block], raw: RawLog, nonce: str) -> OpenBlock | None:
    """The block that still runs, by the marks of `nonce`: none where its end was received, but not written down."""
    if not blocks or blocks[-1].ts_end is not None:
        return None
    block = blocks[-1]
    if _ended(raw, block.raw_begin, nonce):
        return None
    return OpenBlock(block, *output_begin(block, raw, (nonce,)))


def _ended(raw: RawLog, begin: int, nonce: str) -> bool:
    """Whether a prompt came behind it."""
    prompt = re.compile(rb"\x1b\]" + OSC_NUMBER + b";" + nonce.encode() + rb";[0-9]+;P[^\x07\x1b]*(?:\x07|\x1b\\)")
    overlap = 256
    for at in range(begin, raw.kept, _PIECE_BYTES):
        if prompt.search(raw.read(max(at - overlap, begin), min(at + _PIECE_BYTES, raw.kept))):
            return True
    return False
