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

from ptyctl.daemon.keeping import Keeper
from ptyctl.daemon.place import NoPlace, Place
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


def test_what_is_kept_outlives_its_daemon(place: Place, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    first = Keeper(place)
    first.keep("one", writer)
    os.close(writer)
    first.close()
    assert select.select([reader], [], [], 0)[0] == []  # no end of file: somebody holds the other end
    second = Keeper(place)
    kept = second.kept()
    assert list(kept) == ["one"]
    assert not os.get_inheritable(kept["one"])
    os.write(kept["one"], b"through")
    assert os.read(reader, 100) == b"through"
    os.close(kept["one"])
    second.drop("one")
    assert os.read(reader, 100) == b""  # now nobody does
    second.close()


def test_it_ends_when_it_holds_nothing_and_its_daemon_is_gone(place: Place, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = Keeper(place)
    keeper.keep("one", writer)
    os.close(writer)
    pidfd = os.pidfd_open(pid_of_keeper(place))
    keeper.drop("one")
    assert keeper.kept() == {}
    keeper.close()
    until_ended(pidfd)
    os.close(pidfd)
    assert not place.keeper_socket.exists()


def test_without_anything_to_keep_there_is_none(place: Place) -> None:
    keeper = Keeper(place)
    assert keeper.kept() == {}
    keeper.drop("never")
    keeper.close()
    assert not place.keeper_socket.exists()


def test_a_name_is_kept_once(place: Place, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    keeper = Keeper(place)
    for _ in range(300):
        keeper.keep("one", writer)
    os.close(writer)
    assert len(list(Path(f"/proc/{pid_of_keeper(place)}/fd").iterdir())) < 20
    kept = keeper.kept()
    os.close(kept.pop("one"))
    assert kept == {}
    keeper.drop("one")
    assert os.read(reader, 1) == b""
    keeper.close()


def test_a_hundred_are_told_apart(place: Place) -> None:
    keeper = Keeper(place)
    pipes = {f"session-{number}": os.pipe() for number in range(100)}
    for name, (_, writer) in pipes.items():
        keeper.keep(name, writer)
        os.close(writer)
    kept = keeper.kept()
    assert set(kept) == set(pipes)
    for name, (reader, _) in pipes.items():
        os.write(kept[name], name.encode())
        os.close(kept[name])
        assert os.read(reader, 100).decode() == name
        keeper.drop(name)
        assert os.read(reader, 100) == b""
        os.close(reader)
    keeper.close()


def test_it_imports_little() -> None:
    source = (Path(__file__).parents[2] / "ptyctl" / "daemon" / "keeper.py").read_text()
    imported = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert set(imported) == {"import _socket", "import posix", "import sys"}
    code = "\n".join([*imported, "print(len(sys.modules))"])
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60


def test_a_daemon_that_is_killed_in_the_middle_of_the_list_takes_nothing_with_it(place: Place, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    first = Keeper(place)
    for number in range(600):  # more than a socket's buffer holds
        first.keep(f"session-{number}", writer)
    os.close(writer)
    first.close()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(str(place.keeper_socket))
    link.send(b"list")
    link.recv(512)
    link.close()
    second = Keeper(place)
    kept = second.kept()
    assert len(kept) == 600
    for name, descriptor in kept.items():
        os.close(descriptor)
        second.drop(name)
    second.close()
    assert os.read(reader, 1) == b""


def test_what_is_no_order_does_not_end_it(place: Place, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = Keeper(place)
    keeper.keep("one", writer)
    keeper.close()
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(str(place.keeper_socket))
    for said in (b"keep two", b"keep", b"drop", b"what", b"\xff" * 500):
        link.send(said)
    link.close()
    again = Keeper(place)
    kept = again.kept()
    assert list(kept) == ["one"]
    os.close(kept["one"])
    os.close(writer)
    again.drop("one")
    again.close()


def test_one_that_does_not_answer_is_named(place: Place, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.daemon.keeping.PATIENCE_S", 0.2)
    _, writer = pipe
    keeper = Keeper(place)
    keeper.keep("one", writer)
    os.close(writer)
    pid = pid_of_keeper(place)
    os.kill(pid, signal.SIGSTOP)
    keeper.close()
    second = Keeper(place)
    with pytest.raises(NoPlace, match=f"process {pid}.*kill -CONT {pid}"):
        second.kept()
    second.close()
    os.kill(pid, signal.SIGKILL)


async def test_one_that_was_killed_is_told_and_replaced(place: Place, pipe: tuple[int, int]) -> None:
    _, writer = pipe
    keeper = Keeper(place)
    told = asyncio.Event()
    keeper.watch(told.set)
    keeper.keep("one", writer)
    first = pid_of_keeper(place)
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    assert not keeper.up
    keeper.drop("one")  # nobody is there to hear it
    keeper.keep("two", writer)
    assert not Path(f"/proc/{first}").exists()  # it was waited for
    assert keeper.up
    assert [os.close(descriptor) or name for name, descriptor in keeper.kept().items()] == ["two"]
    os.close(writer)
    keeper.drop("two")
    keeper.close()
