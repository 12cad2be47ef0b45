"""`ptyctl fleet`: write the files of a site, and show its nodes and consoles (docs/fleet.md)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptyctl.api.errors import ErrorCode, PtyctlError

from .errors import EXIT_NO_CONNECTION, print_message
from .options import AsJson
from .output import print_json, print_table

if TYPE_CHECKING:
    from ptyctl.fleet.credentials import Credentials

app = typer.Typer(help="Set up a fleet of daemons, and show its state.", no_args_is_help=True)

_File = Annotated[Path, typer.Option("--fleet", metavar="FILE", envvar="PTYCTL_FLEET", help="The file of a node.")]

_NODE_HEADS = ("node", "state", "sessions", "version", "address", "labels")
_MOVED_HEADS = ("console", "node", "session", "moved in", "problem")
_CONSOLE_HEADS = ("console", "node", "session", "lock", "fence")


@app.callback()
def fleet() -> None:
    """Set up a fleet of daemons, and show its state."""


@app.command()
def init(
    site: Annotated[str, typer.Option(help="Name of the site.")],
    nodes: Annotated[str | None, typer.Option(metavar="NAMES", help="Names of its nodes, separated by commas.")] = None,
    servers: Annotated[
        str, typer.Option(metavar="ADDRESSES", help="HOST or HOST:PORT of 1, 3 or 5 NATS servers, separated by commas.")
    ] = "127.0.0.1:4222",
    folder: Annotated[Path, typer.Option("--dir", help="New folder for the files.")] = Path("fleet"),
    hub: Annotated[
        Path | None,
        typer.Option("--hub", metavar="FOLDER", help="Folder of the hub (--site hub), for a fleet of several sites."),
    ] = None,
    authority: Annotated[
        Path | None, typer.Option("--ca", metavar="FOLDER", help="Folder of another site of the fleet, with its ca.key.")
    ] = None,
) -> None:
    """Write a configuration for each NATS server of a site, and a file with a key for each node, with their certificates.

    A node's key lets it announce only itself. Copy each file to its machine, and keep it readable by its user alone.
    """
    require_extra()
    from ptyctl.fleet.certificates import Authority
    from ptyctl.fleet.server_files import Hub, Site, write_site

    earlier = authority or hub
    signer = None if earlier is None else Authority.load(earlier)
    connected = None if hub is None else Hub.load(hub)
    for path in write_site(folder, Site(site, _names(servers), _names(nodes) if nodes else [], signer, connected)):
        typer.echo(str(path))
    print_message(
        "start each server where its files are: nats-server -c nats-1.conf; then each node: ptyctl serve --fleet NODE.toml"
    )


@app.command()
def nodes(file: _File, as_json: AsJson = False) -> None:
    """List the nodes of the site. Exit code 6 if no NATS server answers."""
    rows = asyncio.run(_state(file))["nodes"]
    if as_json:
        print_json(rows)
    else:
        print_table(_NODE_HEADS, [_node_cells(row) for row in rows])


@app.command()
def status(file: _File, as_json: AsJson = False) -> None:
    """Show the nodes of the site, who owns each console, and what is degraded. Exit code 6 if something is."""
    state = asyncio.run(_state(file))
    if as_json:
        print_json(state)
    else:
        print_table(_NODE_HEADS, [_node_cells(row) for row in state["nodes"]])
        if state["consoles"]:
            typer.echo()
            print_table(_CONSOLE_HEADS, [_console_cells(row) for row in state["consoles"]])
        for problem in state["problems"]:
            since = "" if problem["since"] is None else f" since {_time(problem['since'])}"
            print_message(f"{problem['what']}{since}; {problem['hint']}")
    if state["problems"]:
        raise typer.Exit(EXIT_NO_CONNECTION)


@app.command()
def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    file: _File,
    undo: Annotated[bool, typer.Option("--undo", help="Let the node take consoles again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hand over the consoles of a node to others, and let it take no new one. Needs the file of the administrator.

    Its other sessions stay. A restart of the node ends the drain. Exit code 6 if a console has no owner now.
    """
    credentials = read_credentials(file)
    from ptyctl.fleet.site_state import drain_node

    answer = asyncio.run(drain_node(credentials, node, undo=undo))
    consoles = answer.get("consoles", [])
    if as_json:
        print_json(answer)
    elif undo:
        print_message(f"node {node} takes consoles again")
    elif consoles:
        print_table(_MOVED_HEADS, [_moved_cells(row) for row in consoles])
    else:
        print_message(f"node {node} owned no console")
    if not all(row["node"] for row in consoles):
        raise typer.Exit(EXIT_NO_CONNECTION)


@app.command()
def forget(node: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node that is gone.")], file: _File) -> None:
    """Remove the session rows of a node that will not come back. Needs the file of the administrator."""
    credentials = read_credentials(file)
    from ptyctl.fleet.site_state import forget_node

    print_message(f"removed {asyncio.run(forget_node(credentials, node))} sessions of node {node} from the fleet's list")


@app.command()
def policy(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Policy file, without files that it extends.")], file: _File
) -> None:
    """Sign a policy and put it in force on all nodes of the site. Needs the file of the administrator.

    A node keeps the policy before if the new one is not signed by the fleet's administrator, or is faulty.
    """
    credentials = read_credentials(file)
    from ptyctl.controller.policies import check_policy_file
    from ptyctl.fleet.site_state import publish_policy

    text = check_policy_file(path)
    print_message(f"published policy {asyncio.run(publish_policy(credentials, text))}; see its state with ptyctl fleet status")


@app.command()
def doctor(file: _File, as_json: AsJson = False) -> None:
    """Check the NATS servers of the site: key, buckets, copies, time of an answer. Exit code 6 if something is wrong."""
    credentials = read_credentials(file)
    from ptyctl.fleet.site_state import check_site

    checks = asyncio.run(check_site(credentials))
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            typer.echo(f"{'ok' if check.ok else 'failed':<8}{check.check}: {check.message}")
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_NO_CONNECTION)


def read_credentials(file: Path) -> Credentials:
    """Read the file of a node. Raises PtyctlError; UNSUPPORTED without the extra `fleet`."""
    require_extra()
    from ptyctl.fleet.credentials import load_credentials

    return load_credentials(file)


def require_extra() -> None:
    """Raise PtyctlError UNSUPPORTED without the extra `fleet`."""
    try:
        import nats  # noqa: F401
        import nkeys  # noqa: F401
    except ImportError:
        raise PtyctlError(
            ErrorCode.UNSUPPORTED, "this installation has no support for fleets", hint="run: pip install 'ptyctl[fleet]'"
        ) from None


async def _state(file: Path) -> dict[str, Any]:
    credentials = read_credentials(file)
    from ptyctl.fleet.site_state import read_site

    return await read_site(credentials)


def _time(epoch_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch_s))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _node_cells(row: dict[str, Any]) -> tuple[str, ...]:
    if not row["up"]:
        return row["node"], "unreachable", "", "", "", ""
    return (
        row["node"],
        "drained" if row["draining"] else "up",
        str(row["sessions"]),
        row["version"],
        row["address"],
        ", ".join(row["labels"]),
    )


def _moved_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return row["device_id"], row["node"] or "-", row["session_id"] or "-", f"{row['took_ms']} ms", row["why"] or ""


def _console_cells(row: dict[str, Any]) -> tuple[str, ...]:
    lease = row["lease"] or {}
    return row["device_id"], row["node"], row["session_id"], lease.get("holder", "-"), str(lease.get("fence", "-"))
