"""The keeper: descriptors outlive the process that had them, and it ends when it holds none."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptyctl.daemon.errors import FdStoreError
from ptyctl.daemon.fd_store import FdStore
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.keepers import pid_of_keeper

PATIENCE_S = 20


def until_ended(pidfd: int) -> None:
    ended, _, _ = select.select([pidfd], [], [], PATIENCE_S)
    assert ended


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


def test_what_is_kept_outlives_its_daemon(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    first = FdStore(runtime_dir)
    first.store("one", writer)
    os.close(writer)
    first.close()
    assert select.select([reader], [], [], 0)[0] == []  # no end of file: somebody holds the other end
    second = FdStore(runtime_dir)
    kept = second.retrieve_all()
    assert list(kept) == ["one"]
    assert not os.get_inheritable(kept["one"])
    os.write(kept["one"], b"through")
    assert os.read(reader, 100) == b"through"
    os.close(kept["one"])
    second.remove("one")
    assert os.read(reader, 100) == b""  # now nobody does
    second.close()


def test_it_ends_when_it_holds_nothing_and_its_daemon_is_gone(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = FdStore(runtime_dir)
    keeper.store("one", writer)
    os.close(writer)
    pidfd = os.pidfd_open(pid_of_keeper(runtime_dir))
    keeper.remove("one")
    assert keeper.retrieve_all() == {}
    keeper.close()
    until_ended(pidfd)
    os.close(pidfd)
    assert not runtime_dir.fd_store_socket.exists()


def test_without_anything_to_keep_there_is_none(runtime_dir: RuntimeDir) -> None:
    keeper = FdStore(runtime_dir)
    assert keeper.retrieve_all() == {}
    keeper.remove("never")
    keeper.close()
    assert not runtime_dir.fd_store_socket.exists()


def test_a_name_is_kept_once(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    keeper = FdStore(runtime_dir)
    for _ in range(300):
        keeper.store("one", writer)
    os.close(writer)
    assert len(list(Path(f"/proc/{pid_of_keeper(runtime_dir)}/fd").iterdir())) < 20
    kept = keeper.retrieve_all()
    os.close(kept.pop("one"))
    assert kept == {}
    keeper.remove("one")
    assert os.read(reader, 1) == b""
    keeper.close()


def test_a_hundred_are_told_apart(runtime_dir: RuntimeDir) -> None:
    keeper = FdStore(runtime_dir)
    pipes = {f"session-{number}": os.pipe() for number in range(100)}
    for name, (_, writer) in pipes.items():
        keeper.store(name, writer)
        os.close(writer)
    kept = keeper.retrieve_all()
    assert set(kept) == set(pipes)
    for name, (reader, _) in pipes.items():
        os.write(kept[name], name.encode())
        os.close(kept[name])
        assert os.read(reader, 100).decode() == name
        keeper.remove(name)
        assert os.read(reader, 100) == b""
        os.close(reader)
    keeper.close()


def test_it_imports_little() -> None:
    source = (Path(__file__).parents[2] / "ptyctl" / "daemon" / "fd_store_server.py").read_text()
    imported = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert set(imported) == {"import _socket", "import posix", "import sys"}
    code = "\n".join([*imported, "print(len(sys.modules))"])
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60


def test_a_daemon_that_is_killed_in_the_middle_of_the_list_takes_nothing_with_it(
    runtime_dir: RuntimeDir, pipe: tuple[int, int]
) -> None:
    reader, writer = pipe
    first = FdStore(runtime_dir)
    for number in range(600):  # more than a socket's buffer holds
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


def test_what_is_no_order_does_not_end_it(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = FdStore(runtime_dir)
    keeper.store("one", writer)
    keeper.close()
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


def test_one_that_does_not_answer_is_named(
    runtime_dir: RuntimeDir, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.daemon.fd_store.ANSWER_TIMEOUT_S", 0.2)
    _, writer = pipe
    keeper = FdStore(runtime_dir)
    keeper.store("one", writer)
    os.close(writer)
    pid = pid_of_keeper(runtime_dir)
    os.kill(pid, signal.SIGSTOP)
    keeper.close()
    second = FdStore(runtime_dir)
    with pytest.raises(FdStoreError, match=f"process {pid}.*kill -CONT {pid}"):
        second.retrieve_all()
    second.close()
    os.kill(pid, signal.SIGKILL)


async def test_one_that_was_killed_is_told_and_replaced(runtime_dir: RuntimeDir, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = FdStore(runtime_dir)
    told = asyncio.Event()
    keeper.watch(told.set)
    keeper.store("one", writer)
    first = pid_of_keeper(runtime_dir)
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    assert not keeper.is_running
    keeper.remove("one")  # nobody is there to hear it
    keeper.store("two", writer)
    assert not Path(f"/proc/{first}").exists()  # it was waited for
    assert keeper.is_running
    assert [os.close(descriptor) or name for name, descriptor in keeper.retrieve_all().items()] == ["two"]
    os.close(writer)
    keeper.remove("two")
    keeper.close()
