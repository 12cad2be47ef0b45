"""A console session of the switch: asleep, login, command modes. Pure: see `Terminal` for how it is driven."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .actions import Action, Close, Log
from .command_input import CommandInput
from .commands import interpret
from .device import Device
from .grammar import CommandError
from .hooks.hook import Hook, Then
from .inputs import EnterInput
from .login import Login, LoginStyle
from .modes import Mode
from .modifiers import modify
from .quirks import NO_QUIRKS, Quirks
from .terminal import DEFAULT_LENGTH, DEFAULT_WIDTH, Ignore, Terminal

#: A show command, also behind `do`: the only kind in which a bar means a filter.
_SHOW = re.compile(r"\s*(do\s+)?sh\w*\s")


class Console(Terminal):
    """One line of the switch: `vty0` and so on, which ends with its connection, or `con0`, which does not.

    `user`: somebody whom the transport has authenticated already (SSH).
    """

    def __init__(
        self,
        device: Device,
        name: str = "vty0",
        quirks: Quirks = NO_QUIRKS,
        *,
        user: str | None = None,
        ping_interval: float = 0.2,
    ) -> None:
        super().__init__()
        self.device, self.name, self.quirks = device, name, quirks
        self.user = user
        self.mode = Mode.USER
        #: What `interface` or `vlan` chose to configure.
        self.subject = ""
        self.ping_interval = ping_interval
        #: Whether syslog lines are shown here: on a console always, on a vty after `terminal monitor`.
        self.monitor = self.is_console_line
        #: What `terminal length` and `terminal width` have set stays, whatever size the window takes.
        self.fixed_length = self.fixed_width = False
        self._window = (DEFAULT_WIDTH, DEFAULT_LENGTH)
        self.hooks = quirks.hooks()
        for hook in self.hooks:
            hook.install(self)

    @property
    def is_console_line(self) -> bool:
        return self.name.startswith("con")

    @property
    def prompt_text(self) -> str:
        """The prompt as a person reads it."""
        text = f"{self.device.hostname}{self.mode}"
        for hook in self.hooks:
            text = hook.prompt_text(self, text)
        return text

    @property
    def painted_prompt(self) -> str:
        """The prompt as it is sent."""
        prompt = self.prompt_text
        for hook in self.hooks:
            prompt = hook.painted(self, prompt)
        return prompt

    @property
    def login_style(self) -> LoginStyle:
        style = LoginStyle(hostname=self.device.hostname)
        for hook in self.hooks:
            style = hook.login(self, style)
        return style

    # What the driver calls

    def start(self, now: float = 0.0) -> list[Action]:
        """Somebody is connected for the first time."""
        self.now = now
        self.consult(lambda hook, then: hook.start(self, then), self.greet)
        return self._take()

    def syslog(self, line: str, now: float = 0.0) -> list[Action]:
        """Another part of the device has logged `line`."""
        self.now = now
        if self.monitor and not self.closed:
            self.show_log(line)
        return self._take()

    def resize(self, cols: int, rows: int) -> None:
        """The window has a new size; 0 means unknown (RFC 1073)."""
        self._window = (cols or self._window[0], rows or self._window[1])
        self._fit_window()

    def reboot(self, now: float) -> list[Action]:
        """The device has started anew, and this line with it."""
        self.now = now
        self.cancel_job()
        self.write("\nBootstrap program is the practice boot loader\nflashfs[0]: 12 files, 3 directories\n")
        self._available("Ready")
        return self._take()

    # What commands, inputs and hooks call

    def greet(self) -> None:
        """Says who is there, and asks who wants to know."""
        banner = "\n"
        for hook in self.hooks:
            banner = hook.banner(self, banner)
        self.write(banner)
        if self.user is not None:
            self._admit()
            return
        self.write("\nUser Access Verification\n\n")
        Login(self, self.device.account, self._logged_in, self.log_out, self.login_style).begin()

    def consult(self, ask: Callable[[Hook, Then], bool], then: Then) -> None:
        """Lets each hook in turn step in, as `ask` says; calls `then` when all are through."""
        self._consult(iter(self.hooks), ask, then)

    def prompt(self, typed: str = "", *, visible: bool = True) -> None:
        """Waits for the next command, of which `typed` stands there already."""
        reader = CommandInput(self)
        reader.editor.replace(typed)
        self.input = reader
        if visible:
            reader.redraw()
        for hook in self.hooks:
            hook.prompted(self)

    def execute(self, line: str) -> None:
        """Runs one line; an empty one or a comment does nothing."""
        if not line.strip() or line.lstrip().startswith("!"):
            self.prompt()
            return
        try:
            text = self._run(line)
        except CommandError as error:
            text = error.report(self.prompt_text, line)
        if text is not None:
            self.finish(text)

    def finish(self, text: str = "") -> None:
        for hook in self.hooks:
            text = hook.command_output(self, text)
        self.page(text, self.prompt)

    def take_over(self, user: str) -> None:
        """The session of `user` is open already, in privileged mode."""
        self.user, self.mode = user, Mode.PRIVILEGED

    def leave_configuration(self, then: Then) -> None:
        """Back to privileged mode, with the log entry that IOS makes of it, if nothing stands against it."""

        def leave() -> None:
            self.mode, self.subject = Mode.PRIVILEGED, ""
            self.log(f"%SYS-5-CONFIG_I: Configured from console by {self.user or 'console'} on {self.name}")
            then()

        self.consult(lambda hook, then: hook.leaving(self, then), leave)

    def log(self, message: str) -> None:
        """Logs what this session did, and shows it here if this line shows such."""
        line = self.record(message)
        if self.monitor:
            self.show_log(line)

    def record(self, message: str) -> str:
        """Logs `message` and tells the other lines; gives the line with its time."""
        line = self.device.record(message, self.now)
        self.do(Log(line))
        return line

    def show_log(self, line: str) -> None:
        """Puts a syslog line into whatever is there. Neither prompt nor typed text come back, as on IOS by default."""
        self.write(f"{line}\n" if self.at_line_start else f"\n{line}\n")

    def sleep(self, then: Then) -> None:
        """Says nothing until somebody presses Enter, and then asks for another Enter."""
        self.input = EnterInput(lambda: self.announce(then))

    def announce(self, then: Then, message: str = "") -> None:
        """Says that the line is free; the next Enter goes on."""
        available = message or f"{self.device.hostname} {self.name} is now available"
        self.write(f"\n\n{available}\n\n\nPress RETURN to get started.\n\n")
        self.input = EnterInput(then)

    def start_endless(self) -> None:
        """There is no bottom of the screen until the client tells of one."""
        self._window = (self._window[0], 0)
        self._fit_window()

    def log_out(self) -> None:
        """The session is over: a vty hangs up, a console waits for the next user."""
        if self.is_console_line:
            self._available()
        else:
            self.hang_up()
            self.do(Close())

    def hang_up(self) -> None:
        """From now on nobody listens, and nothing goes on."""
        self.cancel_job()
        self.closed = True
        self.input = Ignore()

    def outgoing(self, data: bytes) -> bytes:
        for hook in self.hooks:
            data = hook.outgoing(self, data)
        return data

    # Inside

    def _logged_in(self, user: str) -> None:
        self.user = user
        self._admit()

    def _admit(self) -> None:
        self.consult(lambda hook, then: hook.logged_in(self, then), self.prompt)

    def _consult(self, hooks: Iterator[Hook], ask: Callable[[Hook, Then], bool], then: Then) -> None:
        for hook in hooks:
            if ask(hook, lambda: self._consult(hooks, ask, then)):
                return
        then()

    def _available(self, message: str = "") -> None:
        """The line is free: the next Enter greets its next user, for whom nothing is left of the last one."""
        self.user, self.mode, self.subject = None, Mode.USER, ""
        self.fixed_length = self.fixed_width = False
        self._fit_window()
        self.announce(self.greet, message)

    def _fit_window(self) -> None:
        cols, rows = self._window
        if not self.fixed_length:
            self.length = rows
        if not self.fixed_width:
            self.width = cols

    def _run(self, line: str) -> str | None:
        """The output of a line; None: the command goes on, and will call `finish` itself.

        Raises:
            CommandError.
        """
        command, bar, modifier = line.partition("|") if _SHOW.match(line) else (line, "", "")
        run, arguments = interpret(self.mode, command)
        text = run(self, arguments)
        if bar and text is not None:
            text = modify(text, modifier, len(command) + 1)
        return text
