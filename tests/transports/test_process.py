"""Processes: the limit on open files, and whether a program waits for input."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.receiver import RecordingReceiver
from transports import process
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the soft limit one below the hard limit; return it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(process, "_original_file_limits", [])
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    yield before[1] - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_started_program_has_original_open_file_limit(low_limit: int) -> None:
    process.raise_open_file_limit()
    process.raise_open_file_limit()  # a second call has no effect
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == low_limit + 1
    program = ("sh", "-c", "read line; echo =$(ulimit -S -n)=")
    channel, receiver = LocalChannel(LocalOptions(argv=program), Pty()), RecordingReceiver()
    await channel.open(receiver)
    channel.write(b"\r")
    seen = b""
    while seen.count(b"=") < 2:
        seen += await receiver.receive()
    assert f"={low_limit}=".encode() in seen
    await channel.close(force=True)


def test_wakeups_include_those_of_other_threads() -> None:
    lines = "[print(line, end='', flush=True) for line in sys.stdin]"
    echo = f"import sys, threading; threading.Thread(target=lambda: {lines}).start()"
    with subprocess.Popen([sys.executable, "-c", echo], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        counts = list[int]()
        # On a busy machine, a line may be there before the thread waits for it.
        while len(counts) < 3 or counts[-1] <= counts[1]:
            program.stdin.write(b"x\n")
            assert program.stdout.readline() == b"x\n"
            counts.append(process.wakeups(program.pid))


#: Waits for a lock (futex) under the name of another program.
WAITER = "import ctypes, sys, threading; ctypes.CDLL(None).prctl(15, sys.argv[1].encode()); lock = threading.Lock(); "
WAITER += "lock.acquire(); print(flush=True); lock.acquire()"


@pytest.mark.parametrize(("name", "waits"), [("fish", False), ("repl", True)])
def test_fish_that_waits_for_its_threads_does_not_wait_for_input(name: str, waits: bool) -> None:
    with subprocess.Popen((sys.executable, "-c", WAITER, name), stdout=subprocess.PIPE) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        while Path(f"/proc/{waiter.pid}/syscall").read_text().split()[0] not in ("202", "98"):
            os.sched_yield()
        try:
            assert process.waits_for_input(waiter.pid) is waits
        finally:
            waiter.kill()


#: What a program waits in, and whether it may wait for input there. A full pipe replaces a terminal that takes no output.
WAITS = {
    "terminal": ("os.read(0, 1)", True),
    "select": ("select.select([0], [], [])", True),
    "poll": ("(p := select.poll(), p.register(0, select.POLLIN), p.poll())", True),
    "epoll": ("select.epoll().poll()", True),
    "pipe": ("os.read(os.pipe()[0], 1)", False),
    "write": ("os.write(os.pipe()[1], bytes(1 << 20))", False),
    "sleep": ("time.sleep(100)", False),
    "lock": ("fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)", False),
}


@pytest.mark.parametrize(("call", "is_input"), WAITS.values(), ids=WAITS)
def test_only_reads_and_polls_are_wait_points(call: str, is_input: bool, tmp_path: Path) -> None:
    (locked := tmp_path / "locked").touch()
    master, slave = os.openpty()
    script = f"import fcntl, os, select, sys, time; print(flush=True); {call}"
    command = (sys.executable, "-c", script, locked)
    with locked.open() as holder, subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE) as program:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert program.stdout is not None
        program.stdout.readline()
        try:
            wait_for_state(program.pid, "S")
            assert (process.wait_point(program.pid) is not None) is is_input
        finally:
            program.kill()
            os.close(master)
            os.close(slave)


def test_poll_that_continues_after_a_stop_has_the_same_wait_point() -> None:
    poll = "import select; p = select.poll(); p.register(0, select.POLLIN); print(flush=True); p.poll()"
    with subprocess.Popen((sys.executable, "-c", poll), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        try:
            wait_for_state(program.pid, "S")
            before = process.wait_point(program.pid)
            program.send_signal(signal.SIGSTOP)
            wait_for_state(program.pid, "T")
            program.send_signal(signal.SIGCONT)
            wait_for_state(program.pid, "S")
            assert before is not None
            assert process.wait_point(program.pid) == before
        finally:
            program.kill()


def wait_for_state(pid: int, state: str) -> None:
    """Wait until a process has a state of proc(5), or has ended."""
    while Path(f"/proc/{pid}/stat").read_text().split()[2] not in (state, "Z"):
        os.sched_yield()


def test_start_on_pipes_at_the_limit_of_open_files_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, duplicate = itertools.count(1), fcntl.fcntl

    def fail_at_third(*arguments: Any) -> Any:
        if next(calls) == 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return duplicate(*arguments)

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr("transports.process.fcntl.fcntl", fail_at_third)
    with pytest.raises(OSError, match="Too many"):
        process.start_process_on_pipes(["/bin/true"], None, {})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@contextmanager
def program_named_sudo(folder: Path, mode: int, owner: int | None = None) -> Iterator[int]:
    """Run a copy of `cat` with this name and mode; yield its pid."""
    program = folder / "sudo"
    shutil.copy(shutil.which("cat") or "/bin/cat", program)
    if owner is not None:
        os.chown(program, owner, owner)
    program.chmod(mode)
    with subprocess.Popen([program], stdin=subprocess.PIPE) as running:  # it ends when its input is closed
        yield running.pid


def test_program_that_is_only_named_sudo_is_not_privileged(tmp_path: Path) -> None:
    with program_named_sudo(tmp_path, 0o711) as pid:
        assert not process.is_privileged_program(pid)
    assert not process.is_privileged_program(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a program with privileges")
@pytest.mark.parametrize(
    ("owner", "folder_mode", "is_listed", "expected"),
    [
        (0, 0o755, True, True),
        (65534, 0o755, True, False),
        (0, 0o755, False, False),  # a copy of a shell with this name
        (0, 0o775, True, False),
        (0, 0o777, True, False),
    ],
)
def test_set_user_id_program_of_root_in_a_system_folder_is_privileged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, folder_mode: int, is_listed: bool, expected: bool
) -> None:
    tmp_path.chmod(folder_mode)
    if is_listed:
        monkeypatch.setattr(process, "SYSTEM_FOLDERS", {str(tmp_path)})
    with program_named_sudo(tmp_path, 0o4755, owner) as pid:
        assert process.is_privileged_program(pid) is expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a program with privileges")
def test_program_that_was_replaced_at_its_path_is_not_privileged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SYSTEM_FOLDERS", {str(tmp_path)})
    with program_named_sudo(tmp_path, 0o4755) as pid:
        (tmp_path / "sudo").rename(tmp_path / "other")
        assert process.is_privileged_program(pid)
        (tmp_path / "other").unlink()
        (tmp_path / "sudo").touch()
        assert not process.is_privileged_program(pid)


@pytest.mark.parametrize(
    ("users", "own", "expected"),
    [
        ({300: 0, 200: 1000}, 1000, True),
        ({300: 0, 200: 1001}, 1000, True),
        ({300: 1000, 200: 1000}, 1000, False),  # its user may not read its executable either
        ({300: 0, 200: 0}, 1000, False),  # a program of a shell that has the privileges
        ({300: 0}, 1000, False),
        ({}, 1000, False),
        ({300: 0, 200: 1000}, 0, False),
    ],
)
def test_hidden_program_is_privileged_if_it_has_gained_the_privileges(
    monkeypatch: pytest.MonkeyPatch, users: dict[int, int], own: int, expected: bool
) -> None:
    def status(pid: int | None, field: str) -> list[str]:
        if field == "PPid":
            return ["200"]
        return [str(users[pid])] * 4 if pid in users else []

    def hidden(path: Path) -> os.stat_result:
        raise PermissionError

    monkeypatch.setattr(process, "_status", status)
    monkeypatch.setattr(Path, "stat", hidden)
    monkeypatch.setattr(os, "geteuid", lambda: own)
    assert process.is_privileged_program(300) is expected
