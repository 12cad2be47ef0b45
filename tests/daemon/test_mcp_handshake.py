"""The handshake of an MCP client with the daemon."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.daemon.connection import hello_line, open_connection
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.mcp import schema, server
from tests.controller.local_daemon import served


async def test_tools_are_defined_outside_event_loop(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, input_schema = set(), schema.input_schema

    def noted(*args: Any, **kwargs: Any) -> Any:
        threads.add(threading.current_thread())
        return input_schema(*args, **kwargs)

    monkeypatch.setattr(server, "input_schema", noted)
    server.definition.cache_clear()
    async with LocalController() as controller, served(controller, runtime_dir.path):
        (await asyncio.to_thread(open_connection, runtime_dir, hello_line("mcp"), start=False)).close()
    assert threads
    assert threading.main_thread() not in threads
