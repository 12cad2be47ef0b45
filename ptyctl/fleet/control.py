"""Requests of the administrator to a node: a JSON message and its answer.

A node answers the first message with a challenge, and performs what the administrator has signed with that challenge. The
permissions of the servers are not enough: a node can have a server deliver the messages of a consumer to any subject.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptyctl.api.errors import ErrorCode, PtyctlError, decode_payload, invalid
from ptyctl.clock import boot_time

from .certificates import sign, signer_of
from .credentials import ADMIN
from .link import answer_requests, flush_subscriptions

_LOG = logging.getLogger(__name__)

#: How long a request may take: a drain connects consoles on other nodes (seconds).
CONTROL_S = 120.0

#: How long a challenge can be answered (seconds).
CHALLENGE_S = 60.0
#: The action that asks for a challenge; it needs no signature.
CHALLENGE = "challenge"
_QUESTION = json.dumps({"action": CHALLENGE}).encode()

#: Performs an action; returns the fields of the answer.
ControlAction = Callable[[], Awaitable[dict[str, Any]]]


def control_subject(site: str, node: str) -> str:
    """Return the subject of a node for requests of an administrator."""
    return f"ptyctl.{site}.{node}.control"


class _SignedRequest(BaseModel):
    """A request as it is sent.

    Attributes:
        challenge: of the node.
        certificate: of the administrator, as PEM.
        signature: of the site, the node, the action and the challenge, in hexadecimal digits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: str = Field(max_length=64)
    challenge: str = Field(max_length=256)
    certificate: str = Field(max_length=16_384)
    signature: str = Field(max_length=1024, pattern=r"^([0-9a-f]{2})+$")


def sign_request(site: str, node: str, action: str, challenge: str, certificate: Path) -> bytes:
    """Return a request to a node. `certificate` has the administrator's certificate and key. Raises PtyctlError."""
    pem, signature = sign(certificate, _signed(site, node, action, challenge))
    request = _SignedRequest(action=action, challenge=challenge, certificate=pem, signature=signature.hex())
    return request.model_dump_json().encode()


class RequestVerifier:
    """Accepts each request that the administrator has signed for this process of this node, once.

    A challenge is a time, a random number and their authentication code, by a key that only this process has: it is not stored
    until it is used, so that asking for challenges costs no memory. A request that was recorded before a restart has the
    challenge of another process. No wall clock is read.
    """

    def __init__(self, ca: Path | None, site: str, node: str, now: Callable[[], float] = boot_time) -> None:
        """Create the receiver. `ca` is the certificate file of the fleet's authority; without it, no request is accepted."""
        self._ca = ca
        self._site = site
        self._node = node
        self._now = now
        self._key = secrets.token_bytes(32)
        #: Challenges of accepted requests that have not expired, with the time of their creation: none is accepted twice.
        self._used: dict[str, float] = {}

    def challenge(self) -> str:
        """Return a challenge, with which one request can be signed."""
        text = f"{self._now():.3f}/{secrets.token_hex(16)}"
        return f"{text}/{self._code(text)}"

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
        signed = _signed(self._site, self._node, request.action, request.challenge)
        try:
            signer = signer_of(self._ca, request.certificate, bytes.fromhex(request.signature), signed)
        except ValueError as error:
            raise _refused(str(error)) from None
        if signer != ADMIN:
            raise _refused(f"{signer} is not the administrator")
        self._use(request.challenge)
        return request.action

    def _use(self, challenge: str) -> None:
        text, _, code = challenge.rpartition("/")
        if not hmac.compare_digest(code.encode(), self._code(text).encode()):
            raise _refused("it answers a challenge of another process; the node was started again")
        now, made_at = self._now(), float(text.partition("/")[0])
        self._used = {used: at for used, at in self._used.items() if now <= at + CHALLENGE_S}
        if now > made_at + CHALLENGE_S:
            raise _refused(f"it answers a challenge of {now - made_at:.0f} s ago")
        if challenge in self._used:
            raise _refused("it was sent before")
        self._used[challenge] = made_at

    def _code(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _signed(site: str, node: str, action: str, challenge: str) -> bytes:
    return b"ptyctl fleet control\n" + json.dumps([site, node, action, challenge]).encode()


def _refused(why: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the node refuses the request of the administrator: {why}",
        hint="repeat it, with admin.toml and admin.pem of this fleet",
    )


async def request(client: Client, site: str, node: str, action: str, certificate: Path) -> dict[str, Any]:
    """Have a node perform an action; return its answer. `certificate` is the administrator's.

    Raises:
        PtyctlError: CONNECT_FAILED if the node does not answer; INVALID_ARGUMENT for the certificate; the node's error.
    """
    challenge = await _answer_of(client, site, node, _QUESTION)
    return await _answer_of(client, site, node, sign_request(site, node, action, str(challenge[CHALLENGE]), certificate))


async def _answer_of(client: Client, site: str, node: str, data: bytes) -> dict[str, Any]:
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
        """Start to accept requests."""
        self._subscription = await self._client.subscribe(self._subject, cb=answer_requests(self._client, self._answer))
        await flush_subscriptions(self._client)

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
        if data == _QUESTION:
            return {CHALLENGE: self._verifier.challenge()}
        name = self._verifier.action(data)
        if name not in self._actions:
            raise invalid(f"a node has no action {name}; it has {', '.join(self._actions)}")
        return await self._actions[name]()
