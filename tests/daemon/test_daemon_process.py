"""The daemon's process: start, concurrent clients, replacement after a crash, idle exit."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from fixtures.forked_process import ForkedProgram
from fixtures.processes import process_ids, words_of
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.settings import Settings
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.connection import _spawn as spawn
from ptyctl.daemon.connection import hello_line, open_connection
from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.listen_socket import open_listen_socket
from ptyctl.daemon.runtime_dir import MAX_LOG_BYTES, RuntimeDir
from ptyctl.daemon.runtime_dir import _default_path as default_runtime_dir
from ptyctl.http.listener import Listener
from tests.daemon.fd_store_processes import fd_store_pid
from tests.session.scripted_session import wait_until

BASH = ("bash", "--norc", "--noprofile")
PATIENCE_S = 60


def daemons() -> list[int]:
    """Return the pids of all daemons that were started in a test with `new_interpreters`."""
    command = [os.fsencode(sys.executable), b"-m", b"ptyctl.daemon", b""]
    return [pid for pid in process_ids() if words_of(pid, "cmdline") == command]


@pytest.fixture
def new_interpreters(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let clients start `python -m ptyctl.daemon`, by a path of the interpreter that only this test uses.

    `daemons` finds it by this path: only root may read the environment of a daemon.
    """
    monkeypatch.setattr("ptyctl.daemon.connection._spawn", spawn)
    environment = tmp_path / "venv"
    (environment / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "lib"):
        (environment / name).symlink_to(Path(sys.prefix) / name)
    (environment / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(environment / "bin/python"))


async def until_gone(runtime_dir: RuntimeDir) -> None:
    with runtime_dir.lock.open("r+") as lock:  # the daemon holds the lock while it lives
        await asyncio.wait_for(asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX), PATIENCE_S)


async def test_session_outlives_its_client(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as first:
        handle = await SessionHandle.open(first, protocol="local", command=BASH)
        await handle.exec("x=kept")
    async with await RemoteController.connect(runtime_dir) as second:
        handle = SessionHandle(second, handle.session_id)
        assert (await handle.exec("echo $x")).stdout == "kept\n"


async def test_socket_and_directory_are_private(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir):
        assert stat.S_IMODE(runtime_dir.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(runtime_dir.path.stat().st_mode) == 0o700


@pytest.mark.usefixtures("new_interpreters")
async def test_forty_concurrent_clients_start_one_daemon(runtime_dir: RuntimeDir) -> None:
    controllers = await asyncio.gather(*(RemoteController.connect(runtime_dir) for _ in range(40)))
    assert daemons() == [daemon_pid(runtime_dir)]
    for controller in controllers:
        await controller.aclose()


async def test_client_after_killed_daemon_starts_another(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        first = daemon_pid(runtime_dir)
        end_daemon(runtime_dir, signal.SIGKILL)
        assert runtime_dir.socket.exists()  # a killed daemon cannot remove it
        with pytest.raises(PtyctlError, match="connection to the daemon was lost") as caught:
            await SessionHandle.open(controller, protocol="local", command=BASH)
        assert caught.value.code is ErrorCode.IO_ERROR
    async with await RemoteController.connect(runtime_dir):
        assert daemon_pid(runtime_dir) not in (None, first)


async def test_idle_daemon_exits(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_DAEMON_IDLE_S", "0.2")
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
    async with await RemoteController.connect(runtime_dir) as controller:  # the open session prevented the idle exit
        assert (await SessionHandle(controller, handle.session_id).status()).state == "open"
        await SessionHandle(controller, handle.session_id).close()
    await until_gone(runtime_dir)
    assert not runtime_dir.socket.exists()


async def test_connect_without_start_raises_connect_failed(runtime_dir: RuntimeDir) -> None:
    with pytest.raises(PtyctlError, match="no daemon is up") as caught:
        await RemoteController.connect(runtime_dir, start=False)
    assert caught.value.code is ErrorCode.CONNECT_FAILED


async def test_failed_start_raises_with_logged_reason(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "none")
    with pytest.raises(PtyctlError, match="max_sessions") as caught:
        await RemoteController.connect(runtime_dir)
    assert str(runtime_dir.log) in (caught.value.hint or "")
    assert "ptyctl daemon:" not in caught.value.message  # the prefix of the log line


async def test_log_of_previous_daemon_is_kept(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime_dir.log.write_text("the trace of a crash\n")
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "none")
    with pytest.raises(PtyctlError, match="max_sessions"):
        await RemoteController.connect(runtime_dir)
    assert runtime_dir.log.read_text().startswith("the trace of a crash\n")
    assert "max_sessions" in runtime_dir.log.read_text()


async def test_large_log_is_rotated(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESSIONS", "none")
    for _ in range(2):
        runtime_dir.log.write_bytes(b"x" * (MAX_LOG_BYTES + 1))
        with pytest.raises(PtyctlError):
            await RemoteController.connect(runtime_dir)
    assert runtime_dir.log.stat().st_size < MAX_LOG_BYTES
    assert [path.name for path in sorted(runtime_dir.path.glob("daemon.log*"))] == ["daemon.log", "daemon.log.1"]


async def test_daemon_logs_unknown_variables(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESIONS", "7")
    async with await RemoteController.connect(runtime_dir):
        log = runtime_dir.log.read_text()
    assert log.count("PTYCTL_MAX_SESIONS has no effect") == 1
    assert "did you mean PTYCTL_MAX_SESSIONS?" in log


def test_running_daemon_rotates_its_log(runtime_dir: RuntimeDir) -> None:
    code = (
        "import logging, os\n"
        "from ptyctl.daemon.runtime_dir import MAX_LOG_BYTES, open_log, rotate_log\n"
        "from ptyctl.daemon.runtime_dir import RuntimeDir\n"
        "from ptyctl.stderr_log import log_to_stderr\n"
        "runtime_dir = RuntimeDir()\n"
        "os.dup2(open_log(runtime_dir), 2)\n"
        "log_to_stderr(before_write=lambda: rotate_log(runtime_dir))\n"
        "logging.getLogger('first').error('x' * MAX_LOG_BYTES)\n"
        "logging.getLogger('second').error('rotated')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
    assert "event=rotated" in runtime_dir.log.read_text()
    assert (runtime_dir.log.stat().st_size < 200, runtime_dir.previous_log.stat().st_size > MAX_LOG_BYTES) == (True, True)


def test_daemon_keeps_collections_of_garbage_short(runtime_dir: RuntimeDir) -> None:
    """Its modules are excluded, and few objects precede a full collection."""
    code = (
        "import gc, sys; from ptyctl.daemon.main import run\n"
        "def check():\n"
        "    young, middle, old = gc.get_threshold()\n"
        "    if gc.get_freeze_count() < 10_000: return 'not frozen'\n"
        "    return 0 if young * middle * (old + 1) <= 6000 else 'too many objects'\n"
        "async def service(controller, web): sys.exit(check())\n"
        "run(service)"
    )
    daemon = ForkedProgram(code)
    _, errors = daemon.communicate()
    assert daemon.returncode == 0, errors  # a busy machine may have a warning in it


@pytest.mark.usefixtures("new_interpreters")
async def test_daemon_forgets_environment_of_its_first_client(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "devices.toml").write_text("[devices.sw1]\nhost = 'h'\nauth = { password = 'env:SW1_SECRET' }\n")
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(tmp_path / "devices.toml"))
    for name in ("PTYCTL_TOKEN", "AWS_SECRET", "SW1_SECRET"):
        monkeypatch.setenv(name, f"value-of-{name}")
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
        assert (await handle.exec("echo $AWS_SECRET,$PTYCTL_TOKEN")).stdout == "value-of-AWS_SECRET,\n"
        daemon = control.find_daemon(runtime_dir)
        assert daemon is not None
        environ = Path(f"/proc/{daemon.pid}/environ")
        if os.geteuid() == 0:
            values = environ.read_text()
            assert ("value-of-SW1_SECRET" in values, "AWS" in values, "PTYCTL_TOKEN" in values) == (True, False, False)
        else:
            with pytest.raises(PermissionError):  # the process is not dumpable
                environ.read_text()


def test_process_that_forbids_dumps_is_not_dumpable() -> None:
    code = "import ctypes; from transports.process import forbid_dumps; forbid_dumps(); print(ctypes.CDLL(None).prctl(3))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"0\n"


async def test_daemon_stop_with_clients_logs_nothing(runtime_dir: RuntimeDir) -> None:
    """One client has sent half a request, one waits for a reply, and one is in its handshake."""
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
        waiting = asyncio.create_task(handle.read(until_regex="never", timeout_ms=50_000))
        mcp = await asyncio.to_thread(open_connection, runtime_dir, hello_line("mcp"))
        mcp.sendall(b'{"jsonrpc"')
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(runtime_dir.socket))
            await handle.status()
            await asyncio.to_thread(control.stop, runtime_dir)
        with pytest.raises(PtyctlError):
            await waiting
        mcp.close()
    lines = runtime_dir.log.read_text().splitlines()
    assert [line for line in lines if "the event loop was blocked" not in line] == []  # a slow machine may block it


def test_runtime_dir_open_to_others_or_too_long_raises(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(DaemonError, match="chmod 700"):
        RuntimeDir(tmp_path)
    with pytest.raises(DaemonError, match="too long"):
        RuntimeDir(tmp_path / ("x" * 100))


async def test_session_gets_environment_directory_and_umask_of_its_caller(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    program = (
        "import asyncio\n"
        "from ptyctl.api.handle import SessionHandle\n"
        "from ptyctl.daemon.client import RemoteController\n"
        "async def main():\n"
        "    async with await RemoteController.connect() as controller:\n"
        f"        async with await SessionHandle.open(controller, protocol='local', command={BASH!r}) as shell:\n"
        "            print((await shell.exec('umask; echo $MINE $PWD $OTHERS')).stdout, end='')\n"
        "asyncio.run(main())\n"
    )
    async with await RemoteController.connect(runtime_dir):  # already up, with another environment
        environment = {**os.environ, "MINE": "yes"}
        environment.pop("OTHERS", None)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, cwd=tmp_path / "here", env=environment, stdout=subprocess.PIPE, umask=0o027
        )
        said, _ = await process.communicate()
    assert said.decode() == f"0027\nyes {tmp_path / 'here'}\n"


@pytest.mark.usefixtures("new_interpreters")
async def test_daemon_starts_although_its_starter_is_killed(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
        await handle.exec("x=kept")
    end_daemon(runtime_dir, signal.SIGKILL)
    starter = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from ptyctl.daemon.connection import connect\nfrom ptyctl.daemon.runtime_dir import RuntimeDir\nconnect(RuntimeDir())",
    )
    await wait_until(lambda: bool(daemons()))
    starter.kill()
    await starter.wait()
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = SessionHandle(controller, handle.session_id)
        assert (await handle.exec("echo $x")).stdout == "kept\n"
        # the client may have started another one meanwhile, which ends
        await wait_until(lambda: daemons() == [daemon_pid(runtime_dir)])


async def test_daemon_that_hangs_raises_with_its_pid(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await RemoteController.connect(runtime_dir):
        pid = daemon_pid(runtime_dir)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr("ptyctl.daemon.connection.ANSWER_TIMEOUT_S", 0.2)
        for ask in (control.find_daemon, control.stop, control.hand_over):
            with pytest.raises(DaemonError, match=f"process {pid}.* kill -9 {pid}"):
                await asyncio.to_thread(ask, runtime_dir)
        with pytest.raises(PtyctlError, match=f"process {pid}") as caught:
            await RemoteController.connect(runtime_dir)
        assert f"kill -9 {pid}" in (caught.value.hint or "")
        os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("new_interpreters")
async def test_daemon_with_deleted_files_leaves_those_of_its_successor(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with await RemoteController.connect(runtime_dir):
        first = daemon_pid(runtime_dir)
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # it would create the files again
        runtime_dir.socket.unlink()
        runtime_dir.lock.unlink()
        with pytest.raises(PtyctlError, match=rf"another server owns the sessions in .*: process {first} \("):
            await RemoteController.connect(runtime_dir)
        monkeypatch.setenv("PTYCTL_STATE_DIR", str(tmp_path / "other"))
        async with await RemoteController.connect(runtime_dir):
            ended = os.pidfd_open(first)
            os.kill(first, signal.SIGTERM)
            os.kill(first, signal.SIGCONT)
            assert (await asyncio.to_thread(select.select, [ended], [], [], PATIENCE_S))[0]
            os.close(ended)
            assert runtime_dir.socket.exists()
            assert daemon_pid(runtime_dir) in daemons()


def test_socket_file_of_a_killed_daemon_stays_until_its_successor_listens(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of a system daemon takes the absence of the file for a regular shutdown."""
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(runtime_dir.socket))
    steps: list[tuple[str, bool]] = []
    for name in ("bind", "listen"):

        def step(listener: Listener, argument: Any, name: str = name) -> None:
            steps.append((name, runtime_dir.has_socket))
            getattr(socket.socket, name)(listener, argument)

        monkeypatch.setattr(Listener, name, step, raising=False)
    with open_listen_socket(runtime_dir) as listening, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(runtime_dir.socket))
        assert listening.is_reachable()
        assert sorted(path.name for path in runtime_dir.path.iterdir()) == ["daemon.lock", "daemon.sock"]
    assert steps == [("bind", True), ("listen", True)]


async def test_deleted_runtime_directory_open_to_others_is_not_used_again(runtime_dir: RuntimeDir) -> None:
    """Another user may create a directory in /tmp before the daemon does."""
    with open_listen_socket(runtime_dir) as listening:
        shutil.rmtree(runtime_dir.path)
        runtime_dir.path.mkdir()
        runtime_dir.path.chmod(0o777)
        with pytest.raises(DaemonError, match="accessible to other users"):
            listening.restore()
        assert list(runtime_dir.path.iterdir()) == []
        runtime_dir.path.chmod(0o700)


async def test_daemon_creates_its_deleted_runtime_directory_again(runtime_dir: RuntimeDir) -> None:
    """The same daemon, with its sessions and locks; its local shells also survive a kill afterwards."""
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH, task_id="one")
        await handle.lock()
        await handle.exec("x=kept")
        first = daemon_pid(runtime_dir)
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # it would create files while the others are being deleted
        shutil.rmtree(runtime_dir.path)
        os.kill(first, signal.SIGCONT)
        await wait_until(lambda: runtime_dir.socket.exists() and runtime_dir.fd_store_socket.exists())
        assert stat.S_IMODE(runtime_dir.path.stat().st_mode) == 0o700
        async with await RemoteController.connect(runtime_dir) as again:
            assert daemon_pid(runtime_dir) == first
            assert (await SessionHandle(again, handle.session_id, task_id="one").exec("echo $x")).stdout == "kept\n"
    end_daemon(runtime_dir, signal.SIGKILL)
    async with await RemoteController.connect(runtime_dir) as after:
        assert daemon_pid(runtime_dir) != first
        assert (await SessionHandle(after, handle.session_id, task_id="one").exec("echo $x")).stdout == "kept\n"


async def test_second_daemon_exits_with_code_2(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir):
        second = ForkedProgram("import runpy; runpy.run_module('ptyctl.daemon', run_name='__main__')")
        _, said = await asyncio.to_thread(second.communicate)
        assert second.returncode == 2
        assert "one is up already" in said


async def test_relative_path_settings_resolve_against_starter_directory(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PTYCTL_STATE_DIR", "here")
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("cat",))
        assert (tmp_path / "here" / "sessions" / handle.session_id).is_dir()


async def test_environment_that_is_not_utf8_reaches_shell(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"MINE", b"caf\xe9")
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setenv("HISTFILE", "/dev/null")  # of the home directory in the user database
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
        assert (await handle.exec("printf %s $MINE | od -An -tx1")).stdout == " 63 61 66 e9\n"
        assert b"caf" not in b"".join(file.read_bytes() for file in runtime_dir.path.iterdir() if file.is_file())
        shell = await SessionHandle.open(controller, protocol="local")  # chosen from the password database
        assert (await shell.status()).state == "open"


async def test_client_in_removed_directory_can_connect(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code = (
        "import os, asyncio\n"
        "os.rmdir(os.getcwd())\n"
        "from ptyctl.daemon.client import RemoteController\n"
        "from ptyctl.api import SessionRequest\n"
        "async def main():\n"
        "    async with await RemoteController.connect() as it:\n"
        "        await it.session(SessionRequest(action='open', protocol='local', command=['cat']))\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=tmp_path / "gone", stderr=subprocess.PIPE)
    _, said = await process.communicate()
    assert (process.returncode, said) == (0, b"")


def test_default_directories_survive_a_logout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = tmp_path / "run-user"  # which systemd deletes when the user has logged out
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(login))
    monkeypatch.delenv("PTYCTL_RUNTIME_DIR")
    monkeypatch.delenv("PTYCTL_STATE_DIR", raising=False)
    for path in (default_runtime_dir(), Settings().state_dir):
        assert not path.is_relative_to(login)
        assert not path.is_relative_to("/run/user")


def test_default_runtime_dir_that_is_a_symlink_raises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch.delenv("PTYCTL_RUNTIME_DIR", raising=False)
    (tmp_path / "other").mkdir(mode=0o700)
    uid = 4_000_000_000 + os.getpid()  # of no user
    monkeypatch.setattr("os.geteuid", lambda: uid)
    default = Path(f"/tmp/ptyctl-{uid}")
    default.symlink_to(tmp_path / "other")
    request.addfinalizer(default.unlink)
    with pytest.raises(DaemonError, match="is a symbolic link"):
        RuntimeDir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_squatted_runtime_dir_is_named_with_the_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(DaemonError, match=f"{tmp_path} belongs to user 65534") as refused:
        RuntimeDir(tmp_path)
    assert "PTYCTL_RUNTIME_DIR" in (refused.value.hint or "")


async def test_reading_history_does_not_prevent_idle_exit(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=BASH)
    os.kill(fd_store_pid(runtime_dir), signal.SIGKILL)
    end_daemon(runtime_dir, signal.SIGKILL)  # the shell ends when its last master is closed
    monkeypatch.setenv("PTYCTL_DAEMON_IDLE_S", "0.2")
    async with await RemoteController.connect(runtime_dir) as controller:
        assert (await SessionHandle(controller, handle.session_id).read(timeout_ms=0)).eof
    await until_gone(runtime_dir)


#: Makes its standard input the controlling terminal, and runs the daemon in it.
IN_TERMINAL = (
    "import fcntl, os, runpy, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "runpy.run_module('ptyctl.daemon', run_name='__main__')"
)


async def test_daemon_whose_terminal_closes_hands_over(runtime_dir: RuntimeDir) -> None:
    """It gets SIGHUP, as for a reload of the policy."""
    terminal, inner = os.openpty()
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", IN_TERMINAL, stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    os.close(inner)
    assert daemon.stdout is not None
    assert (await daemon.stdout.readline()).startswith(b"up: ")
    async with await RemoteController.connect(runtime_dir, start=False) as first:
        handle = await SessionHandle.open(first, protocol="local", command=BASH)
        await handle.exec("x=kept")
        os.close(terminal)
        assert await asyncio.wait_for(daemon.wait(), PATIENCE_S) == 0
    async with await RemoteController.connect(runtime_dir) as second:
        assert (await SessionHandle(second, handle.session_id).exec("echo $x")).stdout == "kept\n"


def test_end_of_a_daemon_in_this_process_whose_lock_is_still_held_does_not_end_the_process(runtime_dir: RuntimeDir) -> None:
    with open_listen_socket(runtime_dir):
        assert daemon_pid(runtime_dir) == os.getpid()
        end_daemon(runtime_dir)
