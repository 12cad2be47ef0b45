"""The descriptor store: descriptors outlive the process that stored them; an empty store exits."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.fd_store import FdStore
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.fd_store_processes import fd_store_pid

PATIENCE_S = 120


def until_ended(pidfd: int) -> None:
    ended, _, _ = select.select([pidfd], [], [], PATIENCE_S)
    assert ended


@pytest.fixture(autouse=True)
def _patient_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packets of a test wait longer for a store that a busy machine has stopped."""
    monkeypatch.setattr("ptyctl.daemon.fd_store.ANSWER_TIMEOUT_S", float(PATIENCE_S))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


def test_stored_descriptor_outlives_its_daemon(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    first = FdStore(runtime_dir)
    first.store("one", writer)
    os.close(writer)
    first.close()
    assert select.select([reader], [], [], 0)[0] == []  # no end of file: the store holds the other end
    second = FdStore(runtime_dir)
    kept = second.retrieve_all()
    assert list(kept) == ["one"]
    assert not os.get_inheritable(kept["one"])
    os.write(kept["one"], b"through")
    assert os.read(reader, 100) == b"through"
    os.close(kept["one"])
    second.remove("one")
    assert os.read(reader, 100) == b""  # end of file: the other end is closed
    second.close()


def test_empty_store_exits_when_daemon_disconnects(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    store = FdStore(runtime_dir)
    store.store("one", writer)
    os.close(writer)
    pidfd = os.pidfd_open(fd_store_pid(runtime_dir))
    store.remove("one")
    assert store.retrieve_all() == {}
    store.close()
    until_ended(pidfd)
    os.close(pidfd)
    assert not runtime_dir.fd_store_socket.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_store_serves_its_own_user_only(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    store = FdStore(runtime_dir)
    store.store("one", writer)
    os.close(writer)
    store.close()
    code = (
        "import os, socket\n"
        "link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "os.setuid(65534)\n"
        f"link.connect({str(runtime_dir.fd_store_socket)!r})\n"
        "try:\n"
        "    link.send(b'list')\n"
        "    print(link.recv(100))\n"
        "except OSError:\n"
        "    print(b'')\n"
    )
    open_to_all = [runtime_dir.fd_store_socket, runtime_dir.path]
    modes = [path.stat().st_mode for path in open_to_all]
    for path in open_to_all:
        path.chmod(0o777)
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, cwd="/")
    for path, mode in zip(open_to_all, modes, strict=True):
        path.chmod(mode)
    assert (answer.stdout, answer.stderr) == ("b''\n", "")
    again = FdStore(runtime_dir)
    assert list(again.retrieve_all()) == ["one"]
    again.remove("one")
    again.close()


def test_store_without_descriptors_is_not_started(runtime_dir: RuntimeDir) -> None:
    store = FdStore(runtime_dir)
    assert store.retrieve_all() == {}
    store.remove("never")
    store.close()
    assert not runtime_dir.fd_store_socket.exists()


def test_storing_a_name_again_replaces_its_descriptor(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    store = FdStore(runtime_dir)
    for _ in range(300):
        store.store("one", writer)
    os.close(writer)
    assert len(list(Path(f"/proc/{fd_store_pid(runtime_dir)}/fd").iterdir())) < 20
    kept = store.retrieve_all()
    os.close(kept.pop("one"))
    assert kept == {}
    store.remove("one")
    assert os.read(reader, 1) == b""
    store.close()


def test_hundred_descriptors_keep_their_names(runtime_dir: RuntimeDir) -> None:
    store = FdStore(runtime_dir)
    pipes = {f"session-{number}": os.pipe() for number in range(100)}
    for name, (_, writer) in pipes.items():
        store.store(name, writer)
        os.close(writer)
    kept = store.retrieve_all()
    assert set(kept) == set(pipes)
    for name, (reader, _) in pipes.items():
        os.write(kept[name], name.encode())
        os.close(kept[name])
        assert os.read(reader, 100).decode() == name
        store.remove(name)
        assert os.read(reader, 100) == b""
        os.close(reader)
    store.close()


def test_store_process_imports_only_c_modules() -> None:
    source = (Path(__file__).parents[2] / "ptyctl" / "daemon" / "fd_store_server.py").read_text()
    imported = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert set(imported) == {"import _socket", "import posix", "import sys"}
    code = "\n".join([*imported, "print(len(sys.modules))"])
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60


def test_disconnect_during_list_keeps_all_descriptors(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    first = FdStore(runtime_dir)
    for number in range(600):  # more than fits in a socket's buffer
        first.store(f"session-{number}", writer)
    os.close(writer)
    first.close()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(str(runtime_dir.fd_store_socket))
    link.send(b"list")
    link.recv(512)
    link.close()
    second = FdStore(runtime_dir)
    kept = second.retrieve_all()
    assert len(kept) == 600
    for name, descriptor in kept.items():
        os.close(descriptor)
        second.remove(name)
    second.close()
    assert os.read(reader, 1) == b""


def test_invalid_packets_do_not_end_store(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    store = FdStore(runtime_dir)
    store.store("one", writer)
    store.close()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(str(runtime_dir.fd_store_socket))
    for said in (b"keep two", b"keep", b"drop", b"what", b"\xff" * 500):
        link.send(said)
    link.close()
    again = FdStore(runtime_dir)
    kept = again.retrieve_all()
    assert list(kept) == ["one"]
    os.close(kept["one"])
    os.close(writer)
    again.remove("one")
    again.close()


def test_store_that_does_not_answer_raises_with_its_pid(
    runtime_dir: RuntimeDir, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.daemon.fd_store.ANSWER_TIMEOUT_S", 0.2)
    _, writer = pipe
    store = FdStore(runtime_dir)
    store.store("one", writer)
    os.close(writer)
    pid = fd_store_pid(runtime_dir)
    os.kill(pid, signal.SIGSTOP)
    store.close()
    second = FdStore(runtime_dir)
    with pytest.raises(DaemonError, match=f"process {pid}.*kill -CONT {pid}"):
        second.retrieve_all()
    second.close()
    os.kill(pid, signal.SIGKILL)


def test_store_that_is_not_stopped_may_answer_late(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_out = threading.Event()

    def is_stopped(pid: int) -> bool:
        timed_out.set()
        return False

    def answer_late(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            assert link.recv(100) == b"list"
            timed_out.wait(PATIENCE_S)
            link.send(b"-")

    monkeypatch.setattr("ptyctl.daemon.fd_store.ANSWER_TIMEOUT_S", 0.02)
    monkeypatch.setattr("ptyctl.daemon.fd_store.is_stopped", is_stopped)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, ThreadPoolExecutor(1) as threads:
        listener.bind(str(runtime_dir.fd_store_socket))
        listener.listen()
        answered = threads.submit(answer_late, listener)
        store = FdStore(runtime_dir)
        assert store.retrieve_all() == {}
        answered.result()
        store.close()
    assert timed_out.is_set()


async def test_killed_store_calls_on_exit_and_is_replaced(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    store = FdStore(runtime_dir)
    exited = asyncio.Event()
    store.watch(exited.set)
    store.store("one", writer)
    first = fd_store_pid(runtime_dir)
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(exited.wait(), PATIENCE_S)
    assert not store.is_running
    store.remove("one")  # without effect: the store has exited
    store.store("two", writer)
    assert not Path(f"/proc/{first}").exists()  # it was reaped
    assert store.is_running
    assert [os.close(descriptor) or name for name, descriptor in store.retrieve_all().items()] == ["two"]
    os.close(writer)
    store.remove("two")
    store.close()
