"""The `ptyctl` application: all commands in the order and groups of `ptyctl --help`."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ptyctl.version import __version__

from . import (
    approval_commands,
    audit_commands,
    device_commands,
    fleet_commands,
    history_commands,
    input_commands,
    policy_commands,
    recording_commands,
    server_commands,
    session_commands,
    terminal_commands,
    token_commands,
)
from .errors import report_error


class _CommandGroup(TyperGroup):
    """Top-level group that reports a broken pipe; typer would exit with 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise typer.Exit(report_error(error)) from None


app = typer.Typer(
    cls=_CommandGroup,
    help="A session controller for terminals: agents and people share consoles, SSH hosts and shells.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_SESSIONS, _INPUT, _HISTORY = "Sessions", "Input and locks", "History (needs no lock)"
_DEVICES, _APPROVALS, _SERVERS = "Devices", "Approvals", "Servers"

app.command(rich_help_panel=_SESSIONS)(session_commands.sessions)
app.add_typer(session_commands.open_app, name="open", rich_help_panel=_SESSIONS)
app.command(rich_help_panel=_SESSIONS)(session_commands.attach)
app.command(rich_help_panel=_SESSIONS)(session_commands.close)
app.command(rich_help_panel=_SESSIONS)(session_commands.gc)
app.command("exec", rich_help_panel=_INPUT)(input_commands.exec_)
app.command(rich_help_panel=_INPUT)(input_commands.send)
app.command(rich_help_panel=_INPUT)(input_commands.lock)
app.command(rich_help_panel=_INPUT)(input_commands.unlock)
app.command(rich_help_panel=_INPUT)(input_commands.takeover)
app.command(rich_help_panel=_HISTORY)(history_commands.tail)
app.command(rich_help_panel=_HISTORY)(history_commands.screen)
app.command(rich_help_panel=_HISTORY)(history_commands.blocks)
app.command(rich_help_panel=_HISTORY)(history_commands.search)
app.command(rich_help_panel=_HISTORY)(history_commands.log)
app.command(rich_help_panel=_HISTORY)(recording_commands.export)
app.command(rich_help_panel=_HISTORY)(recording_commands.replay)
app.add_typer(approval_commands.app, name="approvals", rich_help_panel=_APPROVALS)
app.command(rich_help_panel=_APPROVALS)(approval_commands.approve)
app.command(rich_help_panel=_APPROVALS)(approval_commands.decline)
app.add_typer(audit_commands.app, name="audit", rich_help_panel=_SERVERS)
app.command(rich_help_panel=_DEVICES)(device_commands.devices)
app.command(rich_help_panel=_DEVICES)(device_commands.doctor)
app.command(rich_help_panel=_DEVICES)(device_commands.platforms)
app.command(rich_help_panel=_SERVERS)(server_commands.web)
app.add_typer(server_commands.app, name="daemon", rich_help_panel=_SERVERS)
app.command(rich_help_panel=_SERVERS)(server_commands.mcp)
app.command(rich_help_panel=_SERVERS)(server_commands.serve)
app.command(rich_help_panel=_SERVERS)(terminal_commands.bridge)
app.add_typer(fleet_commands.app, name="fleet", rich_help_panel=_SERVERS)
app.add_typer(terminal_commands.app, name="terminal", rich_help_panel=_SERVERS)
app.add_typer(policy_commands.app, name="policy", rich_help_panel=_SERVERS)
app.add_typer(token_commands.app, name="token", rich_help_panel=_SERVERS)


@app.command()
def demo(
    telnet: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Use this device instead of the simulated switch.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="User name, if the device asks for one.")] = None,
    password: Annotated[str | None, typer.Option(help="Login password.", envvar="PTYCTL_DEMO_PASSWORD")] = None,
    enable: Annotated[str | None, typer.Option(help="Enable password.", envvar="PTYCTL_DEMO_ENABLE")] = None,
    switch: Annotated[bool, typer.Option("--switch", help="Only run the simulated switch.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Let the agents work until Ctrl-C, and print the address of a web console.")
    ] = False,
    fleet: Annotated[bool, typer.Option("--fleet", help="Kill a node of a fleet, and watch its console move.")] = False,
) -> None:
    """Watch two agents share the console of a simulated switch, or of a device."""
    if fleet:
        from .fleet_commands import require_extra

        require_extra()
        from .demo.fleet_demo import run_fleet

        raise typer.Exit(run_fleet())
    from .demo import run, run_web, serve_switch

    if web:
        raise typer.Exit(run_web("127.0.0.1:0"))
    if switch:
        raise typer.Exit(serve_switch())
    raise typer.Exit(run(telnet, username, password, enable))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"ptyctl {__version__}")


@cache
def click_command() -> Any:
    """Return the click command of the application. Its conversion takes 40 ms, and is done once in a process."""
    return typer.main.get_command(app)
