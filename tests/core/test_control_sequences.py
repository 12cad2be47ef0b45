"""The grammar of control sequences: removal from text, and agreement between its two readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.control_sequences import (
    OSC_BODY,
    OSC_END,
    STRING_BODY,
    STRING_END,
    STRING_INTRODUCER,
    TERMINAL_CSI_BODY,
    TERMINAL_CSI_END,
    TERMINAL_ESCAPE_BODY,
    TERMINAL_ESCAPE_END,
    TERMINAL_ESCAPE_FINAL,
    compile_bytes,
    sequence_end,
    strip_sequences,
)

SEQUENCES = [
    b"\x1b[m", b"\x1b[1;31m", b"\x1b[?2004h", b"\x1b[2 q", b"\x1b]0;title\x07", b"\x1b]8;;http://192.0.2.1/\x1b\\",
    b"\x1bP$qm\x1b\\", b"\x1b_apc\x1b\\", b"\x1b^pm\x1b\\", b"\x1bXsos\x1b\\", b"\x1b(B", b"\x1b#8", b"\x1b7", b"\x1bc",
]  # fmt: skip
TERMINAL_SEQUENCE = compile_bytes(
    rf"\x1b(?:\[{TERMINAL_CSI_BODY}{TERMINAL_CSI_END}|\]{OSC_BODY}{OSC_END}|{STRING_INTRODUCER}{STRING_BODY}{STRING_END}"
    rf"|{TERMINAL_ESCAPE_BODY}{TERMINAL_ESCAPE_END}|{TERMINAL_ESCAPE_FINAL})"
)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_complete_sequence_has_same_end_in_both_readings(sequence: bytes) -> None:
    data = b"a" + sequence + b"text"
    assert sequence_end(data, 1) == 1 + len(sequence)
    found = TERMINAL_SEQUENCE.match(data, 1)
    assert found
    assert found.end() == 1 + len(sequence)


@given(st.lists(st.sampled_from(SEQUENCES) | st.sampled_from([b"text", b"\r\n", "é".encode()]), max_size=10))
def test_strip_sequences_leaves_text(pieces: list[bytes]) -> None:
    assert strip_sequences(b"".join(pieces)) == b"".join(piece for piece in pieces if not piece.startswith(b"\x1b"))


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_strip_sequences_removes_torn_sequence(sequence: bytes) -> None:
    for end in range(1, len(sequence)):
        assert strip_sequences(b"a" + sequence[:end]) == b"a"


def test_byte_that_cannot_continue_a_sequence_is_text() -> None:
    assert strip_sequences(b"\x1b[31\nm") == b"\nm"
