"""Commands of the user and privileged modes."""

from __future__ import annotations

from collections.abc import Callable

from . import show_output
from .cli_grammar import Arguments, CommandSet
from .console import CommandHandler, CommandMode, DeviceConsole
from .device import SimulatedDevice
from .login_dialog import EnableDialog
from .terminal import ReloadDevice

SAVED = "Building configuration...\n[OK]\n"

#: Marks per row in the output of ping.
PING_ROW = 70


class PingJob:
    """Running ping, which outputs one `!` or `.` per `interval` seconds."""

    def __init__(self, target: str, count: int, *, answered: bool, interval: float) -> None:
        self._target, self._count, self._answered, self._interval = target, count, answered, interval
        self._sent: int | None = None

    def step(self) -> tuple[str, float | None]:
        if self._sent is None:
            self._sent = 0
            return self._heading(), self._interval
        self._sent += 1
        mark = "!" if self._answered else "."
        if self._sent == self._count:
            return f"{mark}\n{self._result(self._sent)}", None
        return mark + ("\n" if self._sent % PING_ROW == 0 else ""), self._interval

    def abort(self) -> str:
        return f"\n{self._result(self._sent or 0)}"

    def _heading(self) -> str:
        return (
            "Type escape sequence to abort.\n"
            f"Sending {self._count}, 100-byte ICMP Echos to {self._target}, timeout is 2 seconds:\n"
        )

    def _result(self, sent: int) -> str:
        received = sent if self._answered else 0
        percent = 100 if received else 0
        times = ", round-trip min/avg/max = 1/2/4 ms" if received else ""
        return f"Success rate is {percent} percent ({received}/{sent}){times}\n"


def _show(text: Callable[[SimulatedDevice, float], str]) -> CommandHandler:
    return lambda console, _: text(console.device, console.now)


def _enable(console: DeviceConsole, _: Arguments) -> str | None:
    def accept() -> None:
        console.enter_mode(CommandMode.PRIVILEGED)

    secret = console.device.account.enable_secret
    if secret is None or console.mode is not CommandMode.USER:
        accept()
        return ""
    EnableDialog(console, secret, accept, console.login_style).begin()
    return None


def _disable(console: DeviceConsole, _: Arguments) -> str:
    console.enter_mode(CommandMode.USER)
    return ""


def _log_out(console: DeviceConsole, _: Arguments) -> None:
    console.log_out()


def _configure(console: DeviceConsole, _: Arguments) -> str:
    console.enter_mode(CommandMode.CONFIG)
    return "Enter configuration commands, one per line.  End with CNTL/Z.\n"


def _set_length(console: DeviceConsole, arguments: Arguments) -> str:
    return console.set_length(int(arguments.texts[0]))


def _set_width(console: DeviceConsole, arguments: Arguments) -> str:
    console.set_width(int(arguments.texts[0]))
    return ""


def _set_monitor(enabled: bool) -> CommandHandler:
    def run(console: DeviceConsole, _: Arguments) -> str:
        console.set_monitor(enabled)
        return ""

    return run


def _write(console: DeviceConsole, _: Arguments) -> None:
    _save(console)


def _save(console: DeviceConsole) -> None:
    def save() -> None:
        console.device.save()
        console.finish(SAVED)

    console.intercept(lambda hook, then: hook.before_save(then), save)


def _copy(console: DeviceConsole, _: Arguments) -> None:
    def answer(name: str) -> None:
        if name.strip() in ("", "startup-config"):
            _save(console)
        else:
            console.finish(f"%Error opening flash:{name.strip()} (Read-only file system)\n")

    console.ask_line("Destination filename [startup-config]? ", answer, console.finish)


def _reload(console: DeviceConsole, _: Arguments) -> None:
    def answer(line: str) -> None:
        word = line.strip().lower()
        if not word or not ("yes".startswith(word) or "no".startswith(word)):
            console.write("% Please answer 'yes' or 'no'.\n")
            _reload(console, Arguments())
            return
        if "yes".startswith(word):
            console.device.save()
            console.write(SAVED)
        _confirm_reload(console)

    if console.device.modified:
        console.ask_line("\nSystem configuration has been modified. Save? [yes/no]: ", answer, console.finish)
    else:
        _confirm_reload(console)


def _confirm_reload(console: DeviceConsole) -> None:
    def answer(confirmed: bool) -> None:
        if not confirmed:
            console.finish()
            return
        console.log(f"%SYS-5-RELOAD: Reload requested by {console.user or 'console'} on {console.name}.")
        console.close_input()
        console.perform(ReloadDevice())

    console.ask_confirmation("Proceed with reload? [confirm]", answer)


def _ping(console: DeviceConsole, arguments: Arguments) -> str | None:
    target, count = (*arguments.texts, "5")[:2]
    try:
        answered = console.device.reaches(target)
    except ValueError:
        return "% Unrecognized host or address, or protocol not running.\n\n"
    console.start_job(PingJob(target, int(count), answered=answered, interval=console.ping_interval))
    return None


_USER: tuple[tuple[str, CommandHandler], ...] = (
    ("enable", _enable),
    ("disable", _disable),
    ("exit", _log_out),
    ("logout", _log_out),
    ("quit", _log_out),
    ("ping WORD", _ping),
    ("ping WORD repeat <1-2147483647>", _ping),
    ("show clock", _show(show_output.clock)),
    ("show interfaces status", _show(show_output.interfaces_status)),
    ("show ip interface brief", _show(show_output.ip_interface_brief)),
    ("show version", _show(show_output.version)),
    ("terminal length <0-512>", _set_length),
    ("terminal monitor", _set_monitor(True)),
    ("terminal no monitor", _set_monitor(False)),
    ("terminal width <0-512>", _set_width),
)

_PRIVILEGED: tuple[tuple[str, CommandHandler], ...] = (
    ("configure terminal", _configure),
    ("copy running-config startup-config", _copy),
    ("reload", _reload),
    ("show logging", _show(show_output.logging)),
    ("show running-config", _show(show_output.running_config)),
    ("show startup-config", _show(show_output.startup_config)),
    ("show tech-support", _show(show_output.tech_support)),
    ("write", _write),
    ("write memory", _write),
)

USER_COMMANDS = CommandSet(_USER)
PRIVILEGED_COMMANDS = CommandSet(_USER + _PRIVILEGED)
