"""`ptyctl sessions` and `open`: what there is, quickly, and without starting anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from ptyctl.api.session import SessionEntry
from ptyctl.cli.opening import address_fields
from ptyctl.daemon.place import Place
from tests.cli.command_line import BASH, is_one_line, opened, ptyctl


def test_no_daemon_is_started_for_a_list(place: Place) -> None:
    ran = ptyctl("sessions")
    assert (ran.code, ran.out) == (0, "")
    assert "no daemon is up" in ran.err
    assert ptyctl("sessions", "--json").json == {"up": False, "sessions": [], "ended": [], "disk_bytes": 0}
    assert daemon_pid(place) is None


def test_what_outlived_a_killed_daemon_is_listed(place: Place) -> None:
    session = opened()
    end_daemon(place, signal.SIGKILL)
    assert session in ptyctl("sessions").out
    end_daemon(place)
    assert ptyctl("sessions").out == ""
    assert daemon_pid(place) is None


def test_open_ones_are_listed_with_what_they_take_on_disk(place: Place) -> None:
    shell, console = opened("--cols", "100", "--rows", "30"), opened("--console", "sw1", "--lock", "--task", "me")
    listed = ptyctl("sessions", "--json").json
    assert listed["up"]
    assert [SessionEntry.model_validate(entry).session_id for entry in listed["sessions"]] == [shell, console]
    assert listed["disk_bytes"] == sum(entry["disk_bytes"] for entry in listed["sessions"]) > 0
    heads, *rows, total = ptyctl("sessions").out.splitlines()
    assert heads.split() == ["session", "what", "state", "size", "lock", "seen", "by", "used", "disk"]
    assert rows[0].startswith(f"{shell}  local ")
    assert " 100x30 " in rows[0]
    assert f"{console}  sw1 (local)  open   120x40  me " in rows[1]
    assert total.startswith("2 open, ")


def test_ended_ones_are_listed_on_request_also_without_a_daemon(place: Place) -> None:
    session = opened()
    ptyctl("close", session)
    assert ptyctl("sessions", "--json").json["ended"] == []
    (ended,) = ptyctl("sessions", "--all", "--json").json["ended"]
    assert (ended["session_id"], ended["state"], ended["protocol"]) == (session, "closed", "local")
    lost = opened(command=("--", "cat"))
    end_daemon(place)
    states = {entry["session_id"]: entry["state"] for entry in ptyctl("sessions", "-a", "--json").json["ended"]}
    assert states == {session: "closed", lost: "closed"}
    assert session in ptyctl("sessions", "--all").out


def test_a_list_takes_nothing_that_is_slow_to_import(place: Place) -> None:
    opened()
    program = "import sys; from ptyctl.cli import run; run(['sessions']); print(*sorted(sys.modules), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), capture_output=True, text=True, check=True)
    assert "1 open" in ran.stdout
    assert {"pydantic", "asyncio", "typer", "mcp", "asyncssh", "rich"} & set(ran.stderr.split()) == set()


def test_a_session_is_named_by_a_part_of_its_id_or_as_a_console(place: Place) -> None:
    session = opened("--console", "sw1")
    for name in (session, session[-8:], "sw1"):
        assert ptyctl("lock", name, "--task", "me").code == 0
    other = opened()
    several = ptyctl("tail", session[:8])
    assert several.code == 2
    assert is_one_line(several.err)
    assert other in several.err


def test_no_name_means_no_session_also_where_there_is_only_one(place: Place) -> None:
    session = opened()
    for command in (("close", ""), ("exec", "", "--", "exit"), ("export", "", "--text")):
        assert ptyctl(*command).code in (3, 103)
    assert ptyctl("exec", session, "--", "true").code == 0


def test_an_open_in_json_is_the_reply(place: Place) -> None:
    reply = ptyctl("open", "local", "--json", *BASH).json
    assert (reply["action"], reply["state"], reply["pty_enabled"]) == ("open", "open", True)


def test_a_program_begins_where_the_caller_is(
    place: Place, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ptyctl("exec", opened(), "--", "pwd").out == f"{tmp_path}\n"
    assert ptyctl("exec", opened("--cwd", "/"), "--", "pwd").out == "/\n"


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("h", {"host": "h"}),
        ("me@h", {"host": "h", "username": "me"}),
        ("me@192.0.2.1:2222", {"host": "192.0.2.1", "port": 2222, "username": "me"}),
        ("2001:db8::1", {"host": "2001:db8::1"}),
        ("[2001:db8::1]:23", {"host": "2001:db8::1", "port": 23}),
    ],
)
def test_addresses(address: str, fields: dict[str, object]) -> None:
    assert address_fields(address) == fields


def test_what_is_no_address(place: Place) -> None:
    for address in ("h:port", "@h", "h:"):
        ran = ptyctl("open", "telnet", address)
        assert ran.code == 2
        assert is_one_line(ran.err), ran.err


def test_who_does_not_answer_is_no_connection(place: Place) -> None:
    ran = ptyctl("open", "telnet", "127.0.0.1:1", "--connect-timeout", "5")
    assert ran.code == 6
    assert is_one_line(ran.err)
