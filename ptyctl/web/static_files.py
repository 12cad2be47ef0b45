"""The files of the page: ours in `static/`, and those of third-party packages in `node_modules/` that vendor.json lists.

Files are looked up at each request, so that those that `make` installs later are found.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

from ptyctl.core.screen.cells import width_ranges

from .security import nonce_of

_FOLDER = Path(__file__).parent
#: Media types of the files that are sent, by suffix.
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
#: A browser asks at each load whether a file has changed.
_CACHE = {"Cache-Control": "no-cache"}
#: The module that is made of the server's own table.
_WIDTHS = "widths.js"
_NONCE_MARK = "{{nonce}}"
_MISSING = """\
This server has the API of the web console, but not the files of its page.
In a clone of the repository, run: make web
Otherwise install ptyctl from a wheel, which contains them.
"""


async def page(request: Request) -> Response:
    """Send the page, whatever the view; without its files, text that explains how to get them."""
    html = await asyncio.to_thread(_read_page)
    if html is None:
        return PlainTextResponse(_MISSING, 503)
    return HTMLResponse(html.replace(_NONCE_MARK, nonce_of(request.scope)))


async def static(request: Request) -> Response:
    """Send a file of ours, or the table of the widths of characters."""
    if request.path_params["path"] == _WIDTHS:
        text = await asyncio.to_thread(_widths)
        return Response(text, headers=_CACHE, media_type=_TYPES[".js"])
    return await _send(request, _FOLDER / "static")


async def vendor(request: Request) -> Response:
    """Send a file of a package, if it is in the list."""
    if request.path_params["path"] not in await asyncio.to_thread(_vendor_files):
        raise HTTPException(404)
    return await _send(request, _FOLDER / "node_modules")


@cache
def _widths() -> str:
    """Return a module with the widths that the server's screen uses, so that a page places the same cells."""
    zero, wide = (json.dumps(width_ranges()[columns], separators=(",", ":")) for columns in (0, 2))
    return f"export const ZERO = {zero};\nexport const WIDE = {wide};\n"


def _read_page() -> str | None:
    """Return the page; None if a file that it needs is missing."""
    try:
        html = (_FOLDER / "static/index.html").read_text("utf-8")
    except FileNotFoundError:
        return None
    return html if all((_FOLDER / "node_modules" / name).is_file() for name in _vendor_files()) else None


def _vendor_files() -> set[str]:
    packages: dict[str, list[str]] = json.loads((_FOLDER / "vendor.json").read_bytes())
    return {f"{package}/{file}" for package, files in packages.items() for file in files}


async def _send(request: Request, folder: Path) -> Response:
    found = await asyncio.to_thread(_find, folder.resolve(), request.path_params["path"])
    if found is None:
        raise HTTPException(404)
    path, status = found
    response = FileResponse(path, headers=_CACHE, media_type=_TYPES[path.suffix], stat_result=status)
    if request.headers.get("if-none-match") == response.headers["etag"]:
        return Response(status_code=304, headers={"ETag": response.headers["etag"], **_CACHE})
    return response


def _find(folder: Path, name: str) -> tuple[Path, os.stat_result] | None:
    """Return the file of a URL's path, if it is in the folder and of a known type."""
    try:
        path = (folder / name).resolve(strict=True)
        status = path.stat()
    except (OSError, ValueError):  # missing, too long, or with a NUL
        return None
    is_sent = path.is_relative_to(folder) and path.suffix in _TYPES and stat.S_ISREG(status.st_mode)
    return (path, status) if is_sent else None
