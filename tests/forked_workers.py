"""Run the tests in several processes (`--workers N`), forked after one collection.

Each process of pytest-xdist collects the tests again, which takes 14 s of CPU time in a fresh clone. Here the main process
collects them, runs none, and forks the workers. Each worker has a slice of the tests. A worker that has finished takes half of
the largest remaining slice. It receives the number of the next test before it runs the current one, because pytest needs it to
decide which fixtures end.

Tests marked `waits` or `long` use little processor time: they wait for silence, timeouts and other programs. Additional workers
run them, so that the others keep the cores busy without more of them than the cores can serve. The slices of the additional
workers begin with the tests marked `long`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from fixtures.servers.programs import use_ports_of

_context = multiprocessing.get_context("fork")


class ForkedWorkers:
    """Plugin of the main process: hands out the tests and reports the results of the workers."""

    def __init__(self, count: int) -> None:
        """Create it, for `count` workers and as many additional ones."""
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or len(session.items) < 2:
            return None  # pytest's own loop
        _directories(session.config).getbasetemp()  # creates it, for all workers
        busy, waiting = slices_of(session.items, self._count)
        workers: list[_Worker] = []
        try:
            for own in busy:
                workers.append(_Worker(len(workers), session, own, [busy, waiting], workers))
            for own in waiting:
                workers.append(_Worker(len(workers), session, own, [waiting], workers))
            while running := [worker for worker in workers if not worker.ended]:
                # Programs that a dead worker has forked may hold its end of the pipe open.
                ready = wait([source for worker in running for source in (worker.connection, worker.process.sentinel)])
                for worker in running:
                    if worker.connection in ready or worker.process.sentinel in ready:
                        worker.receive()
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        finally:
            for worker in workers:
                worker.connection.close()  # an interrupted worker ends its fixtures
            for worker in workers:
                worker.process.join()
        return True


def slices_of(items: list[pytest.Item], count: int) -> tuple[list[deque[int]], list[deque[int]]]:
    """Return the numbers of the tests of each worker, and of each additional worker."""
    long = [number for number, item in enumerate(items) if item.get_closest_marker("long")]
    waiting = [number for number, item in enumerate(items) if item.get_closest_marker("waits") and number not in long]
    busy = sorted(set(range(len(items))) - {*long, *waiting})
    return _slices(busy, count), _slices(waiting, count, first=long)


def _slices(numbers: list[int], count: int, first: list[int] | None = None) -> list[deque[int]]:
    first = first or []
    count = min(count, len(numbers) + len(first))
    size = -(-len(numbers) // count) if count else 0
    slices = [deque(numbers[size * turn : size * (turn + 1)]) for turn in range(count)]
    for turn, number in enumerate(first):
        slices[turn % count].appendleft(number)
    return slices


class _Worker:
    """One process, and the numbers of the tests that it was sent: the running one and the next one."""

    def __init__(
        self, number: int, session: pytest.Session, own: deque[int], groups: list[list[deque[int]]], others: list[_Worker]
    ) -> None:
        """Create it. Once its own tests have run, it takes tests of the first group of slices that has any."""
        self._number, self._session, self._own, self._groups, self._others = number, session, own, groups, others
        self._start()

    def _start(self) -> None:
        self.ended = False
        self._sent: deque[int | None] = deque()
        self.connection, far_end = _context.Pipe()
        ours = [self.connection, *(worker.connection for worker in self._others if not worker.ended)]
        self.process = _context.Process(target=_run_worker, args=(self._number, self._session, far_end, ours))
        self.process.start()
        far_end.close()
        self._send_next()
        self._send_next()

    def receive(self) -> None:
        """Report the results of the test that has run, or the death of the process."""
        config = self._session.config
        try:
            reports = self.connection.recv() if self.connection.poll() else None
        except (EOFError, OSError):  # it died, perhaps in the middle of a report
            reports = None
        if reports is None:
            self._report_end()
            return
        self._sent.popleft()
        for data in reports:
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            config.hook.pytest_runtest_logreport(report=report)
        self._send_next()

    def _send_next(self) -> None:
        if not self._own:
            largest = next((most for slices in self._groups if slices and (most := max(slices, key=len))), deque[int]())
            for _ in range((len(largest) + 1) // 2):
                self._own.appendleft(largest.pop())
        stop = self._session.shouldfail or self._session.shouldstop or not self._own
        number = None if stop else self._own.popleft()
        self._sent.append(number)
        with suppress(BrokenPipeError):  # receive() reports the end of the process
            self.connection.send(number)

    def _report_end(self) -> None:
        """Report a failure of the running test and start another process, unless all tests of the process have run."""
        self.ended = True
        self.connection.close()
        self.process.join()
        code = self.process.exitcode
        running = self._sent.popleft()
        if running is None:
            if code:
                raise RuntimeError(f"worker {self._number} failed after its last test: exit code {code}")
            return
        item = self._session.items[running]
        message = f"worker {self._number} ended with exit code {code} during this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
        item.ihook.pytest_runtest_logreport(report=report)
        self._own.extendleft(number for number in self._sent if number is not None)
        self._start()


class _Reports:
    """Plugin of a worker: collects the reports of the running test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[Any] = []

    def take(self) -> list[Any]:
        reports, self._reports = self._reports, []
        return reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


class _Terminal:
    """The terminal reporter of a worker: pytest-timeout writes to it, and the test's captured output gets that."""

    @property
    def _tw(self) -> TerminalWriter:
        return TerminalWriter(sys.stderr)


def _run_worker(number: int, session: pytest.Session, connection: Connection, inherited: list[Connection]) -> None:
    for other in inherited:
        other.close()
    use_ports_of(number)
    config = session.config
    config.workerinput = {"workerid": f"gw{number}"}  # type: ignore[attr-defined]  # plugins look for it, as for pytest-xdist's
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(_Terminal(), name="terminalreporter")
    plugins.register(reports := _Reports(config))
    # The workers must not share the files that hold captured output, nor the directories of tests.
    if config.option.capture == "fd":
        capture: Any = plugins.getplugin("capturemanager")
        for captured in (capture._global_capturing.out, capture._global_capturing.err):
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), captured.tmpfile.fileno(), inheritable=False)
    directories = _directories(config)
    directories._basetemp = directories.mktemp("worker")

    try:
        for item, following in _received(session.items, connection):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            connection.send(reports.take())
    finally:
        config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        config._ensure_unconfigure()


def _directories(config: pytest.Config) -> pytest.TempPathFactory:
    return config._tmp_path_factory  # type: ignore[attr-defined, no-any-return]


def _received(items: list[pytest.Item], connection: Connection) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test to run with the one to run after it, until the main process sends None or ends."""

    def receive() -> pytest.Item | None:
        try:
            number = connection.recv()
        except EOFError:
            return None
        return None if number is None else items[number]

    item = receive()
    while item:
        following = receive()
        yield item, following
        item = following
