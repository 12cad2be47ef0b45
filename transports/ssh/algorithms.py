"""The algorithms to offer. Obsolete ones (SHA-1, MD5, CBC) are offered only with `legacy_algorithms`, for old devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

#: The signature algorithms for each key type (named as in known_hosts), most preferred first.
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

#: The OpenSSH setting that each argument of asyncssh would override.
SETTINGS = {
    "kex_algs": "KexAlgorithms",
    "encryption_algs": "Ciphers",
    "mac_algs": "MACs",
}

#: Changes to asyncssh's defaults: drop a SHA-1 key exchange that OpenSSH no longer offers, and prefer AES-GCM, which takes one
#: call to the crypto library per packet instead of three for ChaCha20-Poly1305.
_MODERN = {
    "kex_algs": "-diffie-hellman-group14-sha1",
    "encryption_algs": "^aes128-gcm@openssh.com,aes256-gcm@openssh.com",
}
_LEGACY = {
    "kex_algs": "+diffie-hellman-group-exchange-sha1,diffie-hellman-group1-sha1",
    "encryption_algs": "+aes256-cbc,aes192-cbc,aes128-cbc,3des-cbc",
    "mac_algs": "+hmac-sha1-96,hmac-md5,hmac-md5-96",
}


def transport_algorithms(legacy: bool, configured: Mapping[str, Sequence[str]]) -> dict[str, str | list[str]]:
    """Return asyncssh's arguments for key exchange, ciphers and MACs.

    Args:
        legacy: also offer obsolete algorithms, whatever the configuration file says.
        configured: the algorithms of each OpenSSH setting in the configuration file.
    """
    if legacy:
        return dict(_LEGACY)
    given: dict[str, str | list[str]] = {name: list(configured[key]) for name, key in SETTINGS.items() if key in configured}
    return {**_MODERN, **given}


def host_key_algorithms(
    legacy: bool,
    known: Iterable[str],
    certificates: bool,
    without: Iterable[str] = (),
    configured: Sequence[str] | None = None,
) -> list[str]:
    """Return the host key algorithms to offer, most preferred first.

    As in OpenSSH, the types of known keys come first: a server with several host keys then sends one that can be checked.

    Args:
        legacy: also offer obsolete algorithms.
        known: the types of the known keys of the host.
        certificates: whether a certificate authority is trusted for the host.
        without: the key types to exclude.
        configured: HostKeyAlgorithms, to use instead of the default list: as with its `+` and `-`, the known types come first.
    """
    signatures = LEGACY_HOST_KEY_SIGNATURES if legacy else HOST_KEY_SIGNATURES
    known = set(known)
    excluded = set(without)
    plain = [algorithm for names in signatures.values() for algorithm in names]
    offered = configured or ([name + _CERTIFICATE for name in plain] + plain if certificates else plain)
    types = {algorithm: key_type for key_type, names in LEGACY_HOST_KEY_SIGNATURES.items() for algorithm in names}

    def type_of(algorithm: str) -> str:
        name = algorithm.removesuffix(_CERTIFICATE)
        return types.get(name, name)

    selected = (name for name in offered if type_of(name) not in excluded)
    return sorted(selected, key=lambda name: (name.endswith(_CERTIFICATE) is not certificates, type_of(name) not in known))
