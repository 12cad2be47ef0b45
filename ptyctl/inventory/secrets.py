"""References to secrets, and how the secrets are fetched.

The inventory names the place of a secret, never the secret itself, so the file can be read, copied and shown. A fetched secret
is not cached: a change applies at the next open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import stat
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, SecretStr, ValidationError
from pydantic_core import to_json

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid, unsupported
from ptyctl.api.model import Value

from .faults import model_faults

#: The forms of a reference, for error messages.
FORMS = 'env:NAME, file:PATH, keyring:SERVICE/USER or {command = ["pass", "show", "x"]}'
#: How much of a file or of a program's output is read. A secret is shorter.
MAX_BYTES = 64 * 1024
#: A keyring may first ask its user, who may be absent.
KEYRING_TIMEOUT_S = 10.0
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# The errors of `read` are completed by `fetch_secret`, which knows the field.


class EnvironmentSecret(Value):
    """An environment variable of the server."""

    name: str

    def __str__(self) -> str:
        return f"env:{self.name}"

    async def read(self, _folder: Path) -> bytes:
        raw = os.environb.get(self.name.encode())
        if raw is None:
            raise invalid("is not set in the server's environment", hint="set the variable and restart the server")
        return raw


class FileSecret(Value):
    """The first line of a file that only its owner can read. `path` is relative to the inventory's folder."""

    path: str

    def __str__(self) -> str:
        return f"file:{self.path}"

    async def read(self, folder: Path) -> bytes:
        return await asyncio.to_thread(_read_file, folder / Path(self.path).expanduser())


class KeyringSecret(Value):
    """An entry of the system's keyring, read with the optional package `keyring`."""

    service: str
    user: str

    def __str__(self) -> str:
        return f"keyring:{self.service}/{self.user}"

    async def read(self, _folder: Path) -> bytes:
        try:
            import keyring
            from keyring.errors import KeyringError
        except ImportError:
            raise unsupported("needs a package that is not installed", hint="run: pip install 'ptyctl[keyring]'") from None
        try:
            async with asyncio.timeout(KEYRING_TIMEOUT_S):
                secret = await asyncio.to_thread(keyring.get_password, self.service, self.user)
        except TimeoutError:
            raise _failed(f"gave no answer in {KEYRING_TIMEOUT_S:g} s", hint="unlock the keyring") from None
        except KeyringError as error:
            raise _failed(f"cannot be read ({type(error).__name__})", hint="unlock or set up the keyring") from None
        if secret is None:
            raise invalid("does not exist", hint=f"run: keyring set {self.service} {self.user}")
        return secret.encode()


class CommandSecret(Value):
    """The first line of a program's output, for example of `pass`. No shell is involved."""

    command: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(10.0, gt=0, le=300)

    def __str__(self) -> str:
        return f"the command {self.command[0]}"

    async def read(self, _folder: Path) -> bytes:
        try:
            status, output = await run_program(self.command, MAX_BYTES, self.timeout_s)
        except TimeoutError:
            raise _failed(
                f"did not end within {self.timeout_s:g} s", hint="use a command that asks no questions, or a longer timeout_s"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "an argument contains a NUL"
            raise invalid(f"cannot be started: {reason}", hint="check the program's name") from None
        if status != 0:
            # The output is not shown: a program that fails halfway may have printed the secret.
            raise _failed(f"ended with status {status}", hint="run it by hand as the server's user to see the reason")
        return output


def _parse_environment(rest: str) -> EnvironmentSecret:
    if not _VARIABLE_NAME.fullmatch(rest):
        raise ValueError("env: must be followed by the name of an environment variable (letters, digits and _)")
    return EnvironmentSecret(name=rest)


def _parse_file(rest: str) -> FileSecret:
    if not rest or "\0" in rest:
        raise ValueError("file: must be followed by a path")
    return FileSecret(path=rest)


def _parse_keyring(rest: str) -> KeyringSecret:
    service, slash, user = rest.rpartition("/")
    if not (service and slash and user):
        raise ValueError("keyring: must be followed by a service and a user with a / between them")
    return KeyringSecret(service=service, user=user)


_SCHEMES: dict[str, Callable[[str], Value]] = {"env": _parse_environment, "file": _parse_file, "keyring": _parse_keyring}


def _parse_reference(value: Any) -> Any:
    """Return the reference to a secret that an inventory value describes.

    Raises:
        ValueError: it describes none. The message does not contain the value, which may be a secret.
    """
    if isinstance(value, dict):
        try:
            return CommandSecret.model_validate_json(to_json(value), strict=True)
        except ValidationError as error:
            raise ValueError("; ".join(map(str, model_faults(error)))) from None
    scheme, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon or scheme not in _SCHEMES:
        raise ValueError(f"is not a reference to a secret; the forms are {FORMS}")
    return _SCHEMES[scheme](rest)


SecretReference = Annotated[EnvironmentSecret | FileSecret | KeyringSecret | CommandSecret, PlainValidator(_parse_reference)]


async def fetch_secret(reference: SecretReference, field: str, folder: Path) -> SecretStr:
    """Fetch the secret.

    Args:
        field: the inventory field that has the reference, for example `devices.switch-001.password`.
        folder: the base of relative paths.

    Raises:
        PtyctlError: INVALID_ARGUMENT, POLICY_DENIED, IO_ERROR or UNSUPPORTED. Names the field and the reference, and no part of
            the secret.
    """
    try:
        return _first_line(await reference.read(folder))
    except PtyctlError as error:
        message = f"{field} ({reference}): {error.message}"
        raise PtyctlError(error.code, message, {"field": field}, hint=error.hint) from None


def _first_line(raw: bytes) -> SecretStr:
    line = raw.split(b"\n", 1)[0].removesuffix(b"\r")
    if not line:
        raise invalid("has an empty first line", hint="put the secret in the first line")
    try:
        return SecretStr(line.decode())
    except UnicodeDecodeError:
        raise invalid("is not in UTF-8", hint="store the secret in UTF-8") from None


def _read_file(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            # The open file is checked, because the path may lead to another file meanwhile.
            _check_file(os.fstat(file.fileno()), path)
            return file.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise _failed(f"cannot be read: {reason}", hint="check the path, the owner and the mode") from None


def _open_nonblocking(path: str, flags: int) -> int:
    """Open without waiting for the other end of a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_file(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise invalid("is not a regular file", hint="name a regular file")
    if status.st_uid not in (os.geteuid(), 0):
        raise PtyctlError(
            ErrorCode.POLICY_DENIED, "belongs to another user", hint="make a copy that belongs to the server's user"
        )
    if status.st_mode & 0o077:
        raise PtyctlError(ErrorCode.POLICY_DENIED, "can be read by others", hint=f"run: chmod 600 {path}")


async def run_program(argv: Sequence[str], limit: int, timeout_s: float) -> tuple[int, bytes]:
    """Run a program without input and without a shell. Return its exit status and the first `limit` bytes of its output.

    The program runs in a new process group, which is killed after the timeout.

    Raises:
        TimeoutError: after `timeout_s` the program still runs, or another process still holds its stdout open.
        OSError, ValueError: the program cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, output = await loop.subprocess_exec(
        lambda: _OutputReader(limit), *argv, stdin=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(timeout_s):
            await output.ended
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        raise
    finally:
        transport.close()
        await output.exited
    status = transport.get_returncode()
    assert status is not None, "a process that has ended has a status"
    return status, output.data


class _OutputReader(asyncio.SubprocessProtocol):
    """Reads all output of a program, so that it is not blocked, and keeps the first `limit` bytes.

    Attributes:
        exited: done when the process has ended.
        ended: done when every process that holds its stdout has closed it.
    """

    def __init__(self, limit: int) -> None:
        self.data = b""
        self._limit = limit
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.data = (self.data + data)[: self._limit]

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _failed(problem: str, hint: str) -> PtyctlError:
    return PtyctlError(ErrorCode.IO_ERROR, problem, hint=hint)
