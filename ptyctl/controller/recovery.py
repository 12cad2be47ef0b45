"""Sessions of earlier processes: found by their files, restored as history, or resumed.

A descriptor store hands the PTYs of local sessions off to the next server, also from a server that is killed. One server at a
time owns all sessions in a state directory, by a lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import stat
import termios
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.session import GivenUp, PtyOptions
from ptyctl.files import NotRegularFileError, open_lock_file
from ptyctl.session.io.errors import OPEN_FILE_LIMITS
from ptyctl.session.io.output_stream import PersistentSecretsChanged
from ptyctl.session.session import Session, StateChanged
from ptyctl.session.spec import SPECS, Limits, Spec
from ptyctl.session.transcript.meta_file import is_number, read_given_up, read_meta
from ptyctl.session.transcript.recovery import TranscriptState, recover
from transports.channel import Pty
from transports.local import LocalChannel

#: A session id is the name of one folder. The pattern excludes path separators and "..".
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Appended to a session id to name its secrets in the store. A session id contains no space.
_SECRETS_SUFFIX = " secrets"
_LOG = logging.getLogger(__name__)
#: How long a new server waits for one that is closing its sessions (seconds).
_LOCK_WAIT_S = 3.0
_LOCK_POLL_S = 0.05
#: The largest number of columns or rows of a terminal (Linux: an unsigned 16-bit number).
_MAX_CELLS = 65_535


async def restore_session(sessions: Path, session_id: str, limits: Limits, *, hold: bool) -> Session | None:
    """Restore a session from its files, or return None if it has no folder.

    The session is `closed` if it was closed cleanly, and `lost` otherwise. With `hold` the files of a lost session stay locked
    for this process, so that it can be connected again. Without it they are released as soon as they are repaired.

    Raises:
        PtyctlError: POLICY_DENIED for files of another user or files that others can read; BUSY if another server holds the
            session; IO_ERROR.
    """
    folder = sessions / session_id
    if not _SESSION_ID.fullmatch(session_id) or (stored := await asyncio.to_thread(_load, folder, limits, hold=hold)) is None:
        return None
    session = await _create(folder, limits, stored, still_running=False)
    if session.held and not hold:
        session.release_files()
    return session


async def adopt_session(
    sessions: Path, session_id: str, limits: Limits, channel: LocalChannel, secrets: bytes = b""
) -> Session:
    """Restore a session as open on `channel`, whose program outlived the previous server process.

    Without a usable meta.json the session continues with default settings and without its lock.

    Args:
        secrets: text to mask in the output, one secret per line.

    Raises:
        PtyctlError: as `restore_session`; NOT_FOUND if its folder was removed.
    """
    folder = sessions / session_id
    stored = await asyncio.to_thread(_load, folder, limits, hold=True, terminal=channel)
    if stored is None:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"the folder {folder} does not exist")
    session = await _create(folder, limits, stored, still_running=True)
    session.stream.mask(secrets)
    if stored.damage is not None:
        session.notices.post(f"{stored.damage}: the session continues with default settings, and its lock was lost")
    try:
        await session.resume(channel, stored.transcript.running_block)
    except BaseException:
        session.release_files()
        raise
    return session


class SessionIndex:
    """Index of the sessions on disk, by (console device) and by (conversation, client).

    Built in a worker thread at first use, since there may be thousands; later uses read only new folders.
    """

    def __init__(self, sessions: Path) -> None:
        self._sessions = sessions
        self._indexed: set[str] = set()
        #: When each session was created, and its id.
        self._by_key: defaultdict[tuple[str | None, ...], list[tuple[int, str]]] = defaultdict(list)
        self._indexing = asyncio.Lock()

    async def of_device(self, device_id: str) -> str | None:
        """Return the id of a console's last session, or None if that was closed cleanly."""
        session_id, _ = await self._last_of_device(device_id)
        return session_id

    async def given_up(self, device_id: str) -> GivenUp | None:
        """Return why a console's last session is not connected automatically; see `Session.given_up`."""
        _, meta = await self._last_of_device(device_id)
        return read_given_up(meta)

    async def _last_of_device(self, device_id: str) -> tuple[str | None, dict[str, Any]]:
        """Return the id and meta.json of a console's last session, or None and nothing if that was closed cleanly."""
        for session_id in await self._find(device_id):
            stored_meta = await asyncio.to_thread(_load_meta, self._sessions / session_id)
            if stored_meta is not None:  # None: the folder was removed since it was indexed
                return (session_id, stored_meta) if stored_meta.get("state") != "closed" else (None, {})
        return None, {}

    async def of_conversation(self, conversation_id: str, client_id: str) -> list[str]:
        """Return the ids of a conversation's sessions, newest first."""
        return await self._find(conversation_id, client_id)

    async def inventory_consoles(self, age_s: float) -> list[str]:
        """Return the last session of each inventory console that was not closed cleanly and was alive `age_s` ago or later."""
        return await asyncio.to_thread(self._recent_consoles, time.time() - age_s)

    def _recent_consoles(self, since: float) -> list[str]:
        last: dict[str, str] = {}
        for meta_file in sorted(self._sessions.glob("*/meta.json")):  # oldest first, since an id begins with a time stamp
            stored_meta = _try_load_meta(meta_file.parent) if _modified_at(meta_file) >= since else None
            spec = stored_meta.get("spec") if stored_meta is not None and stored_meta.get("state") != "closed" else None
            if isinstance(spec, dict) and spec.get("device") is not None and spec.get("session_type") == "console":
                last[spec["device"]] = meta_file.parent.name
        return list(last.values())

    async def _find(self, *key: str) -> list[str]:
        async with self._indexing:
            await asyncio.to_thread(self._index_new_folders)
        return [session_id for _, session_id in sorted(self._by_key.get(key, ()), reverse=True)]  # newest first

    def _index_new_folders(self) -> None:
        for folder in self._sessions.iterdir() if self._sessions.is_dir() else ():
            if folder.name in self._indexed or (stored_meta := self._load_new_meta(folder)) is None:
                continue
            self._indexed.add(folder.name)
            spec = stored_meta.get("spec")
            if isinstance(spec, dict):
                entry = (stored_meta.get("created_at", 0), folder.name)
                self._by_key[(spec.get("device_id"),)].append(entry)
                self._by_key[spec.get("conversation_id"), spec.get("client_id", "")].append(entry)

    @staticmethod
    def _load_new_meta(folder: Path) -> dict[str, Any] | None:
        """Return the content of meta.json, or None if it cannot be read; the next call tries again.

        Raises:
            OSError: the limit of open files is reached, so newer sessions of a console could be missed.
        """
        try:
            return _load_meta(folder)
        except OSError as error:
            if error.errno in OPEN_FILE_LIMITS:
                raise
            return None


def find_session_folder(sessions: Path, name: str) -> Path:
    """Return the folder of the session that a user's `name` means.

    `name` is a session id, a unique part of one, or a console's or device's name (its last session).

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT if `name` is part of several ids.
    """
    folders = list(sessions.glob("[!.]*"))
    found = [folder for folder in folders if folder.name == name]
    found = found or [folder for folder in folders if name and name in folder.name]
    found = found or _last_of_device(folders, name)
    if len(found) > 1:
        ids = ", ".join(sorted(folder.name for folder in found))
        raise invalid(f"{name} is part of {len(found)} session ids: {ids}", hint="give more of the id")
    if not found:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"there is no stored session {name}", {"session_id": name})
    return found[0]


class DescriptorStore(Protocol):
    """Holds duplicates of file descriptors by name in another process."""

    @property
    def is_running(self) -> bool:
        """Whether the store's process is up. Descriptors stored before it exited are lost."""
        ...

    def watch(self, on_exit: Callable[[], None]) -> None:
        """Call `on_exit` when the store's process has exited. Everything must then be stored again."""
        ...

    def store(self, name: str, descriptor: int) -> None:
        """Store a duplicate of a descriptor, which replaces a descriptor with the same name.

        Raises:
            OSError: the store cannot be started.
        """
        ...

    def remove(self, name: str) -> None:
        """Close the store's duplicate of the descriptor `name`, if there is one."""
        ...

    def retrieve_all(self) -> dict[str, int]:
        """Return duplicates of all descriptors that earlier processes stored."""
        ...


class SessionHandOff:
    """Stores the PTY of each local session while it is open, and the secrets that it masks in its output until it is closed.

    Secrets are stored in anonymous memory and never in a file. The next server masks them too, also in consoles that are
    connected again later.
    """

    def __init__(self, store: DescriptorStore) -> None:
        self._store = store
        #: The secrets of each session, one per line.
        self._secrets: dict[str, bytes] = {}
        self._open: dict[str, Session] = {}

    def watch(self, session: Session) -> None:
        """Keep the store up to date with the state of the session, and let the session mask its stored secrets."""
        session_id, stream = session.session_id, session.stream
        session.subscribe(StateChanged, lambda event: self._state_changed(event.session))
        if session.held:
            stream.mask(self._secrets.get(session_id, b""))
            stream.subscribe(PersistentSecretsChanged, lambda event: self._store_secrets(session_id, event.secrets))
            if stream.persistent_secrets:  # typed before, for example at the login
                self._store_secrets(session_id, stream.persistent_secrets)
        self._state_changed(session)

    def adopt_sessions(
        self, sessions: Callable[[], Path], limits: Limits, add: Callable[[Session], Awaitable[None]]
    ) -> dict[str, Coroutine[Any, Any, Session | None]]:
        """Return coroutines that resume the sessions of stored PTYs, with the same programs as before.

        They can run at the same time: a session whose files take long to read does not keep the others waiting.

        Args:
            sessions: returns the folder of all sessions. It is called only if there is a stored PTY, since it raises where the
                folder is not usable.
            add: called with each session.
        """
        descriptors = self._store.retrieve_all()
        for name in [name for name in descriptors if name.endswith(_SECRETS_SUFFIX)]:
            with os.fdopen(descriptors.pop(name), "rb") as memory:
                memory.seek(0)
                self._secrets[name.removesuffix(_SECRETS_SUFFIX)] = memory.read()
        self._store.watch(self._store_all)
        return {session_id: self._adopt(session_id, pty, sessions, limits, add) for session_id, pty in descriptors.items()}

    async def _adopt(
        self,
        session_id: str,
        pty: int,
        sessions: Callable[[], Path],
        limits: Limits,
        add: Callable[[Session], Awaitable[None]],
    ) -> Session | None:
        """Resume one session. None without success: its program ends, unless another server has it or the fault is ours."""
        try:
            channel, secrets = LocalChannel.adopt(pty, Pty()), self._secrets.get(session_id, b"")
            session = await adopt_session(sessions(), session_id, limits, channel, secrets)
            await add(session)
        except PtyctlError as error:
            _LOG.warning("cannot resume a session", extra={"session_id": session_id, "why": error.message})
            os.close(pty)
            if error.code is not ErrorCode.BUSY:  # BUSY: another server uses the session now, and may end before us
                self._store.remove(session_id)  # the session is unknown, so its program gets a hang-up
            return None
        except Exception:  # noqa: BLE001 - a fault in one session must not keep the server from starting
            _LOG.exception("cannot resume a session; its program continues", extra={"session_id": session_id})
            return None
        return session

    def drop_all_secrets(self) -> None:
        """Remove the secrets of all sessions, which were closed cleanly."""
        for session_id in list(self._secrets):
            self._drop_secrets(session_id)

    def _drop_secrets(self, session_id: str) -> None:
        if self._secrets.pop(session_id, None) is not None:
            self._store.remove(session_id + _SECRETS_SUFFIX)

    def _state_changed(self, session: Session) -> None:
        if session.state == "closed":
            self._drop_secrets(session.session_id)
        if session.state != "open":
            self._open.pop(session.session_id, None)
            self._store.remove(session.session_id)
        elif session.channel is not None and session.channel.terminal_fd is not None:
            self._open[session.session_id] = session
            self._store_terminals([session] if self._store.is_running else list(self._open.values()))

    def _store_all(self) -> None:
        """Store everything again: the store has ended, and a new one is started on first use."""
        for session_id, secrets in self._secrets.items():
            self._store_secrets(session_id, secrets)
        self._store_terminals(list(self._open.values()))

    def _store_secrets(self, session_id: str, secrets: bytes) -> None:
        self._secrets[session_id] = secrets
        memory = os.memfd_create("ptyctl")
        try:
            os.write(memory, secrets)
            self._store.store(session_id + _SECRETS_SUFFIX, memory)
        except OSError as error:
            _LOG.warning("the next server will not mask this session's secrets", extra={"why": str(error)})
        finally:
            os.close(memory)

    def _store_terminals(self, sessions: list[Session]) -> None:
        for session in sessions:
            terminal = session.channel.terminal_fd if session.channel is not None else None
            try:
                if terminal is not None:
                    self._store.store(session.session_id, terminal)
            except OSError as error:
                _LOG.warning("a local session will not survive the end of this server", extra={"why": str(error)})


class StateLock:
    """A lock (flock(2)) on a file, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    async def acquire(self) -> None:
        """Take the lock; wait shortly for a server that is about to end.

        Raises:
            PtyctlError: BUSY, naming the process that holds the lock; IO_ERROR.
        """
        try:
            fd = open_lock_file(self._path)
        except OSError as error:
            message, hint = (
                f"{self._path} cannot be opened: {error.strerror}",
                "make the state directory writable for this user",
            )
            raise PtyctlError(ErrorCode.IO_ERROR, message, hint=hint) from None
        try:
            await self._acquire(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    async def _acquire(self, fd: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() >= deadline:
                    raise self._busy() from None
                await asyncio.sleep(_LOCK_POLL_S)
            else:
                return

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _busy(self) -> PtyctlError:
        return PtyctlError(
            ErrorCode.BUSY,
            f"another server owns the sessions in {self._path.parent}: {_describe_lock_holder(self._path)}",
            hint="use that server or end it first, or set PTYCTL_STATE_DIR to another directory",
        )


def _try_load_meta(folder: Path) -> dict[str, Any] | None:
    """Return the content of meta.json, or None if it cannot be read."""
    try:
        return _load_meta(folder)
    except OSError:
        return None


def _load_meta(folder: Path) -> dict[str, Any] | None:
    """Return the content of meta.json; None if it is missing, damaged or another user's.

    Raises:
        OSError: it cannot be read now, for example at the limit of open files. An older session must not take its place.
    """
    try:
        return read_meta(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
        return None


def _last_of_device(folders: list[Path], name: str) -> list[Path]:
    metas = ((_try_load_meta(folder) or {}, folder) for folder in folders)
    named = [
        (meta.get("created_at", 0), folder) for meta, folder in metas if name in (meta.get("device_id"), meta.get("device"))
    ]
    return [folder for _, folder in sorted(named)[-1:]]


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # removed in the meantime


class _LoadedSession(NamedTuple):
    """What a session's files hold. `damage`: what is wrong with meta.json, if `meta` is a substitute for it."""

    spec: Spec
    meta: dict[str, Any]
    transcript: TranscriptState
    damage: str | None = None


def _load(folder: Path, limits: Limits, *, hold: bool, terminal: LocalChannel | None = None) -> _LoadedSession | None:
    """Check, repair and read a session's files. Blocks.

    Args:
        hold: whether the session may be connected again, if it was not closed.
        terminal: the terminal of its program, if that still runs.

    Without a usable meta.json, a session has default settings: it is no console and no conversation, and cannot be connected
    again. A folder without meta.json and without output is that of a session that was never opened.
    """
    if not os.path.lexists(folder):
        return None
    with _as_ptyctl_errors(folder):
        _check_permissions(folder)
        damage = None
        try:
            meta = _read_complete_meta(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            is_missing = isinstance(error, FileNotFoundError)
            if terminal is None and is_missing and not _has_output(folder):
                return None
            is_damaged = is_missing or not isinstance(error, OSError) or isinstance(error, NotRegularFileError)
            if terminal is None and not is_damaged:
                raise
            meta, damage = _substitute_meta(folder, terminal), f"{folder / 'meta.json'} was damaged or missing"
        read_only = not hold or meta["state"] == "closed"
        state = recover(folder, meta, limits.quota_bytes, read_only=read_only, still_running=terminal is not None)
        if damage is None:
            return _LoadedSession(SPECS.validate_python(meta["spec"]), meta, state)
        if not any(text.startswith("meta.json") for text in state.damage):
            state.damage.append("meta.json was damaged or missing: the session has default settings and no lock")
        has_marks = state.prompts.count > 0 and bool(state.nonces)
        spec = Spec("local", program=terminal.program if terminal else None, integrated=has_marks)
        return _LoadedSession(spec, meta, state, damage)


def _has_output(folder: Path) -> bool:
    """Return whether there is output, or something that is no file in its place."""
    try:
        status = (folder / "output.raw").lstat()
    except OSError:
        return False
    return status.st_size > 0 or not stat.S_ISREG(status.st_mode)


def _read_complete_meta(folder: Path) -> dict[str, Any]:
    """Return meta.json with everything that `Session.restore` needs. Raises ValueError, KeyError or TypeError otherwise."""
    meta = read_meta(folder)
    SPECS.validate_python(meta["spec"])
    numbers = [meta[name] for name in ("created_at", "last_activity_at", "bytes_sent", "fence")]
    numbers += [meta["pty"]["cols"], meta["pty"]["rows"]]
    texts = [meta["state"]]
    if meta["state"] == "closed":
        texts.append(meta["closed_reason"])
    if "lock_holder" in meta:
        numbers += [meta["lock_until"], meta["lock_expires_at"]]
        texts += [meta["lock_holder"], meta["lock_clock"], meta.get("lock_principal", "")]
    is_size = 0 < meta["pty"]["cols"] <= _MAX_CELLS and 0 < meta["pty"]["rows"] <= _MAX_CELLS
    if not all(map(is_number, numbers)) or not all(isinstance(text, str) for text in texts) or not is_size:
        raise TypeError("a field has another type")
    if not all(is_number(meta.get(name, 0)) for name in ("incarnation", "bytes_received", "spool_size")):
        raise TypeError("a field has another type")
    return meta


def _substitute_meta(folder: Path, terminal: LocalChannel | None) -> dict[str, Any]:
    """Return metadata for a session without a usable meta.json; with a terminal, for a local one that still runs.

    The fence is a time in milliseconds: larger than any that the session has counted up to.
    """
    rows, cols = PtyOptions().rows, PtyOptions().cols
    if terminal is not None:
        assert terminal.terminal_fd is not None
        rows, cols = termios.tcgetwinsize(terminal.terminal_fd)
    now = int(time.time() * 1000)
    used = now if terminal is not None else int(_modified_at(folder / "output.raw") * 1000)
    return {
        "created_at": used,
        "last_activity_at": used,
        "bytes_sent": 0,
        "fence": now,
        "pty": {"cols": cols, "rows": rows},
        "state": "open" if terminal is not None else "lost",
    }


async def _create(folder: Path, limits: Limits, stored: _LoadedSession, *, still_running: bool) -> Session:
    """Create the session. If that fails, its files are released."""
    try:
        with _as_ptyctl_errors(folder):
            session = Session(folder.name, stored.spec, folder, limits, stored.transcript)
    except BaseException:
        stored.transcript.raw.close()
        raise
    try:
        with _as_ptyctl_errors(folder):
            await session.publish_missing_events(stored.transcript.event_log)
            session.restore(stored.meta, still_running=still_running)
    except BaseException:
        session.release_files()
        raise
    return session


@contextmanager
def _as_ptyctl_errors(folder: Path) -> Iterator[None]:
    """Turn the exceptions that reading a session's folder can raise into PtyctlErrors."""
    try:
        yield
    except BlockingIOError:
        raise PtyctlError(
            ErrorCode.BUSY,
            f"session {folder.name} is in use by another server: {_describe_lock_holder(folder / 'output.raw')}",
            {"session_id": folder.name},
            hint="use it there, or stop that server first",
        ) from None
    except OSError as error:
        raise PtyctlError(
            ErrorCode.IO_ERROR, f"the transcript in {folder} cannot be read: {error.strerror}", hint="check its files"
        ) from None
    except (ValueError, KeyError):
        raise PtyctlError(
            ErrorCode.IO_ERROR,
            f"{folder / 'meta.json'} does not describe a session",
            {"damaged": "meta.json"},
            hint="the other files in the folder can still be read by hand",
        ) from None


def _check_permissions(folder: Path) -> None:
    """Raise POLICY_DENIED for files of another user, and files that others can read or could have written.

    A symbolic link in the folder is never followed: recovery sets it aside.
    """
    for path in (folder, *folder.iterdir()):
        status = path.lstat()
        if status.st_uid != os.geteuid():
            raise PtyctlError(ErrorCode.POLICY_DENIED, f"{path} belongs to another user, so the session is not read")
        if stat.S_ISLNK(status.st_mode):
            if path != folder:
                continue
            raise PtyctlError(
                ErrorCode.POLICY_DENIED, f"{path} is a symbolic link, and sessions are in folders", hint="remove the link"
            )
        if status.st_mode & 0o077:
            raise PtyctlError(
                ErrorCode.POLICY_DENIED,
                f"others can read {path}, and a transcript holds everything that a device printed",
                {"path": str(path)},
                hint=f"run: chmod go= {path}",
            )


def _describe_lock_holder(path: Path) -> str:
    """Return the process that holds a lock (flock(2)) on the file: its command line, if it can be read, and its id."""
    pid = _find_lock_holder(path)
    if pid is None:
        return "an unknown process"
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({' '.join(arguments).strip()})"


def _find_lock_holder(path: Path) -> int | None:
    """Return the holder's process id from proc_locks(5), which has a row for each lock: kind, pid, device and inode."""
    try:
        status = path.stat()
        rows = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for words in map(str.split, rows):
        if words[1] == "FLOCK" and words[5] == file:
            return int(words[4])
    return None
