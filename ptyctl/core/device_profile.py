"""The device profile: how the command line of a device family behaves, apart from its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The key for the next page, for a pager whose pattern has no other key.
PAGER_KEY = " "


@dataclass(frozen=True, eq=False, slots=True)
class DeviceProfile:
    """Compiled patterns, each matched on one rendered line.

    Attributes:
        look_alikes: lines that look like a prompt and are not one.
        above: lines that belong to the prompt below them.
        log: log lines that the device prints at any time.
        questions: lines that wait for a person's response.
        free_text: lines after which text is read without a prompt, up to a line that the first group names.
        keys: the key for the next page, by the text of a pager pattern.
        settle_s: how long a prompt must remain the end of the output by default.
    """

    look_alikes: Sequence[Any] = ()
    above: Sequence[Any] = ()
    log: Sequence[Any] = ()
    questions: Sequence[Any] = ()
    free_text: Sequence[Any] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    settle_s: float = 0.0

    def is_log(self, line: str) -> bool:
        return _any(self.log, line)

    def is_above(self, line: str) -> bool:
        return _any(self.above, line)

    def looks_alike(self, line: str) -> bool:
        return _any(self.look_alikes, line)

    def asks(self, line: str) -> bool:
        """Whether the line is a question for a person."""
        return bool(line.strip()) and _any(self.questions, line)

    def text_end(self, line: str) -> str | None:
        """Return the line that ends the free text after this line, or None."""
        matches = (pattern.search(line.encode("utf-8", "replace")) for pattern in self.free_text)
        return next((match.group(1).decode() for match in matches if match is not None), None)

    def key(self, pattern: str) -> str:
        """Return the key for the next page of the pager with this pattern."""
        return self.keys.get(pattern, PAGER_KEY)


def _any(patterns: Sequence[Any], line: str) -> bool:
    return any(pattern.search(line.encode("utf-8", "replace")) for pattern in patterns)


#: The profile of an unknown device.
PLAIN = DeviceProfile()
