"""The data model of a platform file: one TOML file describes one device family. `docs/platforms.md` explains each field."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from ptyctl.api.errors import PtyctlError
from ptyctl.api.model import Value
from ptyctl.api.session import Expect, Pace
from ptyctl.core.search import compile_all

from .device_profile import (
    DEFAULT_ERRORS,
    DEFAULT_PAGERS,
    DEFAULT_PROMPT,
    END_OF_LINE,
    QUESTION,
    UNKNOWN_DEVICE,
    DeviceProfile,
    LineAbove,
    ModePrompt,
    pager_pattern,
)
from .pattern import PagerPattern, Pattern

#: The secrets that a device may ask for; the inventory has their values.
SecretName = Literal["password", "enable"]
#: In an answer, this is replaced by the username of the login.
USERNAME = "{username}"


class QuestionAnswer(Value):
    """The answer to a line that matches: the text `send`, with `{username}` replaced, or a secret by its name.

    `enter` appends the end of line.
    """

    match: Pattern
    send: str | None = None
    secret: SecretName | None = None
    enter: bool = True

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.send is None) == (self.secret is None):
            raise ValueError("needs send or secret, and not both")
        return self


class CommandSequence(Value):
    """Commands typed one after another, each at a prompt. `modes` are the modes that accept them; empty means any.

    A question that `dialog` does not answer is left to the caller.
    """

    commands: tuple[str, ...] = Field(min_length=1)
    modes: tuple[str, ...] = ()
    dialog: tuple[QuestionAnswer, ...] = ()


class WidthCommand(Value):
    """Sets the device's terminal width, so that no echo wraps. `{columns}` in `command` is replaced by `columns`."""

    command: str = Field(pattern=r"\{columns\}")
    columns: int = Field(ge=80, le=32767)
    modes: tuple[str, ...] = ()


class ModeTransition(Value):
    """The commands that lead to another mode, and the answers to the questions on the way.

    No transition commits or drops a configuration: a question about that is left to the caller. `enter` appends the end of
    line to each command; a control key needs none.
    """

    commands: tuple[str, ...] = Field(min_length=1)
    dialog: tuple[QuestionAnswer, ...] = ()
    enter: bool = True


class CliMode(Value):
    """A command mode. `prompt` is its last line. In a `config` mode commands change the device, so a login leaves it.

    In a `shell` mode the far end is a POSIX shell.
    """

    prompt: Pattern = Field(default_factory=lambda: Pattern.of(DEFAULT_PROMPT))
    above: LineAbove | None = None
    config: bool = False
    shell: bool = False
    to: dict[str, ModeTransition] = Field(default_factory=dict)


class LoginPatterns(Value):
    """The questions of a login. Those in the file of `generic` apply to every family: a console may show another system first.

    `wake`: texts that wait for Enter. `questions`: about a licence or a first setup, with the answer that declines.
    `new_password`: prompts that set a new password, which only the caller may do. `failures`: messages of a refused login.
    """

    username: tuple[Pattern, ...] = ()
    password: tuple[Pattern, ...] = ()
    new_password: tuple[Pattern, ...] = ()
    wake: tuple[Pattern, ...] = ()
    questions: tuple[QuestionAnswer, ...] = ()
    failures: tuple[Pattern, ...] = ()
    username_suffix: str = ""


class ErrorPatterns(Value):
    """Messages of a refused command: `exec` in any mode, `config` only in modes that configure."""

    exec: tuple[Pattern, ...] = tuple(Pattern.of(text) for text in DEFAULT_ERRORS)
    config: tuple[Pattern, ...] = ()


class TerminalSettings(Value):
    """Commands typed once after the login, so that output is complete and echoes do not wrap."""

    paging_off: tuple[CommandSequence, ...] = ()
    width: tuple[WidthCommand, ...] = ()
    setup: tuple[CommandSequence, ...] = ()


class Keys(Value):
    """Control keys of a device. `clear_line` erases a half-typed line; `interrupt` leaves a question without an answer."""

    clear_line: str = Field("\x15", min_length=1)
    interrupt: str = Field("\x03", min_length=1)


class CommandLine(Value):
    """How the device reads a typed line. The defaults find the most commands in a text; a policy judges each of them.

    `exec_prefixes`: words before a command of another mode (`do`). `negations`: words that undo the command after them.
    `separators`: between two commands in a line. `filters`: before a program or file that takes the output.
    `comments`: the beginnings of lines that run nothing. `quotes`: whether quoted separators and filters are text.
    `expansions`: characters that the device replaces, so that their word is not known.
    `contexts`: whether words of a command may be typed in lines of their own, or as a path (`/system/reboot`).
    `shells`: commands that open a POSIX shell, or pass it their arguments.
    `may_be_shell`: whether a POSIX shell may read every line as well.
    """

    exec_prefixes: tuple[str, ...] = ("do", "run")
    negations: tuple[str, ...] = ("no", "undo", "delete", "unset")
    separators: tuple[str, ...] = (";",)
    filters: tuple[str, ...] = ("|", ">")
    comments: tuple[str, ...] = ()
    quotes: bool = False
    expansions: str = ""
    contexts: bool = False
    shells: tuple[str, ...] = ()
    may_be_shell: bool = False


class Sign(Value):
    """A line that identifies a family. `ratio`: likelihood of the line on this family, relative to other families."""

    pattern: Pattern
    ratio: float = Field(gt=1, le=10_000)


class Signs(Value):
    """The signs of a family in the `banners` before the prompt, in `prompts`, and in the `outputs` of any command.

    `command` changes nothing and needs no rights.
    """

    command: str | None = None
    banners: tuple[Sign, ...] = ()
    prompts: tuple[Sign, ...] = ()
    outputs: tuple[Sign, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.banners or self.prompts or self.outputs)


class Platform(Value):
    """A device family.

    `verified`: what the file was tested with; None if only with documents. `home`: the modes for
    running commands; more than one if devices differ.
    """

    title: str
    verified: str | None = None
    posix_shell: bool = Field(False, description="runs end by marks or a marker, and an exit code reports errors")
    home: tuple[str, ...] = Field(min_length=1)
    end_of_line: Literal["\r", "\n", "\r\n"] = "\r"
    settle_ms: int = Field(
        0, ge=0, le=10_000, description="how long a prompt known by its pattern alone must stay the end of the output"
    )
    pace: Pace | None = Field(None, description="how fast its lines may be typed at")
    json_suffix: str | None = Field(None, description="appended to a command, it asks for JSON")
    ntc_templates: str | None = Field(None, description="the family's name in ntc-templates")
    modes: dict[str, CliMode] = Field(min_length=1)
    look_alikes: tuple[Pattern, ...] = ()
    pagers: tuple[PagerPattern, ...] = tuple(pager_pattern(text) for text in DEFAULT_PAGERS)
    terminal: TerminalSettings = TerminalSettings()
    keys: Keys = Keys()
    command_line: CommandLine = CommandLine()
    errors: ErrorPatterns = ErrorPatterns()
    login: LoginPatterns = LoginPatterns()
    confirmations: tuple[Pattern, ...] = ()
    free_text: tuple[Pattern, ...] = ()
    syslog: tuple[Pattern, ...] = ()
    save: tuple[CommandSequence, ...] = ()
    exit: tuple[CommandSequence, ...] = ()
    detect: Signs = Signs()

    @model_validator(mode="after")
    def _modes_exist(self) -> Self:
        for field, mode in self._named_modes():
            if mode not in self.modes:
                raise ValueError(f"{field} names the mode {mode!r}, which is not one of: {', '.join(self.modes)}")
        return self

    @model_validator(mode="after")
    def _free_text_has_terminator(self) -> Self:
        without = next((pattern for pattern in self.free_text if pattern.groups != 1), None)
        if without is not None:
            raise ValueError(f"free_text needs one group, which matches the terminator; {without.text!r} has {without.groups}")
        return self

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            assert self.profile
        except PtyctlError as error:
            raise ValueError(error.message) from None
        return self

    @property
    def describes_prompts(self) -> bool:
        """Whether the file has a prompt for a mode; otherwise only common forms of prompts are recognised."""
        return any("prompt" in mode.model_fields_set for mode in self.modes.values())

    @property
    def all_pagers(self) -> tuple[PagerPattern, ...]:
        """The pagers of the file, then those of other families: a device may be opened as a relative of its family."""
        own = {pager.pattern.text for pager in self.pagers}
        return self.pagers + tuple(pager_pattern(text) for text in DEFAULT_PAGERS if text not in own)

    def _named_modes(self) -> Iterator[tuple[str, str]]:
        yield from (("home", mode) for mode in self.home)
        for name, mode in self.modes.items():
            yield from ((f"modes.{name}.to", target) for target in mode.to)
        listed: dict[str, tuple[CommandSequence | WidthCommand, ...]] = {
            "terminal.paging_off": self.terminal.paging_off,
            "terminal.width": self.terminal.width,
            "terminal.setup": self.terminal.setup,
            "save": self.save,
            "exit": self.exit,
        }
        for field, entries in listed.items():
            yield from ((f"{field}[{number}].modes", mode) for number, entry in enumerate(entries) for mode in entry.modes)

    def error_patterns(self, mode: str | None) -> tuple[Pattern, ...]:
        """Return the error messages of a mode; with None, of all modes including configuration modes."""
        configures = mode is None or self.modes[mode].config
        return self.errors.exec + (self.errors.config if configures else ())

    @cached_property
    def profile(self) -> DeviceProfile:
        """The compiled patterns. A POSIX shell's prompt may be any text, and any of its programs may page its output."""
        expect = self.expect()
        errors = expect.error_regexes or ()
        prompt = expect.prompt_regex or DEFAULT_PROMPT
        return DeviceProfile(
            modes=tuple(ModePrompt(name, mode.prompt, mode.above) for name, mode in self.modes.items()),
            prompt=UNKNOWN_DEVICE.prompt if self.posix_shell else Pattern.of(prompt),
            pagers=UNKNOWN_DEVICE.pagers if self.posix_shell else self.all_pagers,
            errors=tuple(compile_all(errors, "errors")),
            look_alikes=self.look_alikes,
            above=tuple(mode.above.pattern for mode in self.modes.values() if mode.above is not None),
            log_lines=self.syslog,
            questions=(QUESTION,),
            confirmations=self.confirmations,
            usernames=self.login.username,
            passwords=self.login.password,
            free_text=self.free_text,
            clear_line=END_OF_LINE + self.keys.clear_line,
            family_settle_s=self.settle_ms / 1000,
            guesses_prompts=self.posix_shell or not self.describes_prompts,
        )

    def expect(self) -> Expect:
        """Return the patterns of all modes as `expect` of a session without a platform."""
        return Expect(
            prompt_regex="|".join(f"(?:{mode.prompt})" for mode in self.modes.values()),
            pager_regexes=tuple(str(pager.pattern) for pager in self.all_pagers),
            error_regexes=tuple(f"(?m){pattern}" for pattern in self.error_patterns(None)),
        )
