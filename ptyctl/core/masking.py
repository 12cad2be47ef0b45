"""Secrets that were typed, hidden where the far end shows them again (design, section 10)."""

from __future__ import annotations

import re

#: An echo that has not come by then will not come: the far end takes secrets without showing them.
LIFE_S = 10.0
MASK = b"*"
#: A terminal shows controls in forms of its own (`^C`, a new line): what stands between them is what can be recognised.
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]+")


class Masking:
    """Each secret is masked where it appears first, byte for byte, however it is cut; then it is forgotten.

    Times are seconds of any clock that only grows.
    """

    def __init__(self) -> None:
        self.held = b""  # the end of what came, as long as a secret may begin in it
        self._secrets: list[tuple[float, bytes]] = []

    @property
    def armed(self) -> bool:
        return bool(self._secrets or self.held)

    def arm(self, typed: bytes, now: float) -> None:
        """What is typed now is secret, line by line."""
        self._secrets += [(now + LIFE_S, secret) for secret in _CONTROLS.split(typed) if secret]

    def feed(self, data: bytes, now: float) -> bytes:
        """What came, as it may be kept; the begin of a secret at its end is held back."""
        self._secrets = [entry for entry in self._secrets if entry[0] > now]
        rest, masked = self.held + data, []
        while True:
            held = self._held_from(rest)
            begin, secret = self._first(rest)
            if secret is None or begin >= held:
                break
            masked += [rest[:begin], MASK * len(secret[1])]
            rest = rest[begin + len(secret[1]) :]
            self._secrets.remove(secret)
        self.held = rest[held:]
        return b"".join(masked) + rest[:held]

    def flush(self) -> bytes:
        """What was held back: nothing came that would have made it a secret."""
        held, self.held = self.held, b""
        return held

    def clear(self) -> bytes:
        """Forgets all secrets; nobody is there who would show them. Returns what was held back."""
        self._secrets.clear()
        return self.flush()

    def _first(self, text: bytes) -> tuple[int, tuple[float, bytes] | None]:
        """The secret that appears first in the text, the longest of those that begin there."""
        places = [(text.find(entry[1]), -len(entry[1]), entry) for entry in self._secrets]
        begin, _, entry = min((place for place in places if place[0] >= 0), default=(0, 0, None))
        return begin, entry

    def _held_from(self, text: bytes) -> int:
        """Where the text's longest end begins that is the begin of a secret; the text's end if there is none."""
        begins = (secret[:size] for _, secret in self._secrets for size in range(len(secret) - 1, 0, -1))
        return len(text) - max((len(begin) for begin in begins if text.endswith(begin)), default=0)
