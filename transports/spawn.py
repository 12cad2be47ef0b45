"""Starts a program as the leader of a new session on a new PTY."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import struct
import termios
from collections.abc import Mapping, Sequence

from . import open_files

#: termios IUTF8 (Linux): line editing in the kernel erases whole characters. Python does not name it.
_IUTF8 = 0o40000
#: Dispositions that a new program must not inherit: Python ignores SIGPIPE, and a caller may have been started by nohup.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ)


def spawn(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str], cols: int, rows: int, umask: int | None = None
) -> tuple[int, int]:
    """Returns (pid, master). The master is non-blocking and close-on-exec, or a later program would keep this one alive.

    posix_spawn and not fork: it is safe beside other threads, and tells why an exec failed.

    Raises:
        OSError: the program cannot be started, with the reason.
    """
    program = _program(argv[0], env)
    if cwd is not None or umask is not None:
        argv = _within(cwd or ".", umask, program, argv[1:])
        program = argv[0]
    master, slave = os.openpty()
    try:
        os.set_blocking(master, False)
        set_winsize(master, cols, rows)
        attributes = termios.tcgetattr(slave)
        attributes[0] |= _IUTF8
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        pid = os.posix_spawn(
            program,
            list(argv),
            env,
            setsid=True,
            # a session leader's first terminal becomes its controlling one (Linux tty_ioctl(4), POSIX leaves it open)
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    open_files.as_before(pid)
    return pid, master


def _within(cwd: str, umask: int | None, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """posix_spawn can change neither the directory nor the umask; a shell that at once becomes the program can."""
    masked = "" if umask is None else f"umask {umask:04o} && "
    return ("/bin/sh", "-c", masked + 'cd -- "$0" && exec "$@"', cwd, program, *arguments)


def set_winsize(fd: int, cols: int, rows: int) -> None:
    """TIOCSWINSZ: the kernel sends SIGWINCH to the foreground group when the size has changed."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _program(name: str, env: Mapping[str, str]) -> str:
    found = shutil.which(name, path=env.get("PATH"))
    if found is not None:
        return found
    exists = os.path.lexists(name) if os.sep in name else False
    raise OSError(errno.EACCES if exists else errno.ENOENT, os.strerror(errno.EACCES if exists else errno.ENOENT), name)
