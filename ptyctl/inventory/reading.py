"""From the file to its devices. All of it blocks, and is run beside the event loop."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from ptyctl.api.errors import ErrorCode, PtyctlError

from .checks import faults_in
from .faults import Fault, Faulty, faults_of
from .merging import layers, merge
from .model import Device, Document

#: Of a file, to tell an edit: st_mtime_ns, st_size, st_ino. An editor that writes a new file in its place changes the last.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Contents:
    """A file that is right: `devices` are merged with their groups and the defaults."""

    document: Document
    devices: Mapping[str, Device]


def stamp_of(path: Path) -> Stamp:
    """Raises PtyctlError: NOT_FOUND where there is no file, IO_ERROR, POLICY_DENIED where anybody could change it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise PtyctlError(
            ErrorCode.NOT_FOUND,
            f"there is no inventory at {path}; make it, or name yours in PTYCTL_DEVICES_FILE as the server starts",
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if status.st_mode & stat.S_IWOTH:
        raise PtyctlError(
            ErrorCode.POLICY_DENIED,
            f"{path} can be changed by anybody, and it says which programs give passwords; run: chmod o-w {path}",
            {"file": str(path)},
        )
    return status.st_mtime_ns, status.st_size, status.st_ino


def read(path: Path) -> Contents:
    """Raises PtyctlError: IO_ERROR; INVALID_ARGUMENT with every fault of the file."""
    try:
        tables = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise Faulty([Fault("the file", "is not in UTF-8")]).told(path) from None
    except tomllib.TOMLDecodeError as error:
        raise Faulty([Fault("the file", f"is no TOML: {error}")]).told(path) from None
    try:
        return contents_of(tables)
    except Faulty as error:
        raise error.told(path) from None


def contents_of(tables: Mapping[str, Any]) -> Contents:
    """The tables of a file, checked and merged.

    Raises:
        Faulty: with all that is wrong in them.
    """
    try:
        document = Document.model_validate_json(to_json(tables), strict=True)
    except ValidationError as error:
        raise Faulty(faults_of(error)) from None
    faults: list[Fault] = []
    devices: dict[str, Device] = {}
    for name in document.devices:
        try:
            devices[name] = _merged(name, tables)
        except Faulty as error:
            faults += error.faults
    faults += faults_in(document, devices)
    if faults:
        raise Faulty(faults)
    return Contents(document, devices)


def _merged(name: str, tables: Mapping[str, Any]) -> Device:
    place, groups = f"devices.{name}", tables.get("groups", {})
    try:
        merged = merge(layers(tables["devices"][name], tables.get("defaults", {}), groups))
        return Device.model_validate_json(to_json(merged), strict=True)
    except KeyError as error:
        raise Faulty([Fault(place, f"there is no [groups.{error.args[0]}], which it or a group of it names; add it")]) from None
    except CycleError as error:
        raise Faulty([Fault(place, f"its groups go in a circle: {error.args[0]}; take one of them out")]) from None
    except ValidationError as error:
        raise Faulty(faults_of(error, f"{place} (with its groups and the defaults)")) from None


def _unreadable(path: Path, error: OSError) -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        f"the inventory {path} cannot be read: {error.strerror}; check its owner and mode",
        {"file": str(path)},
    )
