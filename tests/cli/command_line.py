"""Commands as they are given, in this process: what they print, and their exit code."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from ptyctl.cli import run

BASH = ("--", "bash", "--norc", "--noprofile")


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ptyctl(*arguments: str) -> Ran:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(list(arguments))
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    out.flush()
    err.flush()
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def opened(*options: str, command: tuple[str, ...] = BASH) -> str:
    """A local session's id."""
    ran = ptyctl("open", "local", *options, *command)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}\n", ran.out), ran
    return ran.out.strip()


def is_one_line(text: str) -> bool:
    return text.startswith("ptyctl: ") and text.count("\n") == 1
