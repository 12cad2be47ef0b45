"""What can be odd about a console. Each quirk is one field here and one hook in `hooks`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from . import hooks
from .hooks import Hook


def _quirk(hook: type[Hook], off: bool | float) -> Any:
    return field(default=off, metadata={"hook": hook})


@dataclass(frozen=True, slots=True)
class Quirks:
    """All off by default. Where two step in at the same point, the one that stands first here goes first."""

    #: The previous user's pager is still there, in privileged mode. With `silent` its prompt is seen after a key only.
    left_over_more: bool = _quirk(hooks.LeftOverMore, False)
    #: Nothing is said until Enter is pressed, and then "Press RETURN to get started.": the second Enter gets the login.
    silent: bool = _quirk(hooks.Silent, False)
    #: The banner has lines that look like prompts.
    prompt_in_banner: bool = _quirk(hooks.PromptInBanner, False)
    #: A syslog line in the middle of the output of each Nth command (1: of each).
    syslog_every: int = _quirk(hooks.SyslogEvery, 0)
    #: A syslog line right after the prompt that follows each Nth command; the prompt is not repeated.
    syslog_after_prompt: int = _quirk(hooks.SyslogAfterPrompt, 0)
    #: The connection is closed in the middle of the output of the Nth command, and of each further Nth one.
    drop_line_after: int = _quirk(hooks.DropLineAfter, 0)
    #: The command line is repainted, shifted, where it reaches the terminal's width.
    echo_wraps: bool = _quirk(hooks.EchoWraps, False)
    #: NUL bytes after line ends and after the pager's prompt.
    nul_padding: bool = _quirk(hooks.NulPadding, False)
    #: Characters a second (960: a serial line of 9,600 baud).
    slow_output: float = _quirk(hooks.SlowOutput, 0.0)

    def __post_init__(self) -> None:
        negative = [quirk.name for quirk in fields(self) if getattr(self, quirk.name) < 0]
        if negative:
            raise ValueError(f"{negative[0]} must not be negative: 0 turns it off")

    def hooks(self) -> list[Hook]:
        """New hooks, for one console, of the quirks that are on."""
        return [quirk.metadata["hook"](value) for quirk in fields(self) if (value := getattr(self, quirk.name))]


#: An ordinary switch.
NO_QUIRKS = Quirks()
