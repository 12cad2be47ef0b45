"""A tolerant reader of OpenSSH client configuration files (ssh_config(5)), for machines without ssh(1).

A line that is not needed, or not known, never refuses a host: only a value that the host uses is checked, by its user.
`host_settings` asks ssh(1) itself where it is installed; a test compares the two.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import socket
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transports.caller import readable_file
from transports.errors import InvalidOption

SYSTEM_CONFIG = "/etc/ssh/ssh_config"
_MAX_DEPTH = 16
_KEYWORD = re.compile(r'[ \t]*([^\s="#]+)(?:[ \t]*=[ \t]*|[ \t]+|(?="))(.*)', re.DOTALL)
_TOKEN = re.compile(r"%(.?)")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
#: Settings whose value is the rest of the line, as it is.
_COMMANDS = frozenset({"proxycommand", "remotecommand", "knownhostscommand", "localcommand"})
#: Settings of which every line counts; of the others the first.
_REPEATED = frozenset({"identityfile", "certificatefile", "sendenv"})
#: Settings whose line has several values.
_LISTS = frozenset({"userknownhostsfile", "globalknownhostsfile", "sendenv", "setenv", "revokedhostkeys", "rekeylimit"})
#: A user name that a shell reads as something else than one word. Stricter than ssh(1), which lets `$NAME` pass.
_UNSAFE_USER = re.compile(r"^-|[\x00-\x20\x7f'`\";&<>|(){}$*?\[\]~#!]|\\$")


@dataclass(slots=True)
class Lookup:
    """One host to look up, and how values are expanded for it.

    Args:
        host: the name as given; `port`, `user`: as given, or None.
        local_user, home, variables: of the caller.
        execute: runs a command of Match exec; returns whether its exit status is 0.
        address: the host name that the configuration sets.
        alias: the HostKeyAlias of the configuration.
    """

    host: str
    port: int | None
    user: str | None
    local_user: str
    home: str
    variables: dict[str, str] = field(repr=False)
    execute: Callable[[str], bool]
    address: str | None = None
    alias: str | None = None

    def expand_home(self, path: str) -> str:
        """Expand a leading ~, which is the caller's home directory, or ~user."""
        if path == "~" or path.startswith("~/"):
            return self.home + path[1:]
        try:
            return str(Path(path).expanduser()) if path.startswith("~") else path
        except RuntimeError:
            return path

    def expand_variables(self, text: str) -> str:
        """Expand ${NAME}. Raises KeyError for a variable that is not set."""
        return _VARIABLE.sub(lambda match: self.variables[match[1]], text)

    def expand_tokens(self, text: str, only: str | None = None, keep: str = "") -> str:
        """Expand the tokens of ssh_config(5).

        Args:
            only: the tokens that the setting accepts besides %%; None accepts all.
            keep: tokens to leave for a later expansion.

        Raises:
            ValueError: names the unknown token.
        """

        def expand(match: re.Match[str]) -> str:
            if match[1] and match[1] in keep:
                return match[0]
            value = self._token(match[1], only)
            return value.replace("%", "%%") if keep else value

        return _TOKEN.sub(expand, text)

    def expand_for_shell(self, text: str, only: str | None = None) -> str:
        """Expand the tokens of a command for a shell. Raises ValueError also for a user name that a shell would interpret."""
        if "r" in _TOKEN.findall(text) and _UNSAFE_USER.search(self.user or self.local_user):
            raise ValueError("the user name has characters that a shell would interpret")
        return self.expand_tokens(text, only)

    def _token(self, token: str, only: str | None) -> str:
        if token == "%":
            return "%"
        if only is not None and token not in only:
            raise ValueError(f"%{token} is not a token of this setting")
        host, port, user, machine = (
            self.address or self.host,
            str(self.port or 22),
            self.user or self.local_user,
            socket.gethostname(),
        )
        values = {"h": host, "n": self.host, "p": port, "r": user, "k": self.alias or self.host, "u": self.local_user}
        values |= {"i": str(os.getuid()), "d": self.home, "l": machine, "L": machine.split(".")[0], "j": ""}
        values["C"] = hashlib.sha1("".join((machine, host, port, user)).encode(), usedforsecurity=False).hexdigest()
        try:
            return values[token]
        except KeyError:
            raise ValueError(f"%{token} is not a token of this setting") from None


def is_safe_user(name: str) -> bool:
    """Return whether a shell would leave a user name alone."""
    return _UNSAFE_USER.search(name) is None


Settings = dict[str, list[str]]


def read_config(files: list[tuple[str, bool]], lookup: Lookup, *, named: bool = False) -> Settings:
    """Return the values for a host, by keyword in lower case; only the host name is expanded.

    Args:
        files: the path of each file, and whether it is a user's. Missing ones are skipped.
        named: the caller names the file, so that its permissions do not matter.

    Raises:
        InvalidOption: a file cannot be read or others can write it, or a line that the host needs cannot be read.
    """
    reader = _Reader(lookup)
    reader.read_all(files, check=not named)
    if reader.wants_final:
        final = _Reader(lookup, reader.settings, name=reader.address)
        final.read_all(files, check=not named)
        reader = final
    if reader.doubtful:
        reader.settings.setdefault("revokedhostkeys", []).extend(reader.doubtful)
    if "hostname" in reader.settings:
        reader.settings["hostname"] = [reader.address]
    return reader.settings


def has_relative_include(path: str, depth: int = 0) -> bool:
    """Return whether a file of the machine, or one that it includes, includes files by names relative to its folder."""
    matches = (_KEYWORD.match(line) for line in _read_lines(path, check=False))
    patterns = [word for match in matches if match and match[1].lower() == "include" for word in _leading_words(match[2])]
    if not all(pattern.startswith("/") for pattern in patterns):
        return True
    included = [file for pattern in patterns for file in glob.glob(pattern)]  # noqa: PTH207  (of an absolute pattern)
    return depth < _MAX_DEPTH and any(has_relative_include(file, depth + 1) for file in included)


class _Reader:
    """One pass over the files."""

    def __init__(self, lookup: Lookup, settings: Settings | None = None, name: str | None = None) -> None:
        """Read with the settings of the first pass, and the `name` that it found, in the pass of `Match final`."""
        self._lookup = lookup
        self._original = lookup.host
        self._name = name or lookup.host
        self._is_final = name is not None
        self.settings: Settings = settings if settings is not None else {}
        self.wants_final = False
        #: The RevokedHostKeys of blocks of which it is not known whether they match.
        self.doubtful: list[str] = []
        #: Whether the block matches; None if it has a criterion that is not known.
        self._matching: bool | None = True
        self._place = ""

    @property
    def address(self) -> str:
        """The host name, as far as it is known."""
        name = self.settings.get("hostname", ["%h"])[0]
        if any(token not in ("h", "%") for token in _TOKEN.findall(name)):
            raise InvalidOption(f"the settings for {self._original} cannot be used: HostName {name} has an unknown token")
        return _TOKEN.sub(lambda match: self._original if match[1] == "h" else "%", name)

    def read_all(self, files: list[tuple[str, bool]], *, check: bool) -> None:
        for path, is_user in files:
            self._matching = True
            self._read(path, is_user, 0, check=check and is_user)

    def _read(self, path: str, is_user: bool, depth: int, *, check: bool = True) -> None:
        matching = self._matching  # of the block with the Include
        for number, line in enumerate(_read_lines(path, check=check), 1):
            self._place = f"{path} line {number}"
            match = _KEYWORD.match(line.rstrip(" \t\r\n\f"))
            if match is None:
                continue
            keyword, rest = match[1].lower(), match[2].lstrip(" \t")
            if keyword == "host":
                self._matching = self._matches_host(_leading_words(rest)) and matching
            elif keyword == "match":
                self._matching = self._matches_block(_leading_words(rest), matching)
            elif self._matching is not False and keyword == "include":
                self._include(rest, is_user, depth)
            elif self._matching:
                self._set(keyword, rest)
            elif self._matching is None and keyword == "revokedhostkeys":
                self.doubtful += [word for word in self._words(rest) if word.lower() != "none"]

    def _include(self, rest: str, is_user: bool, depth: int) -> None:
        if depth >= _MAX_DEPTH:
            raise InvalidOption(f"{self._place}: files include each other")
        matching, place = self._matching, self._place
        for pattern in self._words(rest):
            folder = Path(self._lookup.home, ".ssh") if is_user else Path(SYSTEM_CONFIG).parent
            found = glob.glob(str(folder / self._lookup.expand_home(pattern)))  # noqa: PTH207  (of an absolute pattern)
            for path in sorted(found, key=os.fsencode):
                self._read(path, is_user, depth + 1)
                self._matching, self._place = matching, place

    def _set(self, keyword: str, rest: str) -> None:
        if keyword in _COMMANDS:
            # A jump host excludes a ProxyCommand that follows it, and the other way round; `ProxyJump none` does not.
            if rest and not (keyword == "proxycommand" and self.settings.get("proxyjump", ["none"]) != ["none"]):
                self.settings.setdefault(keyword, [rest])
            return
        words = self._words(rest) if keyword in _NEEDED else _leading_words(rest)
        if not words or (keyword == "proxyjump" and "proxycommand" in self.settings):
            return
        values = words if keyword in _LISTS else words[:1]
        if keyword in _REPEATED:
            known = self.settings.setdefault(keyword, [])
            known += [value for value in values if value not in known or keyword == "sendenv"]
        elif keyword not in self.settings:
            self.settings[keyword] = values
            if keyword == "hostname":
                self._lookup.address = self.address
            elif keyword == "hostkeyalias":
                self._lookup.alias = values[0]
            elif keyword == "user" and self._lookup.user is None:
                self._lookup.user = values[0]
            elif keyword == "port" and self._lookup.port is None and values[0].isdigit():
                self._lookup.port = int(values[0])

    def _words(self, rest: str) -> list[str]:
        try:
            return split_words(rest)
        except ValueError as error:
            raise InvalidOption(f"the settings for {self._original} cannot be used: {self._place}: {error}") from None

    def _matches_host(self, patterns: list[str]) -> bool:
        return matches_list(patterns, self._name)

    def _matches_block(self, words: list[str], matching: bool | None) -> bool | None:
        """Return whether the criteria of a Match line hold; None if that is not known."""
        result, criteria = matching if words else False, deque(words)
        while criteria:
            word = criteria.popleft()
            negated = word.startswith("!")
            name, separator, value = word.removeprefix("!").partition("=")
            name = name.lower()
            if separator:
                criteria.appendleft(value)
            if name == "all":
                holds: bool | None = True
            elif name in ("final", "canonical"):
                self.wants_final |= name == "final"
                holds = self._is_final and name == "final"
            else:
                holds = self._holds(name, criteria.popleft() if criteria else None, result)
            if holds is None:
                return False if result is False else None
            if holds is negated:
                result = False
        return result

    def _holds(self, name: str, value: str | None, needed: bool | None) -> bool | None:
        """Return whether a criterion holds; None if it is not known. Programs run only if that is `needed` for certain."""
        lookup = self._lookup
        if value is None:
            return None
        if name == "exec":
            return needed and self._execute(value)
        subjects = {
            "host": self.address.lower(),
            "originalhost": self._original.lower(),
            "user": lookup.user or lookup.local_user,
            "localuser": lookup.local_user,
            "tagged": self.settings.get("tag", [""])[0],
        }
        if name not in subjects:
            return None
        patterns = value.lower() if name in ("host", "originalhost") else value
        return matches_list(patterns.split(","), subjects[name])

    def _execute(self, command: str) -> bool:
        try:
            return self._lookup.execute(self._lookup.expand_for_shell(command))
        except ValueError as error:
            raise InvalidOption(f"the settings for {self._original} cannot be used: {self._place}: {error}") from None


#: Settings that a host needs: a line of the host that cannot be read refuses it. Other settings may have any syntax.
_NEEDED = frozenset(
    {
        *("hostname", "port", "user", "hostkeyalias", "identityfile", "certificatefile", "identitiesonly", "identityagent"),
        *("userknownhostsfile", "globalknownhostsfile", "revokedhostkeys", "proxyjump"),
    }
)


def _read_lines(path: str, *, check: bool) -> Iterator[str]:
    """Return the lines of a file; none if it is missing. Raises InvalidOption."""
    try:
        with readable_file(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if check and (status.st_uid not in (0, os.getuid()) or _others_can_write(status)):
                raise InvalidOption(
                    f"the SSH configuration {path} has a bad owner or permissions: other users can write it",
                    hint=f"chmod go-w {path}",
                )
            content = file.read()
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise InvalidOption(f"cannot read the SSH configuration {path}: {error.strerror}") from error
    return (line.partition("\0")[0] for line in os.fsdecode(content).split("\n"))


def _others_can_write(status: os.stat_result) -> bool:
    """Return whether other users can write a file. A group that is the user's own is not others (as in Debian's ssh)."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getgid()


def split_words(text: str) -> list[str]:
    """Split a line as ssh(1): words may be quoted, and `#` begins a comment. Raises ValueError for an open quote."""
    words, complete = _split(text)
    if not complete:
        raise ValueError("a quote is not closed")
    return words


def _leading_words(text: str) -> list[str]:
    return _split(text)[0]


def _split(text: str) -> tuple[list[str], bool]:
    words: list[str] = []
    position, size = 0, len(text)
    while position < size:
        if text[position] in " \t":
            position += 1
            continue
        if text[position] == "#":
            break
        word, quote = "", ""
        while position < size and (quote or text[position] not in " \t"):
            letter, following = text[position], text[position + 1 : position + 2]
            if letter == "\\" and (following in ("'", '"', "\\") or (not quote and following == " ")) and following:
                word += following
                position += 1
            elif not quote and letter in "'\"":
                quote = letter
            elif letter == quote:
                quote = ""
            else:
                word += letter
            position += 1
        words.append(word)
        if quote:
            return words, False
    return words, True


def matches_list(patterns: list[str], text: str) -> bool:
    """Return whether patterns match: one of them does, and no negated one."""
    found = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        if matches_pattern(pattern[negated:], text):
            if negated:
                return False
            found = True
    return found


def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether a pattern with * and ? matches (ssh_config(5), PATTERNS). The time is bounded by both lengths."""
    position = index = 0
    retry: tuple[int, int] | None = None  # after the last *: a longer match of it is enough to try
    while index < len(text):
        letter = pattern[position : position + 1]
        if letter == "*":
            position += 1
            retry = (position, index)
        elif letter in ("?", text[index]):
            position, index = position + 1, index + 1
        elif retry is None:
            return False
        else:
            retry = (retry[0], retry[1] + 1)
            position, index = retry
    return not pattern[position:].strip("*")
