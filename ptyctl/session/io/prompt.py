"""The prompt of the program in the foreground, as far as it is known."""

from __future__ import annotations

import re
from typing import Literal

from ptyctl.platforms import DeviceProfile

#: "exact": the line is the prompt seen before; "regex": it looks like a prompt; "editor": a line editor reads, at any text.
Certainty = Literal["exact", "regex", "editor"]
#: Devices put these before their prompt while something is not saved or not committed.
_UNSAVED_MARKS = frozenset("*!")
#: The prompts of shells for the further lines of a command: PS2 of POSIX, and of zsh with the names of what is open.
_OPEN = (
    "d?quote|bquote|heredocd?|cmdsubst|subsh|cursh|braceparam|math|mathsubst|array|function|then|else|elif|elif-then|if|for"
    "|foreach|while|until|repeat|select|case|always|cond|cmdand|cmdor|pipe|errpipe"
)
_CONTINUATION = re.compile(rf"(?:(?:{_OPEN}) )*(?:{_OPEN})?> ?")


def is_continuation(line: str, learned: str | None) -> bool:
    """Whether a shell asks with this line for more of a command. It is a prompt if it was learned as one, or none is known."""
    return learned is not None and line != learned and _CONTINUATION.fullmatch(line) is not None


class Prompt:
    """`learned` is the prompt's line as it was shown last; None until one was seen."""

    def __init__(self) -> None:
        self.learned: str | None = None

    def learn(self, line: str) -> None:
        """Take a line as the prompt."""
        self.learned = line

    def forget(self) -> None:
        """Another program is in the foreground."""
        self.learned = None

    def match(self, line: str, profile: DeviceProfile) -> Certainty | None:
        """How certain it is that the last line of the output is the prompt."""
        if line and line == self.learned:
            return "exact"
        return "regex" if profile.is_prompt(line) and not is_continuation(line, self.learned) else None

    def text_before(self, line: str) -> str:
        """The output without a final newline that precedes the learned prompt in its line; not a mark of the prompt itself."""
        before = line.removesuffix(self.learned) if self.learned and self.learned.strip() else line
        return before if len(before) < len(line) and not _UNSAVED_MARKS.issuperset(before) else ""
