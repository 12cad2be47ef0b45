"""Fetches a secret from the place that a reference names. Nothing is kept: a changed secret is used at the next open."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from pydantic import SecretStr

from ptyctl.api.errors import ErrorCode, PtyctlError

from .programs import first_bytes
from .references import FromCommand, FromEnvironment, FromFile, FromKeyring, Reference

#: A secret is short; what is longer is some other file or program.
MAX_BYTES = 64 * 1024

#: A keyring may ask its user first, who is perhaps not there.
KEYRING_TIMEOUT_S = 10.0


async def fetch(reference: Reference, field: str, folder: Path) -> SecretStr:
    """The secret itself.

    Args:
        field: for whom, in the words of the inventory: `devices.switch-001.password`.
        folder: where relative paths begin.

    Raises:
        PtyctlError: INVALID_ARGUMENT, POLICY_DENIED, IO_ERROR or UNSUPPORTED. It names field and place, no part of a secret.
    """
    where = f"{field} ({reference})"
    match reference:
        case FromEnvironment(name=name):
            raw = os.environb.get(name.encode())
            if raw is None:
                raise _failed(
                    ErrorCode.INVALID_ARGUMENT, where, "is not set in the server's environment; set it and start anew"
                )
        case FromFile(path=path):
            raw = await asyncio.to_thread(_read, folder / Path(path).expanduser(), where)
        case FromKeyring(service=service, user=user):
            raw = await _from_keyring(service, user, where)
        case FromCommand(command=command, timeout_s=timeout_s):
            raw = await _from_command(command, timeout_s, where)
    return _first_line(raw, where)


def _first_line(raw: bytes, where: str) -> SecretStr:
    line = raw.split(b"\n", 1)[0].removesuffix(b"\r")
    if not line:
        raise _failed(ErrorCode.INVALID_ARGUMENT, where, "has an empty first line; put the secret there")
    try:
        return SecretStr(line.decode())
    except UnicodeDecodeError:
        raise _failed(ErrorCode.INVALID_ARGUMENT, where, "is not in UTF-8; store it so") from None


def _read(path: Path, where: str) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            # Of the open file, not of the path: that could lead elsewhere by now.
            _check(os.fstat(file.fileno()), path, where)
            return file.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no path"
        raise _failed(ErrorCode.IO_ERROR, where, f"cannot be read: {reason}; check the path, owner and mode") from None


def _without_waiting(path: str, flags: int) -> int:
    """A named pipe would hold this thread until somebody writes."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check(status: os.stat_result, path: Path, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _failed(ErrorCode.INVALID_ARGUMENT, where, "is no regular file; name one")
    if status.st_uid not in (os.geteuid(), 0):
        raise _failed(ErrorCode.POLICY_DENIED, where, "belongs to another user; make a copy of your own")
    if status.st_mode & 0o077:
        raise _failed(ErrorCode.POLICY_DENIED, where, f"can be read by others; run: chmod 600 {path}")


async def _from_keyring(service: str, user: str, where: str) -> bytes:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise _failed(
            ErrorCode.UNSUPPORTED, where, "needs a package that is not installed; run: pip install 'ptyctl[keyring]'"
        ) from None
    try:
        async with asyncio.timeout(KEYRING_TIMEOUT_S):
            secret = await asyncio.to_thread(keyring.get_password, service, user)
    except TimeoutError:
        raise _failed(ErrorCode.IO_ERROR, where, f"gave no answer in {KEYRING_TIMEOUT_S:g} s; unlock the keyring") from None
    except KeyringError as error:
        raise _failed(
            ErrorCode.IO_ERROR, where, f"cannot be asked ({type(error).__name__}); unlock or set up the keyring"
        ) from None
    if secret is None:
        raise _failed(ErrorCode.INVALID_ARGUMENT, where, f"has no such entry; run: keyring set {service} {user}")
    return secret.encode()


async def _from_command(command: tuple[str, ...], timeout_s: float, where: str) -> bytes:
    try:
        status, output = await first_bytes(command, MAX_BYTES, timeout_s)
    except TimeoutError:
        raise _failed(
            ErrorCode.IO_ERROR,
            where,
            f"gave no answer in {timeout_s:g} s; it must not ask anything, or needs a longer timeout_s",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its arguments hold a NUL"
        raise _failed(ErrorCode.INVALID_ARGUMENT, where, f"cannot be started: {reason}; check the program's name") from None
    if status != 0:
        # Nothing of what it printed is told: a program that fails halfway may have printed the secret.
        raise _failed(ErrorCode.IO_ERROR, where, f"ended with {status}; run it by hand as the server's user to see why")
    return output


def _failed(code: ErrorCode, where: str, problem: str) -> PtyctlError:
    field, _, _ = where.partition(" ")
    return PtyctlError(code, f"{where}: {problem}", {"field": field})
