"""Where a secret is kept. The inventory names the place, never the secret: the file can be read, copied and shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationError
from pydantic_core import to_json

from ptyctl.api.model import Value

from .faults import faults_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: How a reference is written; every refusal ends with it.
SHAPES = 'env:NAME, file:PATH, keyring:SERVICE/USER or {command = ["pass", "show", "x"]}'


class FromEnvironment(Value):
    """An environment variable of the server."""

    name: str

    def __str__(self) -> str:
        return f"env:{self.name}"


class FromFile(Value):
    """The first line of a file that only its owner can read. `path` is relative to the inventory's folder."""

    path: str

    def __str__(self) -> str:
        return f"file:{self.path}"


class FromKeyring(Value):
    """The system's keyring, by way of the optional package of that name."""

    service: str
    user: str

    def __str__(self) -> str:
        return f"keyring:{self.service}/{self.user}"


class FromCommand(Value):
    """The first line that a program prints, as `pass` and its like do. No shell is involved."""

    command: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(10.0, gt=0, le=300)

    def __str__(self) -> str:
        return f"the command {self.command[0]}"


def _environment(rest: str) -> FromEnvironment:
    if not _NAME.fullmatch(rest):
        raise ValueError("behind env: stands the name of an environment variable (letters, digits and _)")
    return FromEnvironment(name=rest)


def _file(rest: str) -> FromFile:
    if not rest or "\0" in rest:
        raise ValueError("behind file: stands a path")
    return FromFile(path=rest)


def _keyring(rest: str) -> FromKeyring:
    service, slash, user = rest.rpartition("/")
    if not (service and slash and user):
        raise ValueError("behind keyring: stand a service and a user with a / between them")
    return FromKeyring(service=service, user=user)


_SCHEMES: dict[str, Callable[[str], Value]] = {"env": _environment, "file": _file, "keyring": _keyring}


def _command(table: Any) -> FromCommand:
    try:
        return FromCommand.model_validate_json(to_json(table), strict=True)
    except ValidationError as error:
        raise ValueError("; ".join(map(str, faults_of(error)))) from None


def _parse(value: Any) -> Any:
    """A reference as the inventory writes it.

    Raises:
        ValueError: it is none. It may be a secret that was written down by mistake, so the text does not repeat it.
    """
    if isinstance(value, dict):
        return _command(value)
    scheme, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or scheme not in _SCHEMES:
        raise ValueError(f"names no place where a secret is kept; use {SHAPES}")
    return _SCHEMES[scheme](rest)


Reference = Annotated[FromEnvironment | FromFile | FromKeyring | FromCommand, PlainValidator(_parse)]
