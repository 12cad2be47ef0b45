"""Inventory files and programs in the folder of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ptyctl.inventory import Inventory

#: Each edit is a nanosecond later than the one before, whatever the file system's clock does.
_TIMES: Iterator[int] = iter(range(1_700_000_000_000_000_000, 1_700_000_000_000_001_000))


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)
    moment = next(_TIMES)
    os.utime(path, ns=(moment, moment))


def inventory(folder: Path, text: str) -> Inventory:
    path = folder / "devices.toml"
    write(path, text)
    return Inventory(path)


def script(folder: Path, body: str) -> str:
    """A program of one's own; gives its path."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)
