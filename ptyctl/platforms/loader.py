"""Loads platform files: the built-in ones and those in the user's folder, which replace built-in ones of the same name."""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from ptyctl.api.errors import PtyctlError, invalid, unsupported
from ptyctl.api.field_faults import field_faults

from .platform import Platform

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
#: The platform whose lists `_SHARED` and `login` are appended to those of every other platform.
COMMON = "generic"
_SHARED = ("confirmations", "free_text", "syslog", "look_alikes")


class Platforms:
    """The platforms by name. A file is read once, when its platform is first requested; a built-in one once in a process."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create the loader. `folder` has the user's `<name>.toml` files.

        Raises:
            PtyctlError: INVALID_ARGUMENT if the folder cannot be read or a file name is not a platform name.
        """
        self._files: dict[str, Traversable] = {}
        for place in (resources.files(__package__), *([folder] if folder else ())):
            self._files.update(_files_in(place))
        self._users = frozenset(_files_in(folder)) if folder else frozenset()
        self._loaded: dict[str, Platform] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))

    def is_users(self, name: str) -> bool:
        """Return whether the platform's file is in the user's folder."""
        return name in self._users

    def get(self, name: str) -> Platform:
        """Return the platform with a name.

        Raises:
            PtyctlError: UNSUPPORTED for an unknown name; INVALID_ARGUMENT for a faulty file, naming the field.
        """
        if name not in self._files:
            raise unsupported(
                f"platform {name!r} is not known", hint=f"use one of: {', '.join(self.names())}", field="platform"
            )
        if name not in self._loaded:
            is_built_in = self._users.isdisjoint((name, COMMON))
            self._loaded[name] = _built_in(name) if is_built_in else self._load(name)
        return self._loaded[name]

    def all(self) -> dict[str, Platform]:
        """Return all platforms by name. Raises PtyctlError as `get`, for the first faulty file."""
        return {name: self.get(name) for name in self.names()}

    def faults(self) -> dict[str, PtyctlError]:
        """Return the errors of faulty files, by platform name."""
        found = {}
        for name in self.names():
            try:
                self.get(name)
            except PtyctlError as error:
                found[name] = error
        return found

    def _load(self, name: str) -> Platform:
        tables = _read(self._files[name])
        return _validated(self._files[name], tables if name == COMMON else _with_common(tables, self._common))

    @cached_property
    def _common(self) -> dict[str, Any]:
        self.get(COMMON)  # a fault in it is reported under its own name
        return _read(self._files[COMMON])


def common() -> Platform:
    """Return the platform of an unknown device."""
    return _built_in(COMMON)


@cache
def _built_in(name: str) -> Platform:
    """Return a built-in platform. Cached, because the files of the package do not change."""
    return Platforms()._load(name)


def _files_in(place: Traversable) -> dict[str, Traversable]:
    try:
        files = {file.name.removesuffix(".toml"): file for file in place.iterdir() if file.name.endswith(".toml")}
    except OSError as error:
        raise invalid(f"the platform folder {place} cannot be read: {error.strerror}", hint="name another folder") from None
    for name, file in files.items():
        if not _NAME.fullmatch(name):
            raise invalid(
                f"{file}: a platform name consists of lower-case letters, digits and _", hint="rename the file", path=str(file)
            )
    return files


def _read(file: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise invalid(f"{file} cannot be read: {error.strerror}", path=str(file)) from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise invalid(f"{file} is not valid TOML: {error}", path=str(file)) from None


def _with_common(tables: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    """Append the common lists to those of the platform. The validation reports values of a wrong type."""
    merged = {**tables, **{key: _joined(tables, common, key) for key in _SHARED if key in common}}
    login = tables.get("login", {})
    if isinstance(login, dict):
        merged["login"] = {**login, **{key: _joined(login, common["login"], key) for key in common.get("login", {})}}
    return merged


def _joined(own: dict[str, Any], common: dict[str, Any], key: str) -> Any:
    first = own.get(key, [])
    return [*first, *common[key]] if isinstance(first, list) else first


def _validated(file: Traversable, tables: dict[str, Any]) -> Platform:
    try:
        return Platform.model_validate_json(to_json(tables), strict=True)
    except ValidationError as error:
        faults = [(fault.toml_path, fault.problem) for fault in field_faults(error, Platform)]
        listed = "; ".join(f"{field}: {problem}" if field else problem for field, problem in faults)
        raise invalid(
            f"{file}: {listed}",
            hint="docs/platforms.md explains the fields",
            path=str(file),
            fields=[field for field, _ in faults],
        ) from None
