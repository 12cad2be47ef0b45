"""Secrets that were typed, hidden where the far end shows them again (design, section 10)."""

from __future__ import annotations

import re

#: An echo that has not come by then will not come: the far end takes secrets without showing them.
ECHO_TIMEOUT_S = 10.0
MASK = b"*"
#: A secret that no text holds by chance is masked wherever it appears: of this size, or of the smaller one and of two kinds
#: of characters. So many are remembered.
DISTINCT_BYTES = 16
DISTINCT_MIXED_BYTES = 8
MAX_PERSISTENT = 32
#: A terminal shows controls in forms of its own (`^C`, a new line): what stands between them is what can be recognised.
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]+")
_KINDS = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9]"), re.compile(rb"[^a-zA-Z0-9]"))


class SecretMasker:
    """Masks secrets byte for byte, however what comes is cut.

    A distinct one is masked each time: a device may show it later, in its history or its log. All others (`y`, `admin`, a word)
    only where they first appear, within ECHO_TIMEOUT_S: masked always, they would spoil the text and prompts and reveal
    themselves. Times are seconds of any clock that only grows.
    """

    def __init__(self) -> None:
        self.held = b""  # the end of what came, as long as a secret may begin in it
        self._shown = b""  # what of that had to be shown before the rest came
        self._echoes: list[tuple[float, bytes]] = []
        self._persistent: dict[bytes, None] = {}
        self._expected = 0.0
        self._longest = 0
        self._firsts: re.Pattern[bytes] = re.compile(b"(?!)")

    @property
    def armed(self) -> bool:
        return bool(self._echoes or self._persistent or self.held)

    @property
    def persistent(self) -> bytes:
        """The secrets that are masked each time, a line each: what `arm` takes."""
        return b"\n".join(self._persistent)

    def expects_echo(self, now: float) -> bool:
        """Whether something was typed so shortly before that its echo may be on the way."""
        return now < self._expected

    def arm(self, typed: bytes, now: float) -> None:
        """What is typed now is secret, line by line."""
        self._expected = now + ECHO_TIMEOUT_S
        for secret in filter(None, _CONTROLS.split(typed)):
            if is_distinctive(secret):
                self._persistent.pop(secret, None)
                self._persistent[secret] = None
            else:
                self._echoes.append((self._expected, secret))
        while len(self._persistent) > MAX_PERSISTENT:
            del self._persistent[next(iter(self._persistent))]
        self._index()

    def feed(self, data: bytes, now: float) -> bytes:
        """What came, as it may be kept; the begin of a secret at its end is held back."""
        if self._echoes and self._echoes[0][0] <= now:
            self._echoes = [entry for entry in self._echoes if entry[0] > now]
            self._index()
        shown, rest = len(self._shown), self._shown + self.held + data
        masked = []
        while True:
            held = self._held_from(rest)
            begin, secret = self._first(rest)
            if not secret or begin >= held:
                break
            masked += [rest[:begin], MASK * len(secret)]
            rest = rest[begin + len(secret) :]
            self._forget_echo(secret)
        return self._hold(b"".join(masked), rest, held, shown)

    def flush(self) -> bytes:
        """What was held back, as nothing came in time that makes it a secret; should the rest come later, that is masked."""
        held, self.held = self.held, b""
        self._shown += held
        return held

    def clear(self) -> bytes:
        """Forgets all secrets; nobody is there who would show them. Returns what was held back."""
        held = self.flush()
        self._echoes.clear()
        self._persistent.clear()
        self._shown = b""
        self._index()
        return held

    def _hold(self, masked: bytes, rest: bytes, held: int, shown: int) -> bytes:
        """What may be kept of the masked text and the rest behind it, of which `shown` bytes were given out before."""
        text, keep = masked + rest[:held], rest[held:]
        self._shown, self.held = keep[: max(shown - len(text), 0)], keep[max(shown - len(text), 0) :]
        return text[shown:]

    def _forget_echo(self, secret: bytes) -> None:
        if secret not in self._persistent:
            del self._echoes[[echo for _, echo in self._echoes].index(secret)]
            self._index()

    def _secrets(self) -> list[bytes]:
        return [*self._persistent, *(secret for _, secret in self._echoes)]

    def _index(self) -> None:
        secrets = self._secrets()
        self._longest = max(map(len, secrets), default=0)
        firsts = b"".join(re.escape(first) for first in sorted({secret[:1] for secret in secrets}))
        self._firsts = re.compile(b"[" + firsts + b"]" if firsts else b"(?!)")

    def _first(self, text: bytes) -> tuple[int, bytes]:
        """The secret that appears first in the text, the longest of those that begin there; or none."""
        found = [(at, -len(secret), secret) for secret in self._secrets() if (at := text.find(secret)) >= 0]
        begin, _, secret = min(found, default=(0, 0, b""))
        return begin, secret

    def _held_from(self, text: bytes) -> int:
        """Where the text's longest end begins that is the begin of a secret; the text's end if there is none."""
        for place in self._firsts.finditer(text, max(len(text) - self._longest + 1, 0)):
            tail = text[place.start() :]
            if any(len(tail) < len(secret) and secret.startswith(tail) for secret in self._secrets()):
                return place.start()
        return len(text)


def is_distinctive(secret: bytes) -> bool:
    """Whether no text holds it by chance."""
    mixed = sum(kind.search(secret) is not None for kind in _KINDS) > 1
    return len(secret) >= (DISTINCT_MIXED_BYTES if mixed else DISTINCT_BYTES)
