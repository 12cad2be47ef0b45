"""The user's keys for the login: from the agent, from the options, or from the OpenSSH configuration.

asyncssh can collect keys too, but it cannot use an agent without reading ~/.ssh, and it fails if a file is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncssh

from transports.caller import absolute_path
from transports.errors import AuthFailed

from .connect_options import SshAuth
from .endpoint import SshEndpoint


@asynccontextmanager
async def login_keys(endpoint: SshEndpoint) -> AsyncIterator[list[asyncssh.SSHKeyPair]]:
    """Yield the keys in the order to try them. Keys of the agent can sign only within the context.

    Raises:
        AuthFailed: a named key cannot be read or decrypted, or there is no usable key or agent for the method.
    """
    async with AsyncExitStack() as stack:
        keys: list[asyncssh.SSHKeyPair] = []
        if endpoint.auth.names_a_key and endpoint.auth.method in ("auto", "private_key"):
            # First: a server that allows few attempts may reject an agent's many keys.
            keys += await asyncio.to_thread(_named_key, endpoint.auth)
        if endpoint.auth.method in ("auto", "agent"):
            keys += await _agent_keys(endpoint, stack)
        if endpoint.auth.method in ("auto", "private_key") and not endpoint.auth.names_a_key:
            # In a thread: decrypting a key is slow by design (bcrypt_pbkdf).
            keys += await asyncio.to_thread(_file_keys, endpoint)
        yield keys


async def _agent_keys(endpoint: SshEndpoint, stack: AsyncExitStack) -> Sequence[asyncssh.SSHKeyPair]:
    required = endpoint.auth.method == "agent"
    if endpoint.agent_path is None:
        return _no_agent_keys("SSH_AUTH_SOCK is not set", required)
    try:
        agent = await stack.enter_async_context(await asyncssh.connect_agent(endpoint.agent_path))
        identities = await asyncio.to_thread(_identities, endpoint) if endpoint.identities_only else None
        keys = await agent.get_keys(identities)
    except (OSError, ValueError) as error:
        return _no_agent_keys(f"{endpoint.agent_path} does not answer: {error}", required)
    if required and not keys:
        raise AuthFailed("the SSH agent has no key", hint="add a key with ssh-add", agent_path=endpoint.agent_path)
    # asyncssh takes an empty list of identities for all keys, whereas IdentitiesOnly without a public key allows none.
    return () if identities == [] else keys


def _no_agent_keys(why: str, required: bool) -> Sequence[asyncssh.SSHKeyPair]:
    if not required:
        return ()
    raise AuthFailed(
        f"the SSH agent cannot be used: {why}",
        hint="start an agent and add a key with ssh-add, or use another auth method",
    )


def _identities(endpoint: SshEndpoint) -> list[bytes]:
    """Return the public keys that IdentitiesOnly allows: the named files, or the .pub files next to them."""
    named = endpoint.auth.private_key_path
    blobs = []
    for path in (named,) if named is not None else endpoint.identity_files:
        for candidate in (f"{path}.pub", path):
            try:
                blobs.append(asyncssh.read_public_key(absolute_path(candidate)).public_data)
                break
            except (OSError, asyncssh.KeyImportError):
                continue
    return blobs


def _file_keys(endpoint: SshEndpoint) -> list[asyncssh.SSHKeyPair]:
    keys = [key for path in endpoint.identity_files for key in _key_if_usable(path, endpoint)]
    if endpoint.auth.method == "private_key" and not keys:
        raise AuthFailed('auth method "private_key" found no usable key', hint="give private_key_path or private_key_pem")
    return keys


def _named_key(auth: SshAuth) -> list[asyncssh.SSHKeyPair]:
    path = auth.private_key_path
    what = f"the private key {path}" if path is not None else "the private key given as private_key_pem"
    try:
        source = Path(absolute_path(path)) if path is not None else (auth.private_key_pem or "").strip().encode() + b"\n"
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


def _key_if_usable(path: str, endpoint: SshEndpoint) -> Sequence[asyncssh.SSHKeyPair]:
    """Load a default key. As in ssh(1), it is skipped if it is missing, invalid, or needs a passphrase."""
    certificates = [certificate for file in endpoint.certificate_files for certificate in _certificates(file)]
    try:
        return asyncssh.load_keypairs(Path(path), endpoint.auth.passphrase, certificates)
    except (OSError, ValueError):
        return ()


def _certificates(path: str) -> Sequence[asyncssh.SSHCertificate]:
    try:
        return asyncssh.load_certificates(Path(path))
    except (OSError, ValueError):
        return ()
