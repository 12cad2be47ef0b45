"""The table: a row for each kind of work, with the aims that the design sets for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from .contest import OURS, Plan, Result

Unit = Literal["ms", "MB/s", "KB"]


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on ours: as a multiple of `beside`, or in the row's unit where `beside` is None; `worst`: in every turn."""

    relation: Literal["≤", "≥"]
    bound: float
    beside: str | None = None
    less: str | None = None
    worst: bool = False

    def ratio(self, result: Result) -> float | None:
        return result.ratio(self.beside, self.less, worst=self.worst) if self.beside else None

    def met(self, result: Result) -> bool | None:
        """None where one side is missing."""
        value = self.ratio(result) if self.beside else result.value(OURS)
        if value is None:
            return None
        return value <= self.bound if self.relation == "≤" else value >= self.bound

    def text(self, unit: Unit) -> str:
        told = f"{self.relation} {self.bound:g}" + (f" × {self.beside}" if self.beside else f" {unit}")
        return told + (f", plus {self.less}" if self.less else "")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work. `floor` names the contestant that does the least that must be done."""

    key: str
    work: str
    unit: Unit
    floor: str | None
    aims: tuple[Aim, ...]
    run: Callable[[Plan], Awaitable[Result]]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _cells(row: Row, result: Result) -> list[str]:
    def told(name: str) -> str:
        return f"{name} {_number(result.value(name))}"

    others = [name for name in [*result.turns, *result.missing] if name not in (OURS, row.floor)]
    ratios = [aim.ratio(result) for aim in row.aims]
    met = {True: "yes", False: "NO", None: "–"}
    return [
        f"{row.work}, {row.unit}",
        _number(result.value(OURS)),
        told(row.floor) if row.floor else "–",
        "\n".join(map(told, others)) or "–",
        "\n".join("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        "\n".join(aim.text(row.unit) for aim in row.aims),
        "\n".join(met[aim.met(result)] for aim in row.aims),
    ]


def show(results: list[tuple[Row, Result]], console: Console) -> None:
    """Prints the table, then why something is missing from it."""
    table = Table(show_lines=True)
    for title in ("work", OURS, "floor", "others", "ratio", "aim", "met?"):
        # The last columns have a line for each aim: those lines must stay level.
        table.add_column(title, overflow="fold", no_wrap=title not in ("work", "floor"))
    for row, result in results:
        table.add_row(*_cells(row, result))
    console.print(table)
    for row, result in results:
        for name, why in result.missing.items():
            console.print(f"{row.key}: no {name}: {why}", style="yellow", highlight=False)
