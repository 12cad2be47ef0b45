"""Console session of the switch: login, command modes, prompt and command line. Performs no I/O, see `DeviceTerminal`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar

from .cli_grammar import Arguments, CommandError, CommandSet
from .device import RunningConfig, SimulatedDevice
from .line_editor import Key, repaint
from .login_dialog import IOS_LOGIN, DeviceLogin, LoginStyle
from .pager import PAGER_STYLES
from .quirks import NO_QUIRKS, Quirks
from .show_output import filter_output
from .terminal import (
    DEFAULT_LENGTH,
    DEFAULT_WIDTH,
    BroadcastLog,
    CloseConnection,
    DeviceTerminal,
    PromptReader,
    TerminalAction,
)

#: A show command, also after `do`: only these accept an output filter.
_SHOW = re.compile(r"\s*(do\s+)?sh\w*\s")

#: Continuation of a dialog.
Continuation = Callable[[], None]

#: Bytes to send, and the seconds to wait after them.
PacedOutput = tuple[bytes, float]

#: Runs a command and returns its output, or None if the command calls `DeviceConsole.finish` later.
CommandHandler = Callable[["DeviceConsole", Arguments], str | None]


class CommandMode(StrEnum):
    """Command mode. The value is the end of the prompt, after the hostname."""

    USER = ">"
    PRIVILEGED = "#"
    CONFIG = "(config)#"
    CONFIG_IF = "(config-if)#"
    CONFIG_VLAN = "(config-vlan)#"

    @property
    def is_config(self) -> bool:
        return self in PARENT_MODE


#: Mode that `exit` leads to. In other modes it ends the session.
PARENT_MODE = {
    CommandMode.CONFIG: CommandMode.PRIVILEGED,
    CommandMode.CONFIG_IF: CommandMode.CONFIG,
    CommandMode.CONFIG_VLAN: CommandMode.CONFIG,
}


class DeviceConsole(DeviceTerminal):
    """Session on one line of the switch: a vty, which ends with its connection, or the console `con0`, which remains.

    Args:
        name: Name of the line, `con0` or `vty0` and so on.
        user: User that the transport has authenticated already (SSH).
    """

    #: The commands of each mode; set by the subclass.
    commands: ClassVar[Mapping[CommandMode, CommandSet[CommandHandler]]]

    def __init__(
        self,
        device: SimulatedDevice,
        name: str = "vty0",
        quirks: Quirks = NO_QUIRKS,
        *,
        user: str | None = None,
        ping_interval: float = 0.2,
    ) -> None:
        super().__init__(pager_style=PAGER_STYLES[quirks.pager or "cisco_ios"], merge_crlf=not quirks.counts_each_line_end)
        self.device, self.name, self.quirks = device, name, quirks
        self.user = user
        self.mode = CommandMode.USER
        #: Interface or VLAN that the configuration submode edits.
        self.subject = ""
        self.ping_interval = ping_interval
        #: Whether syslog lines are shown: always on a console, after `terminal monitor` on a vty.
        self.monitor = self.is_console_line
        #: `terminal length` and `terminal width` take precedence over the window size.
        self._fixed_length = self._fixed_width = False
        self._window = (DEFAULT_WIDTH, 0 if quirks.pages_once_sized else DEFAULT_LENGTH)
        self._fit_window()

    def set_monitor(self, enabled: bool) -> None:
        """Show log lines, or no more (`terminal monitor`)."""
        self.monitor = enabled

    @property
    def is_console_line(self) -> bool:
        return self.name.startswith("con")

    @property
    def running(self) -> RunningConfig:
        """The running configuration of the switch."""
        return self.device.running

    @property
    def command_set(self) -> CommandSet[CommandHandler]:
        """The commands of the current mode."""
        return self.commands[self.mode]

    @property
    def configures(self) -> bool:
        """Whether the current mode is a configuration mode."""
        return self.mode.is_config

    # Called by the driver

    def start(self, now: float = 0.0) -> list[TerminalAction]:
        """Start the session when the first client connects."""
        self.now = now
        self.begin_session()
        return self._take_actions()

    def show_syslog(self, line: str, now: float = 0.0) -> list[TerminalAction]:
        """Show a syslog line of another session, if this line shows syslog."""
        self.now = now
        if self.monitor and not self.closed:
            self.write_lines(line)
        return self._take_actions()

    def resize(self, cols: int, rows: int) -> None:
        """Set the window size; 0 means unknown (RFC 1073)."""
        self._window = (cols or self._window[0], rows or self._window[1])
        self._fit_window()

    def reboot(self, now: float) -> list[TerminalAction]:
        """Restart this console after a reload of the device."""
        self.now = now
        self.cancel_job()
        self.write("\nBootstrap program is the simulator boot loader\nflashfs[0]: 12 files, 3 directories\n")
        self._release_line("Ready")
        return self._take_actions()

    def pace(self, data: bytes) -> list[PacedOutput]:
        """Split and delay output."""
        return [(data, 0.0)]

    # Overridden by quirks

    @property
    def prompt_text(self) -> str:
        """The prompt as one line of text."""
        return f"{self.device.hostname}{self.mode}"

    @property
    def rendered_prompt(self) -> str:
        """The prompt as sent, with preceding lines and escape sequences."""
        return self.prompt_text

    @property
    def login_style(self) -> LoginStyle:
        return IOS_LOGIN

    @property
    def banner(self) -> str:
        """The text before the login."""
        return "\n"

    def begin_session(self) -> None:
        self.greet()

    def begin_commands(self) -> None:
        """Continue after the login."""
        self.show_prompt()

    def after_prompt(self) -> None:
        """Called after the prompt was shown."""

    def visible_line(self, line: str) -> str:
        """Return the visible part of the command line."""
        return line

    def echo(self, before: str, after: str) -> str:
        """Return the output that replaces `before` by `after` on the screen."""
        return repaint(before, after)

    def on_enter(self) -> None:
        """Called when a command is entered."""

    def command_output(self, text: str) -> str:
        """Return the output of a finished command."""
        return text

    def paging_reply(self, length: int) -> str:
        """Return the output of `terminal length`."""
        return ""

    def confirm_save(self, save: Continuation) -> None:
        """Call `save` unless the user declines."""
        save()

    def confirm_config_exit(self, leave: Continuation) -> None:
        """Call `leave` unless the user stays in the configuration mode."""
        leave()

    # Called by commands and quirks

    def greet(self) -> None:
        """Show the banner and start the login."""
        self.write(self.banner)
        if self.user is not None:
            self._admit(self.user)
            return
        self.write("\nUser Access Verification\n\n")
        account, style = self.device.account, self.login_style
        DeviceLogin(self, account, self._admit, self.log_out, style, self.device.hostname).begin()

    def show_prompt(self, typed: str = "", *, visible: bool = True) -> None:
        """Wait for the next command, with `typed` already on the command line."""
        reader = CommandReader(self)
        reader.editor.replace(typed)
        self.input = reader
        if visible:
            reader.redraw()
        self.after_prompt()

    def execute(self, line: str) -> None:
        """Run a command line; empty lines and comments are ignored."""
        if not line.strip() or line.lstrip().startswith("!"):
            self.show_prompt()
            return
        try:
            text = self._run(line)
        except CommandError as error:
            text = error.report(self.prompt_text, line)
        if text is not None:
            self.finish(text)

    def finish(self, text: str = "") -> None:
        self.show_paged(self.command_output(text), self.show_prompt)

    def enter_mode(self, mode: CommandMode, subject: str = "") -> None:
        self.mode, self.subject = mode, subject

    def exit_config(self, then: Continuation) -> None:
        """Return to privileged mode and log that, as IOS does, then call `then`."""

        def leave() -> None:
            self.enter_mode(CommandMode.PRIVILEGED)
            self.log(f"%SYS-5-CONFIG_I: Configured from console by {self.user or 'console'} on {self.name}")
            then()

        self.confirm_config_exit(leave)

    def resume_as(self, user: str) -> None:
        """Continue the open session of `user`, in privileged mode."""
        self.user, self.mode = user, CommandMode.PRIVILEGED

    def set_length(self, length: int) -> None:
        """Set the screen length for the session."""
        self.length, self._fixed_length = length, True

    def set_width(self, width: int) -> None:
        self.width, self._fixed_width = width, True

    def log(self, message: str) -> None:
        """Log an event of this session, and show it here if this line shows syslog."""
        line = self.record(message)
        if self.monitor:
            self.write_lines(line)

    def record(self, message: str) -> str:
        """Log `message`, show it on the other lines, and return the line with its timestamp."""
        line = self.device.record(message, self.now)
        self.perform(BroadcastLog(line))
        return line

    def announce(self, then: Continuation, message: str = "") -> None:
        """Announce that the line is free; the next Enter calls `then`."""
        message = message or f"{self.device.hostname} {self.name} is now available"
        self.write(f"\n\n{message}\n\n\nPress RETURN to get started.\n\n")
        self.wait_for_enter(then)

    def log_out(self) -> None:
        """End the session: a vty closes its connection, a console waits for the next user."""
        if self.is_console_line:
            self._release_line()
        else:
            self.close_input()
            self.perform(CloseConnection())

    # Internal

    def _admit(self, user: str) -> None:
        self.user = user
        self.begin_commands()

    def _release_line(self, message: str = "") -> None:
        """Reset the state of the session and wait for the next user."""
        self.user = None
        self.enter_mode(CommandMode.USER)
        self._fixed_length = self._fixed_width = False
        self._fit_window()
        self.announce(self.greet, message)

    def _fit_window(self) -> None:
        cols, rows = self._window
        if not self._fixed_length:
            self.length = rows
        if not self._fixed_width:
            self.width = cols

    def _run(self, line: str) -> str | None:
        """Return the output of a command line, or None if the command calls `finish` later.

        Raises:
            CommandError: the command or its arguments are invalid.
        """
        command, bar, expression = line.partition("|") if _SHOW.match(line) else (line, "", "")
        handler, arguments = self.command_set.parse(command)
        text = handler(self, arguments)
        if bar and text is not None:
            text = filter_output(text, expression, len(command) + 1)
        return text


class CommandReader(PromptReader):
    """Reader of a command line: adds `?` help, Tab completion, and leaving the configuration mode by Ctrl-Z and Ctrl-C."""

    def __init__(self, console: DeviceConsole) -> None:
        self._console = console
        super().__init__(console, console.rendered_prompt, console.execute, self._cancelled, console.visible_line, console.echo)

    def __call__(self, key: Key | str) -> None:
        match key:
            case "?":
                self._show_help()
            case Key.TAB:
                commands = self._console.command_set
                completed = commands.complete(self.editor.text)
                if completed is not None:
                    self._console.write(self.editor.replace(completed))
            case Key.CTRL_Z:
                self.cancel("^Z")
            case Key.ENTER:
                self._console.on_enter()
                super().__call__(key)
            case _:
                super().__call__(key)

    def _cancelled(self) -> None:
        if self._console.configures:
            self._console.exit_config(self._console.show_prompt)
        else:
            self._console.show_prompt()

    def _show_help(self) -> None:
        line, commands = self.editor.text, self._console.command_set
        self._console.write("?\n")
        try:
            self._console.write("".join(f"  {name}\n" for name in commands.help_for(line)) + "\n")
        except CommandError as error:
            self._console.write(error.report(self._console.prompt_text, line))
        self.redraw()
