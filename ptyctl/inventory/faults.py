"""What is wrong in devices.toml, told so that it can be mended: file, place, problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ptyctl.api.errors import PtyctlError, invalid

#: So many are told in words; `details.faults` has all.
MAX_TOLD = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """`field` is the place in the file, as `devices.switch-001.port`. No problem repeats the value that is wrong."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Faulty(Exception):
    """The file says what cannot be."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        super().__init__()
        self.faults = list(faults)

    def told(self, path: Path) -> PtyctlError:
        """The error for whoever wanted a device."""
        words = "; ".join(map(str, self.faults[:MAX_TOLD]))
        more = f"; and {len(self.faults) - MAX_TOLD} more" if len(self.faults) > MAX_TOLD else ""
        return invalid(
            f"{path}: {words}{more}. Mend the file; it is read again at the next use",
            file=str(path),
            faults=[{"field": fault.field, "problem": fault.problem} for fault in self.faults],
        )


def faults_of(error: ValidationError, place: str = "") -> list[Fault]:
    """What pydantic found, without the values that it found wrong."""
    found = []
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        parts = [place, *map(str, fault["loc"])] if place else list(map(str, fault["loc"]))
        problem = "is not known here" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        found.append(Fault(".".join(parts) or "the file", problem))
    return found
