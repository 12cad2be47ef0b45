"""Rows of the result table, their aims, and printing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from .measurement import OURS, Plan, Result

Unit = Literal["ms", "us", "MB/s", "KB"]


@dataclass(frozen=True, slots=True)
class Aim:
    """A limit of our value: a multiple of `reference`, or in the row's unit if `reference` is None.

    `minus` names a candidate whose value is first subtracted from ours.
    """

    relation: Literal["≤", "≥"]
    bound: float
    reference: str | None = None
    minus: str | None = None

    def ratio(self, result: Result) -> float | None:
        return result.ratio(self.reference, self.minus) if self.reference else None

    def met(self, result: Result) -> bool | None:
        """Return whether the limit is met; None if a value is missing."""
        value = self.ratio(result) if self.reference else result.value(OURS)
        if value is None:
            return None
        return value <= self.bound if self.relation == "≤" else value >= self.bound

    def text(self, unit: Unit) -> str:
        text = f"{self.relation} {self.bound:g}" + (f" × {self.reference}" if self.reference else f" {unit}")
        return text + (f", plus {self.minus}" if self.minus else "")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work. `floor` names the candidate that does the minimum work."""

    key: str
    work: str
    unit: Unit
    floor: str | None
    aims: tuple[Aim, ...]
    run: Callable[[Plan], Awaitable[Result]]


_MET = {True: "met", False: "NOT MET", None: "–"}


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _cells(row: Row, result: Result) -> list[str]:
    def labelled(name: str) -> str:
        return f"{name} {_number(result.value(name))}"

    others = [name for name in [*result.rounds, *result.missing] if name not in (OURS, row.floor)]
    ratios = [aim.ratio(result) for aim in row.aims]
    return [
        f"{row.work}, {row.unit}",
        _number(result.value(OURS)),
        labelled(row.floor) if row.floor else "–",
        "\n".join(map(labelled, others)) or "–",
        "\n".join("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        "\n".join(aim.text(row.unit) for aim in row.aims),
        "\n".join(_MET[aim.met(result)] for aim in row.aims),
    ]


def describe(row: Row, result: Result) -> str:
    """Return a row as one line of text, with the reasons of missing values."""
    values = [f"{name} {_number(result.value(name))}" for name in result.rounds]
    aims = [f"{aim.text(row.unit)}: {_MET[aim.met(result)]}" for aim in row.aims]
    reasons = [f"no {name}: {why}" for name, why in result.missing.items()]
    return f"{row.work}, {row.unit}: " + "; ".join([", ".join(values) or "–", *aims, *reasons])


def show(results: list[tuple[Row, Result]], console: Console) -> None:
    """Print the table, and then the reasons of missing values."""
    table = Table(show_lines=True)
    for title in ("work", OURS, "floor", "others", "ratio", "aim", "result"):
        # The last columns have one line per aim, aligned with each other.
        table.add_column(title, overflow="fold", no_wrap=title not in ("work", "floor"))
    for row, result in results:
        table.add_row(*_cells(row, result))
    console.print(table)
    for row, result in results:
        for name, why in result.missing.items():
            console.print(f"{row.key}: no {name}: {why}", style="yellow", highlight=False)
