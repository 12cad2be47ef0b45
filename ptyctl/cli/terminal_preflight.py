"""The checks of `ptyctl terminal preflight`. They run no command, and start no program here; a bridge may start its daemon."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from ptyctl.daemon import control
from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.terminal.adapters.base import ConnectInput
from ptyctl.terminal.adapters.container_bridge import ContainerBridgeAdapter
from ptyctl.terminal.adapters.local import NEXT_ACTION, PROGRAM_NAMES, Attempts, find_in_path, find_problem
from ptyctl.terminal.errors import RequestClass, TerminalError, TerminalErrorCode, fallback
from ptyctl.terminal.runtime_mode import BINARY, bridge_settings, local_settings, resolve_mode

#: A failed check of an execute would lead to this fallback.
_REQUEST = RequestClass("execute", "interactive")


class _Checks:
    """The results of the checks that were made."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, check: str, ok: bool, message: str) -> None:
        self.lines.append({"check": check, "ok": ok, "message": message})


async def check(adapter: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return `adapter`, `ready`, `checks` and `trace_id`; if not ready, also `error` and `fallback`."""
    checks, trace_id = _Checks(), f"trace_{secrets.token_hex(16)}"
    result: dict[str, Any] = {"adapter": adapter, "ready": False, "trace_id": trace_id, "checks": checks.lines}
    try:
        result["adapter"] = mode = resolve_mode(adapter, environment)
        checks.add("mode", True, mode)
        if mode == "container_bridge":
            await _check_bridge(environment, trace_id, checks)
        else:
            await asyncio.to_thread(_CHECKS[mode], environment, checks)
    except TerminalError as error:
        return {**result, "error": error.payload(), "fallback": fallback(error.code, _REQUEST)}
    return {**result, "ready": True, "error": None}


async def _check_bridge(environment: Mapping[str, str], trace_id: str, checks: _Checks) -> None:
    try:
        settings = await asyncio.to_thread(bridge_settings, environment)
    except TerminalError as error:
        checks.add("variables", False, error.message)
        raise
    checks.add("variables", True, f"hosts {', '.join(settings.hosts)}, port {settings.port}")
    adapter = ContainerBridgeAdapter(settings)
    try:
        connected = await adapter.connect(ConnectInput(trace_id))
    except TerminalError as error:
        checks.add("handshake", False, error.message)
        raise
    checks.add("handshake", True, f"{connected.source}, version {connected.protocol_version}")
    try:
        health = await adapter.health_check()
    finally:
        await adapter.close()
    checks.add("health", health.healthy, str(health.details.get("message", "the daemon answers")))
    if not health.healthy:
        raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, "the daemon of the host does not answer", health.details)


def _check_local(environment: Mapping[str, str], checks: _Checks) -> None:
    """Check that the runtime `local` has a program to start.

    Raises:
        TerminalError: the configured program cannot be started.
    """
    binary = local_settings(None, None, environment).binary
    if binary is not None and (problem := find_problem(binary)) is not None:
        checks.add("configured", False, f"{binary}: {problem[1]}")
        raise TerminalError(TerminalErrorCode.INVALID_PAYLOAD, f"{BINARY}: {problem[1]}", {"setting": BINARY})
    if binary is not None:
        checks.add("configured", True, binary)
        return
    _check_path(environment, checks)


def _check_path(environment: Mapping[str, str], checks: _Checks) -> None:
    attempts = Attempts()
    for name in PROGRAM_NAMES:
        path, problem = find_in_path(name, environment.get("PATH", ""))
        if path is not None:
            checks.add("path", True, path)
            return
        if problem is not None:
            attempts.failed(name, *problem)
    unsafe = next((error["message"] for error in attempts.errors if error["reason"] == "unsafe_permissions"), None)
    checks.add("path", False, unsafe or f"none of {', '.join(PROGRAM_NAMES)} is in an absolute directory of PATH")
    details = attempts.details(NEXT_ACTION)
    raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, "there is no interactive terminal", details)


def _check_bundled(environment: Mapping[str, str], checks: _Checks) -> None:
    """Check that the daemon is up, or can be started by the first client."""
    try:
        runtime_dir = RuntimeDir()
        status = control.find_daemon(runtime_dir)
    except (DaemonError, OSError) as error:
        checks.add("daemon", False, str(error))
        details = {"attempted_candidates": ["bundled"], "spawn_errors": [], "next_action": "see the message of the check"}
        raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, "the daemon cannot be used", details) from None
    message = f"process {status.pid}" if status is not None else "not up; the first client starts it"
    checks.add("daemon", True, message)


def _check_auto(environment: Mapping[str, str], checks: _Checks) -> None:
    """Check the sources in the order of their use; the first usable one is enough."""
    if local_settings(None, None, environment).binary is not None:
        try:
            _check_local(environment, checks)
        except TerminalError as error:
            if error.code is not TerminalErrorCode.INVALID_PAYLOAD:
                raise
        else:
            return
    try:
        _check_bundled(environment, checks)
    except TerminalError:
        _check_path(environment, checks)


_CHECKS: Mapping[str, Callable[[Mapping[str, str], _Checks], None]] = {
    "local": _check_local,
    "bundled": _check_bundled,
    "local_or_bundled_auto": _check_auto,
}
