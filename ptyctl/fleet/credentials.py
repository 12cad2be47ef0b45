"""The file with which a node joins a fleet: its name, its servers and its key."""

from __future__ import annotations

import asyncio
import logging
import ssl
import stat
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Literal

import nats
import nats.errors
from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.field_faults import field_faults
from ptyctl.cancellation import keep_cancellation

#: How long servers that do not answer are tried, unless the caller names another time (seconds).
CONNECT_S = 30.0
_RETRY_S = 0.5
#: Name of the administrator's file, in its certificate, and of its key's inboxes; no node has this name.
ADMIN = "admin"
_CLOSE_S = 0.5

#: Names of sites and nodes: they are parts of NATS subjects.
NAME = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"


class Credentials(BaseModel):
    """The content of the file.

    Attributes:
        servers: addresses of the site's NATS servers, such as tls://nats1:4222.
        seed: the node's private nkey.
        role: `admin` for the file of the administrator, whose key drains nodes and signs policies, and joins no fleet.
        replicas: copies of each bucket.
        hub: whether the site is one of several, connected by a hub.
        labels: what the node can reach, for devices with `node_labels`.
        ca: file with the certificate of the fleet's authority; relative to this file. With it, connections are encrypted.
        certificate: file with the node's certificate and its private key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    site: str = Field(pattern=NAME)
    node: str = Field(pattern=NAME)
    servers: tuple[str, ...] = Field(min_length=1)
    seed: str | None = Field(None, min_length=1, repr=False)
    role: Literal["node", "admin"] = "node"
    replicas: int = Field(1, ge=1, le=5)
    hub: bool = False
    labels: tuple[str, ...] = ()
    ca: Path | None = None
    certificate: Path | None = None


def load_credentials(path: Path) -> Credentials:
    """Read the file of a node.

    Raises:
        PtyctlError: INVALID_ARGUMENT if it cannot be read or has errors; POLICY_DENIED if other users can read the key.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            fields = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(f"{path} cannot be read: {error}", hint="create it with ptyctl fleet init") from None
    if mode & 0o077:
        raise PtyctlError(ErrorCode.POLICY_DENIED, f"other users can read the key in {path}", hint=f"run: chmod 600 {path}")
    try:
        credentials = Credentials.model_validate(fields)
    except ValidationError as error:
        first = field_faults(error, Credentials)[0]
        raise invalid(f"{path}: {first.path}: {first.problem}", hint="create it again with ptyctl fleet init") from None
    folder = path.absolute().parent
    files = {name: folder / file for name in ("ca", "certificate") if (file := getattr(credentials, name)) is not None}
    return credentials.model_copy(update=files)


def inbox_prefix(site: str, node: str) -> str:
    """Return the start of the subjects on which a node receives: it may read only its own."""
    return f"_INBOX.{site}.{node}"


async def connect(credentials: Credentials, *, wait_s: float = CONNECT_S) -> Client:
    """Connect to the servers of a node's site. After a loss the client connects again, to any of them, without end.

    Raises:
        PtyctlError: CONNECT_FAILED, AUTH_FAILED; INVALID_ARGUMENT for a certificate that cannot be read.
    """
    logging.getLogger("asyncio").addFilter(_is_unexpected)
    deadline = asyncio.get_running_loop().time() + wait_s
    tls = _tls(credentials)
    while True:
        client = Client()
        try:
            with keep_cancellation():
                await client.connect(
                    list(credentials.servers),
                    name=credentials.node,
                    nkeys_seed_str=credentials.seed,
                    inbox_prefix=inbox_prefix(credentials.site, credentials.node),
                    error_cb=_ignore,
                    tls=tls,
                    # By default the library alone tries a server sixty times, once a second.
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    allow_reconnect=False,
                    ping_interval=5,
                )
        except (nats.errors.Error, OSError) as error:
            await _close(client)
            if (refusal := _refusal(error, credentials)) is not None:
                raise refusal from None
            if asyncio.get_running_loop().time() >= deadline:
                raise PtyctlError(
                    ErrorCode.CONNECT_FAILED,
                    f"none of the NATS servers answers: {', '.join(credentials.servers)}",
                    hint="start them with the configuration that ptyctl fleet init wrote",
                ) from None
            await asyncio.sleep(_RETRY_S)
        except asyncio.CancelledError:
            await _close(client)
            raise
        else:
            client.options |= {"allow_reconnect": True, "max_reconnect_attempts": -1, "reconnect_time_wait": 1}
            return client


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Filter out the warning of asyncio at the end of each TLS connection of nats-py."""
    return "eof_received() has no effect when using ssl" not in str(record.msg)


async def _close(client: Client) -> None:
    """Close a client that is not connected. After a failed TLS handshake, nats-py waits forever for the connection to end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await client.close()


def _tls(credentials: Credentials) -> ssl.SSLContext | None:
    if credentials.ca is None:
        return None
    file = credentials.ca
    try:
        context = ssl.create_default_context(cafile=str(file))
        if credentials.certificate is not None:
            file = credentials.certificate
            context.load_cert_chain(file)
    except (OSError, ssl.SSLError) as error:
        raise invalid(f"{file} is not a certificate: {error}", hint="use the files of one ptyctl fleet init") from None
    return context


def _refusal(error: Exception, credentials: Credentials) -> PtyctlError | None:
    """Return AUTH_FAILED if one side did not accept the other's certificate, or the servers not the key; otherwise None."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return PtyctlError(
            ErrorCode.AUTH_FAILED,
            f"node {credentials.node} and the NATS servers do not accept each other's certificates: {cause.reason or cause}",
            hint="use the files of one fleet, and check the clocks and the addresses of the servers with ptyctl fleet doctor",
        )
    if "authorization" in str(error).lower():
        return PtyctlError(
            ErrorCode.AUTH_FAILED,
            f"the NATS servers do not accept the key of node {credentials.node}",
            hint="use the files of one ptyctl fleet init for servers and nodes",
        )
    return None


async def _ignore(error: Exception) -> None:
    """Errors of the connection end in the calls that need it."""
