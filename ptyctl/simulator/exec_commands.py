"""The commands of the user and the privileged mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import shows
from .actions import Reload
from .device import Device
from .grammar import Arguments, build
from .inputs import ConfirmInput, LineInput
from .login import EnableDialogue
from .modes import Mode
from .ping import Ping

if TYPE_CHECKING:
    from .console import Console

#: Runs a command and gives its output; None: it goes on, and calls `Console.finish` when it is over.
Handler = Callable[["Console", Arguments], str | None]

SAVED = "Building configuration...\n[OK]\n"


def _show(text: Callable[[Device, float], str]) -> Handler:
    return lambda console, _: text(console.device, console.now)


def _enable(console: Console, _: Arguments) -> str | None:
    def accept() -> None:
        console.mode = Mode.PRIVILEGED

    secret = console.device.account.enable_secret
    if secret is None or console.mode is not Mode.USER:
        accept()
        return ""
    EnableDialogue(console, secret, accept, console.login_style).begin()
    return None


def _disable(console: Console, _: Arguments) -> str:
    console.mode = Mode.USER
    return ""


def _log_out(console: Console, _: Arguments) -> None:
    console.log_out()


def _configure(console: Console, _: Arguments) -> str:
    console.mode = Mode.CONFIG
    return "Enter configuration commands, one per line.  End with CNTL/Z.\n"


def _length(console: Console, arguments: Arguments) -> str:
    console.length, console.fixed_length = int(arguments.texts[0]), True
    return "".join(hook.paging_set(console, console.length) for hook in console.hooks)


def _width(console: Console, arguments: Arguments) -> str:
    console.width, console.fixed_width = int(arguments.texts[0]), True
    return ""


def _monitor(console: Console, _: Arguments) -> str:
    console.monitor = True
    return ""


def _no_monitor(console: Console, _: Arguments) -> str:
    console.monitor = False
    return ""


def _write(console: Console, _: Arguments) -> None:
    _save(console)


def _save(console: Console) -> None:
    def save() -> None:
        console.device.save()
        console.finish(SAVED)

    console.consult(lambda hook, then: hook.saving(console, then), save)


def _copy(console: Console, _: Arguments) -> None:
    def answer(name: str) -> None:
        if name.strip() in ("", "startup-config"):
            _save(console)
        else:
            console.finish(f"%Error opening flash:{name.strip()} (Read-only file system)\n")

    reader = LineInput(console, "Destination filename [startup-config]? ", answer, console.finish)
    console.ask(reader.prompt, reader)


def _reload(console: Console, _: Arguments) -> None:
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

    if not console.device.modified:
        _confirm_reload(console)
        return
    question = "\nSystem configuration has been modified. Save? [yes/no]: "
    reader = LineInput(console, question, answer, console.finish)
    console.ask(reader.prompt, reader)


def _confirm_reload(console: Console) -> None:
    def answer(confirmed: bool) -> None:
        if not confirmed:
            console.finish()
            return
        console.log(f"%SYS-5-RELOAD: Reload requested by {console.user or 'console'} on {console.name}.")
        console.hang_up()
        console.do(Reload())

    console.ask("Proceed with reload? [confirm]", ConfirmInput(console, answer))


def _ping(console: Console, arguments: Arguments) -> str | None:
    target, count = (*arguments.texts, "5")[:2]
    try:
        answered = console.device.reaches(target)
    except ValueError:
        return "% Unrecognized host or address, or protocol not running.\n\n"
    console.start_job(Ping(target, int(count), answered=answered, interval=console.ping_interval))
    return None


_EVERYBODY: tuple[tuple[str, Handler], ...] = (
    ("enable", _enable),
    ("disable", _disable),
    ("exit", _log_out),
    ("logout", _log_out),
    ("quit", _log_out),
    ("ping WORD", _ping),
    ("ping WORD repeat <1-2147483647>", _ping),
    ("show clock", _show(shows.clock)),
    ("show interfaces status", _show(shows.interfaces_status)),
    ("show ip interface brief", _show(shows.ip_interface_brief)),
    ("show version", _show(shows.version)),
    ("terminal length <0-512>", _length),
    ("terminal monitor", _monitor),
    ("terminal no monitor", _no_monitor),
    ("terminal width <0-512>", _width),
)

_PRIVILEGED: tuple[tuple[str, Handler], ...] = (
    ("configure terminal", _configure),
    ("copy running-config startup-config", _copy),
    ("reload", _reload),
    ("show logging", _show(shows.logging)),
    ("show running-config", _show(shows.running_config)),
    ("show startup-config", _show(shows.startup_config)),
    ("show tech-support", _show(shows.tech_support)),
    ("write", _write),
    ("write memory", _write),
)

USER = build(_EVERYBODY)
PRIVILEGED = build(_EVERYBODY + _PRIVILEGED)
