"""Which algorithms are offered. Those of SHA-1, MD5 and CBC are for old devices, and only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

#: By key type, as known_hosts names it: the signature algorithms that prove such a key, best first.
HOST_KEY_SIGNATURES: dict[str, tuple[str, ...]] = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
LEGACY_HOST_KEY_SIGNATURES: dict[str, tuple[str, ...]] = {
    **HOST_KEY_SIGNATURES,
    "ssh-rsa": (*HOST_KEY_SIGNATURES["ssh-rsa"], "ssh-rsa"),
    "ssh-dss": ("ssh-dss",),
}
_CERTIFICATE = "-cert-v01@openssh.com"

#: asyncssh's argument, and the OpenSSH setting that it would override.
SETTINGS = {"kex_algs": "KexAlgorithms", "encryption_algs": "Ciphers", "mac_algs": "MACs"}

#: asyncssh still offers the one by default; OpenSSH no longer does. AES-GCM goes first: it is one call of the library a packet,
#: which ChaCha20-Poly1305 is three. The rest of the defaults stays as it is.
_MODERN = {
    "kex_algs": "-diffie-hellman-group14-sha1",
    "encryption_algs": "^aes128-gcm@openssh.com,aes256-gcm@openssh.com",
}
_LEGACY = {
    "kex_algs": "+diffie-hellman-group-exchange-sha1,diffie-hellman-group1-sha1",
    "encryption_algs": "+aes256-cbc,aes192-cbc,aes128-cbc,3des-cbc",
    "mac_algs": "+hmac-sha1-96,hmac-md5,hmac-md5-96",
}


def transport_algorithms(legacy: bool, configured: Iterable[str]) -> dict[str, str]:
    """asyncssh's arguments for key exchange, ciphers and MACs.

    Args:
        configured: the OpenSSH settings that the configuration file has; those stay as the user wrote them, unless
            legacy algorithms are asked for.
    """
    if legacy:
        return dict(_LEGACY)
    settings = set(configured)
    return {name: value for name, value in _MODERN.items() if SETTINGS[name] not in settings}


def host_key_algorithms(legacy: bool, known: Iterable[str], certificates: bool, without: Iterable[str] = ()) -> list[str]:
    """The host key algorithms to offer, best first.

    Those of the keys we know come first, as OpenSSH has it: a server with several keys then shows the one we can check.

    Args:
        known: the key types that are known of this host.
        certificates: whether a certificate authority is trusted for this host.
        without: key types that are not to be offered.
    """
    signatures = LEGACY_HOST_KEY_SIGNATURES if legacy else HOST_KEY_SIGNATURES
    known = set(known)
    excluded = set(without)
    types = sorted((name for name in signatures if name not in excluded), key=lambda name: name not in known)
    plain = [algorithm for name in types for algorithm in signatures[name]]
    return [name + _CERTIFICATE for name in plain] + plain if certificates else plain
