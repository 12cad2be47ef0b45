"""The first line of a connection, and what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ptyctl import __version__
from ptyctl.api import ExecRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.place import Place

GOOD = {"speaks": "rpc", "version": __version__, "cwd": "/", "env": {}}


class Raw:
    """A connection of lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, line: bytes) -> dict[str, Any]:
        self.writer.write(line + b"\n")
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), 20))
        return answer

    async def ask(self, **message: Any) -> dict[str, Any]:
        return await self.say(json.dumps(message).encode())


@pytest.fixture
async def raw(place: Place) -> Any:
    async with await RemoteController.connect(place):
        reader, writer = await asyncio.open_unix_connection(str(place.socket), limit=1 << 22)
        yield Raw(reader, writer)
        writer.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"GET / HTTP/1.1", "the first line says what is spoken"),
        (b"[]", "the first line says what is spoken"),
        (json.dumps({**GOOD, "speaks": "smtp"}).encode(), "the first line says what is spoken"),
        (json.dumps({**GOOD, "version": "0.0.9"}).encode(), "ptyctl daemon restart"),
        (json.dumps({**GOOD, "cwd": "here"}).encode(), "an absolute path"),
        (json.dumps({**GOOD, "env": {"A": 1}}).encode(), "an object of strings"),
        (json.dumps({**GOOD, "speaks": "mcp", "toolsets": "core,nope"}).encode(), "no toolset 'nope'"),
    ],
)
async def test_what_is_no_hello(raw: Raw, said: bytes, told: str) -> None:
    answer = await raw.say(said)
    assert answer["ok"] is False
    assert told in answer["message"]
    assert await raw.reader.read() == b""


async def test_a_hello_is_answered_with_the_version(raw: Raw) -> None:
    answer = await raw.say(json.dumps(GOOD).encode())
    assert (answer["ok"], answer["version"]) == (True, __version__)


async def test_what_is_no_call(raw: Raw) -> None:
    await raw.say(json.dumps(GOOD).encode())
    assert (await raw.say(b"{"))["error"]["code"] == -32700
    assert (await raw.say(b"7"))["error"]["code"] == -32600
    assert (await raw.ask(id=1, method="nope"))["error"]["code"] == -32601
    refused = await raw.ask(id=2, method="ptyctl_session", params={"action": "status"})
    assert (refused["id"], refused["error"]["data"]["error_code"]) == (2, "INVALID_ARGUMENT")
    assert "session_id" in refused["error"]["message"]
    listed = await raw.ask(id="three", method="ptyctl_session", params={"action": "list"})
    assert (listed["id"], listed["result"]["reply"]["sessions"]) == ("three", [])


async def test_a_cancelled_wait_stops_and_the_run_goes_on(raw: Raw, place: Place) -> None:
    async with await RemoteController.connect(place) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc", "--noprofile"))
        begun = await handle.exec("echo begun; read -r line; echo got $line", timeout_ms=0)
        assert (await handle.read(until_regex="(?m)^begun$", timeout_ms=20_000)).matched
        wait = asyncio.create_task(handle.wait(begun.block_id, timeout_ms=20_000))
        await asyncio.sleep(0)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        await handle.write("on\n")
        assert (await handle.wait(begun.block_id)).stdout.endswith("got on\n")


async def test_progress_comes_beside_the_call(place: Place) -> None:
    told: list[tuple[int, float]] = []
    async with await RemoteController.connect(place) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc", "--noprofile"))
        request = ExecRequest.of({"session_id": handle.session_id, "cmd": "echo a; read -r -t 2.5 line", "timeout_ms": 20_000})
        await controller.exec(request, lambda received, seconds: told.append((received, seconds)))
    assert len(told) >= 2
    assert told[0][1] < told[1][1]
