"""Requests of the administrator to a node: one JSON message, one answer.

A node performs what the administrator has signed for it within the last minutes, once. The permissions of the servers are not
enough: a node can have a server deliver the messages of a consumer to any subject.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptyctl.api.errors import ErrorCode, PtyctlError, decode_payload, invalid

from .certificates import sign, signer_of
from .credentials import ADMIN
from .link import answering, flush

_LOG = logging.getLogger(__name__)

#: How long a request may take: a drain connects consoles on other nodes (seconds).
CONTROL_S = 120.0

#: How far the clocks of the administrator's machine and a node may differ (seconds).
MAX_AGE_S = 120.0
#: Number of the last requests that a node does not accept again.
MAX_USED = 1024

#: Performs an action; returns the fields of the answer.
ControlAction = Callable[[], Awaitable[dict[str, Any]]]


def control_subject(site: str, node: str) -> str:
    """Return the subject of a node for requests of an administrator."""
    return f"ptyctl.{site}.{node}.control"


class _SignedRequest(BaseModel):
    """A request as it is sent.

    Attributes:
        at: when it was signed (seconds since 1970).
        nonce: another one in each request.
        certificate: of the administrator, as PEM.
        signature: of the site, the node, and the fields above the certificate, in hexadecimal digits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: str = Field(max_length=64)
    at: float = Field(allow_inf_nan=False)
    nonce: str = Field(min_length=16, max_length=64)
    certificate: str = Field(max_length=16_384)
    signature: str = Field(max_length=1024, pattern=r"^([0-9a-f]{2})+$")


def sign_request(site: str, node: str, action: str, certificate: Path, at: float | None = None) -> bytes:
    """Return a request to a node. `certificate` has the administrator's certificate and key. Raises PtyctlError."""
    at, nonce = time.time() if at is None else at, secrets.token_hex(16)
    pem, signature = sign(certificate, _signed(site, node, action, at, nonce))
    request = _SignedRequest(action=action, at=at, nonce=nonce, certificate=pem, signature=signature.hex())
    return request.model_dump_json().encode()


class RequestVerifier:
    """Accepts each request that the administrator has signed for this node, once."""

    def __init__(self, ca: Path | None, site: str, node: str, now: Callable[[], float] = time.time) -> None:
        """Create it. `ca` has the certificate of the fleet's authority; without it, no request is accepted."""
        self._ca = ca
        self._site = site
        self._node = node
        self._now = now
        #: The nonces of the last requests. None is forgotten for its age: the clock of the node can be set back.
        self._used: deque[str] = deque(maxlen=MAX_USED)

    def action(self, data: bytes) -> str:
        """Return the action of a request.

        Raises:
            PtyctlError: INVALID_ARGUMENT, POLICY_DENIED.
        """
        try:
            request = _SignedRequest.model_validate_json(data)
        except ValidationError:
            raise invalid("the request is malformed, or not signed", hint="use the same version of ptyctl") from None
        if self._ca is None:
            raise _refused("the node has no certificate of the fleet's authority")
        signed = _signed(self._site, self._node, request.action, request.at, request.nonce)
        try:
            signer = signer_of(self._ca, request.certificate, bytes.fromhex(request.signature), signed)
        except ValueError as error:
            raise _refused(str(error)) from None
        if signer != ADMIN:
            raise _refused(f"{signer} is not the administrator")
        now = self._now()
        if abs(now - request.at) > MAX_AGE_S:
            raise _refused(f"it was signed {now - request.at:.0f} s ago by the clock of the node; check both clocks")
        if request.nonce in self._used:
            raise _refused("it was sent before")
        self._used.append(request.nonce)
        return request.action


def _signed(site: str, node: str, action: str, at: float, nonce: str) -> bytes:
    return b"ptyctl fleet control\n" + json.dumps([site, node, action, at, nonce]).encode()


def _refused(why: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the node refuses the request of the administrator: {why}",
        hint="use admin.toml and admin.pem of this fleet",
    )


async def request(client: Client, site: str, node: str, action: str, certificate: Path) -> dict[str, Any]:
    """Have a node perform an action; return its answer. `certificate` is the administrator's.

    Raises:
        PtyctlError: CONNECT_FAILED if the node does not answer; INVALID_ARGUMENT for the certificate; the node's error.
    """
    data = sign_request(site, node, action, certificate)
    try:
        answer = await client.request(control_subject(site, node), data, timeout=CONTROL_S)
        fields: dict[str, Any] = json.loads(answer.data)
    except (nats.errors.Error, OSError, ValueError) as error:
        raise PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"node {node} does not answer: {error or type(error).__name__}",
            {"node": node},
            hint="see which nodes are up: ptyctl fleet nodes; drain needs the file of the administrator, admin.toml",
        ) from None
    if "error" in fields:
        raise decode_payload(fields["error"])
    return fields


class ControlListener:
    """Performs the requests of an administrator on this node, one at a time."""

    def __init__(self, client: Client, subject: str, verifier: RequestVerifier, actions: Mapping[str, ControlAction]) -> None:
        self._client = client
        self._subject = subject
        self._verifier = verifier
        self._actions = actions
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Accept requests from now on."""
        self._subscription = await self._client.subscribe(self._subject, cb=answering(self._client, self._answer))
        await flush(self._client)

    async def aclose(self) -> None:
        """Accept no more requests."""
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()

    async def _answer(self, data: bytes) -> dict[str, Any]:
        try:
            return await self._perform(data)
        except PtyctlError as error:
            return {"error": error.payload()}
        except Exception as error:  # the administrator would wait without an answer  # noqa: BLE001
            _LOG.exception("a request of the administrator failed")
            message = f"the node failed: {type(error).__name__}; see its log"
            return {"error": PtyctlError(ErrorCode.INTERNAL, message).payload()}

    async def _perform(self, data: bytes) -> dict[str, Any]:
        name = self._verifier.action(data)
        if name not in self._actions:
            raise invalid(f"a node has no action {name}; it has {', '.join(self._actions)}")
        return await self._actions[name]()
