"""The prompt of the program in the foreground, as far as it is known."""

from __future__ import annotations

import re
from typing import Literal

from ptyctl.platforms import DeviceProfile

#: "exact": the line is the prompt seen before; "regex": it looks like a prompt; "other_host": it looks like a prompt of another
#: host than before; "editor": a line editor reads, at any text; "wait": a shell waits as at its prompt, at any text.
Certainty = Literal["exact", "regex", "other_host", "editor", "wait"]
#: Characters before the prompt of a device with unsaved or uncommitted changes.
_UNSAVED_MARKS = frozenset("*!")
#: A prompt has at most this many bytes, with its control sequences.
PROMPT_BYTES = 4096
#: Continuation prompts of shells: PS2 of POSIX, and of zsh with the names of open constructs.
_OPEN = (
    "d?quote|bquote|heredocd?|cmdsubst|subsh|cursh|braceparam|math|mathsubst|array|function|then|else|elif|elif-then|if|for"
    "|foreach|while|until|repeat|select|case|always|cond|cmdand|cmdor|pipe|errpipe"
)
#: Text before the host name: brackets, marks of unsaved changes, the time (Cisco), the user's name.
_BEFORE_HOST = re.compile(r"[<\[*!~+ ]*(?:\d\d:\d\d:\d\d(?:\.\d+)? )?(?:[^\s()<>#$%\[\]@]+@)?")
#: The host name ends before the mode, the folder, the number of the command, and marks.
_HOST = re.compile(r"[^\s()<>#$%\[\]]*?(?=[=*!~+-]*(?:[\s()<>#$%\[\]]|:[~/\\]|:\d+[>#$%]|:?$))")
#: The host name is searched for in this many characters.
_HOST_CHARACTERS = 200
#: A prompt may be shown at the right edge (zsh, fish), separated by blanks.
_RIGHT_PROMPT = re.compile(r"\s{3,}\S.*$")
#: Another mode or folder of a prompt without a host name: `(config)# `, `/tmp # `, `[12] % `.
_HOSTLESS = re.compile(r"[*!]?(?:\[\d+\] ?)?(?:\([\w./+:-]{1,60}\)|[/~]\S{0,200})? ?[>#$%]{1,3} ?")
#: The mode in a prompt, and its end.
_MODE = re.compile(r"\([^()]{1,60}\)|[>#$%\]]\s?$|^[*!]")
#: What changes in a prompt from command to command: marks of unsaved changes, the time, the number of the command.
_CHANGING = re.compile(r"^[*!~+ ]+|\d+")
#: Prompts of at most this many characters without a letter may end any text.
_COMMON_END = 2
_CONTINUATION = re.compile(rf"(?:(?:{_OPEN}) )*(?:{_OPEN})?> ?")


def is_continuation(line: str, learned: str | None) -> bool:
    """Return whether a line is a continuation prompt (PS2). It is not if it was learned as the prompt, or if none is known."""
    return learned is not None and line != learned and _CONTINUATION.fullmatch(line) is not None


def without_right_prompt(line: str) -> str:
    """Return a line without a possible right prompt (RPROMPT): the text after the first run of three or more blanks."""
    return _RIGHT_PROMPT.sub("", line)


def host_name(prompt: str) -> str:
    """Return the host name in a prompt, without mode, user and folder; empty if there is none.

    In brackets (Huawei, Comware) a dash separates it from the view, and may be part of it: only the part before it counts.
    """
    prompt = prompt[:_HOST_CHARACTERS]
    before = _BEFORE_HOST.match(prompt)
    begin = before.end() if before is not None else 0
    host = _HOST.match(prompt, begin)
    name = host.group() if host is not None else ""
    if prompt.lstrip("*! ").startswith(("<", "[")) and "@" not in prompt[:begin]:
        name = name.partition("-")[0]
    return name if not name.startswith("/") and any(character.isalpha() for character in name) else ""


class Prompt:
    """`learned` is the prompt's line as it was shown last; None until one was seen.

    `learned_raw` are the raw offsets of the output from the shell's prompt mark to this line; None if it sent no mark.
    """

    def __init__(self) -> None:
        self.learned: str | None = None
        self.learned_raw: tuple[int, int] | None = None
        self._host = ""

    def learn(self, line: str, raw: tuple[int, int] | None = None) -> None:
        """Take a line as the prompt. `raw`: see `learned_raw`."""
        self.learned_raw = raw
        if line != self.learned:
            self.learned, self._host = line, host_name(line)

    def forget(self) -> None:
        """Forget the learned prompt, because another program is in the foreground."""
        self.learned, self.learned_raw, self._host = None, None, ""

    def match(self, line: str, profile: DeviceProfile) -> Certainty | None:
        """Return how certain it is that a line is the prompt; None if it is not."""
        if line.strip() and line == self.learned:
            return "exact"
        if not profile.is_prompt(line) or is_continuation(line, self.learned):
            return None
        is_known = self.of_known_host(line) if self._host or not profile.guesses_prompts else self._may_be_hostless(line)
        return "regex" if is_known else "other_host"

    def _may_be_hostless(self, line: str) -> bool:
        """Return whether a line may be a prompt without a host name in another mode or folder, if such a prompt was learned."""
        return self.learned is None or not self.learned.strip() or _HOSTLESS.fullmatch(line) is not None

    def is_renamed(self, line: str) -> bool:
        """Return whether a line is the learned prompt with another host name, in any mode."""
        host, learned = host_name(line), self.learned or ""
        if not host or not self._host:
            return False
        return _MODE.sub("", line.replace(host, "", 1)) == _MODE.sub("", learned.replace(self._host, "", 1))

    def is_mode(self, line: str, *, is_same: bool) -> bool:
        """Return whether a line has the form of the learned prompt in any mode, or in the same one, blanks included."""
        learned = self.learned
        if not learned or not learned.strip():
            return True
        if is_same:
            # it may have been shown twice in one line, for an Enter or Ctrl-C that was answered without a line end
            return learned.endswith(line) or _CHANGING.sub("", line) == _CHANGING.sub("", learned)
        return "(" not in line or _MODE.sub("", line) == _MODE.sub("", learned)

    def of_known_host(self, line: str) -> bool:
        """Return whether a prompt has the learned prompt's host name, or that one has none."""
        return not self._host or host_name(line) == self._host

    @property
    def is_distinctive(self) -> bool:
        """Whether other text, such as a pager, hardly ends in the learned prompt: `> ` and `# ` are not distinctive."""
        text = (self.learned or "").strip()
        return len(text) > _COMMON_END or any(character.isalpha() for character in text)

    def text_before(self, line: str) -> str:
        """Return output without a final newline that precedes the learned prompt in its line, except marks of the prompt."""
        before = line.removesuffix(self.learned) if self.learned and self.learned.strip() else line
        return before if len(before) < len(line) and not _UNSAVED_MARKS.issuperset(before) else ""
