"""The adapter of a server in a container: TCP to `ptyctl bridge` on the host."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import Any

from ptyctl.core import json_lines
from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.handshake import ClientHandshake, HandshakeError, Ready
from ptyctl.terminal.runtime_mode import BridgeSettings

from .base import ConnectInput
from .rpc_adapter import RpcAdapter, RuntimeStreams, exchange

_LOG = logging.getLogger(__name__)

#: The next step after each failure, by the reason of the handshake or connection.
_NEXT_ACTIONS = {
    "connect": "start the bridge on the host: ptyctl bridge; and give the container a route to it: --add-host",
    "proof": "give the container the token of the host's bridge",
    "version": "install the same version of ptyctl in the container and on the host",
    "limit": "wait a minute, or close other connections to the bridge",
    "unavailable": "start the daemon on the host: ptyctl daemon start",
    "protocol": "let the port be that of ptyctl bridge on the host",
    "timeout": "look at the log of ptyctl bridge on the host",
}


class ContainerBridgeAdapter(RpcAdapter):
    """Connects to the first name of the host that accepts a connection. Both sides prove that they know the token."""

    adapter_type = "container_bridge"

    def __init__(self, settings: BridgeSettings) -> None:
        super().__init__(settings.request_timeout_ms)
        self._settings = settings

    async def _open(self, what: ConnectInput) -> tuple[RuntimeStreams, Ready]:
        errors: list[dict[str, Any]] = []
        for host in self._settings.hosts:
            streams = await self._connect(host, errors)
            self._trace("connect", what, host, "connected" if streams is not None else errors[-1]["message"])
            if streams is not None:
                return streams, await self._shake_hands(streams, what, errors)
        details = self._details(errors, "connect")
        raise TerminalError(TerminalErrorCode.GUI_UNAVAILABLE, "the host's bridge cannot be reached", details)

    async def _connect(self, host: str, errors: list[dict[str, Any]]) -> RuntimeStreams | None:
        source = f"{host}:{self._settings.port}"
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                streams = await asyncio.open_connection(host, self._settings.port, limit=json_lines.MAX_REPLY_LINE_BYTES)
        except TimeoutError:
            errors.append({"candidate": source, "reason": "connect", "message": "no answer within the connect timeout"})
        except (OSError, UnicodeError) as error:  # UnicodeError: the name violates RFC 5891
            number = getattr(error, "errno", None) or 0
            why = os.strerror(number) if number > 0 else "the name cannot be resolved"
            errors.append({"candidate": source, "reason": "connect", "message": why})
        else:
            return RuntimeStreams(*streams, source)
        return None

    async def _shake_hands(self, streams: RuntimeStreams, what: ConnectInput, errors: list[dict[str, Any]]) -> Ready:
        handshake = ClientHandshake(what.trace_id, self._settings.token, what.runtime_session_id)
        ready: Ready | None = None
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                ready = await exchange(streams, handshake)
        except TimeoutError:
            error = HandshakeError("protocol", "the bridge has not answered within the connect timeout")
            code, reason = TerminalErrorCode.TIMEOUT, "timeout"
        except HandshakeError as failed:
            error, reason = failed, failed.reason
            unavailable = reason in ("limit", "unavailable")
            code = TerminalErrorCode.GUI_UNAVAILABLE if unavailable else TerminalErrorCode.DISCONNECTED
        except OSError:
            error = HandshakeError("protocol", "the connection was lost during the handshake")
            code, reason = TerminalErrorCode.DISCONNECTED, "protocol"
        else:
            self._trace("handshake", what, streams.source, f"version {ready.version}, {ready.runtime_session_id}")
            return ready
        finally:
            if ready is None:
                streams.writer.close()
        with suppress(OSError):
            await streams.writer.wait_closed()
        self._trace("handshake", what, streams.source, error.message)
        errors.append({"candidate": streams.source, "reason": reason, "message": error.message})
        details = {**self._details(errors, reason), "delivery": "not_sent"}
        if code is TerminalErrorCode.TIMEOUT:
            details["timeout_ms"] = self._settings.connect_timeout_ms
        raise TerminalError(code, f"the handshake with the host's bridge failed: {error.message}", details)

    def _details(self, errors: list[dict[str, Any]], reason: str) -> dict[str, Any]:
        return {
            "adapter": self.adapter_type,
            "attempted_candidates": [error["candidate"] for error in errors],
            "spawn_errors": errors,
            "next_action": _NEXT_ACTIONS[reason],
        }

    def _trace(self, step: str, what: ConnectInput, candidate: str, result: str) -> None:
        """Log a step if the variable asks for it. Neither the token nor the content of requests is logged."""
        if self._settings.trace:
            _LOG.warning("bridge", extra={"step": step, "trace_id": what.trace_id, "candidate": candidate, "result": result})
