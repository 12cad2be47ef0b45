"""Commands of all modes: user and privileged first, then configuration. `COMMANDS` maps the modes to their commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from . import show_output
from .cli_grammar import Arguments, CommandSet, InvalidInput
from .console import PARENT_MODE, CommandHandler, CommandMode, DeviceConsole
from .device import SimulatedDevice, secrets_equal
from .login_dialog import MAX_ATTEMPTS
from .terminal import ReloadDevice, TerminalJob

#: Valid hostnames: one label (RFC 1123).
_HOSTNAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")

SAVED = "Building configuration...\n[OK]\n"

#: Marks per row in the output of ping.
PING_ROW = 70


def _show(text: Callable[[SimulatedDevice, float], str]) -> CommandHandler:
    return lambda console, _: text(console.device, console.now)


def _enable(console: DeviceConsole, _: Arguments) -> str | None:
    secret, failures = console.device.enable_secret, 0

    def ask() -> None:
        console.ask_line("Password: ", check, console.finish, view=console.login_style.password_view)

    def check(password: str) -> None:
        nonlocal failures
        if secret is None or secrets_equal(password, secret):
            console.enter_mode(CommandMode.PRIVILEGED)
            console.finish()
            return
        failures += 1
        if failures == MAX_ATTEMPTS:
            console.finish("% Bad secrets\n\n")
        else:
            ask()

    if secret is None or console.mode is not CommandMode.USER:
        console.enter_mode(CommandMode.PRIVILEGED)
        return ""
    ask()
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
    length = int(arguments.texts[0])
    console.set_length(length)
    return console.paging_reply(length)


def _set_width(console: DeviceConsole, arguments: Arguments) -> str:
    console.set_width(int(arguments.texts[0]))
    return ""


def _set_monitor(enabled: bool) -> CommandHandler:
    def run(console: DeviceConsole, _: Arguments) -> str:
        console.set_monitor(enabled)
        return ""

    return run


def _save(console: DeviceConsole, arguments: Arguments) -> None:
    def save() -> None:
        console.device.save()
        console.finish(SAVED)

    console.confirm_save(save)


def _copy(console: DeviceConsole, arguments: Arguments) -> None:
    def answer(name: str) -> None:
        if name.strip() in ("", "startup-config"):
            _save(console, arguments)
        else:
            console.finish(f"%Error opening flash:{name.strip()} (Read-only file system)\n")

    console.ask_line("Destination filename [startup-config]? ", answer, console.finish)


def _reload(console: DeviceConsole, _: Arguments) -> None:
    def ask() -> None:
        console.ask_line("\nSystem configuration has been modified. Save? [yes/no]: ", answer, console.finish)

    def answer(line: str) -> None:
        word = line.strip().lower()
        if not word or not ("yes".startswith(word) or "no".startswith(word)):
            console.write("% Please answer 'yes' or 'no'.\n")
            ask()
            return
        if "yes".startswith(word):
            console.device.save()
            console.write(SAVED)
        confirm()

    def confirm() -> None:
        console.ask_confirmation("Proceed with reload? [confirm]", reload)

    def reload(confirmed: bool) -> None:
        if not confirmed:
            console.finish()
            return
        console.log(f"%SYS-5-RELOAD: Reload requested by {console.user or 'console'} on {console.name}.")
        console.close_input()
        console.perform(ReloadDevice())

    if console.device.modified:
        ask()
    else:
        confirm()


def _ping(console: DeviceConsole, arguments: Arguments) -> str | None:
    target, count = (*arguments.texts, "5")[:2]
    try:
        answered = console.device.reaches(target)
    except ValueError:
        return "% Unrecognized host or address, or protocol not running.\n\n"
    console.start_job(_ping_job(target, int(count), answered=answered, interval=console.ping_interval))
    return None


def _ping_job(target: str, count: int, *, answered: bool, interval: float) -> TerminalJob:
    """Output one `!` or `.` per `interval` seconds."""

    def result(sent: int) -> str:
        if answered and sent:
            return f"Success rate is 100 percent ({sent}/{sent}), round-trip min/avg/max = 1/2/4 ms\n"
        return f"Success rate is 0 percent (0/{sent})\n"

    text = f"Type escape sequence to abort.\nSending {count}, 100-byte ICMP Echos to {target}, timeout is 2 seconds:\n"
    for sent in range(count):
        if (yield text, interval):
            return f"\n{result(sent)}"
        text = ("!" if answered else ".") + ("\n" if (sent + 1) % PING_ROW == 0 else "")
    return f"{text[0]}\n{result(count)}"


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
    ("write", _save),
    ("write memory", _save),
)

PRIVILEGED_COMMANDS = CommandSet(_USER + _PRIVILEGED)


def _hostname(console: DeviceConsole, arguments: Arguments) -> str:
    name = arguments.texts[0]
    if not _HOSTNAME.fullmatch(name):
        return "% Hostname contains one or more illegal characters.\n\n"
    console.device.rename(name)
    return ""


def _no_hostname(console: DeviceConsole, _: Arguments) -> str:
    console.device.rename("Switch")
    return ""


def _interface(console: DeviceConsole, arguments: Arguments) -> str:
    interface = console.running.find_interface("".join(arguments.texts))
    if interface is None:
        raise InvalidInput(arguments.offsets[-1])
    console.enter_mode(CommandMode.CONFIG_IF, interface.name)
    return ""


def _vlan(console: DeviceConsole, arguments: Arguments) -> str:
    number = int(arguments.texts[0])
    console.running.add_vlan(number)
    console.enter_mode(CommandMode.CONFIG_VLAN, str(number))
    return ""


def _no_vlan(console: DeviceConsole, arguments: Arguments) -> str:
    console.running.remove_vlan(int(arguments.texts[0]))
    return ""


def _vlan_name(console: DeviceConsole, arguments: Arguments) -> str:
    console.running.name_vlan(int(console.subject), arguments.texts[0])
    return ""


def _exit(console: DeviceConsole, _: Arguments) -> str | None:
    parent = PARENT_MODE[console.mode]
    if not parent.is_config:
        console.exit_config(console.finish)
        return None
    console.enter_mode(parent)
    return ""


def _end(console: DeviceConsole, _: Arguments) -> None:
    console.exit_config(console.finish)


def _do(console: DeviceConsole, arguments: Arguments) -> str | None:
    try:
        handler, inner = PRIVILEGED_COMMANDS.parse(arguments.texts[0])
    except InvalidInput as error:
        raise InvalidInput(arguments.offsets[0] + error.offset) from error
    return handler(console, inner)


def _change(console: DeviceConsole, **values: Any) -> None:
    """Change fields of the interface that is being configured."""
    interfaces = console.running.interfaces
    interfaces[console.subject] = replace(interfaces[console.subject], **values)


def _set(**values: Any) -> CommandHandler:
    def run(console: DeviceConsole, _: Arguments) -> str:
        _change(console, **values)
        return ""

    return run


def _set_shutdown(down: bool) -> CommandHandler:
    def run(console: DeviceConsole, _: Arguments) -> str:
        if console.running.interfaces[console.subject].shutdown != down:
            _change(console, shutdown=down)
            interface = console.running.interfaces[console.subject]
            state = "administratively down" if down else "up" if interface.up else "down"
            facility = "%LINK-5-CHANGED" if down else "%LINK-3-UPDOWN"
            console.log(f"{facility}: Interface {interface.name}, changed state to {state}")
        return ""

    return run


def _description(console: DeviceConsole, arguments: Arguments) -> str:
    _change(console, description=arguments.texts[0])
    return ""


def _access_vlan(console: DeviceConsole, arguments: Arguments) -> str:
    _change(console, vlan=int(arguments.texts[0]))
    return ""


def _address(console: DeviceConsole, arguments: Arguments) -> str:
    if console.running.interfaces[console.subject].is_port:
        raise InvalidInput(arguments.offsets[0])
    address, mask = arguments.texts
    try:
        IPv4Network(f"0.0.0.0/{mask}")
    except ValueError as error:
        raise InvalidInput(arguments.offsets[1]) from error
    _change(console, address=address, mask=mask)
    return ""


_CONFIG: tuple[tuple[str, CommandHandler], ...] = (
    ("do LINE", _do),
    ("end", _end),
    ("exit", _exit),
    ("hostname WORD", _hostname),
    ("interface IFNAME", _interface),
    ("interface IFTYPE IFNUMBER", _interface),
    ("no hostname", _no_hostname),
    ("no vlan <2-4094>", _no_vlan),
    ("vlan <2-4094>", _vlan),
)

_CONFIG_IF: tuple[tuple[str, CommandHandler], ...] = (
    ("description LINE", _description),
    ("ip address A.B.C.D A.B.C.D", _address),
    ("no description", _set(description="")),
    ("no ip address", _set(address="", mask="")),
    ("no shutdown", _set_shutdown(False)),
    ("no switchport access vlan", _set(vlan=1)),
    ("shutdown", _set_shutdown(True)),
    ("switchport access vlan <1-4094>", _access_vlan),
    ("switchport mode access", _set(trunk=False)),
    ("switchport mode trunk", _set(trunk=True)),
)

CONFIG_COMMANDS = CommandSet(_CONFIG)

COMMANDS: dict[CommandMode, CommandSet[CommandHandler]] = {
    CommandMode.USER: CommandSet(_USER),
    CommandMode.PRIVILEGED: PRIVILEGED_COMMANDS,
    CommandMode.CONFIG: CONFIG_COMMANDS,
    CommandMode.CONFIG_IF: CommandSet(_CONFIG_IF, fallback=CONFIG_COMMANDS),
    CommandMode.CONFIG_VLAN: CommandSet([("name WORD", _vlan_name)], fallback=CONFIG_COMMANDS),
}
