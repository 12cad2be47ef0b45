"""`ptyctl attach` in a tmux pane: the screen, the lock, the escapes, and the restored terminal."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from fixtures.servers.programs import require_program
from fixtures.tmux.person import ENDED, RESTORED, Person
from fixtures.tmux.server import running_tmux
from ptyctl.cli.attach.local_terminal import AttachStatus, format_status
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import PROGRAM, attach_pid, lock_as, open_local, ptyctl, screen_rows, terminal_environment

pytestmark = pytest.mark.waits

Attach = Callable[..., Person]

WRITING = "you have the lock"
UNLOCKED = "not locked; ~w takes the lock"
WATCHING = "you only watch"


@pytest.fixture
def shell(runtime_dir: RuntimeDir) -> str:
    session = open_local("--cols", "100", "--rows", "29")
    ptyctl("exec", session, "--", "PS1='> '")
    return session


@pytest.fixture
def attach(runtime_dir: RuntimeDir) -> Iterator[Attach]:
    """Start `ptyctl attach` in a new tmux terminal."""
    with ExitStack() as terminals:

        def start(*arguments: str, cols: int = 100, rows: int = 30, **environment: str) -> Person:
            tmux = terminals.enter_context(running_tmux())
            return Person(tmux, [*PROGRAM, "attach", *arguments], {**terminal_environment(), **environment}, cols, rows)

        yield start


def sees_session(person: Person, session: str, rows: int) -> list[str]:
    """Wait until the terminal's first rows are those of the session's screen."""
    return person.until(lambda seen: [row.rstrip() for row in seen[:rows]] == screen_rows(session)[:rows])[:rows]


def size(session: str) -> tuple[int, int]:
    (entry,) = ptyctl("sessions", "--json").json["sessions"]
    return entry["pty"]["cols"], entry["pty"]["rows"]


def test_vim_after_resize_and_reattach_shows_same_screen(shell: str, attach: Attach, tmp_path: Path) -> None:
    vim = require_program("vim", "vim")
    file = tmp_path / "text"
    file.write_text("".join(f"line {number}\n" for number in range(1, 100)))
    ptyctl("exec", shell, "--", f"cd {tmp_path}")
    person = attach("--write", shell)
    person.sees(WRITING)
    person.type(f"{vim} -u NONE -n -c 'set hlsearch shortmess=aF' -c '/line 1' {file.name}\r")
    person.sees("line 20")
    person.resize(80, 24)
    person.until(lambda rows: size(shell) == (80, 23) and "line 20" in "".join(rows) and rows[-1].lstrip().startswith(shell))
    before = sees_session(person, shell, 23)
    coloured = person.rows("-e")[:22]
    person.press("Escape")
    person.type("\r~.")
    person.sees(ENDED)
    again = attach(shell, cols=80, rows=24)
    again.sees(UNLOCKED)
    after = sees_session(again, shell, 23)
    assert [row for row in after if "line" in row][:5] == [row for row in before if "line" in row][:5]
    assert len(again.rows("-e")[:22]) == len(coloured)


def test_input_without_lock_is_not_sent(shell: str, attach: Attach) -> None:
    person = attach(shell)
    person.sees(UNLOCKED)
    person.type("echo no\r")
    person.sees(WATCHING)
    person.sees(UNLOCKED)  # after the message has expired
    assert "echo no" not in "".join(screen_rows(shell))
    person.type("\r~w")
    person.sees(WRITING)
    person.type("echo yes\r")
    person.sees("> echo yes")
    person.type("~w")
    person.sees("not locked")


def test_escapes_at_line_start_run_commands(shell: str, attach: Attach) -> None:
    person = attach("-w", shell)
    person.sees(WRITING)
    person.type("~?")
    person.sees("~. detach")
    person.type("~~ a ~. b")
    person.sees("> ~ a ~. b")
    person.press("C-u")
    person.type("\r~B")
    person.sees("cannot send BREAK")
    person.type("~.")
    rows = person.sees(RESTORED)
    assert f"{ENDED} 0" in rows
    assert any(row.endswith(": detached") for row in rows)


def test_second_viewer_sees_same_screen_as_writer(shell: str, attach: Attach) -> None:
    writer = attach("--write", shell)
    writer.sees(WRITING)
    writer.type("printf '\\033[31mred\\033[m\\n'\r")
    writer.until(lambda rows: ("red", ">") in pairwise(row.strip() for row in rows))  # the prompt is the last output
    viewer = attach(shell)
    assert sees_session(viewer, shell, 29) == sees_session(writer, shell, 29)
    assert [row for row in viewer.rows("-e") if "\x1b[31mred" in row] != []


def test_takeover_shows_reason_and_stops_input(shell: str, attach: Attach) -> None:
    person = attach("--write", shell)
    person.sees(WRITING)
    ptyctl("takeover", shell, "--task", "agent-7", "--reason", "urgent")
    person.sees("agent-7 took the lock from you: urgent")
    person.type("echo no\r")
    person.sees(WATCHING)
    assert "echo no" not in "".join(screen_rows(shell))
    forced = attach("--force", "mine", shell)
    forced.sees(WRITING)


def test_lock_of_another_task_is_refused_or_waited_for(shell: str, attach: Attach) -> None:
    ptyctl("lock", shell, "--task", "agent-7")
    refused = attach("--write", shell)
    assert f"{ENDED} 4" in refused.sees(RESTORED)
    waiting = attach("--write", "--wait", shell)
    waiting.sees("waiting for the lock of agent-7")
    ptyctl("unlock", shell, "--task", "agent-7")
    waiting.sees(WRITING)


def test_lock_of_another_principal_is_shown_with_it(shell: str, attach: Attach) -> None:
    lock_as("ci", shell, "deploy")
    attach(shell).sees("locked by deploy (ci)")


def test_smaller_terminal_shows_part_with_cursor(shell: str, attach: Attach) -> None:
    ptyctl("exec", shell, "--", "seq 1 100")
    person = attach(shell, cols=80, rows=8)
    rows = person.sees("part of 100x29")
    assert [row.strip() for row in rows[:6]] == ["95", "96", "97", "98", "99", "100"]
    assert size(shell) == (100, 29)


def test_status_row_absent_with_no_status_or_in_low_terminal(shell: str, attach: Attach) -> None:
    person = attach("--write", "--no-status", shell, cols=60, rows=10)
    person.until(lambda rows: size(shell) == (60, 10))
    assert WRITING not in "".join(person.rows())
    person.type("\r~.")
    person.sees(RESTORED)
    low = attach("--write", shell, cols=60, rows=3)
    low.until(lambda rows: size(shell) == (60, 3))


def test_status_of_holder_name_with_controls_is_printable() -> None:
    name = "a\x1b]52;c;aGk=\x07\x9b31m"
    status = AttachStatus("s", name, has_lock=False, waiting=False, session_size=(80, 24), visible_size=(80, 24))
    assert format_status(status).isprintable()


def test_dangerous_sequences_of_far_end_do_not_reach_terminal(shell: str, attach: Attach) -> None:
    person = attach(shell)
    person.sees(UNLOCKED)
    ptyctl("exec", shell, "--", r"printf '\033]52;c;aGk=\007\033[21t\033[6n\005\033]0;evil\007\033[21t'; echo done")
    sees_session(person, shell, 29)
    person.type("~.")
    rows = person.sees(RESTORED)
    assert not any(mark in "".join(rows) for mark in ("evil", "R", "[6n")), rows


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_restores_terminal_and_releases_lock(shell: str, attach: Attach, number: signal.Signals) -> None:
    person = attach("--write", shell)
    person.sees(WRITING)
    os.kill(attach_pid(shell), number)
    person.sees(RESTORED)
    assert ptyctl("sessions", "--json").json["sessions"][0].get("lock_holder") is None


def test_stop_and_fg_redraws_and_accepts_input(shell: str) -> None:
    """The shell takes the terminal back when its job stops, and gives it to the job again with `fg`."""
    with running_tmux() as tmux:
        person = Person(tmux, ["bash", "--norc", "--noprofile", "-i"], terminal_environment())
        person.type(f"{shlex.join([*PROGRAM, 'attach', '--write', shell])}\r")
        person.sees(WRITING)
        os.kill(attach_pid(shell), signal.SIGSTOP)
        person.sees("Stopped")
        person.type("fg\r")
        sees_session(person, shell, 29)
        person.type("echo 6$((6+1))\r")
        person.sees("67")


def test_lock_of_killed_attach_expires(shell: str, attach: Attach) -> None:
    person = attach("--write", "--ttl", "1", shell)
    person.sees(WRITING)
    os.kill(attach_pid(shell), signal.SIGKILL)
    assert ptyctl("lock", shell, "--task", "next", "--wait", "60").code == 0


def test_far_end_close_ends_attach(shell: str, attach: Attach) -> None:
    person = attach("--write", shell)
    person.sees(WRITING)
    person.type("exit\r")
    rows = person.sees(RESTORED)
    assert any("the far end closed" in row for row in rows)


def test_killed_daemon_attach_continues_with_next_daemon(shell: str, attach: Attach, runtime_dir: RuntimeDir) -> None:
    person = attach("--write", shell)
    person.sees(WRITING)
    end_daemon(runtime_dir, signal.SIGKILL)
    person.sees("continued with the next one")
    person.type("echo still $((40 + 2))\r")
    person.sees("still 42")


def test_stopped_daemon_is_not_started_again(shell: str, attach: Attach, runtime_dir: RuntimeDir) -> None:
    person = attach("--write", shell)
    person.sees(WRITING)
    assert ptyctl("daemon", "stop").code == 0
    rows = person.sees(RESTORED)
    assert any("closed by the daemon when it stopped" in row for row in rows)
    assert daemon_pid(runtime_dir) is None


def test_dumb_terminal_is_refused_with_alternative(shell: str, attach: Attach) -> None:
    person = attach(shell, TERM="dumb")
    rows = person.sees(RESTORED)
    assert f"{ENDED} 2" in rows
    assert any("ptyctl tail -f" in row for row in rows)


def test_no_terminal_is_refused_with_alternative(shell: str) -> None:
    result = ptyctl("attach", shell)
    assert result.code == 2
    assert "ptyctl tail -f" in result.err


def test_refused_line_of_here_document_holds_keys_until_ctrl_c(
    runtime_dir: RuntimeDir, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = '[[rules]]\nid = "refused"\nregex = "forbidden"\ndecision = "deny"\nreason = "a test"\n'
    (tmp_path / "policy.toml").write_text(f'extends = ["guarded"]\n{rule}')
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    session = open_local("--cols", "100", "--rows", "29")
    ptyctl("exec", session, "--", f"cd {tmp_path}; PS1='> '")
    person = attach("--write", session)
    person.sees(WRITING)
    person.type("cat <<X\r")
    person.sees("> cat <<X")
    person.type("forbidden\r")
    rows = person.sees("keys are held: Ctrl-C leaves the unfinished command; forbidden was refused: a test")
    assert not any("task_id" in row or "approval_id" in row for row in rows)
    person.type("touch RAN\r")
    person.sees("keys are held")
    person.press("C-c")
    person.sees(WRITING)
    person.type("echo a''one\recho b''two\r")
    person.sees("btwo")
    assert not (tmp_path / "RAN").exists()
