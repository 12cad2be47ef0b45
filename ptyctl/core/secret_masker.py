"""Masks typed secrets in the output of the far end."""

from __future__ import annotations

import re

from .echo_masker import MASK, EchoMasker

#: A secret is distinctive if it has at least 16 bytes, or at least 8 bytes of two character classes. The 32 most recent are
#: kept.
DISTINCTIVE_BYTES = 16
DISTINCTIVE_MIXED_BYTES = 8
MAX_PERSISTENT = 32
#: Terminals show controls in other forms (`^C`, a new line): only the text between controls can be recognised.
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]+")
#: How long a possible partial distinctive secret is held back (seconds).
LATE_HOLD_S = 0.02
_CHARACTER_CLASSES = (re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"[0-9]"), re.compile(rb"[^a-zA-Z0-9]"))


class SecretMasker:
    """Masks secrets byte for byte in a stream; without pauses, the result does not depend on how the bytes are split.

    A distinctive secret is masked every time: a device may show it later, in its history or log. Other secrets (`y`, `admin`, a
    word) are masked in their echo only, by `EchoMasker`: masked everywhere, they would damage text and prompts, and the damage
    would reveal them. Times are seconds of any monotonic clock.
    """

    def __init__(self) -> None:
        self._echoes = EchoMasker()
        self._held = b""  # the end of the input that may be a partial distinctive secret
        self._released = b""  # the part of a possible secret that `flush` had to release
        self._persistent: dict[bytes, None] = {}
        self._update_index()

    @property
    def armed(self) -> bool:
        """Whether input must pass through `feed`."""
        return bool(self._persistent or self._held or self._echoes.armed)

    @property
    def persistent(self) -> bytes:
        """The distinctive secrets, one per line, as `remember` accepts them."""
        return b"\n".join(self._persistent)

    @property
    def hold_s(self) -> float | None:
        """Time to wait for the rest of a possible secret before `flush` (seconds); None if nothing is held back."""
        if self._echoes.held:
            return self._echoes.hold_s
        return LATE_HOLD_S if self._held else None

    def arm(self, typed: bytes, now: float) -> None:
        """Register each line of input that is being typed as a secret."""
        for secret in filter(None, _CONTROLS.split(typed)):
            self._echoes.expect(secret, now)
        self.remember(typed)

    def remember(self, secrets: bytes) -> None:
        """Mask each distinctive secret among these lines in all further output."""
        for secret in filter(is_distinctive, _CONTROLS.split(secrets)):
            self._persistent.pop(secret, None)
            self._persistent[secret] = None
        while len(self._persistent) > MAX_PERSISTENT:
            del self._persistent[next(iter(self._persistent))]
        self._update_index()

    def feed(self, data: bytes, now: float) -> bytes:
        """Return the data with secrets masked. A possible partial secret at its end is held back."""
        if self._echoes.armed:
            data = self._echoes.feed(data, now)
        return self._mask_persistent(data)

    def flush(self) -> bytes:
        """Return the held input after `hold_s` without more input. The rest of a secret is masked if it follows later."""
        masked = self._mask_persistent(self._echoes.flush())
        held, self._held = self._held, b""
        self._released += held
        return masked + held

    def clear(self) -> bytes:
        """Forget all secrets. Returns the held input."""
        held = self.flush()
        self._echoes = EchoMasker()
        self._persistent.clear()
        self._released = b""
        self._update_index()
        return held

    def _mask_persistent(self, data: bytes) -> bytes:
        if not self._persistent:
            return data
        released, text = len(self._released), self._released + self._held + data
        held, places = self._held_start(text, 0), dict[bytes, int]()
        if not released and held == len(text) and self._whole.search(text) is None:
            self._held = b""
            return text
        masked, at = [], 0
        while True:
            for secret in self._persistent:
                if places.get(secret, at - 1) < at:  # not searched yet, or within the masked text
                    found = text.find(secret, at)
                    places[secret] = len(text) if found < 0 else found
            secret = min(places, key=lambda secret: (places[secret], -len(secret)))
            if places[secret] >= held:
                break
            masked += [text[at : places[secret]], MASK * len(secret)]
            at = places[secret] + len(secret)
            held = self._held_start(text, at)
        return self._hold(b"".join(masked), text[at:], held - at, released)

    def _hold(self, masked: bytes, rest: bytes, held: int, released: int) -> bytes:
        """Hold back `rest` from `held` on. Returns the text before it, without the bytes that were released earlier."""
        text, keep = masked + rest[:held], rest[held:]
        self._released, self._held = keep[: max(released - len(text), 0)], keep[max(released - len(text), 0) :]
        return text[released:]

    def _update_index(self) -> None:
        self._longest = max(map(len, self._persistent), default=0)
        firsts = b"".join(re.escape(first) for first in sorted({secret[:1] for secret in self._persistent}))
        self._first_bytes = re.compile(b"[" + firsts + b"]" if firsts else b"(?!)")
        self._whole = re.compile(b"|".join(map(re.escape, self._persistent)) or b"(?!)")

    def _held_start(self, text: bytes, begin: int) -> int:
        """Return the position, from `begin` on, of a partial secret at the end of the text; the length of the text if none."""
        for place in self._first_bytes.finditer(text, max(len(text) - self._longest + 1, begin)):
            tail = text[place.start() :]
            if any(len(tail) < len(secret) and secret.startswith(tail) for secret in self._persistent):
                return place.start()
        return len(text)


def is_distinctive(secret: bytes) -> bool:
    """Return whether other text is unlikely to contain the secret by chance."""
    mixed = sum(kind.search(secret) is not None for kind in _CHARACTER_CLASSES) > 1
    return len(secret) >= (DISTINCTIVE_MIXED_BYTES if mixed else DISTINCTIVE_BYTES)
