"""Sections 5.3 and 6 of the contract: discovery, start, readiness, retry and failures of programs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.pty import PtyEndSession
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.cli.terminal_preflight import check
from ptyctl.terminal.adapters.base import BundledAdapter, ConnectInput
from ptyctl.terminal.adapters.local import ARGUMENTS, LocalAdapter, find_in_path
from ptyctl.terminal.adapters.runtimes import Runtimes
from ptyctl.terminal.errors import TerminalError
from ptyctl.terminal.request import Runtime

WHAT = ConnectInput("trace_t")
BINARY = "PM_INTERACTIVE_TERMINAL_BINARY"
_READY = (
    '{"ready": true, "protocol": "ptyctl-terminal", "version": VERSION, "capabilities": ["rpc"], "trace_id": "trace_t",'
    ' "runtime_session_id": "rt_' + "0" * 32 + '"}'
)
READY = _READY.replace("VERSION", "1")

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Write a program in the folder `bin`; it records its process id and arguments in the file `started`."""

    def install(name: str, script: str, mode: int = 0o755) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "$$ {name} $*" >>{tmp_path}/started\n{script}\n')
        path.chmod(mode)
        return path

    return install


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    runtimes = Runtimes()
    yield runtimes
    await runtimes.close()


class Own:
    """The server's own Controller; only `session` is called."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    async def session(self, request: SessionRequest) -> SessionReply:
        if self._fails:
            raise PtyctlError(ErrorCode.IO_ERROR, "no daemon")
        return SessionReply(success=True, action="list", sessions=[])


def started(tmp_path: Path) -> list[str]:
    """Return the starts of programs, without the process ids."""
    file = tmp_path / "started"
    return [line.partition(" ")[2] for line in file.read_text().splitlines()] if file.exists() else []


def is_running(tmp_path: Path) -> bool:
    """Whether the last program that was started is running."""
    return Path(f"/proc/{(tmp_path / 'started').read_text().splitlines()[-1].split()[0]}").exists()


def serving(ready: str = READY) -> str:
    return f"read -r hello; echo '{ready}'; while read -r call; do :; done"


async def connect(
    runtimes: Runtimes, environment: dict[str, str], *, own: Own | None = None, **runtime: Any
) -> LocalAdapter | BundledAdapter:
    own_adapter = BundledAdapter(own or Own())
    connected = await runtimes.connect(Runtime(**runtime), environment, WHAT, own_adapter, others_allowed=True)
    assert isinstance(connected, LocalAdapter | BundledAdapter)
    return connected


async def failure(runtimes: Runtimes, environment: dict[str, str], **fields: Any) -> TerminalError:
    with pytest.raises(TerminalError) as error:
        await connect(runtimes, environment, **fields)
    return error.value


@pytest.mark.parametrize("row", ["spec-5.1-1 spec-5.1-5 spec-5.3-1 spec-6.1-1 spec-6.1-6 spec-6.2-3 spec-6.2-4 spec-6.2-7"])
async def test_configured_program_is_the_first_candidate(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    configured = install("configured", serving())
    install("interactive-terminal", serving())
    environment = {BINARY: str(configured), "PATH": str(configured.parent)}
    adapter = await connect(runtimes, environment)
    assert adapter.adapter_type == "local"
    assert adapter.runtime_session_id == "rt_" + "0" * 32
    assert started(tmp_path) == ["configured daemon --stdio-handshake"]
    assert await connect(runtimes, environment) is adapter  # one connection for all requests
    await runtimes.close()
    assert not is_running(tmp_path)


@pytest.mark.parametrize("row", ["spec-5.3-2 spec-6.1-2"])
async def test_bundled_runtime_is_used_before_path(tmp_path: Path, install: Install, runtimes: Runtimes, row: str) -> None:
    path = install("interactive-terminal", serving()).parent
    assert (await connect(runtimes, {"PATH": str(path)})).adapter_type == "bundled"
    assert started(tmp_path) == []


@pytest.mark.parametrize(
    "names", [("interactive-terminal", "ptyctl"), ("ptyctl",)], ids=["spec-5.3-3 spec-6.1-3 first", "second"]
)
async def test_path_is_searched_if_the_bundled_runtime_fails(
    tmp_path: Path, install: Install, runtimes: Runtimes, names: tuple[str, ...]
) -> None:
    for name in names:
        install(name, serving())
    adapter = await connect(runtimes, {"PATH": str(tmp_path / "bin")}, own=Own(fails=True))
    assert adapter.adapter_type == "local"
    assert started(tmp_path) == [f"{names[0]} daemon --stdio-handshake"]


@pytest.mark.parametrize("row", ["spec-5.3-4 spec-6.3-3 spec-6.3-7"])
async def test_all_sources_failing_is_gui_unavailable_with_the_attempts(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    configured = install("configured", "exit 3")
    error = await failure(runtimes, {BINARY: str(configured), "PATH": str(tmp_path / "none")}, own=Own(fails=True))
    assert error.code == "PM_TERM_GUI_UNAVAILABLE"
    assert error.details["attempted_candidates"] == [str(configured), "bundled", "interactive-terminal", "ptyctl"]
    assert [entry["reason"] for entry in error.details["spawn_errors"]] == ["exited", "unhealthy", "missing", "missing"]
    assert "PATH" in error.details["next_action"]


@pytest.mark.parametrize(
    ("script", "mode", "reason", "starts"),
    [
        pytest.param(None, 0o755, "missing", 0, id="spec-6.1-4 spec-6.3-2 missing"),
        pytest.param(serving(), 0o644, "not_executable", 0, id="spec-6.1-4 not executable"),
        pytest.param("exit 3", 0o755, "exited", 1, id="spec-6.2-5 exits"),
        pytest.param("exec sleep 60", 0o755, "timeout", 1, id="spec-6.2-2 spec-6.2-5 silent"),
        pytest.param("echo nonsense; exec sleep 60", 0o755, "protocol", 1, id="spec-6.2-3 another protocol"),
        pytest.param(serving(_READY.replace("VERSION", "0")), 0o755, "version", 1, id="spec-6.2-6 older protocol"),
        pytest.param("exit 75", 0o755, "transient", 2, id="spec-6.3-1 startup race"),
        pytest.param("echo 'Address already in use' >&2; exit 1", 0o755, "transient", 2, id="spec-6.3-1 EADDRINUSE"),
    ],
)
async def test_configured_program_that_fails_is_replaced_by_the_bundled_runtime(
    tmp_path: Path, install: Install, runtimes: Runtimes, script: str | None, mode: int, reason: str, starts: int
) -> None:
    path = tmp_path / "bin" / "program" if script is None else install("program", script, mode)
    environment = {BINARY: str(path), "PATH": os.environ["PATH"]}
    timeout = 300 if reason == "timeout" else 20_000
    assert (await connect(runtimes, environment, spawn_timeout_ms=timeout)).adapter_type == "bundled"
    assert len(started(tmp_path)) == starts or reason == "timeout"  # it may be too slow to record its start
    assert not started(tmp_path) or not is_running(tmp_path)
    error = await failure(runtimes, {**environment, "PATH": ""}, adapter_override="local", spawn_timeout_ms=timeout)
    expected = {
        "missing": "PM_TERM_INVALID_PAYLOAD",
        "not_executable": "PM_TERM_INVALID_PAYLOAD",
        "timeout": "PM_TERM_TIMEOUT",
    }
    assert error.code == expected.get(reason, "PM_TERM_GUI_UNAVAILABLE")
    if starts:
        assert [entry["reason"] for entry in error.details["spawn_errors"]] == [reason] * starts


@pytest.mark.parametrize("row", ["spec-6.3-1"])
async def test_transient_failure_is_followed_by_a_start_that_succeeds(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    path = install("program", f"[ -e {tmp_path}/once ] || {{ : >{tmp_path}/once; exit 75; }}\n{serving()}")
    environment = {BINARY: str(path), "PATH": os.environ["PATH"]}
    assert (await connect(runtimes, environment, adapter_override="local")).adapter_type == "local"
    assert len(started(tmp_path)) == 2


async def test_program_that_is_slow_to_be_ready_is_awaited(tmp_path: Path, install: Install, runtimes: Runtimes) -> None:
    """The program is ready when it reads the end of a pipe that the test closes."""
    os.mkfifo(tmp_path / "go")
    path = install("program", f"cat {tmp_path}/go\n{serving()}")
    environment = {BINARY: str(path), "PATH": os.environ["PATH"]}
    connecting = asyncio.create_task(connect(runtimes, environment, adapter_override="local"))
    await asyncio.to_thread(lambda: (tmp_path / "go").write_text(""))
    assert (await connecting).adapter_type == "local"


async def test_program_of_path_in_a_relative_directory_is_not_started(
    tmp_path: Path, install: Install, runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("ptyctl", serving())
    monkeypatch.chdir(tmp_path)
    error = await failure(runtimes, {"PATH": "bin"}, adapter_override="local")
    assert error.code == "PM_TERM_GUI_UNAVAILABLE"
    assert started(tmp_path) == []
    assert find_in_path("ptyctl", f"bin::{tmp_path}/bin")[0] == f"{tmp_path}/bin/ptyctl"


@pytest.mark.parametrize(
    ("folder_mode", "mode", "usable"),
    [(0o755, 0o755, True), (0o777, 0o755, False), (0o1777, 0o755, True), (0o755, 0o757, False)],
)
async def test_program_of_path_that_others_can_write_is_refused_also_by_preflight(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch, folder_mode: int, mode: int, usable: bool
) -> None:
    path = install("ptyctl", serving(), mode)
    path.parent.chmod(folder_mode)
    problem = find_in_path("ptyctl", str(path.parent))[1]
    assert (problem is None or problem[0]) == (usable or "unsafe_permissions")
    checked = await check("local", {"PATH": str(path.parent)})
    assert (checked["ready"], started(tmp_path)) == (usable, [])
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert find_in_path("ptyctl", str(path.parent))[0] == (str(path) if usable and owner == 0 else None)


@pytest.mark.parametrize("row", ["spec-5.1-3 spec-5.1-4 spec-7.3-10"])
async def test_program_that_exits_in_mid_request_is_disconnected_and_resumed(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    path = install("program", f"read -r hello; echo '{READY}'; read -r call; exit 1")
    environment = {BINARY: str(path), "PATH": os.environ["PATH"]}
    adapter = await connect(runtimes, environment, adapter_override="local")
    sent = await adapter.send_request("ptyctl_session", SessionRequest(action="list"))
    with pytest.raises(TerminalError) as error:
        await adapter.await_response(sent)
    assert error.value.code == "PM_TERM_DISCONNECTED"
    assert error.value.details["delivery"] == "sent"
    again = await connect(runtimes, environment, adapter_override="local")
    assert again.runtime_session_id == error.value.details["runtime_session_id"]
    assert len(started(tmp_path)) == 2


@pytest.mark.parametrize("override", ["local", "container_bridge"])
async def test_client_that_may_not_use_other_runtimes_gets_only_the_bundled_one(
    tmp_path: Path, install: Install, runtimes: Runtimes, override: str
) -> None:
    environment = {BINARY: str(install("program", serving())), "PM_INTERACTIVE_TERMINAL_TOKEN": "t" * 43}
    own = BundledAdapter(Own())
    assert await runtimes.connect(Runtime(), environment, WHAT, own) is own
    with pytest.raises(TerminalError) as error:
        await runtimes.connect(Runtime(adapter_override=override), environment, WHAT, own)
    assert error.value.code == "PM_TERM_BLOCKED_DESTRUCTIVE"
    assert started(tmp_path) == []


@pytest.mark.parametrize("row", ["spec-6.3-4 spec-6.3-5 spec-6.3-6"])
async def test_failure_ends_no_other_process_and_changes_no_file(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    path = install("ptyctl", "exec sleep 60")
    other = await asyncio.create_subprocess_exec(str(path), *ARGUMENTS)  # the same program, started by someone else
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    environment = {"HOME": str(home), "PATH": str(path.parent)}
    error = await failure(runtimes, environment, adapter_override="local", spawn_timeout_ms=300)
    assert error.code == "PM_TERM_TIMEOUT"
    assert other.returncode is None
    assert sorted(home.rglob("*")) == [home / ".config"]
    assert list(path.parent.iterdir()) == [path]
    other.kill()
    await other.wait()


@pytest.mark.parametrize("row", ["spec-6.2-1"])
async def test_program_gets_the_environment_of_the_client_without_the_token(
    tmp_path: Path, install: Install, runtimes: Runtimes, row: str
) -> None:
    path = install("program", f"env >{tmp_path}/environment\n{serving()}")
    environment = {BINARY: str(path), "GREETING": "hi", "PM_INTERACTIVE_TERMINAL_TOKEN": "t" * 43}
    await connect(runtimes, environment, adapter_override="local")
    lines = (tmp_path / "environment").read_text().splitlines()
    assert "GREETING=hi" in lines
    assert "t" * 43 not in "".join(lines)


async def test_least_recently_used_programs_are_ended_if_there_are_many(
    tmp_path: Path, install: Install, runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.terminal.adapters.runtimes.MAX_RUNTIMES", 2)
    path = install("program", serving())
    adapters = [await connect(runtimes, {BINARY: str(path), "CLIENT": str(n)}, adapter_override="local") for n in (1, 2)]
    await adapters[0].send_request("ptyctl_session", SessionRequest(action="list"))  # it is not answered
    adapters += [await connect(runtimes, {BINARY: str(path), "CLIENT": "3"}, adapter_override="local")]
    assert [adapter.is_connected for adapter in adapters if isinstance(adapter, LocalAdapter)] == [True, False, True]


async def test_program_is_not_ended_between_the_calls_of_one_request(
    install: Install, runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.terminal.adapters.runtimes.MAX_RUNTIMES", 1)
    environment = {BINARY: str(install("program", serving()))}
    override, own = Runtime(adapter_override="local"), BundledAdapter(Own())
    async with runtimes.using(override, environment, WHAT, own, others_allowed=True) as adapter:
        await connect(runtimes, {**environment, "CLIENT": "2"}, adapter_override="local")
        assert isinstance(adapter, LocalAdapter)
        assert adapter.is_connected


async def test_failure_that_is_remembered_is_raised_as_a_new_exception(install: Install, runtimes: Runtimes) -> None:
    environment = {BINARY: str(install("program", "exit 3"))}
    errors = [await failure(runtimes, environment, own=Own(fails=True)) for _ in range(2)]
    assert [error.details["spawn_errors"][0]["reason"] for error in errors] == ["exited"] * 2


async def test_forced_end_of_a_command_is_awaited_until_its_last_signal(install: Install, runtimes: Runtimes) -> None:
    adapter = await connect(runtimes, {BINARY: str(install("program", serving()))}, adapter_override="local")
    waits = [
        (await adapter.send_request("pty_end_session", PtyEndSession(session_id="s", force=force))).wait_ms
        for force in (True, False)
    ]
    assert waits == [7_000, 0]


async def test_handshake_line_that_is_too_long_is_refused_before_its_end(install: Install, runtimes: Runtimes) -> None:
    program = install("program", "head -c 20000 /dev/zero; read -r hello; exec sleep 60")
    error = await failure(runtimes, {BINARY: str(program)}, adapter_override="local")
    assert error.details["spawn_errors"][0]["message"] == "the peer sends a line that is too long"
