"""Runs the rows and prints the table."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from .contest import Plan, Result
from .rows import ROWS, run
from .table import Row, show

QUICK = Plan(turns=3, calls=20, seconds=0.1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(row.key for row in ROWS)} (all of them)")
    parser.add_argument("--quick", action="store_true", help="few turns: to see that it runs, not how fast")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    rows = [row for row in ROWS if not arguments.rows or any(wanted in row.key for wanted in arguments.rows)]
    # Into a file or a pipe the table is as wide as it needs to be.
    console = Console() if sys.stdout.isatty() else Console(width=180)
    results: list[tuple[Row, Result]] = []
    for row in rows:
        with console.status(row.work):
            results.append((row, run(row, QUICK if arguments.quick else Plan())))
    show(results, console)


if __name__ == "__main__":
    main()
