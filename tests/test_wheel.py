"""The wheel contains the page of the web console."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import zipfile
from pathlib import Path

from fixtures.servers.programs import require

_ROOT = Path(__file__).parents[1]
_WEB = _ROOT / "ptyctl" / "web"


async def test_wheel_contains_only_the_served_modules_and_their_licences(tmp_path: Path) -> None:
    require(importlib.util.find_spec("hatchling") is not None, "hatchling is not installed: pip install -e '.[ci]'")
    require((_WEB / "node_modules").is_dir(), "the modules of the page are missing: run npm ci in ptyctl/web")
    environment = {name: value for name, value in os.environ.items() if name != "HATCH_BUILD_NO_HOOKS"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    build = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, env=environment)
    assert await build.wait() == 0
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contained = {name for name in archive.namelist() if "node_modules/" in name}
    served = json.loads((_WEB / "vendor.json").read_text())
    assert set(served) == set(json.loads((_WEB / "package.json").read_text())["dependencies"])
    files = {f"{package}/{file}" for package, names in served.items() for file in (*names, "package.json", "LICENSE")}
    assert contained == {f"ptyctl/web/node_modules/{file}" for file in files}
