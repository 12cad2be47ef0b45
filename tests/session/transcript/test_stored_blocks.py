"""Block recovery: the start and the end of a block are found in output.raw."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptyctl.api.blocks import Block
from ptyctl.core.marks import MarkReader
from ptyctl.core.normaliser import Normaliser
from ptyctl.session.transcript.append_file import json_line
from ptyctl.session.transcript.block_marks import BlockMarksReader
from ptyctl.session.transcript.raw_log import RawLog
from ptyctl.session.transcript.stored_blocks import UnfinishedBlock, end_blocks, find_running_block, index_blocks

NONCE = "00112233aabbccdd"
PIECES = [b"\r", b"\n", b"\r\n", b"text", "é".encode(), b"\x1b[K", b"\x1b[?2004h", b"\x1b]0;title\x07", b"\b", b" "]


def mark(counter: int, rest: str) -> bytes:
    return f"\x1b]7717;{NONCE};{counter};{rest}\x07".encode()


def painted() -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)


def block(raw_begin: int, spool_begin: int) -> Block:
    return Block(
        block_id="1_1",
        seq=1,
        session_id="s",
        origin="exec",
        cmd="c",
        cwd=None,
        ts_begin=1,
        status="running",
        output_path="",
        raw_begin=raw_begin,
        spool_begin=spool_begin,
    )


def test_command_runs_on_although_rows_of_a_declined_one_follow(tmp_path: Path) -> None:
    running = block(0, 0)
    declined = block(0, 0).model_copy(update={"block_id": "2_2", "seq": 2})
    ended = declined.model_copy(update={"status": "cancelled", "ts_end": 2, "raw_end": 0, "spool_end": 0})
    log = RawLog(tmp_path / "output.raw", 1 << 20)
    rows = [running, declined, ended]
    marks = BlockMarksReader(log, (NONCE,))
    unfinished = [UnfinishedBlock(each) for each in index_blocks(rows).unfinished.values()]
    found = find_running_block(unfinished, marks)
    assert found is not None
    assert found.block is running
    assert end_blocks(tmp_path, unfinished, log, 0, marks, found.block) == []
    log.close()


@pytest.mark.parametrize(
    ("received", "runs"),
    [
        (b"", True),
        (mark(1, "P;0;1;/") + b"$ ", False),
        (mark(1, "P;0;1;/") + b"$ c\r\n" + mark(2, "B;c") + b"out", True),
        (mark(1, "P;0;1;/") + b"$ ^C" + mark(2, "P;130;1;/") + b"$ c\r\n" + mark(3, "B;c") + mark(4, "E;4"), True),
        (mark(1, "P;0;1;/") + b"$ c\r\n" + mark(2, "B;c") + mark(1, "P;0;1;/"), True),
        (mark(1, "P;0;1;/") + b"$ c\r\n" + mark(2, "B;c") + mark(3, "E;4") + mark(4, "P;4;1;/"), False),
    ],
    ids=["nothing", "first prompt", "begin", "cleared line and begin", "repeated prompt", "end and prompt"],
)
def test_command_runs_if_its_begin_and_no_later_prompt_is_on_disk(tmp_path: Path, received: bytes, runs: bool) -> None:
    """The command's block begins before the new shell shows its first prompt."""
    log = RawLog(tmp_path / "output.raw", 1 << 20)
    log.get_buffer()[: len(received)] = received
    log.take(len(received))
    assert (find_running_block([UnfinishedBlock(block(0, 0))], BlockMarksReader(log, (NONCE,))) is not None) == runs
    log.close()


@given(before=painted(), prompt=painted(), echo=painted(), output=painted())
@example(before=b"", prompt=b"$ \r", echo=b"\nc\r\n", output=b"out")
def test_output_begin_equals_offsets_at_arrival(before: bytes, prompt: bytes, echo: bytes, output: bytes) -> None:
    reader = Normaliser(0, 0, MarkReader(NONCE))
    shown = before + mark(1, "P;0;1;/") + prompt
    reader.feed(shown)
    typed = block(len(shown), reader.spool)
    rest = echo + mark(2, "B;c") + output
    reader.feed(rest)
    begin = reader.marks[-1]
    with tempfile.TemporaryDirectory() as folder:
        log = RawLog(Path(folder) / "output.raw", 1 << 20)
        log.get_buffer()[: len(shown + rest)] = shown + rest
        log.take(len(shown + rest))
        assert BlockMarksReader(log, (NONCE,)).of_block(typed).output_begin == begin
        log.close()


@given(output=painted(), replayed=st.booleans(), status=st.sampled_from([0, 5]), early=st.booleans(), data=st.data())
def test_block_is_completed_if_and_only_if_its_end_is_on_disk(
    output: bytes, replayed: bool, status: int, early: bool, data: st.DataObject
) -> None:
    """The process is killed after any byte. Marks that the command prints again, and a late prompt, are not its own."""
    shown = mark(1, "P;0;1;/") + b"$ "
    if replayed:
        output += mark(1, "E;9") + mark(1, "P;9;1;/")
    rest = b"c\r\n" + mark(2, "B;c") + output + mark(3, f"E;{status}") + mark(4, f"P;{status};1;/") + b"$ "
    if early:  # the command is typed before the prompt is shown
        shown, rest = b"", shown + rest
    received = rest[: data.draw(st.integers(0, len(rest)))]
    reader = Normaliser(0, 0, MarkReader(NONCE))
    reader.feed(shown)
    typed = block(len(shown), reader.spool)
    reader.feed(received)
    end = next((placed for placed in reader.marks if placed.mark.kind == "end"), None)
    with tempfile.TemporaryDirectory() as folder:
        log = RawLog(Path(folder) / "output.raw", 1 << 20)
        log.get_buffer()[: len(shown + received)] = shown + received
        log.take(len(shown + received))
        (recovered,) = end_blocks(Path(folder), [UnfinishedBlock(typed)], log, reader.spool, BlockMarksReader(log, (NONCE,)))
        log.close()
    if end is None:
        assert (recovered.status, recovered.exit_code) == ("cancelled", None)
    else:
        assert (recovered.status, recovered.exit_code) == ("completed", status)
        assert (recovered.raw_end, recovered.spool_end) == (end.raw_begin, end.spool_begin)


#: A piece of output.raw that recovery reads at once, and a mark whose nonce is in another piece than its end.
PIECE = 1 << 20
LONG_PATH = "/" + "d" * 9000


def record(folder: Path, received: list[bytes], first_counter: int = 0) -> tuple[RawLog, Normaliser]:
    """Return a log of output, with a row of the timeline for each piece, as `Transcript.received` writes it."""
    log = RawLog(folder / "output.raw", 1 << 30)
    reader = Normaliser(0, 0, MarkReader.resume({NONCE: first_counter}))
    with (folder / "timeline.jsonl").open("wb") as timeline:
        for data in received:
            state = {"incarnation": 1, "prompts": 0, "in_line": reader.in_line, "blanks": reader.blanks, "modes": []}
            state["marks"] = {NONCE: reader.reader.counters()[NONCE]}  # type: ignore[union-attr]
            resume = {"resume": state} if reader.settled else {}
            timeline.write(json_line({"raw": reader.raw, "spool": reader.spool, "ts": 1, "kind": "data", **resume}))
            reader.feed(data)
            at = 0
            while at < len(data):
                room = log.get_buffer()
                size = min(len(room), len(data) - at)
                room[:size] = data[at : at + size]
                log.take(size)
                at += size
    return log, reader


def pieces(size: int, text: bytes = b"line \x1b[1mof output\x1b[m\r\n") -> list[bytes]:
    data = text * (size // len(text) + 1)
    return [data[at : at + 60_000] for at in range(0, size, 60_000)]


@pytest.mark.parametrize("still_running", [True, False])
def test_block_with_a_late_prompt_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, still_running: bool) -> None:
    shown = mark(1, "P;0;1;/") + b"$ c\r\n" + mark(2, "B;c")
    log, reader = record(tmp_path, [shown, *pieces(12 * PIECE), mark(3, "E;4") + mark(4, "P;4;1;/") + b"$ "])
    end = reader.marks[-2]
    sizes: list[int] = []
    read = RawLog.read

    def count(raw: RawLog, begin: int, end: int) -> bytes:
        sizes.append(end - begin)
        return read(raw, begin, end)

    monkeypatch.setattr(RawLog, "read", count)
    marks = BlockMarksReader(log, (NONCE,))
    rows = [UnfinishedBlock(block(len(shown) - len(mark(2, "B;c")), 0))]
    if still_running:
        assert find_running_block(rows, marks) is None
    (ended,) = end_blocks(tmp_path, rows, log, reader.spool, marks)
    assert (ended.status, ended.exit_code, ended.raw_end) == ("completed", 4, end.raw_begin)
    assert sum(sizes) < 1.1 * log.size
    log.close()


@pytest.mark.parametrize("distance", [0, 1, 5, 500, 8000])
def test_marks_at_the_border_of_pieces_have_the_offsets_of_their_arrival(tmp_path: Path, distance: int) -> None:
    """Their spool offsets come from the timeline, also if a mark begins in one piece and ends in the next."""
    shown, last = mark(1, "B;c"), mark(2, "E;4") + mark(3, f"P;4;1;{LONG_PATH}")
    body = pieces(3 * PIECE - len(shown) - distance)
    log, reader = record(tmp_path, [shown, *body, last])
    found = BlockMarksReader(log, (NONCE,)).of_block(block(0, 0))
    assert [found.begin, found.end, found.prompt] == reader.marks
    log.close()


def test_marks_of_a_late_command_of_a_long_session_count(tmp_path: Path) -> None:
    """Their counters are larger than a session begins with."""
    first = 400_000
    shown = mark(first + 1, "P;0;1;/") + b"$ "
    rest = b"c\r\n" + mark(first + 2, "B;c") + b"out\r\n" + mark(first + 3, "E;4")
    log, reader = record(tmp_path, [shown, rest], first)
    marks = BlockMarksReader(log, (NONCE,))
    assert marks.of_block(block(len(shown), reader.marks[0].spool_end + 2)).end == reader.marks[2]
    log.close()
