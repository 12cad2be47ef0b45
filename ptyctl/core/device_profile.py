"""How a device speaks, beside its prompt: what one family does and another does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Answers a pager where nothing else is known: one more page, on every device of the defaults.
PAGER_KEY = " "


@dataclass(frozen=True, eq=False, slots=True)
class DeviceProfile:
    """Compiled patterns, each for one line as a terminal shows it.

    `look_alikes` are no prompts, whatever they look like; `above` is a line that belongs to the prompt below it; `log` are
    lines that the device prints whenever it likes; `questions` wait for a person. `free_text` says that lines of text are taken
    without a prompt between; its group is what ends them. `keys` has the key for the next page by the text of a pager's
    pattern. `settle_s` is how long its prompts must stay, where nobody asked for longer.
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
        """Whether it is a question that waits for a person."""
        return bool(line.strip()) and _any(self.questions, line)

    def text_end(self, line: str) -> str | None:
        """What ends the text that is taken behind this line; None where it does not say so."""
        matches = (pattern.search(line.encode("utf-8", "replace")) for pattern in self.free_text)
        return next((match.group(1).decode() for match in matches if match is not None), None)

    def key(self, pattern: str) -> str:
        return self.keys.get(pattern, PAGER_KEY)


def _any(patterns: Sequence[Any], line: str) -> bool:
    return any(pattern.search(line.encode("utf-8", "replace")) for pattern in patterns)


#: Nothing is known.
PLAIN = DeviceProfile()
