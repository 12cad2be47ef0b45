"""The daemon's process: `python -m ptyctl.daemon`, started by the first client that needs it or by a service manager."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.access import AccessController, find_principal
from ptyctl.controller.local import LocalController
from ptyctl.controller.policies import PolicyStore
from ptyctl.controller.session_factory import ConsoleOwnership, check_no_node_state
from ptyctl.controller.settings import Settings, load_access, load_settings
from ptyctl.core.principal import Principal
from ptyctl.environment import environment_warnings, secret_variables
from ptyctl.stderr_log import log_to_stderr
from ptyctl.version import __version__
from transports.process import forbid_dumps, forget_variables, raise_open_file_limit

from .connection import ERROR_PREFIX, PeerCredentials
from .control import HAND_OVER
from .errors import EXIT_REFUSED, DaemonError
from .fd_store import FdStore
from .listen_socket import ListenSocket, open_listen_socket
from .loop_watchdog import LoopWatchdog
from .runtime_dir import SYSTEM_USER, RuntimeDir, rotate_log
from .server import DaemonServer, admit_own_user
from .web_service import WebService

_LOG = logging.getLogger(__name__)
#: Variables that the daemon and the libraries in it read.
_USED_VARIABLES = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
    "NTC_TEMPLATES_DIR", "VIRTUAL_ENV",
}  # fmt: skip
_USED_PREFIXES = ("PTYCTL_", "LC_", "XDG_", "PYTHON", "COVERAGE_")

#: How long a thread keeps the interpreter lock while the event loop waits for it (seconds). The loop releases the lock in each
#: system call, of which a client's call takes several. With Python's default of 5 ms, each of them waits that long while the
#: policy judges a long text: an `exec` of one delays a read in another session by 12.5 ms (p99), and by 6.6 ms with this value.
SWITCH_INTERVAL_S = 0.0005
#: The collector's thresholds. A full collection follows 5,600 new objects that remain: 3 to 6 ms if few others are live.
#: With Python's defaults, a full one after 160 opens that have failed stops the event loop for 30 to 60 ms.
COLLECTION_THRESHOLDS = (700, 4, 1)

#: Serves the daemon's sessions, and its web console, in addition to the socket. The daemon stops when it returns.
ExtraService = Callable[[Controller, WebService], Coroutine[Any, Any, None]]


class FleetMember(Protocol):
    """This daemon as a node of a fleet."""

    @property
    def ownership(self) -> ConsoleOwnership:
        """Decides whether this node may connect a console."""
        ...

    async def serve(self, own: AccessController, local: LocalController) -> Controller:
        """Join the fleet; return the controller of all nodes' sessions for this daemon's clients."""
        ...

    def limits_in_use(self) -> dict[str, int]:
        """Return the use of the fleet limits, by name."""
        ...


#: Joins a fleet while the daemon runs.
JoinFleet = AbstractAsyncContextManager[FleetMember]


def run(extra_service: ExtraService | None = None, *, system: bool = False, fleet: JoinFleet | None = None) -> int:
    """Serve until SIGTERM or SIGINT, or until the daemon was idle for the configured time; return the exit code.

    A system daemon serves the users of the table `access` in the configuration, and does not stop when it is idle.

    SIGUSR2, or the end of its terminal, makes the process exit without closing its sessions, so that the next daemon can
    restore them. SIGHUP makes it load the policy again. If the daemon cannot start, it prints the reason as one line to stderr.
    """
    log_to_stderr()
    raise_open_file_limit()
    forbid_dumps()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        runtime_dir = RuntimeDir(serves_system=system)
        if runtime_dir.is_system and not system:
            raise DaemonError(f"{SYSTEM_USER} is set: clients use the system daemon", "unset it, or run: ptyctl serve --system")
        log_to_stderr(before_write=partial(rotate_log, runtime_dir))
        if fleet is None:  # before the socket: the node that starts now must not find this process there
            check_no_node_state(load_settings().state_dir)
        with open_listen_socket(runtime_dir) as listen_socket:
            watchdog = LoopWatchdog()
            with asyncio.Runner(loop_factory=watchdog.new_loop) as runner:
                runner.run(_serve(runtime_dir, listen_socket, extra_service, watchdog, fleet))
    except (DaemonError, PtyctlError) as error:
        reason = f"{error.message}; {error.hint}" if error.hint else error.message
        print(f"{ERROR_PREFIX}{reason}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    return 0


async def _serve(
    runtime_dir: RuntimeDir,
    listen_socket: ListenSocket,
    extra_service: ExtraService | None,
    watchdog: LoopWatchdog,
    fleet: JoinFleet | None,
) -> None:
    async with fleet or nullcontext() as member:
        await _serve_sessions(runtime_dir, listen_socket, extra_service, watchdog, member)


async def _serve_sessions(
    runtime_dir: RuntimeDir,
    listen_socket: ListenSocket,
    extra_service: ExtraService | None,
    watchdog: LoopWatchdog,
    member: FleetMember | None,
) -> None:
    settings = _load_settings(runtime_dir, has_own_environment=extra_service is None)
    fd_store = FdStore(runtime_dir)
    # In a thread, because it loads the policy and platforms.
    ownership = None if member is None else member.ownership
    controller = await asyncio.to_thread(LocalController, settings, fd_store=fd_store, persistent=True, ownership=ownership)
    async with controller:
        own = AccessController(controller, local_sessions=not runtime_dir.is_system or settings.access.local_sessions)
        access = own if member is None else await member.serve(own, controller)
        web = WebService(access, settings.state_dir, controller.audit_log.record, settings.limits.use)
        server = DaemonServer(
            access,
            0 if runtime_dir.is_system else settings.daemon_idle_s,
            lambda: controller.has_sessions() or web.is_used(),
            watchdog,
            fd_store.restore_socket,
            open_web=web.open,
            limits=settings.limits.use,
            limits_in_use=lambda: controller.limits_in_use() | web.limits_in_use() | (member.limits_in_use() if member else {}),
            record=controller.audit_log.record,
            admit=_admit_system_user if runtime_dir.is_system else admit_own_user,
        )
        _handle_signals(server, controller)
        _report_ready()
        gc.freeze()  # a full collection of the modules' objects would take 45 ms each time
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        services = [server.serve(listen_socket), *(() if extra_service is None else (extra_service(access, web),))]
        await _serve_until_stopped(server, web, services)


def _load_settings(runtime_dir: RuntimeDir, *, has_own_environment: bool) -> Settings:
    """Load the settings. Without an environment of its own, the process has that of its clients, and the CLI has warned."""
    settings = load_settings()
    if runtime_dir.is_system:
        load_access()  # reports a file that others can write
    if has_own_environment:
        for warning in environment_warnings(settings.devices_file):
            _LOG.warning("%s", warning)
        _forget_environment(settings.devices_file)
    return settings


def _handle_signals(server: DaemonServer, controller: LocalController) -> None:
    """Install the handlers of the signals that `run` describes."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    loop.add_signal_handler(HAND_OVER, _hand_over, controller)
    loop.add_signal_handler(signal.SIGHUP, _hang_up, controller, _has_terminal())


async def _serve_until_stopped(server: DaemonServer, web: WebService, services: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run the server and the extra service, if any; stop all when the first one returns. Raises that one's exception."""
    serving, *extra = [asyncio.create_task(service) for service in services]
    done, _ = await asyncio.wait([serving, *extra], return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    for task in extra:
        task.cancel()
    await asyncio.gather(serving, web.close(), *extra, return_exceptions=True)
    for task in done:
        task.result()


async def _admit_system_user(peer: PeerCredentials) -> Principal:
    """Return the principal of a user that the configuration names at this moment. Raises PtyctlError."""
    return await asyncio.to_thread(lambda: find_principal(load_access(), peer.uid, peer.gid))


def _forget_environment(inventory: Path) -> None:
    """Remove all variables that the daemon does not use: the environment is that of the client that started it.

    Sessions get the environment of their own clients. Secrets of the inventory may be variables (`env:NAME`).
    """
    used = _USED_VARIABLES | secret_variables(inventory)
    forget_variables([name for name in os.environ if name not in used and not name.startswith(_USED_PREFIXES)])


def _hand_over(controller: LocalController) -> None:
    """Exit at once without closing sessions, which the next daemon restores."""
    controller.flush()
    os._exit(0)


def _hang_up(controller: LocalController, had_terminal: bool) -> None:
    """Load the policy again, or hand over if the signal means that the terminal of this process was closed."""
    if had_terminal and not _has_terminal():
        _hand_over(controller)
    asyncio.get_running_loop().run_in_executor(None, _reload, controller.policies)


def _reload(policies: PolicyStore) -> None:
    with suppress(PtyctlError):  # the store reports it
        policies.reload()


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal; it has none after a hang-up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _report_ready() -> None:
    """Print the status and close standard output, which the starting client waits for. The socket already listens."""
    with suppress(BrokenPipeError):  # the starting client was killed; other clients may still need the daemon
        os.write(sys.stdout.fileno(), f"up: process {os.getpid()}, ptyctl {__version__}\n".encode())
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
