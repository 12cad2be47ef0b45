"""stderr that is kept apart: its range by command, its limits, and masked secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptyctl.session.io.error_output import QUOTA_SHARE, ErrorOutput


def receive(output: ErrorOutput, data: bytes) -> None:
    for begin in range(0, len(data), 1000):
        piece = data[begin : begin + 1000]
        output.get_buffer()[: len(piece)] = piece
        output.buffer_updated(len(piece))


@pytest.fixture
async def output(tmp_path: Path) -> ErrorOutput:
    return ErrorOutput(tmp_path, 10_000 * QUOTA_SHARE)


async def test_text_is_that_of_the_last_command(output: ErrorOutput) -> None:
    output.run_begun("1")
    receive(output, b"first\n")
    assert output.last_data > 0.0
    output.run_begun("2")
    receive(output, "second é".encode()[:-1])
    assert output.text("1", 100, ended=True) == ("", 0)
    assert output.text("2", 100, ended=False) == ("second ", 0)
    assert output.text("2", 100, ended=True) == ("second \ufffd", 0)


async def test_middle_of_a_long_text_is_left_out(output: ErrorOutput) -> None:
    output.run_begun("1")
    receive(output, b"".join(b"line %d\n" % number for number in range(1000)))
    text, omitted = output.text("1", 1000, ended=True)
    assert text.startswith("line 0\n")
    assert text.endswith("line 999\n")
    assert "the middle is left out" in text
    assert len(text) <= 1000
    assert omitted > 7000


async def test_bytes_beyond_the_quota_are_counted(output: ErrorOutput, tmp_path: Path) -> None:
    output.run_begun("1")
    receive(output, b"x" * 50_000)
    text, omitted = output.text("1", 100_000, ended=True)
    output.close()
    assert (text, omitted) == ("x" * 10_000, 40_000)
    assert (tmp_path / "stderr.raw").stat().st_size == 10_000


async def test_typed_secret_is_masked_and_text_can_be_read_after_the_close(output: ErrorOutput, tmp_path: Path) -> None:
    output.run_begun("1")
    output.mask_typed(b"correct-horse-battery\n")
    receive(output, b"wrong password: correct-horse-")
    receive(output, b"battery\n")
    output.close()
    assert "horse" not in output.text("1", 1000, ended=True)[0]
    restored = ErrorOutput(tmp_path, 10_000 * QUOTA_SHARE)
    assert restored.text("1", 1000, ended=True)[0].startswith("wrong password: ")
    restored.close()
