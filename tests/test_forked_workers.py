"""ForkedWorkers: every test runs once, its report reaches the main process, and a test that ends its process fails."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path

from tests.forked_workers import slices_of

CONFTEST = """
from tests.forked_workers import ForkedWorkers

def pytest_configure(config):
    config.pluginmanager.register(ForkedWorkers(3))
"""
TESTS = """
import os, signal, pytest

@pytest.fixture(scope="module", params=["a", "b"])
def folder(request, tmp_path_factory):
    yield tmp_path_factory.mktemp(request.param)
    print("folder of", request.param, "removed")

@pytest.mark.parametrize("number", range(10))
def test_number(number, folder):
    print("output of", number)
    with open("ran", "a") as file:
        file.write(f"{folder.name[0]}{number} ")
    if number == 2:
        os._exit(3)
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 6:
        pytest.skip("not today")
    assert number != 8
"""


ALL_FAIL = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_number(number):
    with open("ran", "a") as file:
        file.write(f"{number} ")
    assert False
"""


WAITS = """
import pytest

@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.waits) for number in range(1, 20))])
def test_number(number):
    with open("ran", "a") as file:
        file.write(f"{number} ")
    assert number != 7
"""


HANGS = """
import threading, time, pytest

@pytest.mark.parametrize("number", range(2))
def test_number(number):
    open("ran", "a").close()
    threading.Thread(target=time.sleep, args=[2], name="helper", daemon=True).start()
    time.sleep(60 * number)
"""


def run_tests(folder: Path, source: str, *options: str) -> tuple[str, list[str]]:
    """Run the tests with three workers; return the output of pytest, and the tests that ran, by their parameters."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_numbers.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    waits\n    long\n")
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options)
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stdout + process.stderr
    return process.stdout, (folder / "ran").read_text().split()


def test_each_test_runs_once_and_its_result_is_reported(tmp_path: Path) -> None:
    output, ran = run_tests(tmp_path, TESTS)
    assert sorted(ran) == [f"{folder}{number}" for folder in "ab" for number in range(10)]
    assert "6 failed, 12 passed, 2 skipped" in output
    for folder in "ab":
        assert f"FAILED test_numbers.py::test_number[{folder}-8] - assert 8 != 8" in output
        assert f"FAILED test_numbers.py::test_number[{folder}-2] - worker" in output
    assert output.count("ended with exit code -9 during this test") == 2
    assert "output of 8" in output
    assert "output of 2" not in output


class Item:
    """A test, with one mark or none."""

    def __init__(self, mark: str | None) -> None:
        self.mark = mark

    def get_closest_marker(self, name: str) -> object:
        return name if name == self.mark else None


def test_slices_have_each_test_once_and_those_of_waiting_tests_begin_with_the_long_ones() -> None:
    marks = {3: "long", 4: "waits", 5: "waits", 6: "waits", 8: "long", 9: "long"}
    items = [Item(marks.get(number)) for number in range(12)]
    busy, waiting = slices_of(items, 2)
    assert [list(part) for part in busy] == [[0, 1, 2], [7, 10, 11]]
    assert [list(part) for part in waiting] == [[9, 3, 4, 5], [8, 6]]
    assert slices_of(items[3:5], 3) == ([], [deque([0, 1]), deque()])


def test_waiting_tests_run_beside_the_others_and_are_taken_by_workers_that_have_finished(tmp_path: Path) -> None:
    output, ran = run_tests(tmp_path, WAITS)
    assert sorted(ran, key=int) == [str(number) for number in range(20)]
    assert "1 failed, 19 passed" in output


def test_first_failure_with_exitfirst_ends_the_run(tmp_path: Path) -> None:
    output, ran = run_tests(tmp_path, ALL_FAIL, "--exitfirst")
    assert "stopping after" in output
    assert len(ran) <= 6  # each worker had been sent two tests


def test_timeout_in_a_worker_is_reported_with_the_stacks_of_its_threads(tmp_path: Path) -> None:
    output, _ = run_tests(tmp_path, HANGS, "-p", "pytest_timeout", "--timeout", "0.5")
    assert "Failed: Timeout (>0.5s) from pytest-timeout." in output
    assert "Stack of helper" in output
