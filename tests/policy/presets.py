"""The presets, loaded with the built-in platforms."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptyctl.platforms import Platforms
from ptyctl.policy.evaluate import ReadShell
from ptyctl.policy.policy_file import Policy, load_policy, read_policy_file
from ptyctl.policy.rules import Match
from ptyctl.policy.shell_command import canonical_shell

PLATFORMS = Platforms().all()


@dataclass(frozen=True)
class StubCommand:
    """A shell command whose words are compared literally."""

    words: tuple[str | None, ...]

    @property
    def text(self) -> str:
        return " ".join(map(str, self.words))

    @property
    def has_known_words(self) -> bool:
        return None not in self.words

    def match(self, pattern: tuple[tuple[str, ...], ...]) -> Match:
        name, *others = pattern
        found = self.words[0] in name and all(any(word in self.words[1:] for word in other) for other in others)
        return Match.FOUND if found else Match.NONE

    def surely_is(self, pattern: tuple[tuple[str, ...], ...]) -> bool:
        return len(self.words) >= len(pattern) and all(map(lambda word, other: word in other, self.words, pattern))


@dataclass(frozen=True)
class StubText:
    commands: tuple[StubCommand, ...]
    text: str
    unparsed: str = ""
    evaluates: bool = False
    opaque: bool = False
    recalls: bool = False


def stub_shell(text: str, _shell: str | None = None) -> StubText:
    """One command, without operators and substitutions; anything else is unparsed."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        return StubText((), text, str(error))
    return StubText((StubCommand(words),) if words else (), " ".join(words), "`$" if set("`$;&|<>") & set(text) else "")


def no_file(name: str) -> str:
    raise AssertionError(f"reads {name}")


@cache
def preset(name: str) -> Policy:
    return load_policy(name, read=no_file, platforms=PLATFORMS, read_shell=canonical_shell)


def load_text(
    text: str, files: dict[str, str] | None = None, *, name: str = "policy.toml", read_shell: ReadShell = stub_shell
) -> Policy:
    """Load a policy from a text, and those that it extends from `files`."""
    texts = {name: text, **(files or {})}
    return load_policy(name, read=texts.__getitem__, platforms=PLATFORMS, read_shell=read_shell)


def load_file(path: Path) -> Policy:
    return load_policy(path.name, read=read_policy_file(path.parent), platforms=PLATFORMS, read_shell=stub_shell)
