"""What was typed in secret is masked by the next server too: a keeper holds it, in memory and in no file."""

from __future__ import annotations

import logging
import os

from ptyctl.session.io.output_stream import PersistentSecretsChanged
from ptyctl.session.session import Session

from .descriptor_store import DescriptorStore

#: Behind a session's id it names its secrets; no id has a blank.
_SUFFIX = " secrets"
_LOG = logging.getLogger(__name__)


class KeptSecrets:
    """Those of all sessions that are not closed, also of consoles that come back later."""

    def __init__(self, fd_store: DescriptorStore) -> None:
        self._fd_store = fd_store
        self._of: dict[str, bytes] = {}

    def take_back(self, kept: dict[str, int]) -> None:
        """Takes out of what was kept what is ours."""
        for name in [name for name in kept if name.endswith(_SUFFIX)]:
            with os.fdopen(kept.pop(name), "rb") as memory:
                memory.seek(0)
                self._of[name.removesuffix(_SUFFIX)] = memory.read()

    def of(self, session_id: str) -> bytes:
        """A line each."""
        return self._of.get(session_id, b"")

    def follow(self, session: Session) -> None:
        """From now on it masks what it did in an earlier process, and all that it comes to mask outlives this one."""
        if session.held:
            session.stream.mask(self.of(session.session_id))
            session.stream.subscribe(PersistentSecretsChanged, lambda event: self._keep(session.session_id, event.secrets))
            if session.stream.persistent_secrets:  # those of its login, and of before
                self._keep(session.session_id, session.stream.persistent_secrets)

    def give_all(self) -> None:
        """The keeper has ended: another one gets what it held."""
        for session_id in self._of:
            self._give(session_id)

    def drop(self, session_id: str) -> None:
        if self._of.pop(session_id, None) is not None:
            self._fd_store.remove(session_id + _SUFFIX)

    def drop_all(self) -> None:
        """Nobody comes back to what is left."""
        for session_id in list(self._of):
            self.drop(session_id)

    def _keep(self, session_id: str, secrets: bytes) -> None:
        self._of[session_id] = secrets
        self._give(session_id)

    def _give(self, session_id: str) -> None:
        memory = os.memfd_create("ptyctl")
        try:
            os.write(memory, self._of[session_id])
            self._fd_store.store(session_id + _SUFFIX, memory)
        except OSError as error:
            _LOG.warning("secrets will not be masked beyond this server", extra={"why": str(error)})
        finally:
            os.close(memory)
