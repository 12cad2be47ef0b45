"""`ptyctl sessions`: its list, its speed, and the names of sessions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from ptyctl.api.session import SessionEntry
from ptyctl.cli import session_list
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import is_one_line, lock_as, open_local, ptyctl


def test_sessions_without_daemon_starts_none(runtime_dir: RuntimeDir) -> None:
    result = ptyctl("sessions")
    assert (result.code, result.out) == (0, "")
    assert "no daemon is running" in result.err
    assert ptyctl("sessions", "--json").json == {"up": False, "sessions": [], "ended": [], "disk_bytes": 0}
    assert daemon_pid(runtime_dir) is None


def test_sessions_after_killed_daemon_lists_surviving_shell(runtime_dir: RuntimeDir) -> None:
    session = open_local()
    end_daemon(runtime_dir, signal.SIGKILL)
    assert session in ptyctl("sessions").out
    end_daemon(runtime_dir)
    assert ptyctl("sessions").out == ""
    assert daemon_pid(runtime_dir) is None


def test_sessions_lists_state_and_size_on_disk(runtime_dir: RuntimeDir) -> None:
    shell, console = open_local("--cols", "100", "--rows", "30"), open_local("--console", "sw1", "--lock", "--task", "me")
    listed = ptyctl("sessions", "--json").json
    assert listed["up"]
    assert [SessionEntry.model_validate(entry).session_id for entry in listed["sessions"]] == [shell, console]
    assert listed["disk_bytes"] == sum(entry["disk_bytes"] for entry in listed["sessions"]) > 0
    heads, *rows, total = ptyctl("sessions").out.splitlines()
    assert heads.split() == ["session", "target", "state", "size", "lock", "viewers", "used", "disk"]
    assert rows[0].startswith(f"{shell}  local ")
    assert " 100x30 " in rows[0]
    assert f"{console}  sw1 (local)  open   120x40  me " in rows[1]
    assert total.startswith("2 open, ")


def test_sessions_names_the_principal_of_a_lock_that_is_not_the_users(runtime_dir: RuntimeDir) -> None:
    session = open_local()
    lock_as("ci", session, "deploy")
    assert " deploy (ci) " in ptyctl("sessions").out


def test_sessions_all_lists_ended_sessions_also_without_daemon(runtime_dir: RuntimeDir) -> None:
    session = open_local()
    ptyctl("close", session)
    assert ptyctl("sessions", "--json").json["ended"] == []
    (ended,) = ptyctl("sessions", "--all", "--json").json["ended"]
    assert (ended["session_id"], ended["state"], ended["protocol"]) == (session, "closed", "local")
    lost = open_local(command=("--", "cat"))
    end_daemon(runtime_dir)
    states = {entry["session_id"]: entry["state"] for entry in ptyctl("sessions", "-a", "--json").json["ended"]}
    assert states == {session: "closed", lost: "closed"}
    assert session in ptyctl("sessions", "--all").out


def test_sessions_imports_no_slow_modules(runtime_dir: RuntimeDir) -> None:
    open_local()
    program = "import sys; from ptyctl.cli import run; run(['sessions']); print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), capture_output=True, text=True, check=True)
    assert "1 open" in done.stdout
    assert {"pydantic", "asyncio", "typer", "mcp", "asyncssh", "rich"} & set(done.stderr.split()) == set()


def test_session_is_found_by_part_of_id_or_console_name(runtime_dir: RuntimeDir) -> None:
    session = open_local("--console", "sw1")
    for name in (session, session[-8:], "sw1"):
        assert ptyctl("lock", name, "--task", "me").code == 0
    other = open_local()
    ambiguous = ptyctl("tail", session[:8])
    assert ambiguous.code == 2
    assert is_one_line(ambiguous.err)
    assert other in ambiguous.err


def test_empty_session_name_matches_no_session(runtime_dir: RuntimeDir) -> None:
    session = open_local()
    for command in (("close", ""), ("exec", "", "--", "exit"), ("export", "", "--text")):
        assert ptyctl(*command).code in (3, 103)
    assert ptyctl("exec", session, "--", "true").code == 0


def test_sessions_prints_why_a_console_is_not_reconnected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"session_id": "s-1", "state": "lost", "last_activity_at": 0, "disk_bytes": 0}
    given_up = {"reason": "the login was refused\x1b[2J", "at": 0}
    monkeypatch.setattr(session_list, "_open_sessions", lambda: [entry | {"given_up": given_up}])
    session_list.print_sessions(include_ended=False, as_json=False)
    error = capsys.readouterr().err
    assert "s-1: not reconnected automatically: the login was refused" in error
    assert "\x1b" not in error
