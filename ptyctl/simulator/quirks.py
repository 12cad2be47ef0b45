"""What can be odd about a console. Each quirk is one field here and one hook in `hooks`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from .hooks import arriving, asking, echoing, logging_in, making, printing, prompting
from .hooks.hook import Hook
from .hooks.logging_in import LOGIN_PROMPTS
from .pager_styles import STYLES


def _quirk(hook: type[Hook], off: bool | float | str, choices: Iterable[str] = ()) -> Any:
    return field(default=off, metadata={"hook": hook, "choices": tuple(choices)})


@dataclass(frozen=True, slots=True)
class Quirks:
    """All off by default. Where two step in at the same point, the one that stands first here goes first."""

    # What a console is made with

    #: The pager of another family: its prompt, how it is erased, its keys.
    pager: str = _quirk(making.PagerOf, "", STYLES)
    #: No pages until the client has told the size of its window (NAWS).
    pages_once_sized: bool = _quirk(making.PagesOnceSized, False)
    #: CR LF is two Enters.
    counts_each_line_end: bool = _quirk(making.CountsEachLineEnd, False)
    #: Telnet: a refused ECHO or SGA is offered again, for ever.
    insists_on_options: bool = _quirk(making.InsistsOnOptions, False)

    # What is there already

    #: A console server asks for `username:password` first: two layers.
    console_server: str = _quirk(arriving.ConsoleServer, "")
    #: The previous user's pager is still there, in privileged mode. With `silent` its prompt is seen after a key only.
    left_over_more: bool = _quirk(arriving.LeftOverMore, False)
    #: The previous user's question `[y/n]` is still there.
    left_over_question: bool = _quirk(arriving.LeftOverQuestion, False)
    #: The previous user is still in configuration mode.
    left_over_config: bool = _quirk(arriving.LeftOverConfig, False)
    #: The previous user's half-typed line is still there.
    left_over_line: bool = _quirk(arriving.LeftOverLine, False)
    #: "Would you like to enter the initial configuration dialog? [yes/no]"
    initial_setup: bool = _quirk(arriving.InitialSetup, False)
    #: Nothing is said until Enter is pressed, and then "Press RETURN to get started.": the second Enter gets the login.
    silent: bool = _quirk(arriving.Silent, False)
    #: "Press RETURN to get started." at once.
    press_return: bool = _quirk(arriving.PressReturn, False)
    #: "Press any key to continue" before the login, among cursor moves.
    press_any_key: bool = _quirk(arriving.PressAnyKey, False)
    #: The banner has lines that look like prompts.
    prompt_in_banner: bool = _quirk(arriving.PromptInBanner, False)

    # The login

    #: Username and password are asked for in other words.
    login_prompts: str = _quirk(logging_in.LoginPrompts, "", LOGIN_PROMPTS)
    #: Passwords are echoed.
    echoes_password: bool = _quirk(logging_in.EchoesPassword, False)
    #: Nothing comes after the password until another Enter.
    bare_cr_after_password: bool = _quirk(logging_in.BareCrAfterPassword, False)
    #: "Last login: …" after the password.
    last_login: bool = _quirk(logging_in.LastLogin, False)
    #: "The password needs to be changed. Change now? [Y/N]:"
    change_password: bool = _quirk(logging_in.ChangePassword, False)
    #: "new password>", which Ctrl-C skips.
    new_password: bool = _quirk(logging_in.NewPassword, False)
    #: "Do you want to see the software license? [Y/n]:"
    licence: bool = _quirk(logging_in.LicenceQuestion, False)
    #: "Press any key to continue" after the login.
    continue_after_login: bool = _quirk(logging_in.ContinueAfterLogin, False)

    # The prompt

    #: `HRP_A` before the hostname.
    prompt_prefix: bool = _quirk(prompting.PromptPrefix, False)
    #: `*` before the prompt while something is not saved.
    unsaved_mark: bool = _quirk(prompting.UnsavedMark, False)
    #: The time in the prompt.
    prompt_time: bool = _quirk(prompting.PromptTime, False)
    #: A line `{master:0}` or `[edit]` above the prompt.
    two_line_prompt: bool = _quirk(prompting.TwoLinePrompt, False)
    #: Colours around the prompt.
    coloured_prompt: bool = _quirk(prompting.ColouredPrompt, False)
    #: The prompt among cursor moves.
    cursor_moves: bool = _quirk(prompting.CursorMoves, False)
    #: `ESC[?2004h` before the prompt, `ESC[?2004l` after Enter.
    bracketed_paste: bool = _quirk(prompting.BracketedPaste, False)
    #: Somebody else changes the hostname while each Nth command runs.
    renamed_every: int = _quirk(prompting.RenamedEvery, 0)
    #: A syslog line right after the prompt that follows each Nth command; the prompt is not repeated.
    syslog_after_prompt: int = _quirk(prompting.SyslogAfterPrompt, 0)

    # The echo

    #: The command line is repainted, shifted, where it reaches the terminal's width.
    echo_wraps: bool = _quirk(echoing.EchoWraps, False)
    #: The command line is cut with a `$` where it reaches the terminal's width.
    echo_truncates: bool = _quirk(echoing.EchoTruncates, False)
    #: CR LF in the echo at the terminal's width.
    echo_breaks: bool = _quirk(echoing.EchoBreaks, False)
    #: The character after the terminal's width is sent twice.
    echo_doubles: bool = _quirk(echoing.EchoDoubles, False)
    #: Each key repaints prompt and line.
    echo_repaints: bool = _quirk(echoing.EchoRepaints, False)

    # Commands

    #: Lines in the output that look like prompts, pagers and questions; one is exactly the prompt.
    look_alikes: bool = _quirk(printing.LookAlikes, False)
    #: The time before each output.
    time_before_output: bool = _quirk(printing.TimeBeforeOutput, False)
    #: A syslog line in the middle of the output of each Nth command (1: of each).
    syslog_every: int = _quirk(printing.SyslogEvery, 0)
    #: The connection is closed in the middle of the output of the Nth command, and of each further Nth one.
    drop_line_after: int = _quirk(printing.DropLineAfter, 0)
    #: Saving asks `[y/n]`.
    confirms_save: bool = _quirk(asking.ConfirmsSave, False)
    #: "Uncommitted changes found, commit them …? [cancel]" when configuration mode is left.
    asks_to_commit: bool = _quirk(asking.AsksToCommit, False)
    #: `terminal length` answers in words.
    tells_paging: bool = _quirk(asking.TellsPaging, False)

    # The line

    #: NUL bytes after line ends and after the pager's prompt.
    nul_padding: bool = _quirk(printing.NulPadding, False)
    #: So many seconds of silence in the middle of each longer output.
    output_gaps: float = _quirk(printing.OutputGaps, 0.0)
    #: Characters a second (960: a serial line of 9,600 baud).
    slow_output: float = _quirk(printing.SlowOutput, 0.0)

    def __post_init__(self) -> None:
        for quirk in fields(self):
            _check(quirk, getattr(self, quirk.name))

    def hooks(self) -> list[Hook]:
        """New hooks, for one console, of the quirks that are on."""
        return [quirk.metadata["hook"](value) for quirk in fields(self) if (value := getattr(self, quirk.name))]


def _check(quirk: Field[Any], value: float | str) -> None:
    choices = quirk.metadata["choices"]
    if isinstance(value, str):
        if value and choices and value not in choices:
            raise ValueError(f"{quirk.name} is one of {', '.join(choices)}, or empty")
    elif value < 0:
        raise ValueError(f"{quirk.name} must not be negative: 0 turns it off")


#: An ordinary switch.
NO_QUIRKS = Quirks()
