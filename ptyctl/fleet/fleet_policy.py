"""The policy of the whole fleet: signed by the administrator, verified and kept by each node.

The bucket `policy` has one key. A node puts a policy in force only if an administrator of its fleet has signed it and its
number is greater than that of the last one; otherwise the one before stays in force. A node whose servers do not report the
policy when it starts uses the last one that it has verified.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.files import replace_file

from .buckets import Bucket
from .certificates import sign, signer_of

_LOG = logging.getLogger(__name__)

KEY = "policy"
#: The verified policy in a node's state directory: as it was signed, and its text for the policy store.
SIGNED_FILE, TEXT_FILE = "fleet-policy.json", "fleet-policy.toml"
MAX_BYTES = 512 * 1024


class SignedPolicy(BaseModel):
    """The value of the key.

    Attributes:
        number: greater than that of the policy before.
        text: the policy file.
        certificate: of the administrator, as PEM.
        signature: of number and text, in hexadecimal digits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1)
    text: str = Field(max_length=MAX_BYTES)
    certificate: str = Field(max_length=16_384)
    signature: str = Field(max_length=1024, pattern=r"^[0-9a-f]+$")

    def verify(self, ca: Path | None, admin: str) -> None:
        """Check that an administrator of the fleet has signed it.

        Raises:
            PtyctlError: POLICY_DENIED.
        """
        if ca is None:
            raise _refused("this node has no certificate of the fleet's authority")
        try:
            signer = signer_of(ca, self.certificate, bytes.fromhex(self.signature), _signed(self.number, self.text))
        except ValueError as error:
            raise _refused(str(error)) from None
        if signer != admin:
            raise _refused(f"{signer} is not the administrator")


def sign_policy(text: str, number: int, certificate: Path) -> SignedPolicy:
    """Return a signed policy. `certificate` has the administrator's certificate and key. Raises PtyctlError."""
    pem, signature = sign(certificate, _signed(number, text))
    return SignedPolicy(number=number, text=text, certificate=pem, signature=signature.hex())


def decode_policy(value: bytes) -> SignedPolicy:
    """Return the policy of a key's value or a file. Raises PtyctlError POLICY_DENIED."""
    try:
        return SignedPolicy.model_validate_json(value)
    except ValidationError:
        raise _refused("it is malformed") from None


class FleetPolicy:
    """Keeps the fleet's policy in force on this node."""

    def __init__(
        self,
        folder: Path,
        ca: Path | None,
        admin: str,
        put_in_force: Callable[[Path, str], None],
        record: Callable[..., None],
    ) -> None:
        """Create the fleet's policy of this node.

        Args:
            folder: the state directory.
            put_in_force: loads the verified text of a policy file; if that fails, the policy before stays in force. Raises
                PtyctlError.
            record: adds a row to the audit log.
        """
        self._folder = folder
        self._ca = ca
        self._admin = admin
        self._put_in_force = put_in_force
        self._record = record
        #: The number of the policy in force; 0 if the fleet has none.
        self.number = 0
        self._text: str | None = None
        #: Set when the policy that the servers have has been received, or they have none.
        self.complete = asyncio.Event()
        #: Why the newest policy of the fleet is not in force; None if it is.
        self.problem: str | None = None

    def restore(self) -> None:
        """Put the last verified policy in force. Blocks.

        Raises:
            PtyctlError: POLICY_DENIED if the stored one was changed: the node must not start with a weaker policy.
        """
        try:
            value = (self._folder / SIGNED_FILE).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise _refused(f"{error.filename} cannot be read: {error.strerror}") from None
        policy = decode_policy(value)
        policy.verify(self._ca, self._admin)
        self._use(policy, value.decode())

    def receive(self, value: bytes) -> None:
        """Put a new policy in force. If it is invalid, keep the previous policy and report the reason. Blocks."""
        try:
            policy = decode_policy(value)
            policy.verify(self._ca, self._admin)
            if (policy.number, policy.text) == (self.number, self._text):
                self.problem = None
                return
            if policy.number <= self.number:
                raise _refused(f"its number {policy.number} is not greater than {self.number}, that of the one in force")
            self._use(policy, policy.model_dump_json())
        except (PtyctlError, OSError) as error:
            why = error.message if isinstance(error, PtyctlError) else f"it cannot be stored: {error.strerror}"
            if why != self.problem:
                _LOG.error("the fleet's policy was refused", extra={"why": why})
                self._record("fleet_policy", result="refused", why=why)
            self.problem = why
        else:
            self.problem = None
            self._record("fleet_policy", result="loaded", number=policy.number)

    async def follow(self, bucket: Bucket) -> None:
        """Receive each value of the key, until cancelled."""
        async for change in bucket.watch():
            if change is None:
                self.complete.set()
            elif change[0] == KEY and change[1] is not None:
                await asyncio.to_thread(self.receive, change[1].value)

    def _use(self, policy: SignedPolicy, signed: str) -> None:
        """Put a policy in force, and store it with its signature."""
        file = self._folder / TEXT_FILE
        self._put_in_force(file, policy.text)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # of a node that has not kept anything yet
        replace_file(file, policy.text)
        replace_file(self._folder / SIGNED_FILE, signed)
        # Last, because a policy that could not be stored is received again.
        self.number, self._text = policy.number, policy.text


def _signed(number: int, text: str) -> bytes:
    return b"ptyctl fleet policy\n" + json.dumps([number, text]).encode()


def _refused(why: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy of the fleet is refused: {why}",
        hint="sign it again: ptyctl fleet policy FILE --fleet admin.toml",
    )
