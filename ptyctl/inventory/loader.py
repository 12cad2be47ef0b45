"""Reads devices.toml, merges defaults, groups and devices, and looks devices up by name."""

from __future__ import annotations

import asyncio
import difflib
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError

from .faults import Fault, InvalidInventory, model_faults
from .model import Document, InventoryDevice, cross_table_faults
from .target import Route, Target, TargetResolver

#: Identifies a version of the file: st_mtime_ns, st_size, st_ino. The inode changes when an editor replaces the file.
_FileVersion = tuple[int, int, int]
_Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InventoryContents:
    """The content of a valid file. `devices` are merged with their groups and the defaults."""

    document: Document
    devices: Mapping[str, InventoryDevice]


class Inventory:
    """The devices of one file. Each use checks the file, so that an edit applies at the next use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: _FileVersion | None = None
        self._contents: InventoryContents | None = None

    async def devices(self) -> Mapping[str, InventoryDevice]:
        """Return all devices by name, merged with their groups and the defaults. Fetches no secret.

        Raises:
            PtyctlError: NOT_FOUND without a file; IO_ERROR, POLICY_DENIED; INVALID_ARGUMENT with all faults of the file.
        """
        return (await self._load()).devices

    async def device(self, name: str) -> InventoryDevice:
        """Return a device, merged with its groups and the defaults. Fetches no secret.

        Raises:
            PtyctlError: as `devices`; NOT_FOUND for an unknown name.
        """
        return self._find(await self._load(), name)

    async def resolve(self, name: str) -> Target:
        """Return a device with its secrets, which are fetched by this call.

        Raises:
            PtyctlError: as `device`; the errors of `secrets.fetch_secret`.
        """
        contents = await self._load()
        return await TargetResolver(contents.document, self.path.parent).resolve(name, self._find(contents, name))

    async def route(self, name: str) -> Route:
        """Return how a device is reached. Fetches no secret.

        Raises:
            PtyctlError: as `device`.
        """
        contents = await self._load()
        return TargetResolver(contents.document, self.path.parent).route(name, self._find(contents, name))

    async def _load(self) -> InventoryContents:
        version = await asyncio.to_thread(_file_version, self.path)
        if self._contents is None or version != self._version:
            # The version is read first: if the file changes in between, it is read once more at the next use.
            contents = await asyncio.to_thread(_read, self.path)
            self._version, self._contents = version, contents
        return self._contents

    def _find(self, contents: InventoryContents, name: str) -> InventoryDevice:
        """Return a device. Raises PtyctlError NOT_FOUND."""
        if (device := contents.devices.get(name)) is not None:
            return device
        near = difflib.get_close_matches(name, contents.devices, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else NextStep.LIST_DEVICES
        raise PtyctlError(
            ErrorCode.NOT_FOUND, f"no device {name!r} in {self.path}", {"field": "device", "near": near}, hint=hint
        )


def parse(tables: Mapping[str, Any]) -> InventoryContents:
    """Check and merge the tables of a file.

    Raises:
        InvalidInventory: with all faults.
    """
    try:
        document = Document.model_validate_json(to_json(tables), strict=True)
    except ValidationError as error:
        raise InvalidInventory(model_faults(error)) from None
    faults: list[Fault] = []
    devices: dict[str, InventoryDevice] = {}
    for name in document.devices:
        try:
            devices[name] = _merge_device(name, tables)
        except InvalidInventory as error:
            faults += error.faults
    faults += cross_table_faults(document, devices)
    if faults:
        raise InvalidInventory(faults)
    return InventoryContents(document, devices)


def merge(tables: Iterable[_Table]) -> dict[str, Any]:
    """Merge tables into one: a later value replaces an earlier one, nested tables are merged recursively.

    The table of a secret (`{command = [...]}`) is replaced as a whole: parts of two commands make no command.
    """
    merged: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            before = merged.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping) and "command" not in value:
                value = merge([before, value])
            merged[key] = value
    return merged


def device_layers(device: _Table, defaults: _Table, groups: Mapping[str, _Table]) -> Iterator[_Table]:
    """Yield the tables that are merged into a device, weakest first: defaults, groups, the device.

    Raises:
        KeyError, CycleError: as `group_order`.
    """
    yield defaults
    for name in group_order(device.get("groups") or (), groups):
        yield {key: value for key, value in groups[name].items() if key != "groups"}
    yield device


def group_order(names: Iterable[str], groups: Mapping[str, _Table]) -> list[str]:
    """Return the groups in merge order: each once, parents before children, otherwise as listed.

    Raises:
        KeyError: for an undefined group.
        CycleError: for a group that contains itself; the argument describes the cycle.
    """
    order: list[str] = []
    for name in names:
        _visit_group(name, groups, (), order)
    return order


def _visit_group(name: str, groups: Mapping[str, _Table], path: tuple[str, ...], order: list[str]) -> None:
    if name in path:
        raise CycleError(" > ".join((*path[path.index(name) :], name)))
    if name in order:
        return
    for parent in groups[name].get("groups") or ():
        _visit_group(parent, groups, (*path, name), order)
    order.append(name)


def _merge_device(name: str, tables: Mapping[str, Any]) -> InventoryDevice:
    place, groups = f"devices.{name}", tables.get("groups", {})
    try:
        merged = merge(device_layers(tables["devices"][name], tables.get("defaults", {}), groups))
        return InventoryDevice.model_validate_json(to_json(merged), strict=True)
    except KeyError as error:
        fault = Fault(place, f"there is no [groups.{error.args[0]}], which it or one of its groups names")
        raise InvalidInventory([fault]) from None
    except CycleError as error:
        raise InvalidInventory([Fault(place, f"its groups form a cycle: {error.args[0]}")]) from None
    except ValidationError as error:
        raise InvalidInventory(model_faults(error, f"{place} (with its groups and the defaults)")) from None


def _file_version(path: Path) -> _FileVersion:
    """Return the version of the file. Blocks."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise PtyctlError(
            ErrorCode.NOT_FOUND,
            f"there is no inventory at {path}",
            hint="create it, or set PTYCTL_DEVICES_FILE when the server starts",
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if status.st_mode & stat.S_IWOTH:
        raise PtyctlError(
            ErrorCode.POLICY_DENIED,
            f"{path} is world-writable, and it names programs that print passwords",
            {"file": str(path)},
            hint=f"run: chmod o-w {path}",
        )
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> InventoryContents:
    """Read and check the file. Blocks."""
    try:
        return parse(tomllib.loads(path.read_bytes().decode()))
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise InvalidInventory([Fault("the file", "is not in UTF-8")]).as_error(path) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInventory([Fault("the file", f"is not valid TOML: {error}")]).as_error(path) from None
    except InvalidInventory as error:
        raise error.as_error(path) from None


def _unreadable(path: Path, error: OSError) -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        f"the inventory {path} cannot be read: {error.strerror}",
        {"file": str(path)},
        hint="check its owner and mode",
    )
