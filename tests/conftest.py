"""What every test gets: an environment of its own, and an event loop in which a blocking call fails."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from fixtures.daemons import daemon_folder
from ptyctl.daemon.runtime_dir import RuntimeDir

# A busy machine makes a single example slow, so there is no deadline. CI draws more, at random: it is to find new ones.
settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), max_examples=200, print_blob=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

#: What would let a developer's own set-up into a test: agents, start-up files of shells, prompts, places of state.
_FOREIGN = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "ENV", "BASH_ENV", "ZDOTDIR", "PROMPT_COMMAND", "PS1", "HISTFILE", "TMUX")
_FOREIGN_PREFIXES = ("PTYCTL_", "XDG_")
_KEPT = frozenset({"PTYCTL_REQUIRE_SERVERS"})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """No garbage collection while a failure is explained, which parses source code.

    A collection may warn of what a test left behind, and that warning's traceback is parsed as well. Python 3.11 counts the
    depth of a parse for all of the interpreter: the outer one then ends in a SystemError, and pytest with it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _hermetic_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty HOME for all tests, and nothing of the developer's environment that changes what a session does."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _FOREIGN or (name.startswith(_FOREIGN_PREFIXES) and name not in _KEPT):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("TERM", "xterm-256color")
        yield


@pytest.fixture(autouse=True)
def _hermetic_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of its own for each test's state and runtime files, which are not there yet; no configuration is named."""
    monkeypatch.setenv("PTYCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeDir]:
    """Where no daemon is up yet; whoever connects starts one of the test's own, in a process of its own."""
    with daemon_folder() as folder:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(folder))
        yield RuntimeDir(folder)


@pytest.fixture(scope="session", autouse=True)
def _no_blocking_in_a_loop() -> Iterator[None]:
    """One blocking call would stall every session of a process, so it fails where an event loop runs in its thread."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((time, "sleep"), (socket, "getaddrinfo"), (socket, "create_connection")):
            patch.setattr(module, name, _outside_of_a_loop(getattr(module, name)))
        yield


def _outside_of_a_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        # Not the public get_running_loop: that raises where there is none, and this is called often.
        assert asyncio._get_running_loop() is None, f"{function.__name__} blocks the event loop: await something instead"
        return function(*args, **kwargs)

    return guarded
