"""Faults in devices.toml, and the error that reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.field_faults import field_faults

#: How many faults the error message lists; `details.faults` has all of them.
MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in the file.

    Attributes:
        field: the place in the file, for example `devices.switch-001.port`.
        problem: what is wrong. Never repeats the rejected value, which may be a secret.
    """

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class InvalidInventory(Exception):
    """The content of the file is invalid."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        super().__init__()
        self.faults = list(faults)

    def as_error(self, path: Path) -> PtyctlError:
        """Return the error for the caller, with the first faults in the message and all in the details."""
        listed = "; ".join(map(str, self.faults[:MAX_LISTED]))
        more = f"; and {len(self.faults) - MAX_LISTED} more" if len(self.faults) > MAX_LISTED else ""
        return invalid(
            f"{path}: {listed}{more}",
            hint="correct the file; it is read again at the next use",
            file=str(path),
            faults=[{"field": fault.field, "problem": fault.problem} for fault in self.faults],
        )


def model_faults(error: ValidationError, place: str = "") -> list[Fault]:
    """Return the faults that pydantic found, without the rejected values. `place` is prepended to each field."""
    faults = []
    for fault in field_faults(error):
        parts = [place, *fault.location] if place else fault.location
        faults.append(Fault(".".join(map(str, parts)) or "the file", fault.problem))
    return faults
