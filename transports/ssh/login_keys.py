"""The user's keys for the login: from the agent, from the options, or from the OpenSSH configuration.

The order is that of ssh(1): certificates, the agent's keys that the configuration lists, its other keys, then keys in files.
asyncssh can collect keys too, but it cannot use an agent without reading ~/.ssh, fails if a file is missing, and pairs no
certificate in a file with its key in the agent.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncssh

from transports.caller import absolute_path, readable_file
from transports.errors import AuthFailed

from .connect_options import SshAuth
from .endpoint import SshEndpoint

_RSA = b"ssh-rsa"
_CERTIFICATE = b"-cert-v01@openssh.com"


@dataclass(frozen=True, slots=True)
class _KeyFiles:
    """What the identity and certificate files contain.

    Args:
        identities: the public keys and certificates that the files name, in their order.
        certificates: the certificates, those of CertificateFile first.
        pairs: the private keys that can be used, without certificates.
    """

    identities: tuple[bytes, ...]
    certificates: tuple[asyncssh.SSHCertificate, ...]
    pairs: tuple[asyncssh.SSHKeyPair, ...]


@asynccontextmanager
async def login_keys(endpoint: SshEndpoint) -> AsyncIterator[list[asyncssh.SSHKeyPair]]:
    """Yield the keys in the order to try them. Keys of the agent can sign only within the context.

    Raises:
        AuthFailed: a named key cannot be read or decrypted, or there is no usable key or agent for the method.
    """
    auth = endpoint.auth
    if auth.method == "password":
        yield []
        return
    async with AsyncExitStack() as stack:
        # In a thread: decrypting a key is slow by design (bcrypt_pbkdf).
        files = await asyncio.to_thread(_read_key_files, endpoint)
        agent = await _agent_keys(endpoint, stack) if auth.method in ("auto", "agent") else ()
        named: list[asyncssh.SSHKeyPair] = []
        if auth.names_a_key and auth.method in ("auto", "private_key"):
            # First: a server that allows few attempts may reject an agent's many keys.
            named = await asyncio.to_thread(_named_key, auth, files, agent)
        pairs = [*named, *_ordered(files, agent, endpoint.settings.identities_only)]
        accepted = None if endpoint.legacy_algorithms else endpoint.settings.login_algorithms
        yield pairs if accepted is None else [limited for pair in pairs if (limited := _limited(pair, accepted)) is not None]


def _limited(pair: asyncssh.SSHKeyPair, accepted: Sequence[str]) -> asyncssh.SSHKeyPair | None:
    """Let a key sign only with algorithms of PubkeyAcceptedAlgorithms. Returns None if it has none of them."""
    suffix = _CERTIFICATE if pair.has_cert else b""
    is_rsa = pair.key_algorithm.startswith(_RSA)  # other keys have one algorithm, of their own name
    names = {algorithm: algorithm + suffix if is_rsa else pair.algorithm for algorithm in pair.sig_algorithms}
    pair.sig_algorithms = [algorithm for algorithm, name in names.items() if name.decode() in accepted]
    if len(pair.sig_algorithms) == 1:  # also for a server that does not name those that it accepts
        pair.set_sig_algorithm(pair.sig_algorithms[0])
    return pair if pair.sig_algorithms else None


def _ordered(files: _KeyFiles, agent: Sequence[asyncssh.SSHKeyPair], identities_only: bool) -> list[asyncssh.SSHKeyPair]:
    signers = {pair.key_public_data: pair for pair in (*files.pairs, *agent) if not pair.has_cert}
    certified = [
        _with_certificate(signers[certificate.key.public_data], certificate)
        for certificate in files.certificates
        if certificate.key.public_data in signers
    ]
    used = {pair.public_data for pair in certified}
    # Both in the agent's order, as in ssh(1).
    listed = [pair for pair in agent if pair.public_data in files.identities]
    others = [] if identities_only else [pair for pair in agent if pair.public_data not in files.identities]
    in_agent = {pair.public_data for pair in agent}
    in_files = [pair for pair in files.pairs if pair.public_data not in in_agent]
    return [*certified, *(pair for pair in (*listed, *others, *in_files) if pair.public_data not in used)]


def _with_certificate(pair: asyncssh.SSHKeyPair, certificate: asyncssh.SSHCertificate) -> asyncssh.SSHKeyPair:
    """Return a copy of a key that presents a certificate, and signs with the key."""
    certified = copy.copy(pair)
    certified.set_certificate(certificate)
    if pair.key_algorithm == _RSA:
        _name_algorithm(certified)
    return certified


def _name_algorithm(certified: Any) -> None:
    """Announce a certificate of an RSA key by the algorithm that signs, as OpenSSH requires (PROTOCOL.certkeys).

    asyncssh announces the one of SHA-1, which OpenSSH 8.8 and later reject.
    """
    set_sig_algorithm = certified.set_sig_algorithm

    def choose(algorithm: bytes) -> None:
        set_sig_algorithm(algorithm)
        certified.algorithm = algorithm + _CERTIFICATE

    certified.set_sig_algorithm = choose


async def _agent_keys(endpoint: SshEndpoint, stack: AsyncExitStack) -> Sequence[asyncssh.SSHKeyPair]:
    required, path = endpoint.auth.method == "agent", endpoint.settings.agent_path
    if path is None:
        return _no_agent_keys("SSH_AUTH_SOCK is not set", required)
    try:
        agent = await stack.enter_async_context(await asyncssh.connect_agent(path))
        keys = await agent.get_keys()
    except (OSError, ValueError) as error:
        return _no_agent_keys(f"{path} does not answer: {error}", required)
    if required and not keys:
        raise AuthFailed("the SSH agent has no key", hint="add a key with ssh-add", agent_path=path)
    return keys


def _no_agent_keys(why: str, required: bool) -> Sequence[asyncssh.SSHKeyPair]:
    if not required:
        return ()
    raise AuthFailed(
        f"the SSH agent cannot be used: {why}",
        hint="start an agent and add a key with ssh-add, or use another auth method",
    )


def _read_key_files(endpoint: SshEndpoint) -> _KeyFiles:
    auth = endpoint.auth
    paths = endpoint.settings.identity_files if auth.private_key_path is None else (absolute_path(auth.private_key_path),)
    beside = [certificate for path in paths for certificate in _certificates(f"{path}-cert.pub")]
    configured = [certificate for path in endpoint.settings.certificate_files for certificate in _certificates(path)]
    # `ssh -i signed-cert.pub -i key`: an identity file may itself be a certificate.
    named = [certificate for path in paths for certificate in _certificates(path)]
    certificates = tuple({certificate.public_data: certificate for certificate in (*configured, *beside, *named)}.values())
    uses_files = auth.method in ("auto", "private_key") and not auth.names_a_key
    pairs = [pair for path in paths for pair in _pairs_if_usable(path, auth.passphrase)] if uses_files else []
    identities = [blob for path in paths for blob in _public_keys(path)]
    identities += [pair.public_data for pair in pairs] + [certificate.public_data for certificate in certificates]
    return _KeyFiles(tuple(identities), certificates, tuple(pairs))


def _public_keys(path: str) -> list[bytes]:
    """Return the public key of an identity file: from the file next to it, or from the file itself."""
    for candidate in (f"{path}.pub", path):
        try:
            return [asyncssh.read_public_key(readable_file(candidate)).public_data]
        except (OSError, ValueError):
            continue
    return []


def _pairs_if_usable(path: str, passphrase: str | None) -> Sequence[asyncssh.SSHKeyPair]:
    """Load a key of the configuration. As in ssh(1), it is skipped if it is missing, invalid, or needs a passphrase."""
    try:
        return [pair for pair in asyncssh.load_keypairs(readable_file(path), passphrase) if not pair.has_cert]
    except (OSError, ValueError):
        return ()


def _named_key(auth: SshAuth, files: _KeyFiles, agent: Sequence[asyncssh.SSHKeyPair]) -> list[asyncssh.SSHKeyPair]:
    """Return the named key with its certificates, from the agent if the file has only its public key or needs a passphrase."""
    try:
        keys = _load_named_key(auth)
    except AuthFailed:
        listed = [pair for pair in agent if pair.public_data in files.identities]
        if auth.passphrase is not None or not listed:
            raise
        return []  # `_ordered` has it first
    certified = [
        _with_certificate(key, certificate)
        for certificate in files.certificates
        for key in keys
        if not key.has_cert and key.public_data == certificate.key.public_data
    ]
    own = {pair.public_data for pair in certified}
    return [*certified, *(key for key in keys if key.public_data not in own)]


def _load_named_key(auth: SshAuth) -> list[asyncssh.SSHKeyPair]:
    path = auth.private_key_path
    what = f"the private key {path}" if path is not None else "the private key given as private_key_pem"
    try:
        pem = (auth.private_key_pem or "").strip().encode() + b"\n"
        source = pem if path is None else readable_file(absolute_path(path))
        keys = list(asyncssh.load_keypairs(source, auth.passphrase))
    except OSError as error:
        raise AuthFailed(f"cannot read {what}: {error.strerror}", hint="give the path of an existing, readable key") from error
    except asyncssh.KeyEncryptionError as error:
        raise _wrong_passphrase(what) from error
    except asyncssh.KeyImportError as error:
        raise _import_failure(what, auth, error) from error
    if not keys:
        raise AuthFailed(f"{what} contains no private key")
    return keys


def _import_failure(what: str, auth: SshAuth, error: Exception) -> AuthFailed:
    """Return the error for a KeyImportError, which asyncssh also raises for a PEM key with a wrong or missing passphrase."""
    if auth.passphrase is None and str(error).startswith("Passphrase"):
        return AuthFailed(f"{what} is encrypted", hint="give its passphrase, or use the agent")
    if str(error).startswith("Unable to decrypt"):
        return _wrong_passphrase(what)
    return AuthFailed(f"{what} has an unknown format", hint="use a key in OpenSSH or PEM (PKCS#1, PKCS#8) format")


def _wrong_passphrase(what: str) -> AuthFailed:
    return AuthFailed(f"cannot decrypt {what}: the passphrase is wrong", hint="give the correct passphrase")


def _certificates(path: str) -> Sequence[asyncssh.SSHCertificate]:
    try:
        return asyncssh.load_certificates(readable_file(path))
    except (OSError, ValueError):
        return ()
