"""A local program on a PTY of its own (POSIX openpty, setsid, TIOCSCTTY)."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import os
import pwd
import signal
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .caller import absolute, caller, environment, is_folder, umask
from .channel import Channel, ExitStatus, Pty
from .errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError, ConnectFailed, InvalidOption
from .receiver import Receiver
from .spawn import set_winsize, spawn
from .waiting import Waiters

#: A callback reads at most so often before others get their turn: more would starve them, fewer would stall the producer.
READS_PER_CALLBACK = 8
#: The session of a terminal (Linux tty_ioctl(4)), which Python does not name; a master's is that of its slave.
_TIOCGSID = 0x5429
#: How long a program may take to end after SIGHUP before it is killed.
HANGUP_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """`argv` None is the user's login shell, started interactively. `env` is added to the caller's own."""

    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None


def user_shell() -> str:
    """$SHELL, or what the password database says, or /bin/sh."""
    shell = environment().get("SHELL")
    if not shell:
        with contextlib.suppress(KeyError):
            shell = pwd.getpwuid(os.getuid()).pw_shell
    return shell or "/bin/sh"


class LocalChannel(Channel):
    """Reads straight into the receiver's buffer, whenever the kernel has something."""

    protocol = "local"

    def __init__(self, options: LocalOptions, pty: Pty) -> None:
        self._options = options
        self._pty = pty
        self._master = -1
        self._pid = 0
        self._pidfd = -1
        self._receiver: Receiver | None = None
        self._reason: ChannelError | None = None
        self._writable = Waiters()
        self._exited = asyncio.Event()
        self._drained = False

    @classmethod
    def going_on(cls, master: int, pty: Pty) -> Self:
        """The channel of a program that an earlier process has started, whose master was kept. It may have ended since."""
        channel = cls(LocalOptions(), pty)
        channel._master = master
        return channel

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        if self._master < 0:
            self._start()
            self._pidfd = os.pidfd_open(self._pid)
        else:
            os.set_blocking(self._master, False)
            self._find_program()
        if self._pidfd >= 0:
            loop.add_reader(self._pidfd, self._reap)
        loop.add_reader(self._master, self._readable)

    @property
    def terminal(self) -> int | None:
        return self._master if self._master >= 0 else None

    def _start(self) -> None:
        argv = self._options.argv or (user_shell(),)
        cwd = absolute(self._options.cwd or ".") if self._options.cwd is not None or caller() is not None else None
        if cwd is not None and not is_folder(Path(cwd)):
            raise InvalidOption(f"cwd {cwd} is no directory on this machine; give one that is")
        env = {**environment(), "TERM": self._pty.term, **(self._options.env or {})}
        env.pop("COLUMNS", None)
        env.pop("LINES", None)
        try:
            self._pid, self._master = spawn(argv, cwd, env, self._pty.cols, self._pty.rows, umask=umask())
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ConnectFailed(
                f"cannot start {argv[0]}: {why}; check the path and its permissions", errno=error.errno
            ) from None

    def _find_program(self) -> None:
        """The leader of the terminal's session, which is not our child: that it ends can be noticed, but not how."""
        with contextlib.suppress(OSError):  # it has ended already; what it has printed is still to be read
            sid = array.array("i", [0])
            fcntl.ioctl(self._master, _TIOCGSID, sid)
            self._pidfd = os.pidfd_open(sid[0])
            self._pid = sid[0]
        if not self._pid:
            self._exited.set()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def echo_off(self) -> bool:
        flags = self._local_modes()
        return bool(flags & termios.ICANON) and not flags & termios.ECHO

    @property
    def canonical(self) -> bool | None:
        return bool(self._local_modes() & termios.ICANON)

    def write(self, data: bytes) -> int:
        if self._reason is not None:
            raise self._reason
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._end(_broken(error)) from None

    async def drain(self) -> None:
        if self._reason is not None:
            raise self._reason
        if not self._writable.waiting:
            asyncio.get_running_loop().add_writer(self._master, self._can_write)
        await self._writable.wait()
        if self._reason is not None:
            raise self._reason

    def leads_foreground(self) -> bool | None:
        try:
            return os.tcgetpgrp(self._master) == self._pid
        except OSError:
            return None

    def kill_foreground(self) -> bool:
        """Not the shell itself: that would end the session."""
        with contextlib.suppress(OSError):
            group = os.tcgetpgrp(self._master)
            if group not in (0, self._pid):
                os.killpg(group, signal.SIGKILL)
                return True
        return False

    def resize(self, cols: int, rows: int) -> None:
        if self._master >= 0:  # a PTY that has ended has no size to change
            set_winsize(self._master, cols, rows)

    async def close(self, *, force: bool = False) -> None:
        self._end(ChannelClosed("the session was closed from this side"))
        if not self._pid or self._exited.is_set():
            return
        self._signal(signal.SIGKILL if force else signal.SIGHUP)
        try:
            await asyncio.wait_for(self._exited.wait(), HANGUP_GRACE_S)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._exited.wait()

    def _local_modes(self) -> int:
        """The local modes of termios(3); none where the terminal has ended."""
        if self._master < 0:
            return 0
        try:
            return int(termios.tcgetattr(self._master)[3])
        except termios.error:
            return 0

    def _readable(self) -> None:
        assert self._receiver is not None
        for _ in range(READS_PER_CALLBACK):
            if self._master < 0:
                return
            try:
                count = os.readv(self._master, [self._receiver.get_buffer()])
            except BlockingIOError:
                return
            except OSError as error:
                # EIO: the last slave closed, and everything it wrote has been read (Linux pty(7))
                ended = error.errno == errno.EIO
                self._finish(None if ended else _broken(error))
                return
            if not count:
                self._finish(None)
                return
            self._receiver.buffer_updated(count)

    def _finish(self, reason: ChannelError | None) -> None:
        """The stream is over; the exit status is told with it, as soon as it is known."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        if reason is None and not self._exited.is_set():
            # The slave closes before the process can be reaped; a process that only closed its terminal lives on.
            loop.call_later(HANGUP_GRACE_S, self._end, _ended(None))
            self._drained = True
        else:
            self._end(reason or _ended(self.exit_status))

    def _end(self, reason: ChannelError) -> ChannelError:
        if self._reason is None:
            self._reason = reason
            loop = asyncio.get_running_loop()
            if self._master >= 0:
                loop.remove_reader(self._master)
                loop.remove_writer(self._master)
                os.close(self._master)
                self._master = -1
            self._writable.wake()
            if self._receiver is not None:
                self._receiver.channel_ended(reason)
        return self._reason

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        with contextlib.suppress(ChildProcessError):  # another process has started it
            _, status = os.waitpid(self._pid, 0)
            self.exit_status = _exit_status(os.waitstatus_to_exitcode(status))
        self._exited.set()
        if self._drained:  # otherwise output may still be unread: the stream's end decides
            self._end(_ended(self.exit_status))

    def _can_write(self) -> None:
        asyncio.get_running_loop().remove_writer(self._master)
        self._writable.wake()

    def _signal(self, number: signal.Signals) -> None:
        """To the whole session's foreground and shell: the shell is the leader of its own group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, number)


def _exit_status(code: int) -> ExitStatus:
    if code >= 0:
        return ExitStatus(code=code)
    return ExitStatus(signal=signal.Signals(-code).name.removeprefix("SIG"))


def _ended(status: ExitStatus | None) -> ChannelEnded:
    if status is None:
        return ChannelEnded("the program closed its terminal")
    how = f"was killed by SIG{status.signal}" if status.signal else f"exited with {status.code}"
    return ChannelEnded(f"the program {how}")


def _broken(error: OSError) -> ChannelBroken:
    return ChannelBroken(f"the terminal failed: {error.strerror}", errno=error.errno)
