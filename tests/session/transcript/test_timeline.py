"""Timeline readers: terminal sizes, incarnations and arrival times."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.session.transcript.timeline import TimelineStep, read_steps, read_times, time_at

rows = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["data", "data", "resize", "incarnation", "gap"])), max_size=30)


def timeline_of(drawn: list[tuple[int, str]]) -> list[dict[str, Any]]:
    """Return rows with ascending offsets and times, as a session writes them."""
    found, raw = [], 0
    for number, (step, kind) in enumerate(drawn):
        raw += step
        size = {"cols": 10 + number, "rows": 5} if kind == "resize" else {}
        found.append({"raw": raw, "spool": 0, "ts": 1_000 + number, "kind": kind, **size})
    return found


@given(rows, st.integers(0, 900), st.booleans())
def test_time_and_steps_of_any_timeline_equal_its_rows(drawn: list[tuple[int, str]], raw: int, torn: bool) -> None:
    timeline = timeline_of(drawn)
    text = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in timeline)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.jsonl"
        path.write_bytes(text + (b'{"raw":' if torn else b""))
        times = [row["ts"] for row in timeline if row["raw"] < raw or not row["raw"]]
        assert time_at(path, raw) == (times[-1] if times else 0)
        steps = [row for row in timeline if row["kind"] in ("resize", "incarnation")]
        expected = [TimelineStep(row["raw"], (row["cols"], row["rows"]) if "cols" in row else None) for row in steps]
        assert read_steps(path, len(text)) == expected
        assert read_steps(path, 0) == []


def test_damaged_row_is_skipped_by_all_readers(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    rows = [{"raw": raw, "ts": raw, "kind": "resize", "cols": raw, "rows": 5} for raw in (10, 20, 30)]
    first, second, third = (json.dumps(row).encode() + b"\n" for row in rows)
    path.write_bytes(first + second.replace(b"}", b"\0") + third)
    assert [time_at(path, raw) for raw in (11, 21, 31)] == [10, 10, 30]
    assert [row.raw for row in read_times(path, 11)] == [10, 30]
    assert [step.raw for step in read_steps(path, path.stat().st_size)] == [10, 30]
