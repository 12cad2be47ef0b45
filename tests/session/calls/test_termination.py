"""Signals to a program that is ended by force, and their times."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.session.calls import termination
from ptyctl.session.session import Session


class Program:
    """The session of a program that ends with one of the signals."""

    def __init__(self, ends_with: signal.Signals, *, has_pty: bool) -> None:
        self._ends_with, self._has_pty = ends_with, has_pty
        self.received: list[tuple[float, signal.Signals]] = []
        run = SimpleNamespace(block_id="1_0")
        self.runs = SimpleNamespace(current=run, mode="block_running", interrupted=lambda: None, withdraw_held=lambda *_: None)
        self.gate = SimpleNamespace(check=lambda writer: None, interrupt=self._interrupt)
        self.stream = SimpleNamespace(spool_end=0, wait=self._wait)
        self.activity = SimpleNamespace(record=lambda *_, **__: None)

    def open_channel(self) -> Any:
        return SimpleNamespace(signal_foreground=self._signal, pty_enabled=self._has_pty)

    def _signal(self, number: signal.Signals) -> bool:
        self.received.append((round(asyncio.get_running_loop().time(), 1), number))
        if number is self._ends_with:
            self.runs.mode = "idle"
        return True

    async def _interrupt(self, *_: object) -> None:
        self._signal(signal.SIGINT)

    async def _wait(self, deadline: float) -> None:
        await asyncio.sleep(deadline - asyncio.get_running_loop().time())


@pytest.mark.parametrize(
    ("ends_with", "expected"),
    [
        (signal.SIGINT, [(0.0, signal.SIGINT)]),
        (signal.SIGHUP, [(0.0, signal.SIGINT), (0.7, signal.SIGINT), (1.3, signal.SIGINT), (2.0, signal.SIGHUP)]),
        (
            signal.SIGKILL,
            [
                (0.0, signal.SIGINT),
                (0.7, signal.SIGINT),
                (1.3, signal.SIGINT),
                (2.0, signal.SIGHUP),
                (5.0, signal.SIGKILL),
            ],
        ),
    ],
)
@pytest.mark.parametrize("has_pty", [True, False])
def test_program_gets_sigint_then_sighup_then_sigkill(
    ends_with: signal.Signals, expected: list[tuple[float, signal.Signals]], has_pty: bool
) -> None:
    program = Program(ends_with, has_pty=has_pty)
    reply = run_virtually(termination.end_session(cast(Session, program), force=True, task_id=None))
    assert program.received == expected
    assert reply.ended == ("prompt" if ends_with is signal.SIGINT else "forced")
