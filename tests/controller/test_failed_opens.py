"""What an open that fails leaves to the event loop: garbage in cycles, and files to remove."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import shutil
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.session_factory import TURN_S, SessionFactory
from ptyctl.session.session import Session
from ptyctl.session.transcript.meta_file import MetaFile
from tests.controller.session_calls import session


@pytest.fixture
def _without_collections() -> Iterator[None]:
    """Run a test without garbage collection, after a complete one."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def fail_to_open(controller: Controller) -> None:
    code = None
    try:
        await session(controller, "open", protocol="telnet", host="127.0.0.1", port=1)
    except PtyctlError as error:  # pytest.raises would keep the traceback
        code = error.code
    assert code is ErrorCode.CONNECT_FAILED


def tracebacks() -> list[TracebackType]:
    """Return the tracebacks in memory that refer to functions of the controller and the transports."""
    found = [each for each in gc.get_objects() if type(each) is TracebackType]
    return [each for each in found if re.search("/ptyctl/controller/|/transports/", each.tb_frame.f_code.co_filename)]


@pytest.mark.usefixtures("_without_collections")
async def test_failed_open_leaves_no_tracebacks_to_the_collector(controller: Controller) -> None:
    before = tracebacks()  # another test may have left some
    await fail_to_open(controller)
    assert [each.tb_frame.f_code.co_qualname for each in tracebacks() if each not in before] == []


@pytest.mark.usefixtures("_without_collections")
async def test_write_of_meta_file_leaves_no_garbage(tmp_path: Path) -> None:
    meta = MetaFile(tmp_path)
    gc.collect()
    meta.write({"state": "open", "pty": {"cols": 80, "rows": 24}})
    assert gc.collect() == 0
    assert json.loads((tmp_path / "meta.json").read_bytes()) == meta.stored


async def test_failed_opens_remove_files_in_one_thread_at_a_time(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, running, largest = set[int](), 0, 0
    rmtree, lock = shutil.rmtree, threading.Lock()

    def remove(folder: Path, *, ignore_errors: bool) -> None:
        nonlocal running, largest
        with lock:
            running += 1
            largest = max(largest, running)
        threads.add(threading.get_ident())
        rmtree(folder, ignore_errors=ignore_errors)
        with lock:
            running -= 1

    monkeypatch.setattr(shutil, "rmtree", remove)
    await asyncio.gather(*(fail_to_open(controller) for _ in range(5)))
    assert (threading.get_ident() not in threads, largest) == (True, 1)


async def test_opens_at_the_same_time_leave_time_to_other_calls(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is in a separate turn. A busy machine can delay the step within it, so that the turns are compared."""
    turns = list[float]()
    create, close, wait_turn = Session.__init__, Session.close, SessionFactory._wait_turn
    factories = set[SessionFactory]()

    async def wait(factory: SessionFactory) -> None:
        factories.add(factory)
        await wait_turn(factory)

    def record() -> None:
        (factory,) = factories
        turns.append(factory._next_turn_at)

    def create_in_turn(*args: Any) -> None:
        record()
        create(*args)

    async def close_in_turn(*args: Any, **options: Any) -> None:
        record()
        await close(*args, **options)

    monkeypatch.setattr(SessionFactory, "_wait_turn", wait)
    monkeypatch.setattr(Session, "__init__", create_in_turn)
    monkeypatch.setattr(Session, "close", close_in_turn)
    await asyncio.gather(*(fail_to_open(controller) for _ in range(5)))
    assert len(turns) == 10
    assert min(later - turn for turn, later in pairwise(turns)) > TURN_S / 2  # the event loop rounds its timers
