"""Local processes: start a program on a new PTY, and manage the limit on open files."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import shutil
import signal
import stat
import struct
import termios
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: termios IUTF8 (Linux): the line discipline erases whole UTF-8 characters. Python defines no name for it.
_IUTF8 = 0o40000
#: Signals reset to their default action: Python ignores SIGPIPE, and nohup(1) makes its children ignore SIGHUP.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGXFSZ)

#: prctl(2), and proc(5): positions of env_start and env_end after the command in /proc/PID/stat.
_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
#: proc(5): position of startstack after the command in /proc/PID/stat.
_START_STACK = 25


@dataclass(frozen=True, slots=True)
class _SystemCalls:
    """Numbers of system calls.

    Attributes:
        read: read(2).
        polls: select(2), pselect6(2), poll(2), ppoll(2), epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2); also
            restart_syscall(2), which continues a poll after the process was stopped.
        waits: wait4(2), waitid(2), rt_sigsuspend(2) and rt_sigtimedwait(2).
        futex: futex(2). fish waits there for its own threads, for example while it completes a word.
    """

    read: int = -1
    polls: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    futex: int = -1


_GENERIC_CALLS = _SystemCalls(63, (72, 73, 22, 441, 128), (260, 95, 133, 137), 98)
_SYSTEM_CALLS = {
    "x86_64": _SystemCalls(0, (23, 270, 7, 271, 232, 281, 441, 219), (61, 247, 130, 128), 202),
    "aarch64": _GENERIC_CALLS,
    "riscv64": _GENERIC_CALLS,
    "loongarch64": _GENERIC_CALLS,
}.get(platform.machine(), _SystemCalls())

#: Folders of programs that are installed with the privileges of root; the last one is that of sudo-rs.
SYSTEM_FOLDERS = frozenset(
    ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/lib/cargo/bin")
)
#: Connections of one kind may use at most this share of the process's descriptors.
DESCRIPTOR_SHARE = 4

#: RLIMIT_NOFILE before `raise_open_file_limit`.
_original_file_limits: list[tuple[int, int]] = []


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process. Its start, in clock ticks since boot, distinguishes it from a later one with the same pid (proc(5))."""

    pid: int
    started: int
    command: str


#: Flag of a process in /proc/PID/stat (include/linux/sched.h): it has not called execve(2) since it was forked.
_PF_FORKNOEXEC = 0x40


def processes_of_session(leader: int) -> list[RunningProcess]:
    """Return the processes of a POSIX session, without its leader and those that have ended."""
    found = []
    for entry in os.scandir("/proc"):
        pid = int(entry.name) if entry.name.isdigit() else leader
        with suppress(OSError):
            if pid != leader and os.getsid(pid) == leader:  # much cheaper than a read of each process's files
                found += _running_process(pid)
    return found


def names_of_group(group: int) -> frozenset[str]:
    """Return the names of the programs of a process group: its leader may have ended before the others."""
    names = set[str]()
    for entry in os.scandir("/proc"):
        with suppress(OSError):
            if entry.name.isdigit() and os.getpgid(pid := int(entry.name)) == group:
                names.add(program_name(pid))
    return frozenset(names)


def group_waits_for_keys(group: int) -> bool:
    """Return whether a process of a process group waits in a read(2) of a terminal, or for several descriptors.

    A pager is not the leader of its group: behind a pipe, or as the child of `git log`.
    """
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):  # it has ended
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == group and wait_point(int(entry.name)) is not None:
                    return True
    return False


def processes_with_variable(name: str, value: str) -> list[RunningProcess]:
    """Return the processes of this user that were started with an environment variable, and have not ended.

    Reads a file of each process. A program that is started with another environment (`env -i`, sudo) is not found.
    """
    found, variable = [], f"\0{name}={value}\0".encode("utf-8", "surrogateescape")
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # ended, or of another user
            if entry.name.isdigit() and variable in b"\0" + Path(f"/proc/{entry.name}/environ").read_bytes() + b"\0":
                found += _running_process(int(entry.name))
    return found


def _running_process(pid: int) -> list[RunningProcess]:
    """Return a process, or none if it has ended and was not waited for. Raises OSError."""
    fields = _stat(pid)
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return [RunningProcess(pid, int(fields[19]), command)] if fields[0] not in "ZX" else []


def start_process(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str], cols: int, rows: int, umask: int | None
) -> tuple[int, int]:
    """Start a program as the leader of a new session on a new PTY; return its pid and the PTY master.

    The master is non-blocking and close-on-exec: a program that inherited it would keep this terminal open.

    Raises:
        OSError: the program cannot be started.
    """
    master, slave = os.openpty()
    try:
        os.set_blocking(master, False)
        set_window_size(master, cols, rows)
        attributes = termios.tcgetattr(slave)
        attributes[0] |= _IUTF8
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        # Opening a terminal makes it the controlling terminal of a session leader without one (Linux; optional in POSIX).
        streams: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        return _spawn(argv, cwd, env, umask, streams), master
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)


def start_process_on_pipes(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str], umask: int | None = None
) -> tuple[int, int, int, int]:
    """Start a program as the leader of a new session without a terminal.

    Returns the pid, and this process's ends of stdin, stdout and stderr, which are non-blocking and close-on-exec.

    Raises:
        OSError: the program cannot be started.
    """
    ours, theirs = list[int](), list[int]()
    try:
        for stream in range(3):
            read_end, write_end = os.pipe()
            ours.append(write_end if stream == 0 else read_end)
            theirs.append(read_end if stream == 0 else write_end)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        # Above the targets, so that no dup2 overwrites a descriptor that a later one needs, and that dup2 clears close-on-exec.
        high = list[int]()
        for descriptor in theirs[:3]:
            high.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3))
            theirs.append(high[-1])  # closed also if the next one fails
        streams = [(os.POSIX_SPAWN_DUP2, descriptor, target) for target, descriptor in enumerate(high)]
        pid = _spawn(argv, cwd, env, umask, streams)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return pid, ours[0], ours[1], ours[2]


def _spawn(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str], umask: int | None, streams: Sequence[tuple[Any, ...]]
) -> int:
    """Start a program as the leader of a new session and return its pid. `streams`: how posix_spawn opens its files.

    posix_spawn is safe with threads and, unlike fork, reports why exec failed. Raises OSError.
    """
    program = _find_program(argv[0], env)
    if cwd is not None or umask is not None:
        argv = _shell_wrapper(cwd or ".", umask, program, argv[1:])
        program = argv[0]
    pid = os.posix_spawn(program, list(argv), env, setsid=True, file_actions=streams, setsigmask=(), setsigdef=_DEFAULT_SIGNALS)
    _restore_open_file_limit(pid)
    return pid


def _shell_wrapper(cwd: str, umask: int | None, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the argv of a shell that sets directory and umask, which posix_spawn cannot, and then execs the program."""
    set_umask = "" if umask is None else f"umask {umask:04o} && "
    return ("/bin/sh", "-c", set_umask + 'cd -- "$0" && exec "$@"', cwd, program, *arguments)


def set_window_size(fd: int, cols: int, rows: int) -> None:
    """Set the window size (TIOCSWINSZ); the kernel sends SIGWINCH to the foreground group if it has changed."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _find_program(name: str, env: Mapping[str, str]) -> str:
    found = shutil.which(name, path=env.get("PATH"))
    if found is not None:
        return found
    exists = os.path.lexists(name) if os.sep in name else False
    raise OSError(errno.EACCES if exists else errno.ENOENT, os.strerror(errno.EACCES if exists else errno.ENOENT), name)


def forget_variables(names: Collection[str]) -> None:
    """Remove variables from this process's environment, and from the memory that /proc/PID/environ shows."""
    for name in names:
        os.environ.pop(name, None)
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    address, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    forgotten = {os.fsencode(name) for name in names}
    for entry in ctypes.string_at(address, end - address).split(b"\0"):
        if entry.partition(b"=")[0] in forgotten:
            ctypes.memset(address, 0, len(entry))
        address += len(entry) + 1


def forbid_dumps() -> None:
    """Deny other processes of the user access to this process's memory, and disable core dumps: it holds secrets."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def raise_open_file_limit() -> None:
    """Raise the soft limit on open files (RLIMIT_NOFILE) of this process to the hard limit.

    A session holds several files: the usual soft limit of 1024 is enough for about 200 sessions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _original_file_limits[:] = _original_file_limits or [(soft, hard)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_of_descriptors(maximum: int) -> int:
    """Return a number of connections: `maximum`, but at most a quarter of the descriptors that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return maximum if soft == resource.RLIM_INFINITY else max(min(soft // DESCRIPTOR_SHARE, maximum), 1)


def _restore_open_file_limit(pid: int) -> None:
    """Give a started program the original limit: some programs allocate or close every descriptor up to it."""
    with suppress(OSError):  # the program has ended already
        for limits in _original_file_limits:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def _proc_file(pid: int, name: str) -> str:
    """Return a small file of a process. Raises OSError.

    It is called for each command, and for each line that is typed: a Path would take several times as long as the kernel.
    """
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 64 * 1024).decode("utf-8", "replace")
    finally:
        os.close(file)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal or a debugger (proc(5), states T and t)."""
    try:
        return _stat(pid)[0] in ("T", "t")
    except OSError:  # it has ended
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command, which may contain any character. Raises OSError."""
    return _proc_file(pid, "stat").rpartition(")")[2].split()


def _system_call(pid: int) -> tuple[int, list[str]] | None:
    """Return the number and the arguments of the system call that a process is in; None while it runs. Raises OSError."""
    number, *arguments = _proc_file(pid, "syscall").split() or [""]
    return (int(number), arguments) if number.isdecimal() else None


def program_name(pid: int) -> str:
    """Return the name of the program of a process (`comm`). Raises OSError."""
    return _proc_file(pid, "comm").strip()


def wakeups(pid: int) -> int:
    """Return the number of voluntary context switches of a process and of its children in the same process group.

    Raises:
        OSError: the process has ended.
    """
    threads = [_proc_file(pid, f"task/{task}/status") for task in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    group = os.getpgid(pid)
    count = sum(int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0]) for status in threads)
    return count + sum(wakeups(child) for child in _children(pid) if os.getpgid(child) == group)


def has_executed(pid: int) -> bool:
    """Return whether a process has called execve(2) since it was forked.

    Raises:
        OSError: the process has ended.
    """
    return not int(_stat(pid)[6]) & _PF_FORKNOEXEC


def _children(pid: int) -> list[int]:
    """Return the children of a process; none if the kernel does not list them."""
    try:
        return [int(child) for child in _proc_file(pid, f"task/{pid}/children").split()]
    except OSError:
        return []


def has_no_child(pid: int) -> bool:
    """Return whether a process has no child; False if that cannot be read."""
    try:
        return not _proc_file(pid, f"task/{pid}/children").split()
    except OSError:
        return False


def is_privileged_program(pid: int) -> bool:
    """Return whether a process runs a set-user-ID program of root, in a system folder, with its privileges.

    False if that is not known.
    """
    if _effective_user(pid) != 0:
        return False
    try:
        executable = Path(f"/proc/{pid}/exe").stat()
    except PermissionError:  # the kernel hides the program of a process with the privileges of another user
        return os.geteuid() != 0 and _effective_user(_parent(pid)) not in (0, None)
    except OSError:
        return False
    is_of_root = executable.st_uid == 0 and bool(executable.st_mode & stat.S_ISUID)
    return is_of_root and _is_installed(Path(f"/proc/{pid}/exe"), executable)


def _is_installed(link: Path, executable: os.stat_result) -> bool:
    """Return whether a program is the file at its path, in a folder of system programs that only root can write.

    Root may have copied a shell to another folder, and a process may see other files at the same path.
    """
    with suppress(OSError):
        path = link.readlink()
        if str(path.parent) not in SYSTEM_FOLDERS:
            return False
        installed, folder = path.stat(), path.parent.stat()
        is_same = (installed.st_dev, installed.st_ino) == (executable.st_dev, executable.st_ino)
        return is_same and folder.st_uid == 0 and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return False


def _parent(pid: int | None) -> int | None:
    """Return the parent of a process; None if that is not known."""
    values = _status(pid, "PPid")
    return int(values[0]) if values else None


def _effective_user(pid: int | None) -> int | None:
    """Return the effective user of a process; None if that is not known."""
    values = _status(pid, "Uid")  # not the owner of /proc/PID, which is root for each program that its user may not read
    return int(values[1]) if values else None


def _status(pid: int | None, field: str) -> list[str]:
    """Return the values of a field in /proc/PID/status; none if that cannot be read."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith(f"{field}:"):
                return line.split()[1:]
    return []


def _is_terminal(pid: int, descriptor: str) -> bool:
    """Return whether a descriptor of a process, in hexadecimal, is a terminal. Raises OSError."""
    return os.readlink(f"/proc/{pid}/fd/{int(descriptor, 16)}").startswith(("/dev/pts/", "/dev/tty"))  # noqa: PTH115


def _is_terminal_read(pid: int, number: int, arguments: Sequence[str]) -> bool:
    """Return whether a system call is a read(2) of a terminal. Raises OSError."""
    return number == _SYSTEM_CALLS.read and _is_terminal(pid, arguments[0])


def reads_terminal(pid: int) -> bool:
    """Return whether the kernel reports a process in read(2) on a terminal; not for a process that polls the terminal."""
    try:
        call = _system_call(pid)
        return call is not None and _is_terminal_read(pid, *call)
    except (OSError, ValueError, IndexError):  # ended, or not permitted
        return False


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """Where a process waits for input.

    The stack pointer depends on the calls that are in progress: a shell that reads in a command is deeper in its program, or in
    another part of it, than at its prompt. `stack` is the start of the stack, which execve(2) replaces.
    """

    pid: int
    stack: int
    stack_pointer: int

    def is_of_same_program(self, other: WaitPoint) -> bool:
        """Return whether both points are of one process that has not executed another program in between."""
        return (self.pid, self.stack) == (other.pid, other.stack)


def wait_point(pid: int) -> WaitPoint | None:
    """Return where a process waits in a read(2) of a terminal, or for several descriptors; None otherwise, and if unknown.

    Other system calls, such as a write(2) or an ioctl(2), may also wait for a moment on a busy machine.
    """
    try:
        if (call := _system_call(pid)) is None:
            return None
        number, arguments = call
        if number not in _SYSTEM_CALLS.polls and not _is_terminal_read(pid, number, arguments):
            return None
        return WaitPoint(pid, int(_stat(pid)[_START_STACK]), int(arguments[-2], 16))
    except (OSError, ValueError, IndexError):  # ended, not permitted, or not reported by this kernel
        return None


def waits_for_input(pid: int) -> bool:
    """Return whether a process waits for input: it sleeps, but not for a working child of its process group.

    fish that waits for its threads is not waiting for input.

    Raises:
        OSError: the process has ended.
    """
    name, _, fields = _proc_file(pid, "stat").rpartition(")")
    state, _, group = fields.split()[:3]
    if state != "S":
        return False
    calls = _SYSTEM_CALLS
    try:
        if (call := _system_call(pid)) is None:  # it has begun to run since its state was read, or waits for memory
            return False
        number, arguments = call
        if number == calls.futex and name.endswith("(fish"):
            return False
        if (number not in calls.waits and number != calls.read) or _is_terminal_read(pid, number, arguments):
            return True
    except OSError:  # not permitted
        return True
    try:
        return all(os.getpgid(child) != int(group) or waits_for_input(child) for child in _children(pid))
    except OSError:  # a child has ended
        return False
