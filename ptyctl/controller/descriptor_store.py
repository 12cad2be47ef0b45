"""Hand-off of local sessions to the next server: a descriptor store keeps their PTYs open if this process is killed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.io.output_stream import PersistentSecretsChanged
from ptyctl.session.session import Session, StateChanged
from ptyctl.session.spec import Limits
from transports.channel import Pty
from transports.local import LocalChannel

from .recovery import adopt_session

#: Appended to a session id to name its secrets in the store. A session id contains no space.
_SECRETS_SUFFIX = " secrets"
_LOG = logging.getLogger(__name__)


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

    async def adopt_sessions(self, sessions: Callable[[], Path], limits: Limits) -> list[Session]:
        """Return the sessions of stored PTYs, open and connected to the same programs as in the earlier process.

        `sessions` returns the folder of all sessions. It is called only if there is a stored PTY, since it raises where the
        folder is not usable.
        """
        adopted = []
        descriptors = self._store.retrieve_all()
        for name in [name for name in descriptors if name.endswith(_SECRETS_SUFFIX)]:
            with os.fdopen(descriptors.pop(name), "rb") as memory:
                memory.seek(0)
                self._secrets[name.removesuffix(_SECRETS_SUFFIX)] = memory.read()
        self._store.watch(self._store_all)
        for session_id, pty in descriptors.items():
            try:
                channel, secrets = LocalChannel.adopt(pty, Pty()), self._secrets.get(session_id, b"")
                adopted.append(await adopt_session(sessions(), session_id, limits, channel, secrets))
            except PtyctlError as error:
                _LOG.warning("cannot resume a session", extra={"session_id": session_id, "why": error.message})
                os.close(pty)
                if error.code is not ErrorCode.BUSY:  # BUSY: another server uses the session now, and may end before us
                    self._store.remove(session_id)  # the session is unknown, so its program gets a hang-up
        return adopted

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
