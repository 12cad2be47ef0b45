"""A device family, as its TOML file tells it. One file a family; `docs/platforms.md` explains each field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from ptyctl.api.model import Value
from ptyctl.api.session import Expect, Pace
from ptyctl.core.device_profile import DeviceProfile
from ptyctl.core.prompt import DEFAULT_ERRORS, QUESTION
from ptyctl.core.search import compile_pattern

from .command import Commands, Width
from .login import Login
from .mode import Mode
from .pager import COMMON_PAGERS, Pager
from .pattern import Pattern
from .signs import Signs

_COMMON_ERRORS = tuple(Pattern.of(text) for text in DEFAULT_ERRORS)


class Errors(Value):
    """Lines that tell of a refused command: `exec` anywhere, `config` besides in modes that configure."""

    exec: tuple[Pattern, ...] = _COMMON_ERRORS
    config: tuple[Pattern, ...] = ()


class Terminal(Value):
    """What is typed once after the login, so that output comes whole and echoes come back as they were typed."""

    paging_off: tuple[Commands, ...] = ()
    width: tuple[Width, ...] = ()
    setup: tuple[Commands, ...] = ()


class Keys(Value):
    """`clear_line` empties a half-typed line, `interrupt` leaves a question that somebody else was asked."""

    clear_line: str = Field("\x15", min_length=1)
    interrupt: str = Field("\x03", min_length=1)


class Platform(Value):
    """`verified`: what the file was run against; none means that it stands on documents only.

    `home`: the modes where commands run; more than one where a device has either.
    """

    title: str
    verified: str | None = None
    posix_shell: bool = Field(False, description="runs end by marks or a marker, and an exit code tells of errors")
    home: tuple[str, ...] = Field(min_length=1)
    end_of_line: Literal["\r", "\n", "\r\n"] = "\r"
    settle_ms: int = Field(0, ge=0, le=10_000, description="how long a matching prompt must stay the end of the output")
    pace: Pace | None = Field(None, description="how fast its lines may be typed at")
    json_suffix: str | None = Field(None, description="behind a command, it asks for JSON")
    ntc_templates: str | None = Field(None, description="the family's name in ntc-templates")
    modes: dict[str, Mode] = Field(min_length=1)
    look_alikes: tuple[Pattern, ...] = ()
    pagers: tuple[Pager, ...] = COMMON_PAGERS
    terminal: Terminal = Terminal()
    keys: Keys = Keys()
    errors: Errors = Errors()
    login: Login = Login()
    confirmations: tuple[Pattern, ...] = ()
    free_text: tuple[Pattern, ...] = ()
    syslog: tuple[Pattern, ...] = ()
    save: tuple[Commands, ...] = ()
    exit: tuple[Commands, ...] = ()
    detect: Signs = Signs()

    @model_validator(mode="after")
    def _names_modes_that_are_there(self) -> Self:
        for field, mode in self._named_modes():
            if mode not in self.modes:
                raise ValueError(f"{field} names the mode {mode!r}, which is not one of: {', '.join(self.modes)}")
        return self

    @model_validator(mode="after")
    def _says_what_ends_a_text(self) -> Self:
        without = next((pattern for pattern in self.free_text if pattern.groups != 1), None)
        if without is not None:
            raise ValueError(f"free_text needs one group, of what ends the text; {without.text!r} has {without.groups}")
        return self

    def _named_modes(self) -> Iterator[tuple[str, str]]:
        yield from (("home", mode) for mode in self.home)
        for name, mode in self.modes.items():
            yield from ((f"modes.{name}.to", target) for target in mode.to)
        listed: dict[str, tuple[Commands | Width, ...]] = {
            "terminal.paging_off": self.terminal.paging_off,
            "terminal.width": self.terminal.width,
            "terminal.setup": self.terminal.setup,
            "save": self.save,
            "exit": self.exit,
        }
        for field, entries in listed.items():
            yield from ((f"{field}[{number}].modes", mode) for number, entry in enumerate(entries) for mode in entry.modes)

    def error_patterns(self, mode: str | None) -> tuple[Pattern, ...]:
        """What an error looks like in a mode; an unknown one may configure."""
        configures = mode is None or self.modes[mode].config
        return self.errors.exec + (self.errors.config if configures else ())

    @cached_property
    def profile(self) -> DeviceProfile:
        """How it speaks, in the form that a run goes by."""
        above = (mode.above.pattern for mode in self.modes.values() if mode.above is not None)
        return DeviceProfile(
            look_alikes=_compiled(self.look_alikes),
            above=_compiled(above),
            log=_compiled(self.syslog),
            questions=(compile_pattern(QUESTION, "question"), *_compiled(self.confirmations)),
            free_text=_compiled(self.free_text),
            keys={pager.pattern.text: pager.key for pager in self.pagers},
            settle_s=self.settle_ms / 1000,
        )

    def expect(self) -> Expect:
        """The patterns of all modes, as a session without this file would have to be given them."""
        return Expect(
            prompt_regex="|".join(f"(?:{mode.prompt})" for mode in self.modes.values()),
            pager_regexes=tuple(str(pager.pattern) for pager in self.pagers),
            error_regexes=tuple(f"(?m){pattern}" for pattern in self.error_patterns(None)),
            settle_ms=self.settle_ms or None,
        )


def _compiled(patterns: Iterable[Pattern]) -> tuple[Any, ...]:
    return tuple(compile_pattern(pattern.text, "pattern") for pattern in patterns)
