"""The handshake between a client and a runtime: messages and proofs, without input and output.

Each message is a JSON object on one line. Over the pipes of a program:

    -> {"protocol": "ptyctl-terminal", "versions": [1, 1], "capabilities": [...], "trace_id": "...", "nonce": "..."}
    <- {"ready": true, "protocol": "ptyctl-terminal", "version": 1, "trace_id": "...", "runtime_session_id": "rt_..."}

Over TCP both sides prove that they know a shared token, which is never sent. The client's proof follows the first message:

    <- {"challenge": "..."}
    -> {"proof": "..."}

`ready` then has a `proof` too. A proof is an HMAC-SHA-256 (RFC 2104) with the token as key over the sender's role and all
messages before it, which contain the nonces of both sides, the protocol and the versions: none of them can be changed, and no
proof can be used in the other direction or again. A refusal is {"ready": false, "reason": "...", "message": "..."}.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from ptyctl.core import json_lines

PROTOCOL = "ptyctl-terminal"
#: Names of the capabilities of a runtime of this version.
REMEMBERS_CALLS = "repeat"
CAPABILITIES = ("rpc", "resume", REMEMBERS_CALLS)
#: Longest message, with its newline, that a side reads before the proof of the peer (bytes).
MAX_MESSAGE_BYTES = 4096
#: Shortest token: with fewer random characters, a proof could be used to guess the token.
MIN_TOKEN_CHARACTERS = 32

_NONCE = re.compile(r"[0-9a-f]{64}")
_RUNTIME_SESSION_ID = re.compile(r"rt_[0-9a-f]{32}")
_MAX_TEXT = 256

RefusalReason = Literal["protocol", "version", "proof", "limit", "unavailable"]
#: Makes the proofs of the two sides different.
_Role = Literal["client", "server"]


class Versions(NamedTuple):
    """The first and the last protocol version that a side speaks."""

    first: int
    last: int

    def newest_common(self, other: Versions) -> int | None:
        """Return the newest version of both ranges."""
        newest = min(self.last, other.last)
        return newest if newest >= max(self.first, other.first) else None


VERSIONS = Versions(1, 1)


class HandshakeError(Exception):
    """The handshake failed; the message holds no secret."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def encode(self) -> bytes:
        """Return the refusal message for the peer."""
        return json_lines.encode({"ready": False, "reason": self.reason, "message": self.message, "versions": list(VERSIONS)})


@dataclass(frozen=True, slots=True)
class Ready:
    """The result of the handshake, which both sides have."""

    version: int
    trace_id: str
    runtime_session_id: str
    capabilities: tuple[str, ...]


class ClientHandshake:
    """The client side. Send `hello()`, then pass each received line to `receive` until it returns a Ready."""

    def __init__(
        self, trace_id: str, token: str | None, runtime_session_id: str | None = None, versions: Versions = VERSIONS
    ) -> None:
        """Create the client side.

        Args:
            token: the shared token; with it, a peer without a proof is rejected. None over pipes.
            runtime_session_id: the runtime session to resume.
        """
        self._trace_id = trace_id
        self._token = token
        self._resumed = runtime_session_id
        self._versions = versions
        self._transcript = _Transcript()
        self._challenged = False

    def hello(self) -> bytes:
        """Return the first message."""
        hello = {
            "protocol": PROTOCOL,
            "versions": list(self._versions),
            "capabilities": list(CAPABILITIES),
            "trace_id": self._trace_id,
            "nonce": secrets.token_hex(32),
        }
        if self._resumed is not None:
            hello["runtime_session_id"] = self._resumed
        return self._transcript.add(json_lines.encode(hello))

    def receive(self, line: bytes) -> bytes | Ready:
        """Return the next message to send, or the result. Raises HandshakeError."""
        message = _decode(line)
        if message.get("ready") is False:
            given = message.get("reason")
            reason: RefusalReason = next((known for known in get_args(RefusalReason) if known == given), "protocol")
            text = _text(message.get("message")) or "no reason given"
            raise HandshakeError(reason, f"refused: {text}")
        if message.get("ready") is True:
            return self._finish(message)
        if self._challenged or not _is_nonce(message.get("challenge")):
            raise HandshakeError("protocol", f"the peer does not speak {PROTOCOL}")
        if self._token is None:
            raise HandshakeError("proof", "the peer asks for the proof of a token, and none is configured")
        self._challenged = True
        self._transcript.add(line)
        proof = self._transcript.proof(self._token, "client")
        return self._transcript.add(json_lines.encode({"proof": proof}))

    def _finish(self, message: dict[str, Any]) -> Ready:
        proof = message.pop("proof", None)
        if self._token is not None:
            expected = self._transcript.proof(self._token, "server", message)
            if not self._challenged or not isinstance(proof, str) or not _is_same(proof, expected):
                raise HandshakeError("proof", "the peer did not prove that it knows the token")
        version, session_id = message.get("version"), message.get("runtime_session_id")
        if message.get("protocol") != PROTOCOL or type(version) is not int:
            raise HandshakeError("protocol", f"the peer does not speak {PROTOCOL}")
        if not self._versions.first <= version <= self._versions.last:
            raise HandshakeError(
                "version", f"the peer speaks version {version} of {PROTOCOL}, and this side {_range(self._versions)}"
            )
        if message.get("trace_id") != self._trace_id or not is_runtime_session_id(session_id):
            raise HandshakeError("protocol", "the peer does not repeat the trace_id, or names no runtime session")
        assert isinstance(session_id, str)
        if self._resumed not in (None, session_id):
            raise HandshakeError("protocol", "the peer has not resumed the runtime session")
        capabilities = message.get("capabilities")
        names = [name for name in capabilities if _text(name)] if isinstance(capabilities, list) else []
        return Ready(version, self._trace_id, session_id, tuple(names[:32]))


class ServerHandshake:
    """The server side. Pass each received line to `receive` and send the result, until `ready` is set."""

    def __init__(self, token: str | None, versions: Versions = VERSIONS) -> None:
        """Create the server side. Without a `token` no proof is required: only for pipes to the parent process."""
        self._token = token
        self._versions = versions
        self._transcript = _Transcript()
        self._peer: Ready | None = None
        self._challenged = False
        self.ready: Ready | None = None

    def receive(self, line: bytes) -> bytes:
        """Return the message to send. Raises HandshakeError; its `encode()` is then sent."""
        message = _decode(line)
        if self._peer is None:
            self._peer = self._read_hello(message)
            self._transcript.add(line)
            if self._token is None:
                return self._finish(self._peer)
            return self._transcript.add(json_lines.encode({"challenge": secrets.token_hex(32)}))
        assert self._token is not None, "a handshake without proof has two messages"
        proof = message.get("proof")
        if not isinstance(proof, str) or not _is_same(proof, self._transcript.proof(self._token, "client")):
            raise HandshakeError("proof", "the token is not that of this bridge")
        self._transcript.add(line)
        return self._finish(self._peer)

    def _read_hello(self, message: dict[str, Any]) -> Ready:
        trace_id, session_id = message.get("trace_id"), message.get("runtime_session_id")
        if message.get("protocol") != PROTOCOL or not _is_nonce(message.get("nonce")):
            raise HandshakeError("protocol", f"the first line must be a message of {PROTOCOL}")
        if not _text(trace_id) or (session_id is not None and not is_runtime_session_id(session_id)):
            raise HandshakeError("protocol", "trace_id or runtime_session_id is not valid")
        assert isinstance(trace_id, str)
        theirs = message.get("versions")
        if not isinstance(theirs, list) or [type(number) for number in theirs] != [int, int]:
            raise HandshakeError("protocol", "versions must be the first and the last version")
        version = self._versions.newest_common(Versions(*theirs))
        if version is None:
            raise HandshakeError(
                "version",
                f"the client speaks {_range(Versions(*theirs))} of {PROTOCOL}, and this side {_range(self._versions)}",
            )
        return Ready(version, trace_id, session_id or new_runtime_session_id(), CAPABILITIES)

    def _finish(self, peer: Ready) -> bytes:
        self.ready = peer
        message: dict[str, Any] = {
            "ready": True,
            "protocol": PROTOCOL,
            "version": peer.version,
            "capabilities": list(CAPABILITIES),
            "trace_id": peer.trace_id,
            "runtime_session_id": peer.runtime_session_id,
        }
        if self._token is not None:
            message["proof"] = self._transcript.proof(self._token, "server", message)
        return json_lines.encode(message)


class _Transcript:
    """The messages so far, as a running hash. Messages contain no newlines, so their boundaries are unambiguous."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> bytes:
        """Add a message and return it."""
        self._hash.update(line)
        return line

    def proof(self, token: str, role: _Role, message: dict[str, Any] | None = None) -> str:
        """Return the proof of one side, over all previous messages and the fields of the message that contains the proof."""
        text = f"{PROTOCOL} {role} ".encode() + self._hash.digest() + (json_lines.encode(message) if message else b"")
        return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def new_runtime_session_id() -> str:
    """Return the id of a new runtime session."""
    return f"rt_{secrets.token_hex(16)}"


def is_runtime_session_id(value: object) -> bool:
    """Return whether a value has the form of `new_runtime_session_id`."""
    return isinstance(value, str) and _RUNTIME_SESSION_ID.fullmatch(value) is not None


def token_name(token: str) -> str:
    """Return a short name of a token, which does not reveal it: of a token with enough random characters."""
    return hmac.new(token.encode(), f"{PROTOCOL} name".encode(), hashlib.sha256).hexdigest()[:8]


def _decode(line: bytes) -> dict[str, Any]:
    try:
        message = json_lines.decode_request(line)
    except ValueError:
        message = None
    if not isinstance(message, dict) or len(line) > MAX_MESSAGE_BYTES or not line.endswith(b"\n"):
        raise HandshakeError("protocol", f"the peer does not speak {PROTOCOL}")
    return message


def _is_same(proof: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(proof.encode("utf-8", "surrogatepass"), expected.encode())


def _is_nonce(value: object) -> bool:
    return isinstance(value, str) and _NONCE.fullmatch(value) is not None


def _text(value: object) -> str:
    """Return a short printable text unchanged, and an empty one for any other value."""
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT and value.isprintable() else ""


def _range(versions: Versions) -> str:
    return f"version {versions.first}" if versions.first == versions.last else f"versions {versions.first} to {versions.last}"
