"""Console log, property test: pages of any size hold each line once with its time, and each incarnation once."""

from __future__ import annotations

import json
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.operator import LogLine
from ptyctl.core.renderer import WidthHistory
from ptyctl.session.calls.recording_read import _Log

texts = st.lists(st.text(alphabet="ab é", max_size=8), max_size=12).map("\n".join).map(str.encode)
steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200), st.booleans()), max_size=12)


def timeline(folder: Path, given_steps: list[tuple[int, int, bool]], size: int) -> list[tuple[int, int, int | None]]:
    """Write a timeline within `size` bytes and return its rows (raw, ts, incarnation)."""
    raws = [min(raw, size) for raw in accumulate((step[0] for step in given_steps), initial=0)]
    times = list(accumulate((step[1] for step in given_steps), initial=1000))
    kinds = [True, *(step[2] for step in given_steps)]
    rows, incarnation = [], 0
    for raw, ts, begins in zip(raws, times, kinds, strict=True):
        incarnation += begins
        rows.append((raw, ts, incarnation if begins else None))
    lines = []
    for raw, ts, begun in rows:
        row = {"raw": raw, "spool": 0, "ts": ts, "kind": "data" if begun is None else "incarnation"}
        lines.append(json.dumps(row | ({} if begun is None else {"incarnation": begun}), separators=(",", ":")))
    (folder / "timeline.jsonl").write_text("\n".join(lines) + "\n")
    return rows


def pages(data: bytes, path: Path, limit: int) -> list[LogLine]:
    found, at = [], 0
    while True:
        log = _Log([(at, data[at:])] if data[at:] else [], len(data), WidthHistory(80), at_end=True)
        lines, resume = log.lines(path, limit)
        found += lines
        if resume + log.open == len(data):
            return found
        at = resume


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@given(data=texts, given_steps=steps, limit=st.integers(1, 6))
def test_pages_of_any_size_hold_all_lines_and_incarnations(
    folder: Path, data: bytes, given_steps: list[tuple[int, int, bool]], limit: int
) -> None:
    rows = timeline(folder, given_steps, len(data))
    found = pages(data, folder / "timeline.jsonl", limit)
    lines = [line for line in found if line.kind != "incarnation"]
    *ended, last = data.decode().split("\n")
    assert [line.text for line in lines] == [*ended, *([last] if last else [])]
    assert [line.kind for line in lines] == ["line"] * len(ended) + ["open"] * bool(last)

    raws = [raw for raw, _, _ in rows]
    ends = [end - 1 for end in accumulate(len(text.encode()) + 1 for text in ended)]
    ends += [len(data) - 1] if last else []
    assert [line.ts for line in lines] == [rows[bisect_right(raws, end) - 1][1] for end in ends]

    begins = [line.text for line in found if line.kind == "incarnation"]
    whole = len(data) - len(last.encode())
    assert begins == [
        f"incarnation {begun} begins" for raw, _, begun in rows if begun is not None and begun > 1 and raw < whole
    ]
