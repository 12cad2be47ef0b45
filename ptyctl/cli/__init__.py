"""The command line: a client of the daemon that parses arguments, calls the Controller protocol and prints replies.

Start in `app.py`, which lists the commands. Each command group has a module (`*_commands.py`); `attach/` and
`demo/` are folders. `frequent_commands.py` has sessions, exec, send, tail, lock, unlock and close. `client.py` connects to the
daemon, `output.py` prints, `errors.py` prints errors and chooses exit codes.

This package may import everything else in `ptyctl`. Modules that are slow to import (controller, inventory, MCP SDK, rich)
are imported in the function that uses them.
"""

import os
import sys

from ptyctl.environment import environment_warnings, unknown_variables


def main() -> None:
    """Run the `ptyctl` console script.

    `ptyctl mcp` is handled before the other commands are imported, because an MCP client waits for its start.
    """
    _reopen_standard_files()
    _warn_of_unknown_variables()
    match sys.argv[1:]:
        case ["mcp"]:
            _run_shim("core")
        case ["mcp", "--toolsets", toolsets]:
            _run_shim(toolsets)
        case arguments:
            sys.exit(run(arguments or ["--help"]))


def run(arguments: list[str]) -> int:
    """Run the command with these arguments and return its exit code."""
    try:
        return _run(arguments)
    except SystemExit:
        raise
    except KeyboardInterrupt:  # can also arrive during imports
        return 130
    except _reported_errors() as error:
        from .errors import report_error

        return report_error(error)


def _reopen_standard_files() -> None:
    """Open /dev/null for standard files that the parent process closed, so that no other file gets descriptor 0, 1 or 2."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        sys.stdin or os.fdopen(0),
        sys.stdout or os.fdopen(1, "w"),
        sys.stderr or os.fdopen(2, "w"),
    )


def _warn_of_unknown_variables() -> None:
    """Print a warning for each unknown PTYCTL_* variable; nothing to a shell that completes a command line."""
    if "_PTYCTL_COMPLETE" in os.environ or not unknown_variables(os.environ):
        return
    from ptyctl.controller.settings import inventory_file

    from .errors import print_message

    for warning in environment_warnings(inventory_file()):
        print_message(warning)


def _run(arguments: list[str]) -> int:
    """Run one command. Commands that are used often skip the imports of the others."""
    from .frequent_commands import run_frequent

    code = run_frequent(arguments)
    if code is None:
        from .app import click_command

        words = ["version"] if arguments == ["--version"] else arguments
        code = click_command()(words, prog_name="ptyctl", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _reported_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions to report. Their modules are only needed after an exception."""
    from .errors import reported_errors

    return reported_errors()


def _run_shim(toolsets: str) -> None:
    from ptyctl.daemon.shim import run

    sys.exit(run(toolsets))


__all__ = ["main", "run"]
