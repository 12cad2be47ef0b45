"""`ptyctl web`: opens the daemon's web console in a browser."""

from __future__ import annotations

import html
import os
import webbrowser
from typing import Annotated

import typer

from ptyctl.daemon.control import WEB, WEB_LISTEN, BlockingClient
from ptyctl.daemon.runtime_dir import RuntimeDir

from .errors import print_message
from .options import AsJson
from .output import print_json

#: Variables that show that a browser can open a window, or which one to use.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}"><title>ptyctl</title>\n'


def web(
    listen: Annotated[str | None, typer.Option(help=f"HOST:PORT of the console, on loopback. Default: {WEB_LISTEN}.")] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser, or print the address.")] = True,
    as_json: AsJson = False,
) -> None:
    """Open the web console: see all terminals, decide about approvals, take over. Starts the daemon if it is not running.

    The address logs in once, within a minute.
    """
    runtime_dir = RuntimeDir()
    with BlockingClient(runtime_dir) as daemon:
        reply = daemon.call(WEB, {} if listen is None else {"listen": listen})
    url = f"{reply['url']}/#ticket={reply['ticket']}"
    if as_json:
        print_json({"url": url})
        return
    if listen is not None and not reply["opened"]:
        print_message(f"the console listens at {reply['url']} already; to change that: ptyctl daemon restart")
    if open_browser and any(os.environ.get(name) for name in _DISPLAYS) and _open(url, runtime_dir):
        print_message("opened in a browser; if you do not see it, open this address:")
    typer.echo(url)


def _open(url: str, runtime_dir: RuntimeDir) -> bool:
    """Open a browser. Returns whether there is one.

    It gets a file that only the user can read: other users of the machine see a program's arguments, but not the ticket.
    """
    if runtime_dir.is_system:
        return False
    page = runtime_dir.path / "web.html"
    page.unlink(missing_ok=True)
    page.touch(0o600)
    page.write_text(_REDIRECT.format(url=html.escape(url)))
    return webbrowser.open(page.as_uri())
