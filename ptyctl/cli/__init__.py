"""The command line. It translates and holds no logic; heavy parts are imported by the command that needs them."""

import os
import sys


def main() -> None:
    """The console script's entry. Each start of an MCP client comes by here, and may wait for nothing that it does not need."""
    _open_what_is_closed()
    match sys.argv[1:]:
        case ["mcp"]:
            _shim("core")
        case ["mcp", "--toolsets", toolsets]:
            _shim(toolsets)
        case arguments:
            sys.exit(run(arguments or ["--help"]))


def _open_what_is_closed() -> None:
    """Standard input, output and error, where whoever started us has closed them: nothing else may get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        sys.stdin or os.fdopen(0),
        sys.stdout or os.fdopen(1, "w"),
        sys.stderr or os.fdopen(2, "w"),
    )


def run(arguments: list[str]) -> int:
    """The exit code of a command."""
    try:
        return _run(arguments)
    except SystemExit:
        raise
    except KeyboardInterrupt:  # also one that comes while modules are imported
        return 130
    except _failures() as error:
        from .failing import told

        return told(error)


def _run(arguments: list[str]) -> int:
    """A list of sessions is asked for often, and needs nothing of what makes the other commands."""
    match arguments:
        case ["sessions", *options] if {*options} <= {"--all", "-a", "--json"}:
            from .listing import show

            show(everything=not {"--all", "-a"}.isdisjoint(options), as_json="--json" in options)
            sys.stdout.flush()
            return 0
        case ["--version"]:
            arguments = ["version"]
    from .main import app

    code = app(arguments, prog_name="ptyctl", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _failures() -> tuple[type[Exception], ...]:
    """They take long to import, and are looked at only when something was raised."""
    from .failing import FAILURES

    return FAILURES


def _shim(toolsets: str) -> None:
    from ptyctl.daemon.shim import run

    sys.exit(run(toolsets))


__all__ = ["main", "run"]
