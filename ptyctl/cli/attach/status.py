"""The row that tells a person where they are and who may type."""

from __future__ import annotations

from dataclasses import dataclass

HELP = "first on a line: ~. detach  ~w take or give back the lock  ~B BREAK  ~~ one ~"


@dataclass(frozen=True, slots=True)
class Situation:
    """`size` is the session's, `shown` what there is room for (columns, rows); `message` is told instead of the rest."""

    name: str
    holder: str | None
    ours: bool
    waiting: bool
    size: tuple[int, int]
    shown: tuple[int, int]
    message: str = ""


def told(situation: Situation) -> str:
    """What others have named does not act here."""
    return "".join(filter(str.isprintable, situation.message or _situation(situation)))


def row(text: str, cols: int) -> str:
    """As it is drawn, over the whole width."""
    return f"\x1b[7m{f' {text}'[:cols].ljust(cols)}\x1b[m"


def _situation(situation: Situation) -> str:
    parts = [situation.name, _lock(situation)]
    if situation.size[0] > situation.shown[0] or situation.size[1] > situation.shown[1]:
        parts.append("part of {}x{}".format(*situation.size))
    return " | ".join([*parts, "~? help"])


def _lock(situation: Situation) -> str:
    if situation.ours:
        return "you type"
    if situation.waiting:
        return f"waiting for the lock of {situation.holder}" if situation.holder else "waiting for the lock"
    return f"{situation.holder} types" if situation.holder else "nobody types; ~w to type"
