"""Local programs outlive the server: a keeper holds their terminals, and the next one goes on with them (design, section 9)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.session import Session, StateChanged
from ptyctl.session.spec import Limits
from transports.channel import Pty
from transports.local import LocalChannel

from .descriptor_store import DescriptorStore
from .kept_secrets import KeptSecrets
from .recovered import gone_on

_LOG = logging.getLogger(__name__)


class Outliving:
    """Gives each session's terminal to the keeper as long as it is open, and its secrets until it is closed."""

    def __init__(self, fd_store: DescriptorStore) -> None:
        self._fd_store = fd_store
        self._secrets = KeptSecrets(fd_store)
        self._open: dict[str, Session] = {}

    def follow(self, session: Session) -> None:
        session.subscribe(StateChanged, lambda event: self._changed(event.session))
        self._secrets.follow(session)
        self._changed(session)

    async def take_back(self, sessions: Callable[[], Path], limits: Limits) -> list[Session]:
        """The sessions whose programs have outlived their server, open as they were. Where there are none, `sessions` is not
        looked at: whoever opens the first is told what is wrong with it."""
        found = []
        kept = self._fd_store.retrieve_all()
        self._secrets.take_back(kept)
        self._fd_store.watch(self._give_all)
        for session_id, master in kept.items():
            try:
                channel, secrets = LocalChannel.adopt(master, Pty()), self._secrets.of(session_id)
                found.append(await gone_on(sessions(), session_id, limits, channel, secrets))
            except PtyctlError as error:
                _LOG.warning("cannot go on with a session", extra={"session_id": session_id, "why": error.message})
                os.close(master)
                if error.code is not ErrorCode.BUSY:  # then whoever has its files now will be done some day
                    self._fd_store.remove(session_id)  # nobody can know what it was: its program gets a hang-up
        return found

    def end(self) -> None:
        """All sessions are closed, in order: nobody goes on with any."""
        self._secrets.drop_all()

    def _changed(self, session: Session) -> None:
        if session.state == "closed":
            self._secrets.drop(session.session_id)
        terminal = session.channel.terminal_fd if session.channel is not None else None
        if session.state != "open":
            self._open.pop(session.session_id, None)
            self._fd_store.remove(session.session_id)
        elif terminal is not None:
            self._open[session.session_id] = session
            self._give([session] if self._fd_store.is_running else list(self._open.values()))

    def _give_all(self) -> None:
        """The keeper has ended: another one gets what it held."""
        self._secrets.give_all()
        self._give(list(self._open.values()))

    def _give(self, sessions: list[Session]) -> None:
        for session in sessions:
            terminal = session.channel.terminal_fd if session.channel is not None else None
            try:
                if terminal is not None:
                    self._fd_store.store(session.session_id, terminal)
            except OSError as error:
                _LOG.warning("a local session will not outlive this server", extra={"why": str(error)})
