"""Runs the benchmark rows and prints the table."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from rich.console import Console

from .measurement import Plan, Result
from .rows import ROWS, run
from .table import Row, describe, show

QUICK = Plan(rounds=3, calls=20, seconds=0.1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"names or parts of names (default: all): {', '.join(row.key for row in ROWS)}"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: checks that the rows run; the values mean nothing")
    parser.add_argument("--full-size", action="store_true", help="large-*: 300 MB, 400 MB and 1 GiB; takes many minutes")
    parser.add_argument(
        "--entry",
        action="append",
        default=[],
        metavar="TEXT",
        help="hostile-*: entries with this in their name",
    )
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    rows = [row for row in ROWS if not arguments.rows or any(wanted in row.key for wanted in arguments.rows)]
    plan = QUICK if arguments.quick else Plan()
    plan = replace(plan, full_size=arguments.full_size, entries=tuple(arguments.entry))
    # A file or pipe has no width; 180 columns fit the table.
    console = Console() if sys.stdout.isatty() else Console(width=180)
    results: list[tuple[Row, Result]] = []
    started = time.monotonic()
    for left, row in zip(reversed(range(len(rows))), rows, strict=True):
        with console.status(row.work):
            result = run(row, plan)
        results.append((row, result))
        minutes, seconds = divmod(round(time.monotonic() - started), 60)
        progress = f"[{minutes}:{seconds:02} elapsed, {left} of {len(rows)} rows left]"
        console.print(progress, describe(row, result), highlight=False, markup=False)
    show(results, console)


if __name__ == "__main__":
    main()
