"""LocalChannel.adopt: the PTY of a program whose parent process was killed."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.receiver import RecordingReceiver
from transports.channel import Pty
from transports.errors import ChannelEnded
from transports.local import LocalChannel

#: Opens a channel, sends its PTY master through a socket, and waits to be killed.
_STARTER = """
import asyncio, socket, sys
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions
from transports.receiver import QueueReceiver

async def main():
    channel = LocalChannel(LocalOptions(argv=("sh", "-c", sys.argv[2])), Pty())
    await channel.open(QueueReceiver())
    link = socket.socket(fileno=int(sys.argv[1]))
    socket.send_fds(link, [str(channel.pid).encode()], [channel.terminal_fd])
    await asyncio.Event().wait()

asyncio.run(main())
"""


def orphan(script: str) -> tuple[int, int]:
    """Run `sh -c script`, kill its parent, and return the PTY master and the pid."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        starter = subprocess.Popen([sys.executable, "-c", _STARTER, str(theirs.fileno()), script], pass_fds=[theirs.fileno()])
        pid, masters, _, _ = socket.recv_fds(ours, 100, 1)
        starter.kill()
        starter.wait()
    return masters[0], int(pid)


def alive(pid: int) -> bool:
    """Return whether the process runs. An ended orphan remains a zombie until process 1 reaps it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, and before it is read
        return False


async def test_adopted_channel_reads_writes_resizes_and_ends() -> None:
    master, pid = orphan("echo begun; read line; echo got $line; stty size; read line; exit 3")
    channel, receiver = LocalChannel.adopt(master, Pty()), RecordingReceiver()
    await channel.open(receiver)
    assert channel.pid == pid
    channel.resize(100, 30)
    channel.write(b"on\r")
    seen = await receiver.receive_until(b"30 100")
    assert seen.count(b"got on") == 1
    channel.write(b"\r")
    await receiver.receive_all()
    (reason,) = receiver.ends
    assert isinstance(reason, ChannelEnded)
    assert channel.exit_status is None  # only the parent can read it
    await channel.close()


async def test_adopted_channel_of_ended_program_delivers_remaining_output() -> None:
    master, pid = orphan("stty -echo; echo begun; read line; echo the last words")
    ended = os.pidfd_open(pid)
    os.write(master, b"\r")
    assert select.select([ended], [], [], 20)[0]
    os.close(ended)
    channel, receiver = LocalChannel.adopt(master, Pty()), RecordingReceiver()
    await channel.open(receiver)
    seen = await receiver.receive_all()
    (reason,) = receiver.ends
    assert seen.endswith(b"the last words\r\n")
    assert isinstance(reason, ChannelEnded)
    await channel.close()


@pytest.mark.parametrize("force", [True, False])
async def test_adopted_channel_close_ends_program(force: bool) -> None:
    master, pid = orphan("echo begun; exec sleep 600")
    channel = LocalChannel.adopt(master, Pty())
    await channel.open(RecordingReceiver())
    await channel.close(force=force)
    assert not alive(pid)
