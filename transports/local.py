"""A local program, on a new PTY (POSIX openpty, setsid, TIOCSCTTY)."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import os
import pwd
import select
import signal
import termios
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .caller import absolute_path, current_caller, environment, is_directory, umask
from .channel import Channel, ExitStatus, Pty
from .errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError, ConnectFailed, InvalidOption
from .process import (
    WaitPoint,
    group_waits_for_keys,
    has_executed,
    has_no_child,
    is_privileged_program,
    names_of_group,
    processes_of_session,
    program_name,
    reads_terminal,
    set_window_size,
    start_process,
    wait_point,
    waits_for_input,
    wakeups,
)
from .receiver import Receiver, end_receiver, receiver_failed

#: Reads per callback: more would delay other sessions, fewer would slow down a fast producer.
READS_PER_CALLBACK = 8
#: Time after which a callback stops reading (seconds): output with many prompts takes long to process.
READ_S = 0.002
#: ioctl that returns the terminal's session id (Linux tty_ioctl(4)); a master answers for its slave. Not in `termios`.
_TIOCGSID = 0x5429
#: ioctl that opens the slave of a master (Linux ioctl_tty(2)). Not in `termios`.
_TIOCGPTPEER = 0x5441
#: Programs that read a password themselves, and then run another program.
_ASK_PASSWORDS = frozenset(("sudo", "doas", "su"))
#: Control characters that end a line or signal the program (indices of `c_cc` in termios(3)).
_ENDING = (termios.VINTR, termios.VQUIT, termios.VSUSP, termios.VEOF, termios.VEOL, termios.VEOL2)
#: Input modes of termios(3) that convert to lower case, strip to 7 bits, or drop a carriage return.
_REWRITING = termios.IUCLC | termios.ISTRIP | termios.IGNCR
#: Control characters that the terminal driver interprets: always, and only in canonical mode (indices of `c_cc` in termios(3)).
_TAKEN = (termios.VINTR, termios.VQUIT, termios.VSUSP, termios.VSTART, termios.VSTOP)
#: A special character that has no key (_POSIX_VDISABLE).
_DISABLED = b"\0"
_EDITING = (
    *(termios.VERASE, termios.VKILL, termios.VEOF, termios.VEOL, termios.VEOL2),
    *(termios.VWERASE, termios.VLNEXT, termios.VREPRINT),
)
_DELETE = b"\x7f"
#: Variable with the token of the bridge (docs/containers.md). It is removed from the environment of programs.
BRIDGE_TOKEN = "PM_INTERACTIVE_TERMINAL_TOKEN"
#: Grace period between SIGHUP and SIGKILL, seconds.
HANGUP_GRACE_S = 2.0
#: Time within which the last output arrives after the program has ended (seconds).
LAST_OUTPUT_S = 0.25
#: How long processes may take to end after the program, and how often this is checked (seconds).
LEFT_GRACE_S = 0.5
LEFT_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The program to start. `argv` None starts the user's shell interactively; `env` is added to the caller's environment."""

    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None


def user_shell() -> str:
    """Return $SHELL; the fallbacks are the password database and /bin/sh."""
    shell = environment().get("SHELL")
    if not shell:
        with contextlib.suppress(KeyError):
            shell = pwd.getpwuid(os.getuid()).pw_shell
    return shell or "/bin/sh"


class LocalProgram(Channel):
    """The channel of a local program: reads directly into the receiver's buffer whenever the kernel has data.

    A subclass connects the program to a PTY or to pipes.
    """

    protocol = "local"

    def __init__(self, options: LocalOptions, pty: Pty) -> None:
        self._options = options
        self._pty = pty
        #: The descriptor that output is read from; -1 before the start and after the end.
        self._output = -1
        self.pid = 0
        self._pidfd = -1
        self._receiver: Receiver | None = None
        self._reason: ChannelError | None = None
        #: Cleared while tasks wait for the kernel to accept bytes.
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._output_ended = False
        self._received = 0

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._start()
        loop = asyncio.get_running_loop()
        if self._pidfd >= 0:
            loop.add_reader(self._pidfd, self._reap)
        loop.add_reader(self._output, self._read_ready)

    def _start(self) -> None:
        """Start the program. Raises InvalidOption, ConnectFailed."""
        argv = self._options.argv or (user_shell(),)
        has_cwd = self._options.cwd is not None or current_caller() is not None
        cwd = absolute_path(self._options.cwd or ".") if has_cwd else None
        if cwd is not None and not is_directory(Path(cwd)):
            raise InvalidOption(f"cwd {cwd} is no directory on this machine", hint="give an existing directory")
        env = {**environment(), "TERM": self._pty.term, **(self._options.env or {})}
        env.pop("COLUMNS", None)
        env.pop("LINES", None)
        env.pop(BRIDGE_TOKEN, None)
        try:
            self._spawn(argv, cwd, env)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ConnectFailed(
                f"cannot start {argv[0]}: {why}", hint="check the path and its permissions", errno=error.errno
            ) from None
        self._pidfd = os.pidfd_open(self.pid)

    @abstractmethod
    def _spawn(self, argv: tuple[str, ...], cwd: str | None, env: Mapping[str, str]) -> None:
        """Start the program; set `pid` and the descriptors. Raises OSError."""

    @property
    @abstractmethod
    def _input(self) -> int:
        """The descriptor that input is written to."""

    def write(self, data: bytes) -> int:
        if self._reason is not None:
            raise self._reason
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._end(_broken(error)) from None

    async def drain(self) -> None:
        if self._reason is not None:
            raise self._reason
        if self._writable.is_set():
            self._writable.clear()
            asyncio.get_running_loop().add_writer(self._input, self._write_ready)
        await self._writable.wait()
        if self._reason is not None:
            raise self._reason

    def has_unread_output(self) -> bool:
        if self._output < 0:
            return False
        poll = select.poll()  # the kernel passes output on in a work queue, which poll(2) waits for and epoll(7) does not
        poll.register(self._output, select.POLLIN)
        return bool(poll.poll(0))

    async def read_pending(self) -> None:
        self.has_unread_output()
        await super().read_pending()

    async def close(self, *, force: bool = False) -> None:
        self._end(ChannelClosed("the session was closed from this side"))
        if not self.pid:
            return
        if not self._exited.is_set():
            self._signal(signal.SIGKILL if force else signal.SIGHUP)
            try:
                await asyncio.wait_for(self._exited.wait(), HANGUP_GRACE_S)
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self._exited.wait()
        await self._end_processes(force)

    async def _end_processes(self, force: bool) -> None:
        """Wait for the remaining processes of the program, and kill them with `force`."""
        deadline = asyncio.get_running_loop().time() + LEFT_GRACE_S
        while self.left_running and asyncio.get_running_loop().time() < deadline:
            for process in self.left_running if force else ():
                with contextlib.suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)
            await asyncio.sleep(LEFT_POLL_S)
            left = {(process.pid, process.started) for process in self.left_running}
            running = processes_of_session(self.pid)
            self.left_running = tuple(process for process in running if (process.pid, process.started) in left)

    def _read_ready(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - a bug in the receiver: it would get no more output, or lose some
            self._end(receiver_failed(error))

    def _read(self) -> None:
        assert self._receiver is not None
        end = time.perf_counter() + READ_S
        for number in range(READS_PER_CALLBACK):
            if self._output < 0 or (number and time.perf_counter() > end):
                return
            try:
                count = os.readv(self._output, [self._receiver.get_buffer()])
            except BlockingIOError:
                return
            except OSError as error:
                # EIO: the last slave is closed, and all output has been read (Linux pty(7)).
                ended = error.errno == errno.EIO
                self._finish(None if ended else _broken(error))
                return
            if not count:
                self._finish(None)
                return
            self._received += count
            self._receiver.buffer_updated(count)

    def _finish(self, reason: ChannelError | None) -> None:
        """Handle the end of the output. The end is reported together with the exit status, once that is available."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._output)
        if reason is None and not self._exited.is_set():
            # The slave closes before the process can be reaped. A process may also close its terminal and continue to run.
            loop.call_later(HANGUP_GRACE_S, self._end, _ended(None))
            self._output_ended = True
        else:
            self._end(reason or _ended(self.exit_status))

    def _end(self, reason: ChannelError) -> ChannelError:
        if self._reason is None:
            self._reason = reason
            loop = asyncio.get_running_loop()
            if self._output >= 0:
                loop.remove_reader(self._output)
                loop.remove_writer(self._input)
                self._close_descriptors()
            self._writable.set()
            if self._receiver is not None:
                end_receiver(self._receiver, reason)
        return self._reason

    def _close_descriptors(self) -> None:
        os.close(self._output)
        self._output = -1

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        with contextlib.suppress(ChildProcessError):  # an adopted program is the child of another process
            _, status = os.waitpid(self.pid, 0)
            self.exit_status = _exit_status(os.waitstatus_to_exitcode(status))
        self._exited.set()
        self.left_running = tuple(processes_of_session(self.pid))
        if self._output_ended:  # otherwise unread output may remain
            self._end(_ended(self.exit_status))
        else:
            self._end_when_read(-1)

    def _end_when_read(self, received: int) -> None:
        """End the channel once no more output arrives: a process in the background may keep the terminal open (pty(7))."""
        if self._reason is None and received == self._received and not self.has_unread_output():
            self._end(_ended(self.exit_status))
        elif self._reason is None:
            asyncio.get_running_loop().call_later(LAST_OUTPUT_S, self._end_when_read, self._received)

    def _write_ready(self) -> None:
        asyncio.get_running_loop().remove_writer(self._input)
        self._writable.set()

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the program's process group, which it leads."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class LocalChannel(LocalProgram):
    """The channel of a program on a PTY."""

    @classmethod
    def adopt(cls, master: int, pty: Pty) -> Self:
        """Return a channel for the PTY of a program that an earlier process started. The program may have ended since."""
        channel = cls(LocalOptions(), pty)
        channel._output = master
        return channel

    @property
    def terminal_fd(self) -> int | None:
        return self._master if self._master >= 0 else None

    def _start(self) -> None:
        if self._output < 0:
            super()._start()
        else:
            os.set_blocking(self._master, False)
            self._find_session_leader()

    def _spawn(self, argv: tuple[str, ...], cwd: str | None, env: Mapping[str, str]) -> None:
        self.pid, self._output = start_process(argv, cwd, env, self._pty.cols, self._pty.rows, umask=umask())

    @property
    def _input(self) -> int:
        return self._master

    @property
    def _master(self) -> int:
        """The PTY master, for output and input."""
        return self._output

    def _find_session_leader(self) -> None:
        """Find the program of an adopted PTY. It is not a child of this process, so its exit status is not available."""
        with contextlib.suppress(OSError):  # It has ended; its remaining output can still be read.
            leader = self._session_leader()
            self._pidfd = os.pidfd_open(leader)
            self.pid = leader
        if not self.pid:
            self._exited.set()

    def _session_leader(self) -> int:
        sid = array.array("i", [0])
        fcntl.ioctl(self._master, _TIOCGSID, sid)
        return sid[0]

    @property
    def program(self) -> str | None:
        """Path of the program, as the kernel reports it; None if the program has ended."""
        try:
            return str(Path(f"/proc/{self._session_leader()}/exe").readlink())
        except OSError:
            return None

    @property
    def echo_off(self) -> bool:
        flags = self._local_modes()
        return bool(flags & termios.ICANON) and not flags & termios.ECHO

    @property
    def canonical(self) -> bool | None:
        return bool(self._local_modes() & termios.ICANON)

    @property
    def kill_key(self) -> bytes:
        try:
            _, _, _, local_modes, _, _, characters = termios.tcgetattr(self._master)
        except (termios.error, ValueError):
            return b""
        key = characters[termios.VKILL]
        return key if local_modes & termios.ICANON and key != _DISABLED else b""

    @property
    def rewrites_input(self) -> bool:
        try:
            modes, _, _, local_modes, _, _, characters = termios.tcgetattr(self._master)
        except (termios.error, ValueError):  # the terminal is closed: what it would do is not known
            return True
        is_canonical = bool(local_modes & termios.ICANON)
        if modes & _REWRITING or any(_is_text(characters[index]) for index in (*_TAKEN, *(_EDITING if is_canonical else ()))):
            return True
        # line editors read a carriage return, and zsh exchanges it with a line feed
        return is_canonical and modes & (termios.ICRNL | termios.INLCR) != termios.ICRNL

    def leads_foreground(self) -> bool | None:
        try:
            return os.tcgetpgrp(self._master) == self.pid
        except OSError:
            return None

    def foreground_program(self) -> tuple[int, str] | None:
        with contextlib.suppress(OSError):
            leader = os.tcgetpgrp(self._master)
            return leader, program_name(leader)
        return None

    def foreground_directory(self) -> str | None:
        with contextlib.suppress(OSError):
            return str(Path(f"/proc/{os.tcgetpgrp(self._master)}/cwd").readlink())
        return None

    def foreground_names(self) -> frozenset[str]:
        with contextlib.suppress(OSError):
            return names_of_group(os.tcgetpgrp(self._master))
        return frozenset()

    def foreground_has_executed(self) -> bool:
        try:
            return has_executed(os.tcgetpgrp(self._master))
        except (OSError, ValueError, IndexError):
            return True

    def reads_password(self) -> bool:
        program = self.foreground_program() if self.echo_off and not self._text_ends_line() else None
        if program is None or program[1] not in _ASK_PASSWORDS:
            return False
        return is_privileged_program(program[0]) and has_no_child(program[0])  # a program chooses its name

    def wakeups(self) -> int | None:
        try:
            return wakeups(os.tcgetpgrp(self._master))
        except (OSError, ValueError, IndexError, RecursionError):
            return None

    def wait_point(self) -> WaitPoint | None:
        with contextlib.suppress(OSError):
            return wait_point(os.tcgetpgrp(self._master))
        return None

    def reads_key(self) -> bool:
        with contextlib.suppress(OSError):
            return self.canonical is False and group_waits_for_keys(os.tcgetpgrp(self._master))
        return False

    def reads_line(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.canonical) and reads_terminal(os.tcgetpgrp(self._master))
        return False

    def input_is_read(self) -> bool | None:
        if self._master < 0:
            return None
        waiting = array.array("i", [0])
        try:
            slave = fcntl.ioctl(self._master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                fcntl.ioctl(slave, termios.FIONREAD, waiting)
            finally:
                os.close(slave)
            return waiting[0] == 0 and waits_for_input(os.tcgetpgrp(self._master))
        except OSError:
            return None

    def signal_foreground(self, number: signal.Signals) -> bool:
        with contextlib.suppress(OSError):
            group = os.tcgetpgrp(self._master)
            if group not in (0, self.pid):  # ending the shell would end the session
                os.killpg(group, number)
                return True
        return False

    def resize(self, cols: int, rows: int) -> None:
        if self._master >= 0:
            set_window_size(self._master, cols, rows)

    def _text_ends_line(self) -> bool:
        """Return whether `stty` has assigned a printable character to end a line or to signal the program."""
        try:
            characters = termios.tcgetattr(self._master)[6]
        except termios.error:
            return True
        return any(characters[index] >= b" " for index in _ENDING)

    def _local_modes(self) -> int:
        """Return the local mode flags of termios(3), 0 after the end of the terminal."""
        if self._master < 0:
            return 0
        try:
            return int(termios.tcgetattr(self._master)[3])
        except termios.error:
            return 0


def _exit_status(code: int) -> ExitStatus:
    if code >= 0:
        return ExitStatus(code=code)
    return ExitStatus(signal=signal.Signals(-code).name.removeprefix("SIG"))


def _ended(status: ExitStatus | None) -> ChannelEnded:
    if status is None:
        return ChannelEnded("the program closed its terminal")
    how = f"was killed by SIG{status.signal}" if status.signal else f"exited with {status.code}"
    return ChannelEnded(f"the program {how}")


def _is_text(character: bytes) -> bool:
    return character >= b" " and character != _DELETE


def _broken(error: OSError) -> ChannelBroken:
    return ChannelBroken(f"the terminal failed: {error.strerror}", errno=error.errno)
