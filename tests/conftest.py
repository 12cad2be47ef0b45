"""Fixtures of all tests: an isolated environment, and a guard against blocking calls in an event loop."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.strategies import text

from fixtures.daemons import daemon_folder
from fixtures.forked_process import ForkedDaemon, start_template
from fixtures.home import create_home
from fixtures.preparation import prepare
from fixtures.servers.nats import NatsCluster, delete_buckets, running_nats
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.forked_workers import ForkedWorkers

# No deadline: on a busy machine one example can be slow. CI runs more examples, without a database, to find new failures.
settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), max_examples=100, print_blob=True, database=None)
settings.register_profile("long", settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

#: Variables of the developer's environment that affect a test: agents, shell start-up files, prompts, state directories.
_REMOVED = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "ENV", "BASH_ENV", "ZDOTDIR", "PROMPT_COMMAND", "PS1", "HISTFILE", "TMUX")
_REMOVED_PREFIXES = ("PTYCTL_", "XDG_", "PM_")
_KEPT = frozenset({"PTYCTL_CHROMIUM", "PTYCTL_REQUIRE_SERVERS"})
#: Numbers of the directories of the tests.
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="processes to run the tests in, and as many for those that wait; 0: none"
    )
    parser.addoption("--screenshots", action="store_true", help="take the pictures of docs/web.md again")
    parser.addoption("--faults", type=int, default=200, help="number of faults in tests/controller/test_random_faults.py")
    parser.addoption("--attacks", type=int, default=40, help="number of attempts in tests/integration/test_policy_attack.py")
    parser.addoption("--interleavings", type=int, default=21, help="number in tests/integration/test_shell_interleavings.py")
    parser.addoption("--places", type=int, default=10, help="number of places in tests/web/browser/test_replay_page.py")
    parser.addoption("--pauses", type=int, default=2, help="number of paused owners in tests/fleet/test_owner_faults.py")
    parser.addoption("--cuts", type=int, default=2, help="number of faults in tests/fleet/test_cut_links.py")
    parser.addoption("--calls", type=int, default=100, help="locks and writes in tests/fleet/test_clients_under_faults.py")
    parser.addoption("--seed", type=int, default=1, help="choice of faults in tests/fleet/test_clients_under_faults.py")
    soak = 120 if os.environ.get("CI") else 20
    parser.addoption("--soak", type=float, default=soak, help="duration of tests/daemon/test_soak.py in seconds")


def pytest_configure(config: pytest.Config) -> None:
    """Do not ignore SIGINT, as a background job of a shell script does: the tested programs would inherit it."""
    config.addinivalue_line("markers", "waits: mostly waits; additional workers run it (tests/forked_workers.py)")
    config.addinivalue_line("markers", "long: mostly waits, and is one of the first to run, since it takes long")
    os.umask(0o022)  # a developer's may let others write to an inventory, which ptyctl refuses
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if workers := config.getoption("--workers"):
        start_template()
        config.pluginmanager.register(ForkedWorkers(workers))


def pytest_collection() -> None:
    """Collect without garbage collections: the imported modules and the tests are not garbage."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare what the workers inherit; garbage collections do not visit the modules and the collected tests."""
    prepare()
    if session.config.getoption("--workers"):
        text().validate()  # computes the table of Unicode, which takes 1.5 s in a fresh clone
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Disable garbage collection while pytest reports a failure, which parses source code.

    A collection can print a ResourceWarning, which parses the source of its traceback. Python 3.11 counts the parse depth per
    interpreter, so the outer parse then fails with a SystemError, which ends pytest.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _hermetic_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set an empty HOME for all tests, and remove the environment variables that change the behaviour of a session."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _REMOVED or (name.startswith(_REMOVED_PREFIXES) and name not in _KEPT):
                patch.delenv(name)
        patch.setenv("HOME", str(create_home(tmp_path_factory.mktemp("home"))))
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("SQLITE_HISTORY", "/dev/null")  # otherwise in the home directory of the user database
        patch.setenv("PROMPT_DIRTRIM", "1")  # bash's prompt is as long in any clone
        yield


@pytest.fixture(scope="session")
def _runtime_dirs() -> Iterator[Path]:
    """A folder for the runtime directories of the tests that do not use `runtime_dir`."""
    with daemon_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _hermetic_state(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    _runtime_dirs: Path,
) -> None:
    """Set a separate state and runtime directory for each test; they do not exist yet. No configuration file is set.

    The state is in `tmp_path` if the test uses it. Most tests do not, and creating a directory costs more than many of them.
    """
    number = next(_numbers)
    if "tmp_path" in request.fixturenames:
        folder: Path = request.getfixturevalue("tmp_path")
    else:
        folder = tmp_path_factory.getbasetemp() / f"unused-{number}"
    monkeypatch.setenv("PTYCTL_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(_runtime_dirs / str(number)))


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeDir]:
    """A runtime directory without a daemon. The first client starts one; it is ended after the test.

    A client in the test process forks it from a template. Clients in other processes start `python -m ptyctl.daemon`.
    """
    monkeypatch.setattr("ptyctl.daemon.connection._spawn", ForkedDaemon)
    with daemon_folder() as folder:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(folder))
        yield RuntimeDir(folder)


@pytest.fixture(scope="session", autouse=True)
def _patient_policy() -> Iterator[None]:
    """Let a long text wait longer for its verdict: on a busy machine, ten seconds do not suffice for a paste of 50 KB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptyctl.session.verdict_thread.VERDICT_WAIT_S", 100.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_blocking_in_a_loop() -> Iterator[None]:
    """Make blocking calls fail in a thread with a running event loop: they would stall all sessions of the process."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((time, "sleep"), (socket, "getaddrinfo"), (socket, "create_connection")):
            patch.setattr(module, name, _guard_blocking_call(getattr(module, name)))
        yield


def _guard_blocking_call(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        # get_running_loop() raises an exception if there is no loop, which is slow for a frequent call.
        assert asyncio._get_running_loop() is None, f"{function.__name__} blocks the event loop: await something instead"
        return function(*args, **kwargs)

    return guarded


@pytest.fixture(scope="session")
def nats_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """One NATS server for all tests of a worker."""
    with running_nats(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@pytest.fixture
async def nats_server(nats_process: NatsCluster) -> AsyncIterator[NatsCluster]:
    """A NATS server without buckets."""
    yield nats_process
    await delete_buckets(nats_process)
