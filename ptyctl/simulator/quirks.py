"""Quirks of real devices that the simulated switch can imitate. `quirky_console` and `session_quirks` implement them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .login_dialog import LOGIN_PROMPTS
from .pager import PAGER_STYLES

QuirkValue = bool | int | float | str

#: Accepted values of the quirks that name a variant.
CHOICES = {"pager": tuple(PAGER_STYLES), "login_prompts": tuple(LOGIN_PROMPTS)}


@dataclass(frozen=True, slots=True)
class Quirks:
    """The enabled quirks; all are off by default. Quirks that act at the same point apply in the order of the fields.

    Raises:
        ValueError: a value is negative or not among the choices.
    """

    # Terminal settings

    #: Device family whose pager is used (prompt, erasing, keys).
    pager: str = ""
    #: Output is paged only after the client has sent its window size (NAWS).
    pages_once_sized: bool = False
    #: CR LF counts as two Enters.
    counts_each_line_end: bool = False
    #: Telnet: a refused ECHO or SGA is offered again, without end.
    insists_on_options: bool = False

    # State of the console when a client connects

    #: A console server asks for this `username:password` before the switch does.
    console_server: str = ""
    #: The previous user's pager prompt is open, in privileged mode. With `silent` it shows after a key press.
    left_over_more: bool = False
    #: The previous user's question `[y/n]` is open.
    left_over_question: bool = False
    #: The previous user's session is in configuration mode.
    left_over_config: bool = False
    #: The previous user's unfinished command line is open.
    left_over_line: bool = False
    #: "Would you like to enter the initial configuration dialog? [yes/no]"
    initial_setup: bool = False
    #: No output until Enter, which shows "Press RETURN to get started."; the second Enter shows the login.
    silent: bool = False
    #: "Press RETURN to get started." on connect.
    press_return: bool = False
    #: "Press any key to continue" before the login, with cursor movements.
    press_any_key: bool = False
    #: The banner has lines that look like prompts.
    prompt_in_banner: bool = False

    # Login

    #: Variant of the username and password prompts.
    login_prompts: str = ""
    #: Passwords are echoed.
    echoes_password: bool = False
    #: No output after the password until another Enter.
    bare_cr_after_password: bool = False
    #: "Last login: …" after the password, which looks like a login prompt.
    last_login: bool = False
    #: "The password needs to be changed. Change now? [Y/N]:"
    change_password: bool = False
    #: "new password>", which Ctrl-C skips.
    new_password: bool = False
    #: "Do you want to see the software license? [Y/n]:"
    licence: bool = False
    #: "Press any key to continue" after the login.
    continue_after_login: bool = False

    # Prompt

    #: `HRP_A` before the hostname, as on firewalls in a redundant pair.
    prompt_prefix: bool = False
    #: `*` before the prompt while there are unsaved changes.
    unsaved_mark: bool = False
    #: The time in the prompt.
    prompt_time: bool = False
    #: A line `{master:0}` or `[edit]` above the prompt.
    two_line_prompt: bool = False
    #: A coloured prompt.
    coloured_prompt: bool = False
    #: The prompt is positioned on the last row with cursor addressing.
    cursor_moves: bool = False
    #: `ESC[?2004h` before the prompt, `ESC[?2004l` after Enter.
    bracketed_paste: bool = False
    #: Another user changes the hostname during each Nth command.
    renamed_every: int = 0
    #: A syslog line right after the prompt that follows each Nth command; the prompt is not repeated.
    syslog_after_prompt: int = 0

    # Echo

    #: A command line that reaches the terminal width is shifted by ten columns and repainted, with a `$` in front.
    echo_wraps: bool = False
    #: A command line that reaches the terminal width is truncated with a `$`.
    echo_truncates: bool = False
    #: CR LF in the echo at the terminal width.
    echo_breaks: bool = False
    #: The first character of each further row is echoed twice, with CR between, to force a terminal to wrap.
    echo_doubles: bool = False
    #: Each key repaints prompt and line.
    echo_repaints: bool = False

    # Commands

    #: Lines in the output that look like prompts, pagers and questions; the first equals the prompt.
    look_alikes: bool = False
    #: The time before each output.
    time_before_output: bool = False
    #: A syslog line in the middle of the output of each Nth command (1: of each).
    syslog_every: int = 0
    #: The connection is dropped in the middle of the output of each Nth command.
    drop_line_after: int = 0
    #: Saving asks `[y/n]`.
    confirms_save: bool = False
    #: "Uncommitted changes found, commit them …? [cancel]" when the configuration mode is left with unsaved changes.
    asks_to_commit: bool = False
    #: `terminal length` prints a confirmation.
    tells_paging: bool = False

    # Bytes on the line

    #: NUL bytes after line ends and after the pager prompt.
    nul_padding: bool = False
    #: Seconds of silence in the middle of each output of several lines.
    output_gaps: float = 0.0
    #: Characters per second (960: a serial line at 9,600 baud).
    slow_output: float = 0.0

    def __post_init__(self) -> None:
        for name, value in self.enabled().items():
            if isinstance(value, str):
                choices = CHOICES.get(name, ())
                if choices and value not in choices:
                    raise ValueError(f"{name} is one of {', '.join(choices)}, or empty")
            elif value < 0:
                raise ValueError(f"{name} must not be negative: 0 turns it off")

    def enabled(self) -> dict[str, QuirkValue]:
        """Return the enabled quirks and their values, in the order of their application."""
        return {quirk.name: value for quirk in fields(self) if (value := getattr(self, quirk.name))}


#: A switch without quirks.
NO_QUIRKS = Quirks()
