"""The files of the page: which are sent, and which never are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptyctl.web import static_files
from tests.web.console import console
from tests.web.raw_request import request_target

VIEWS = ["/", "/login", "/s/x", "/s/x/b/1", "/s/x/at/17", "/approvals", "/search?q=a", "/devices", "/audit"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a page with one file of ours, and two packages with one listed file each."""
    folder = tmp_path / "web"
    for name, content in {
        "vendor.json": '{"@a/b": ["lib/b.mjs"]}',
        "static/index.html": '<meta name="csp-nonce" content="{{nonce}}">',
        "static/app.js": "export {};",
        "static/sub/view.js": "export {};",
        "static/notes.txt": "secret",
        "node_modules/@a/b/lib/b.mjs": "export {};",
        "node_modules/@a/b/lib/other.js": "secret",
        "node_modules/c/c.js": "secret",
        "app.py": "secret",
        "outside.js": "secret",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "static/link.js").symlink_to(folder / "outside.js")
    monkeypatch.setattr(static_files, "_FOLDER", folder)
    return folder


@pytest.mark.parametrize("view", VIEWS)
async def test_view_gets_the_page_with_the_nonce_of_its_policy(tmp_path: Path, folder: Path, view: str) -> None:
    async with console(tmp_path) as server, server.client() as client:
        reply = await client.get(view)
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        nonce = re.search("'nonce-([^']+)'", reply.headers["content-security-policy"])
        assert nonce is not None
        assert reply.text == f'<meta name="csp-nonce" content="{nonce[1]}">'


async def test_files_are_sent_with_type_and_validator(tmp_path: Path, folder: Path) -> None:
    async with console(tmp_path) as server, server.client() as client:
        for path in ("/static/app.js", "/static/sub/view.js", "/vendor/@a/b/lib/b.mjs"):
            reply = await client.get(path)
            assert (reply.status_code, reply.text) == (200, "export {};")
            assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
            assert reply.headers["cache-control"] == "no-cache"
            again = await client.get(path, headers={"If-None-Match": reply.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "target",
    [
        "/static/",
        "/static/none.js",
        "/static/notes.txt",
        "/static/link.js",
        "/static/../app.py",
        "/static/../outside.js",
        "/static/%2e%2e/outside.js",
        "/static/..%2foutside.js",
        "/static/..%5coutside.js",
        "/static/sub/../../outside.js",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/app.js%00.txt",
        "/static/" + "a" * 5000 + ".js",
        "/vendor/",
        "/vendor/c/c.js",
        "/vendor/@a/b/../../c/c.js",
        "/vendor/@a/b/%2e%2e/%2e%2e/c/c.js",
        "/vendor/@a/b/lib/other.js",
        "/vendor/@a/b/lib/b.mjs/../other.js",
        "/vendor/@a/b/../../../outside.js",
        "/vendor/vendor.json",
        "//evil.example/static/app.js/",
    ],
)
async def test_path_outside_the_files_is_not_found(tmp_path: Path, folder: Path, target: str) -> None:
    async with console(tmp_path) as server:
        status, body = await request_target(server.port, target)
        assert status in (403, 404)
        assert b"secret" not in body
        assert b"root:" not in body


async def test_page_without_packages_tells_how_to_get_them(tmp_path: Path, folder: Path) -> None:
    (folder / "node_modules/@a/b").rename(folder / "elsewhere")
    async with console(tmp_path) as server:
        async with server.client() as client:
            reply = await client.get("/")
            assert (reply.status_code, reply.headers["content-type"]) == (503, "text/plain; charset=utf-8")
            assert "make web" in reply.text
        async with server.browser() as browser:
            assert (await browser.get("/api/me")).status_code == 200
        (folder / "elsewhere").rename(folder / "node_modules/@a/b")  # installed later
        async with server.client() as client:
            assert (await client.get("/")).status_code == 200
