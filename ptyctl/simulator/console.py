"""Console session of the switch: login, command modes, prompt and command line. Performs no I/O, see `DeviceTerminal`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from .cli_grammar import Arguments, CommandError, CommandSet
from .device import SimulatedDevice
from .keys import Key
from .line_editor import repaint
from .login_dialog import DeviceLogin, LoginStyle
from .pager import PAGER_STYLES
from .quirks import NO_QUIRKS, Quirks, QuirkValue
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

#: Continuation of a step that a quirk interrupted.
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


class QuirkHook:
    """Base class of the quirks: the points at which a quirk may change the behaviour of a console.

    A method with `then` returns True if the quirk takes over; the quirk calls `then` to continue.

    Args:
        value: Value of the quirk's field in `Quirks`.
    """

    def __init__(self, console: DeviceConsole, value: QuirkValue) -> None:
        self.console = console
        self.value = value

    # Connection and login

    def on_connect(self, then: Continuation) -> bool:
        """Called when the first client connects."""
        return False

    def banner(self, text: str) -> str:
        """Return the text shown before the login."""
        return text

    def login_style(self, style: LoginStyle) -> LoginStyle:
        return style

    def after_login(self, then: Continuation) -> bool:
        """Called after the right password, before the first prompt."""
        return False

    # Prompt and command line

    def prompt_text(self, text: str) -> str:
        """Return the prompt as one line of text."""
        return text

    def rendered_prompt(self, prompt: str) -> str:
        """Return the prompt as sent, with preceding lines and escape sequences."""
        return prompt

    def after_prompt(self) -> None:
        """Called after the prompt was shown."""

    def visible_line(self, line: str) -> str:
        """Return the visible part of the command line."""
        return line

    def echo(self, before: str, after: str, text: str) -> str:
        """Return the output that replaces `before` by `after` on the screen, by default `text`."""
        return text

    def on_enter(self) -> None:
        """Called when a command is entered."""

    # Commands

    def command_output(self, text: str) -> str:
        """Return the output of a finished command."""
        return text

    def paging_reply(self, length: int) -> str:
        """Return the output of `terminal length`."""
        return ""

    def before_save(self, then: Continuation) -> bool:
        """Called before the configuration is saved."""
        return False

    def before_config_exit(self, then: Continuation) -> bool:
        """Called before the configuration mode is left."""
        return False

    # Output

    def transform_bytes(self, data: bytes) -> bytes:
        """Return the bytes to send for `data`."""
        return data

    def pace(self, pieces: Iterable[PacedOutput]) -> Iterable[PacedOutput]:
        """Split and delay output."""
        return pieces


class DeviceConsole(DeviceTerminal):
    """Session on one line of the switch: a vty, which ends with its connection, or the console `con0`, which remains.

    Args:
        commands: The commands of each mode.
        name: Name of the line, `con0` or `vty0` and so on.
        hooks: The enabled quirks and their values, in the order in which they apply.
        user: User that the transport has authenticated already (SSH).
    """

    def __init__(
        self,
        device: SimulatedDevice,
        commands: Mapping[CommandMode, CommandSet[CommandHandler]],
        name: str = "vty0",
        quirks: Quirks = NO_QUIRKS,
        hooks: Iterable[tuple[type[QuirkHook], QuirkValue]] = (),
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
        self._commands = commands
        #: Whether syslog lines are shown: always on a console, after `terminal monitor` on a vty.
        self._monitor = self.is_console_line
        #: `terminal length` and `terminal width` take precedence over the window size.
        self._fixed_length = self._fixed_width = False
        self._window = (DEFAULT_WIDTH, 0 if quirks.pages_once_sized else DEFAULT_LENGTH)
        self._fit_window()
        self.hooks = [hook_type(self, value) for hook_type, value in hooks]

    @property
    def is_console_line(self) -> bool:
        return self.name.startswith("con")

    @property
    def prompt_text(self) -> str:
        """The prompt as one line of text."""
        text = f"{self.device.hostname}{self.mode}"
        for hook in self.hooks:
            text = hook.prompt_text(text)
        return text

    @property
    def rendered_prompt(self) -> str:
        """The prompt as sent."""
        prompt = self.prompt_text
        for hook in self.hooks:
            prompt = hook.rendered_prompt(prompt)
        return prompt

    @property
    def login_style(self) -> LoginStyle:
        style = LoginStyle(hostname=self.device.hostname)
        for hook in self.hooks:
            style = hook.login_style(style)
        return style

    @property
    def command_set(self) -> CommandSet[CommandHandler]:
        """The commands of the current mode."""
        return self._commands[self.mode]

    # Called by the driver

    def start(self, now: float = 0.0) -> list[TerminalAction]:
        """Start the session when the first client connects."""
        self.now = now
        self.intercept(lambda hook, then: hook.on_connect(then), self.greet)
        return self._take_actions()

    def show_syslog(self, line: str, now: float = 0.0) -> list[TerminalAction]:
        """Show a syslog line of another session, if this line shows syslog."""
        self.now = now
        if self._monitor and not self.closed:
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

    # Called by commands and quirks

    def greet(self) -> None:
        """Show the banner and start the login."""
        banner = "\n"
        for hook in self.hooks:
            banner = hook.banner(banner)
        self.write(banner)
        if self.user is not None:
            self._admit(self.user)
            return
        self.write("\nUser Access Verification\n\n")
        DeviceLogin(self, self.device.account, self._admit, self.log_out, self.login_style).begin()

    def intercept(self, call_hook: Callable[[QuirkHook, Continuation], bool], then: Continuation) -> None:
        """Let each quirk in turn take over, then call `then`."""
        self._intercept(iter(self.hooks), call_hook, then)

    def show_prompt(self, typed: str = "", *, visible: bool = True) -> None:
        """Wait for the next command, with `typed` already on the command line."""
        reader = CommandReader(self)
        reader.editor.replace(typed)
        self.input = reader
        if visible:
            reader.redraw()
        for hook in self.hooks:
            hook.after_prompt()

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
        for hook in self.hooks:
            text = hook.command_output(text)
        self.show_paged(text, self.show_prompt)

    def enter_mode(self, mode: CommandMode, subject: str = "") -> None:
        self.mode, self.subject = mode, subject

    def exit_config(self, then: Continuation) -> None:
        """Return to privileged mode and log that, as IOS does, then call `then`."""

        def leave() -> None:
            self.enter_mode(CommandMode.PRIVILEGED)
            self.log(f"%SYS-5-CONFIG_I: Configured from console by {self.user or 'console'} on {self.name}")
            then()

        self.intercept(lambda hook, then: hook.before_config_exit(then), leave)

    def resume_as(self, user: str) -> None:
        """Continue the open session of `user`, in privileged mode."""
        self.user, self.mode = user, CommandMode.PRIVILEGED

    def set_length(self, length: int) -> str:
        """Set the screen length for the session and return the reply."""
        self.length, self._fixed_length = length, True
        return "".join(hook.paging_reply(length) for hook in self.hooks)

    def set_width(self, width: int) -> None:
        self.width, self._fixed_width = width, True

    def set_monitor(self, enabled: bool) -> None:
        """Show or hide syslog lines on this line."""
        self._monitor = enabled

    def log(self, message: str) -> None:
        """Log an event of this session, and show it here if this line shows syslog."""
        line = self.record(message)
        if self._monitor:
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

    def encode(self, text: str) -> bytes:
        data = super().encode(text)
        for hook in self.hooks:
            data = hook.transform_bytes(data)
        return data

    # Internal

    def _admit(self, user: str) -> None:
        self.user = user
        self.intercept(lambda hook, then: hook.after_login(then), self.show_prompt)

    def _intercept(
        self, hooks: Iterator[QuirkHook], call_hook: Callable[[QuirkHook, Continuation], bool], then: Continuation
    ) -> None:
        for hook in hooks:
            if call_hook(hook, lambda: self._intercept(hooks, call_hook, then)):
                return
        then()

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
            CommandError.
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
        super().__init__(
            console, console.rendered_prompt, console.execute, self._cancelled, view=self._visible, paint=self._paint
        )

    def key(self, key: Key | str) -> None:
        match key:
            case "?":
                self._show_help()
            case Key.TAB:
                completed = self._console.command_set.complete(self.editor.text)
                if completed is not None:
                    self._console.write(self.editor.replace(completed))
            case Key.CTRL_Z:
                self.cancel("^Z")
            case Key.ENTER:
                for hook in self._console.hooks:
                    hook.on_enter()
                super().key(key)
            case _:
                super().key(key)

    def _visible(self, line: str) -> str:
        for hook in self._console.hooks:
            line = hook.visible_line(line)
        return line

    def _paint(self, before: str, after: str) -> str:
        text = repaint(before, after)
        for hook in self._console.hooks:
            text = hook.echo(before, after, text)
        return text

    def _cancelled(self) -> None:
        if self._console.mode.is_config:
            self._console.exit_config(self._console.show_prompt)
        else:
            self._console.show_prompt()

    def _show_help(self) -> None:
        line = self.editor.text
        self._console.write("?\n")
        try:
            rows = [f"  {name}\n" for name in self._console.command_set.help_for(line)]
            self._console.write("".join(rows) + "\n")
        except CommandError as error:
            self._console.write(error.report(self._console.prompt_text, line))
        self.redraw()
