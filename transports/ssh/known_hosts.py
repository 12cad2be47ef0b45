"""Lines of known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT) and of lists of revoked keys, read as bytes.

Only marker, names, type and key of a line count; a comment may have any encoding. As in ssh(1), a line that cannot be read is
skipped, but not one that revokes a key: which key it revokes is then unknown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import asyncssh

from transports.caller import readable_file
from transports.errors import InvalidOption

from .openssh_config import matches_pattern

_HASH_PREFIX = b"|1|"
_REVOKED = b"@revoked"
_AUTHORITY = b"@cert-authority"
#: The first bytes of a key revocation list (OpenSSH PROTOCOL.krl).
KRL_MAGIC = b"SSHKRL\n\0"
#: Of a certificate's key type (OpenSSH PROTOCOL.certkeys).
_CERTIFICATE = b"-cert-v01@openssh.com"
#: The number of fields in a key, with its type.
_FIELDS = {b"ssh-rsa": 3, b"ssh-dss": 5, **{f"ecdsa-sha2-nistp{bits}".encode(): 3 for bits in (256, 384, 521)}}


@dataclass(frozen=True, slots=True)
class KnownHostLine:
    """One line of a known_hosts file.

    Args:
        place: the file and the line number, for messages.
        names: the field of the names; empty applies to all hosts.
        key_type, blob: the type and the binary key; a `blob` of None cannot be read.
    """

    place: str
    path: str
    marker: bytes
    names: bytes
    key_type: str
    blob: bytes | None

    @property
    def revokes(self) -> bool:
        return self.marker == _REVOKED

    @property
    def is_authority(self) -> bool:
        return self.marker == _AUTHORITY


def parse_lines(content: bytes, path: str) -> list[KnownHostLine]:
    """Return the lines of a known_hosts file that have a key, and those that revoke an unreadable one."""
    found = (_parse_line(line, path, number) for number, line in enumerate(content.split(b"\n"), 1))
    return [line for line in found if line is not None]


def _parse_line(line: bytes, path: str, number: int) -> KnownHostLine | None:
    fields = line.split(None, 4)
    if not fields or fields[0].startswith(b"#"):
        return None
    marker = fields.pop(0) if fields[0].startswith(b"@") else b""
    if marker.lower() == _REVOKED:  # ssh(1) ignores another spelling, and trusts the key
        marker = _REVOKED
    if marker not in (b"", _REVOKED, _AUTHORITY):
        return None
    names, kind, data, *_ = [*fields, b"", b"", b""]
    blob = decode_key(kind, data)
    if marker == _REVOKED:
        return KnownHostLine(f"{path}, line {number}", path, marker, names, kind.decode("ascii", "replace"), blob)
    return None if blob is None else KnownHostLine(f"{path}, line {number}", path, marker, names, kind.decode(), blob)


def decode_key(kind: bytes, data: bytes) -> bytes | None:
    """Return the binary key of `type base64`; None if it is not one of that type."""
    try:
        blob = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return blob if kind and blob_type(blob) == kind and _is_complete(kind, blob) else None


def _is_complete(kind: bytes, blob: bytes) -> bool:
    """Return whether a binary key is not cut off: all its fields are there, and nothing follows them (RFC 4253 6.6)."""
    if kind.endswith(_CERTIFICATE):
        return _decode_certificate(blob) is not None
    fields = position = 0
    while position + 4 <= len(blob):
        position += 4 + int.from_bytes(blob[position : position + 4], "big")
        fields += 1
    return position == len(blob) and fields >= _FIELDS.get(kind, 2)


def _decode_certificate(blob: bytes) -> asyncssh.SSHCertificate | None:
    """Return the certificate; None if it cannot be read."""
    try:
        return asyncssh.public_key.decode_ssh_certificate(blob)
    except ValueError:
        return None


def blob_type(blob: bytes) -> bytes | None:
    """Return the key type in a binary key (RFC 4253 6.6)."""
    if len(blob) < 4:
        return None
    (size,) = struct.unpack(">I", blob[:4])
    return blob[4 : 4 + size] if 0 < size < len(blob) - 4 else None


def matches(names: bytes, name: str) -> bool | None:
    """Return whether the names of a line match the name of a server, as ssh(1) compares them; None if they cannot be read."""
    if not names:
        return None
    wanted = os.fsencode(name).lower()
    if names.startswith(b"|"):
        return _matches_hash(names, wanted)
    found = False
    for pattern in names.lower().split(b","):
        negated = pattern.startswith(b"!")
        if matches_pattern(pattern[negated:].decode("latin-1"), wanted.decode("latin-1")):
            if negated:
                return False
            found = True
    return found


def _matches_hash(names: bytes, wanted: bytes) -> bool | None:
    salt, separator, digest = names.removeprefix(_HASH_PREFIX).partition(b"|")
    try:
        key, expected = base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not names.startswith(_HASH_PREFIX) or not separator or len(expected) != hashlib.sha1(usedforsecurity=False).digest_size:
        return None
    return hmac.compare_digest(hmac.new(key, wanted, hashlib.sha1).digest(), expected)


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The entries for one name.

    Args:
        keys: the host keys, binary, with their types; `authorities`: the trusted certificate authorities; `revoked`: the keys
            to reject.
        unreadable: the place of a line that revokes a key of this host, but cannot be read.
        path: the first file with an entry; the first file if there is no entry.
    """

    keys: tuple[tuple[str, bytes], ...] = ()
    authorities: frozenset[bytes] = frozenset()
    revoked: frozenset[bytes] = frozenset()
    unreadable: str | None = None
    path: str | None = None

    @property
    def types(self) -> list[str]:
        """The types of the keys that are not revoked: as in ssh(1), a type with a revoked key is not preferred."""
        return [kind for kind, blob in self.keys if blob not in self.revoked]

    def has(self, blob: bytes) -> bool:
        return any(blob == known for _, known in self.keys)

    @property
    def fingerprints(self) -> list[str]:
        return [fingerprint(blob) for _, blob in self.keys]


def find_keys(lines: Iterable[KnownHostLine], name: str, first_path: str | None) -> KnownKeys:
    """Return the entries for a name. Addresses are not looked up, like ssh(1) with CheckHostIP off."""
    keys: list[tuple[str, bytes]] = []
    authorities: set[bytes] = set()
    revoked: set[bytes] = set()
    unreadable = path = None
    for line in lines:
        matching = matches(line.names, name)
        if matching is None and line.revokes and not line.key_type.isdigit():
            unreadable = unreadable or line.place
        if not matching:
            continue
        if line.revokes:
            if line.blob is not None:
                revoked.add(subject_of(line.blob))
            elif not line.key_type.isdigit():  # a key of SSH 1, which no server has
                unreadable = unreadable or line.place
        elif line.blob is not None and line.is_authority:
            authorities.add(line.blob)
        elif line.blob is not None:
            keys.append((line.key_type, line.blob))
        path = path or (None if line.is_authority else line.path)
    return KnownKeys(tuple(keys), frozenset(authorities), frozenset(revoked), unreadable, path or first_path)


def read_file(path: str) -> bytes:
    """Return the content of a known_hosts file; a missing one is empty.

    Raises:
        InvalidOption: it exists but cannot be read. Unlike ssh(1), which ignores it: it may have a revocation of this host.
    """
    try:
        return readable_file(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidOption(f"cannot read the known_hosts file {path}: {why}", hint="make the file readable") from error


def parse_revoked_keys(content: bytes) -> frozenset[bytes]:
    """Return the keys of a RevokedHostKeys file that is a list of public keys; a certificate revokes its key, as in ssh(1).

    Raises:
        ValueError: names a line that cannot be read.
    """
    keys = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        fields = line.split(None, 2)
        if not fields or fields[0].startswith(b"#"):
            continue
        blob = decode_key(fields[0], fields[1] if len(fields) > 1 else b"")
        if blob is None:
            raise ValueError(f"line {number} is not a public key")
        keys.add(subject_of(blob))
    return frozenset(keys)


def parts_of(blob: bytes) -> tuple[bytes, ...]:
    """Return a presented key and the keys that it stands for: of a certificate, also its subject's and its authority's."""
    if not (blob_type(blob) or b"").endswith(_CERTIFICATE):
        return (blob,)
    certificate: Any = asyncssh.public_key.decode_ssh_certificate(blob)
    return (blob, certificate.key.public_data, certificate.signing_key.public_data)


def subject_of(blob: bytes) -> bytes:
    """Return the key itself, without the certificate that it may be in."""
    return parts_of(blob)[:2][-1]


def authority_signature(blob: bytes) -> str:
    """Return the algorithm of the signature in a certificate, its last field; empty if it cannot be found."""
    authority = parts_of(blob)[-1]
    signature = blob.rpartition(struct.pack(">I", len(authority)) + authority)[2]
    return (blob_type(signature[4:]) or b"").decode("ascii", "replace")


def fingerprint(blob: bytes) -> str:
    """Return the fingerprint as `ssh-keygen -lf` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
