"""The command line. It translates and holds no logic; heavy parts are imported by the command that needs them."""

import sys


def main() -> None:
    """The console script's entry. Each start of an MCP client comes by here, and may wait for nothing that it does not need."""
    match sys.argv[1:]:
        case ["mcp"]:
            _shim("core")
        case ["mcp", "--toolsets", toolsets]:
            _shim(toolsets)
        case _:
            from .main import app

            app()


def _shim(toolsets: str) -> None:
    from ptyctl.daemon.shim import run

    sys.exit(run(toolsets))


__all__ = ["main"]
