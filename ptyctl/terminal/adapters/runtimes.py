"""Chooses the runtime adapter of a request, and keeps the connections between requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.request import Runtime
from ptyctl.terminal.runtime_mode import (
    BridgeSettings,
    LocalSettings,
    RuntimeMode,
    bridge_settings,
    local_settings,
    resolve_mode,
)

from .base import BundledAdapter, ConnectInput, RuntimeAdapter
from .container_bridge import ContainerBridgeAdapter
from .local import LocalAdapter
from .rpc_adapter import RpcAdapter

#: Connections that are kept. Clients with different environments have different ones.
MAX_RUNTIMES = 8
#: How long a configured program that failed is not started again while another runtime serves (seconds).
FAILED_FOR_S = 60.0

_Settings = LocalSettings | BridgeSettings


class _RuntimeKey(NamedTuple):
    """The key by which connections are shared. For a program, it includes the environment of the client."""

    settings: _Settings
    environment: frozenset[tuple[str, str]] = frozenset()


class _Failure(NamedTuple):
    """A failed start. The exception itself would get a longer traceback each time that it is raised."""

    at: float
    code: TerminalErrorCode
    message: str
    details: Mapping[str, Any]


class Runtimes:
    """The connections of a server to other runtimes than its own. A lost one is recovered by the next request."""

    def __init__(self) -> None:
        #: The adapters, the least recently used one first.
        self._adapters: dict[_RuntimeKey, RpcAdapter] = {}
        #: Configured programs that could not be started, with the time of the failure.
        self._failed: dict[_RuntimeKey, _Failure] = {}
        self._connecting: WeakValueDictionary[_RuntimeKey, asyncio.Lock] = WeakValueDictionary()
        self._bundled_answered = False

    async def connect(
        self,
        runtime: Runtime,
        environment: Mapping[str, str],
        what: ConnectInput,
        bundled: BundledAdapter,
        *,
        others_allowed: bool = False,
    ) -> RuntimeAdapter:
        """Return the connected adapter of a request.

        Args:
            environment: that of the client.
            bundled: the server's own runtime.
            others_allowed: whether the client may use another one.

        Raises:
            TerminalError: INVALID_PAYLOAD, INVALID_MODE; BLOCKED_DESTRUCTIVE unless the client may use the runtime;
                GUI_UNAVAILABLE, TIMEOUT or DISCONNECTED if it cannot be reached.
        """
        mode = resolve_mode(runtime.adapter_override, environment)
        if mode == "bundled":
            return bundled
        if not others_allowed:
            if mode == "local_or_bundled_auto" and runtime.binary_path is None:
                return bundled
            raise TerminalError(
                TerminalErrorCode.BLOCKED_DESTRUCTIVE,
                f"the runtime {mode} is for principals that may open any session of this server",
                {"adapter": mode},
            )
        if mode == "container_bridge":
            bridge = await asyncio.to_thread(bridge_settings, environment)
            return await self._connected(_RuntimeKey(bridge), what, lambda: ContainerBridgeAdapter(bridge))
        local = local_settings(runtime.binary_path, runtime.spawn_timeout_ms, environment)
        if mode == "local":
            return await self._connected(_key(local, environment), what, lambda: LocalAdapter(local, environment))
        return await self._auto(local, environment, what, bundled)

    @asynccontextmanager
    async def using(
        self,
        runtime: Runtime,
        environment: Mapping[str, str],
        what: ConnectInput,
        bundled: BundledAdapter,
        *,
        others_allowed: bool = False,
    ) -> AsyncIterator[RuntimeAdapter]:
        """Yield the adapter that `connect` returns. It is not closed meanwhile to make room for another one."""
        adapter = await self.connect(runtime, environment, what, bundled, others_allowed=others_allowed)
        if not isinstance(adapter, RpcAdapter):
            yield adapter
            return
        with adapter.in_use():
            yield adapter

    async def close(self) -> None:
        """Close the connections. Sessions stay open."""
        while self._adapters:
            await self._adapters.popitem()[1].close()

    async def _auto(
        self, settings: LocalSettings, environment: Mapping[str, str], what: ConnectInput, bundled: BundledAdapter
    ) -> RuntimeAdapter:
        """Use the configured program; without one, the server's own runtime; if that fails, a program of PATH."""
        mode: RuntimeMode = "local_or_bundled_auto"
        failures: list[TerminalError] = []
        if settings.binary is not None:
            try:
                return await self._start_configured(settings._replace(search_path=""), environment, what)
            except TerminalError as error:
                failures.append(error)
        health = None if self._bundled_answered else await bundled.health_check()
        if health is None or health.healthy:
            self._bundled_answered = True
            return bundled
        message = str(health.details.get("message", "it does not answer"))
        own = {"candidate": "bundled", "reason": "unhealthy", "message": message}
        searched = settings._replace(binary=None)
        try:
            return await self._start(searched, environment, what)
        except TerminalError as error:
            before = [entry for failure in failures for entry in failure.details["spawn_errors"]]
            errors = [*before, own, *error.details["spawn_errors"]]
            candidates = list(dict.fromkeys(entry["candidate"] for entry in errors))
            details = {**error.details, "adapter": mode, "attempted_candidates": candidates, "spawn_errors": errors}
            message = "no runtime of the terminals is available"
            raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, message, details) from None

    async def _start_configured(
        self, settings: LocalSettings, environment: Mapping[str, str], what: ConnectInput
    ) -> RpcAdapter:
        """Start the configured program, unless that has failed a moment ago."""
        key, now = _key(settings, environment), asyncio.get_running_loop().time()
        if key in self._failed and now < self._failed[key].at + FAILED_FOR_S:
            _, code, message, details = self._failed[key]
            raise TerminalError(code, message, details)
        try:
            return await self._start(settings, environment, what)
        except TerminalError as error:
            self._failed = {key: _Failure(now, error.code, error.message, error.details)}
            raise

    async def _start(self, settings: LocalSettings, environment: Mapping[str, str], what: ConnectInput) -> RpcAdapter:
        key = _key(settings, environment)
        return await self._connected(key, what, lambda: LocalAdapter(settings, environment, strict=False))

    async def _connected(self, key: _RuntimeKey, what: ConnectInput, create: Callable[[], RpcAdapter]) -> RpcAdapter:
        """Return the adapter with these settings. A lost connection is replaced; its runtime session is resumed."""
        async with self._connecting.setdefault(key, asyncio.Lock()):
            adapter = self._adapters.pop(key, None) or create()
            self._adapters[key] = adapter
            if not adapter.is_connected:
                try:
                    await adapter.connect(ConnectInput(what.trace_id, adapter.runtime_session_id))
                except TerminalError:
                    if adapter.runtime_session_id is None:  # otherwise the next request resumes the runtime session
                        self._adapters.pop(key, None)
                    raise
            await self._close_unused(adapter)
            return adapter

    async def _close_unused(self, current: RpcAdapter) -> None:
        """Close the least recently used connections without a call if there are too many."""
        unused = [key for key, adapter in self._adapters.items() if adapter is not current and not adapter.is_busy]
        for key in unused[: max(len(self._adapters) - MAX_RUNTIMES, 0)]:
            await self._adapters.pop(key).close()


def _key(settings: LocalSettings, environment: Mapping[str, str]) -> _RuntimeKey:
    return _RuntimeKey(settings, frozenset(environment.items()))
