"""A far end that takes one connection at a time, and holds that of an owner that is gone, as ports of console servers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.fleet import standby
from tests.fleet.nodes import MakeNode, until, until_known

pytestmark = pytest.mark.waits

DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
standby = true
"""


class SinglePort:
    """A Telnet console that shows a prompt on one connection, and closes further ones. `typed` is what each has received."""

    def __init__(self) -> None:
        self.port = 0
        self.typed: list[bytes] = []
        self.refused = 0
        self._held: asyncio.StreamWriter | None = None

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._held is not None:
            self.refused += 1
            writer.write(b"port 4 is in use\r\n")
            writer.close()
            return
        self._held = writer
        connection = len(self.typed)
        self.typed.append(b"")
        writer.write(b"\xff\xfb\x01\xff\xfb\x03\r\nline>")  # WILL ECHO, WILL SGA, a prompt
        while data := await _read(reader):
            self.typed[connection] += data
            writer.write(data.replace(b"\r", b"\r\nline>"))
        if self._held is writer:
            self._held = None
        writer.close()

    def drop(self) -> None:
        """End the connection that it holds, as its administrator or its keepalive does."""
        if self._held is not None:
            self._held.transport.abort()
            self._held = None


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(4096)
    except ConnectionResetError:
        return b""


@pytest.fixture
async def port() -> AsyncIterator[SinglePort]:
    port = SinglePort()
    async with await asyncio.start_server(port.accept, "127.0.0.1", 0) as server:
        port.port = server.sockets[0].getsockname()[1]
        yield port
        port.drop()


@pytest.fixture
def devices(port: SinglePort) -> str:
    return DEVICES.format(port=port.port)


async def test_console_moves_when_its_far_end_lets_the_old_connection_go(
    make_node: MakeNode, port: SinglePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "RETRY_S", 0.2)
    a, b = await make_node("a"), await make_node("b")
    await until_known(b, "a", "b")
    old = await SessionHandle.open(a.controller, device="rack", node="a")
    await a.fleet._standby.aclose()  # type: ignore[union-attr]
    a.fleet.ownership.refuse(PtyctlError(ErrorCode.CLAIM_LOST, "paused"))
    await a.fleet.claims.aclose()  # as if it was paused: its line stays connected
    await until(lambda: port.refused >= 2)
    assert b.local.entries() == []

    with pytest.raises(PtyctlError, match="the last line is 'port 4 is in use'") as refused:
        await SessionHandle.open(b.controller, device="rack", node="b")
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CONNECT_FAILED, True)
    assert "may still hold the connection of a node that is gone" in str(refused.value.hint)

    port.drop()
    await until(lambda: bool(b.local.entries()))
    owner = b.fleet.claimed.owner("rack")
    assert owner is not None
    assert b.local.holds(owner.session_id)
    new = SessionHandle(b.controller, owner.session_id)
    assert new.session_id != old.session_id
    new.task_id = "t"
    await new.lock()
    await new.write("from b\n")
    await until(lambda: b"from b\r" in port.typed[-1])
    assert len(port.typed) == 2
