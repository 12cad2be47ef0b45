"""Timeouts of the operating system (ETIMEDOUT), while a connection is made and while it is used."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.ssh import options_for
from transports.channel import Channel, Pty
from transports.errors import ChannelBroken, ConnectFailed, ConnectTimeout
from transports.ssh import SshChannel
from transports.tcp import is_timeout
from transports.telnet import TelnetChannel, TelnetConnectOptions


def connect_error(number: int, address: str) -> OSError:
    return OSError(number, f"Connect call failed ('{address}', 23)")


def several(*errors: OSError) -> OSError:
    """As asyncio combines the errors of all addresses of a host."""
    return OSError(f"Multiple exceptions: {', '.join(map(str, errors))}")


ONE = connect_error(errno.ETIMEDOUT, "192.0.2.1")
BOTH = several(connect_error(errno.ETIMEDOUT, "2001:db8::1"), ONE)
MIXED = several(connect_error(errno.ECONNREFUSED, "2001:db8::1"), ONE)


@pytest.mark.parametrize(
    ("error", "timeout"),
    [(ONE, True), (BOTH, True), (MIXED, False), (connect_error(errno.EHOSTUNREACH, "a"), False), (OSError("odd"), False)],
)
def test_timeout_of_all_addresses_is_a_timeout(error: OSError, timeout: bool) -> None:
    assert is_timeout(error) is timeout


@pytest.mark.parametrize("protocol", ["telnet", "ssh"])
@pytest.mark.parametrize(("error", "kind"), [(ONE, ConnectTimeout), (BOTH, ConnectTimeout), (MIXED, ConnectFailed)])
async def test_open_that_the_system_times_out_raises_connect_timeout(
    monkeypatch: pytest.MonkeyPatch, protocol: str, error: OSError, kind: type[Exception]
) -> None:
    async def fail(*_: object, **__: Any) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
    channel: Channel = TelnetChannel(TelnetConnectOptions("192.0.2.1"), Pty())
    if protocol == "ssh":
        channel = SshChannel(options_for(22, host="192.0.2.1"))
    with pytest.raises(kind) as caught:
        await channel.open(RecordingReceiver())
    assert "within" not in str(caught.value)


async def test_connection_that_the_system_times_out_in_use_ends_as_broken() -> None:
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        served.set()

    receiver = RecordingReceiver()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        channel = TelnetChannel(TelnetConnectOptions("127.0.0.1", server.sockets[0].getsockname()[1]), Pty())
        await channel.open(receiver)
        assert channel._connection is not None
        error = OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        channel._connection._transport._fatal_error(error)  # type: ignore[attr-defined]
        await channel._connection.lost.wait()
        await served.wait()
    assert isinstance(receiver.ends[0], ChannelBroken)  # a session reports it as REMOTE_CLOSED
    assert "Connection timed out" in receiver.ends[0].message
