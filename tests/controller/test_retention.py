"""Selection of the sessions to remove, and sessions that other servers hold."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.controller.retention import select_removals
from ptyctl.session.transcript.stored_sessions import StoredSession, finish_removals, remove_stored, stored_sessions

DAY_MS = 86_400_000
NOW_MS = 1000 * DAY_MS

KEPT = st.lists(
    st.builds(
        lambda number, closed, size, days: StoredSession(
            str(number), {"state": "closed" if closed else "open"}, size, NOW_MS - round(days * DAY_MS)
        ),
        st.integers(0, 999),
        st.booleans(),
        st.integers(0, 1000),
        st.floats(0, 100),
    ),
    unique_by=lambda session: session.session_id,
    max_size=12,
).map(lambda sessions: sorted(sessions, key=lambda session: session.last_used_at))


@given(KEPT, st.sets(st.integers(0, 999).map(str)), st.sampled_from([0.0, 1.0, 50.0]), st.sampled_from([0, 1, 500, 5000]))
def test_removals_respect_age_size_and_live_sessions(
    kept: list[StoredSession], live: set[str], days: float, limit: int
) -> None:
    going = list(select_removals(kept, frozenset(live), NOW_MS, days, limit))
    gone = {session.session_id for session, _ in going}
    assert not gone & live
    for session, why in going:
        if why == "size":
            assert limit
            assert session.closed
        else:
            assert NOW_MS - session.last_used_at > days * DAY_MS > 0
    left = [session for session in kept if session.session_id not in gone]
    may_go = [session for session in left if session.closed and session.session_id not in live]
    if limit and may_go:
        assert sum(session.disk_bytes for session in left) <= limit
    if any(why == "size" for _, why in going):
        newest = max(session.last_used_at for session, why in going if why == "size")
        assert all(session.last_used_at >= newest for session in may_go)


def kept(sessions: Path, name: str) -> Path:
    folder = sessions / name
    (folder / "blocks").mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"state": "closed"}))
    (folder / "output.raw").write_bytes(b"x" * 10_000)
    (folder / "blocks" / "1_1.out").write_bytes(b"x" * 10_000)
    return folder


def test_session_held_by_another_server_is_kept(tmp_path: Path) -> None:
    folder = kept(tmp_path, "held")
    with (folder / "output.raw").open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert not remove_stored(folder)
        assert (folder / "blocks" / "1_1.out").exists()
    assert remove_stored(folder)
    assert not any(tmp_path.iterdir())


def test_interrupted_removal_is_completed_by_the_next(tmp_path: Path) -> None:
    kept(tmp_path, "here")
    kept(tmp_path, ".gone-there")
    (tmp_path / "no-session").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    found = stored_sessions(tmp_path)
    assert [session.session_id for session in found] == ["here"]
    assert found[0].disk_bytes >= 20_000
    finish_removals(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link", "no-session"]


def test_missing_folder_has_no_sessions(tmp_path: Path) -> None:
    assert stored_sessions(tmp_path / "missing") == []
