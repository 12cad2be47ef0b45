"""The files of `ptyctl fleet init` for a site with two nodes, and its server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fixtures.servers.nats import nats_server_path
from fixtures.servers.programs import free_port
from ptyctl.fleet.server_files import Site, write_site


@contextmanager
def site_server(folder: Path) -> Iterator[None]:
    """Run the server of a site with one."""
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([nats_server_path(), "-c", "nats-1.conf"], cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def new_site(tmp_path: Path) -> Path:
    write_site(tmp_path / "fleet", Site("fra", [f"127.0.0.1:{free_port()}"], ["alpha", "beta"]))
    return tmp_path / "fleet"
