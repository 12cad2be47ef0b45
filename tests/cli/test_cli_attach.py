"""`ptyctl attach`, by a person at a terminal: what is seen, who types, and how the terminal is left."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from fixtures.servers.programs import require_program
from fixtures.tmux.person import ENDED, RESTORED, Person
from fixtures.tmux.server import running_tmux
from ptyctl.cli.attach import status
from ptyctl.daemon.place import Place
from tests.cli.command_line import opened, ptyctl

PROGRAM = (sys.executable, "-c", "from ptyctl.cli import main; main()")
Attach = Callable[..., Person]


@pytest.fixture
def shell(place: Place) -> str:
    session = opened("--cols", "100", "--rows", "29")
    ptyctl("exec", session, "--", "PS1='> '")
    return session


@pytest.fixture
def attach(place: Place) -> Iterator[Attach]:
    """Attaches in a terminal of its own."""
    with ExitStack() as terminals:

        def one(*arguments: str, cols: int = 100, rows: int = 30, **environment: str) -> Person:
            tmux = terminals.enter_context(running_tmux())
            return Person(tmux, [*PROGRAM, "attach", *arguments], {**our_environment(), **environment}, cols, rows)

        yield one


def our_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PTYCTL_") or name == "HOME"}


def picture(session: str) -> list[str]:
    rows: list[str] = ptyctl("screen", session, "--json").json["rows"]
    return rows


def shows(person: Person, session: str, rows: int) -> list[str]:
    """The session's own picture, in the terminal's first rows."""
    return person.until(lambda seen: [row.rstrip() for row in seen[:rows]] == picture(session)[:rows])[:rows]


def size(session: str) -> tuple[int, int]:
    (entry,) = ptyctl("sessions", "--json").json["sessions"]
    return entry["pty"]["cols"], entry["pty"]["rows"]


def test_vim_resized_detached_and_attached_again_is_the_same_picture(shell: str, attach: Attach, tmp_path: Path) -> None:
    vim = require_program("vim", "vim")
    file = tmp_path / "text"
    file.write_text("".join(f"line {number}\n" for number in range(1, 100)))
    ptyctl("exec", shell, "--", f"cd {tmp_path}")
    person = attach("--write", shell)
    person.sees("you type")
    person.type(f"{vim} -u NONE -n -c 'set hlsearch shortmess=aF' -c '/line 1' {file.name}\r")
    person.sees("line 20")
    person.resize(80, 24)
    person.until(lambda rows: size(shell) == (80, 23) and "line 20" in "".join(rows) and rows[-1].lstrip().startswith(shell))
    before = shows(person, shell, 23)
    coloured = person.rows("-e")[:22]
    person.press("Escape")
    person.type("\r~.")
    person.sees(ENDED)
    again = attach(shell, cols=80, rows=24)
    again.sees("nobody types")
    after = shows(again, shell, 23)
    assert [row for row in after if "line" in row][:5] == [row for row in before if "line" in row][:5]
    assert len(again.rows("-e")[:22]) == len(coloured)


def test_who_only_looks_on_types_nothing(shell: str, attach: Attach) -> None:
    person = attach(shell)
    person.sees("nobody types; ~w to type")
    person.type("echo no\r")
    person.sees("you only look on")
    person.sees("nobody types; ~w to type")  # a while later
    assert "echo no" not in "".join(picture(shell))
    person.type("\r~w")
    person.sees("you type")
    person.type("echo yes\r")
    person.sees("> echo yes")
    person.type("~w")
    person.sees("nobody types")


def test_escapes(shell: str, attach: Attach) -> None:
    person = attach("-w", shell)
    person.sees("you type")
    person.type("~?")
    person.sees("~. detach")
    person.type("~~ a ~. b")
    person.sees("> ~ a ~. b")
    person.press("C-u")
    person.type("\r~B")
    person.sees("no BREAK")
    person.type("~.")
    rows = person.sees(RESTORED)
    assert f"{ENDED} 0" in rows
    assert any(row.endswith(": detached") for row in rows)


def test_late_arrivals_see_the_present_screen_and_all_see_the_same(shell: str, attach: Attach) -> None:
    writer = attach("--write", shell)
    writer.sees("you type")
    writer.type("printf '\\033[31mred\\033[m\\n'\r")
    writer.sees("red")
    looker = attach(shell)
    assert shows(looker, shell, 29) == shows(writer, shell, 29)
    assert [row for row in looker.rows("-e") if "\x1b[31mred" in row] != []


def test_a_lock_that_is_taken_over_is_told_and_nothing_more_is_typed(shell: str, attach: Attach) -> None:
    person = attach("--write", shell)
    person.sees("you type")
    ptyctl("takeover", shell, "--task", "agent-7", "--reason", "urgent")
    person.sees("agent-7 types, and took the lock from you: urgent")
    person.type("echo no\r")
    person.sees("you only look on")
    assert "echo no" not in "".join(picture(shell))
    forced = attach("--force", "mine", shell)
    forced.sees("you type")


def test_a_lock_of_another_is_refused_or_waited_for(shell: str, attach: Attach) -> None:
    ptyctl("lock", shell, "--task", "agent-7")
    refused = attach("--write", shell)
    assert f"{ENDED} 4" in refused.sees(RESTORED)
    waiting = attach("--write", "--wait", shell)
    waiting.sees("waiting for the lock of agent-7")
    ptyctl("unlock", shell, "--task", "agent-7")
    waiting.sees("you type")


def test_a_smaller_terminal_shows_the_part_with_the_cursor(shell: str, attach: Attach) -> None:
    ptyctl("exec", shell, "--", "seq 1 100")
    person = attach(shell, cols=80, rows=8)
    rows = person.sees("part of 100x29")
    assert [row.strip() for row in rows[:6]] == ["95", "96", "97", "98", "99", "100"]
    assert size(shell) == (100, 29)


def test_without_room_or_wish_for_a_row_there_is_none(shell: str, attach: Attach) -> None:
    person = attach("--write", "--no-status", shell, cols=60, rows=10)
    person.until(lambda rows: size(shell) == (60, 10))
    assert "you type" not in "".join(person.rows())
    person.type("\r~.")
    person.sees(RESTORED)
    small = attach("--write", shell, cols=60, rows=3)
    small.until(lambda rows: size(shell) == (60, 3))


def test_a_holders_name_does_not_act_in_row_or_title() -> None:
    situation = status.Situation("s", "a\x1b]52;c;aGk=\x07\x9b31m", ours=False, waiting=False, size=(80, 24), shown=(80, 24))
    assert status.told(situation).isprintable()


def test_nothing_that_is_sent_to_attack_a_watcher_reaches_it(shell: str, attach: Attach) -> None:
    person = attach(shell)
    person.sees("nobody types")
    ptyctl("exec", shell, "--", r"printf '\033]52;c;aGk=\007\033[21t\033[6n\005\033]0;evil\007\033[21t'; echo done")
    shows(person, shell, 29)
    person.type("~.")
    rows = person.sees(RESTORED)
    assert not any(mark in "".join(rows) for mark in ("evil", "R", "[6n")), rows


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(shell: str, attach: Attach, number: signal.Signals) -> None:
    person = attach("--write", shell)
    person.sees("you type")
    os.kill(attached_process(shell), number)
    person.sees(RESTORED)
    assert ptyctl("sessions", "--json").json["sessions"][0].get("lock_holder") is None


def test_after_a_stop_it_has_the_terminal_again(shell: str) -> None:
    """A shell takes the terminal back when its job is stopped, and gives it again with `fg`."""
    with running_tmux() as tmux:
        person = Person(tmux, ["bash", "--norc", "--noprofile", "-i"], our_environment())
        person.type(f"{shlex.join([*PROGRAM, 'attach', '--write', shell])}\r")
        person.sees("you type")
        os.kill(attached_process(shell), signal.SIGSTOP)
        person.sees("Stopped")
        person.type("fg\r")
        shows(person, shell, 29)
        person.type("echo 6$((6+1))\r")
        person.sees("67")


def test_the_lock_of_a_killed_terminal_runs_out(shell: str, attach: Attach) -> None:
    person = attach("--write", "--ttl", "1", shell)
    person.sees("you type")
    os.kill(attached_process(shell), signal.SIGKILL)
    assert ptyctl("lock", shell, "--task", "next", "--wait", "60").code == 0


def test_the_end_of_the_far_end_is_the_end(shell: str, attach: Attach) -> None:
    person = attach("--write", shell)
    person.sees("you type")
    person.type("exit\r")
    rows = person.sees(RESTORED)
    assert any("the far end has ended" in row for row in rows)


def test_it_goes_on_with_the_next_daemon(shell: str, attach: Attach, place: Place) -> None:
    person = attach("--write", shell)
    person.sees("you type")
    end_daemon(place, signal.SIGKILL)
    person.sees("the next one goes on")
    person.type("echo still $((40 + 2))\r")
    person.sees("still 42")


def test_a_daemon_that_is_stopped_is_not_started_again(shell: str, attach: Attach, place: Place) -> None:
    person = attach("--write", shell)
    person.sees("you type")
    assert ptyctl("daemon", "stop").code == 0
    rows = person.sees(RESTORED)
    assert any("closed, as its daemon has ended" in row for row in rows)
    assert daemon_pid(place) is None


def test_a_terminal_that_cannot_be_drawn_on_is_told_what_to_use(shell: str, attach: Attach) -> None:
    person = attach(shell, TERM="dumb")
    rows = person.sees(RESTORED)
    assert f"{ENDED} 2" in rows
    assert any("ptyctl tail -f" in row for row in rows)


def test_without_a_terminal_it_says_what_to_use(shell: str) -> None:
    ran = ptyctl("attach", shell)
    assert ran.code == 2
    assert "ptyctl tail -f" in ran.err


def attached_process(session: str) -> int:
    """The one that attaches to it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0")
        if b"attach" in words and session.encode() in words and words[0] == sys.executable.encode():
            return int(path.parent.name)
    raise AssertionError("nobody is attached")
