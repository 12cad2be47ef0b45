"""The keys to log in with: from the agent, from what the user named, from the OpenSSH configuration.

asyncssh can gather them itself, but it cannot use an agent without also reading ~/.ssh, nor pass over a file that is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncssh

from transports.caller import absolute
from transports.errors import AuthFailed, InvalidOption

from .endpoint import Endpoint
from .options import Auth

_USES_AGENT = frozenset({"auto", "agent"})
_USES_FILES = frozenset({"auto", "private_key"})


@asynccontextmanager
async def login_keys(endpoint: Endpoint) -> AsyncIterator[list[asyncssh.SSHKeyPair]]:
    """The keys in the order in which they are to be tried. Those of the agent can sign only within the context.

    Raises:
        AuthFailed: a named key cannot be decrypted, or the agent that alone is to be used is not there.
        InvalidOption: a named key cannot be read, or is none.
    """
    async with AsyncExitStack() as stack:
        keys: list[asyncssh.SSHKeyPair] = []
        if endpoint.auth.method in _USES_AGENT:
            keys += await _agent_keys(endpoint, stack)
        if endpoint.auth.method in _USES_FILES:
            # Decrypting a key takes a good part of a second on purpose (bcrypt_pbkdf).
            keys += await asyncio.to_thread(_file_keys, endpoint)
        yield keys


async def _agent_keys(endpoint: Endpoint, stack: AsyncExitStack) -> Sequence[asyncssh.SSHKeyPair]:
    required = endpoint.auth.method == "agent"
    if endpoint.agent_path is None:
        return _without_agent("there is none: SSH_AUTH_SOCK is not set") if required else ()
    try:
        agent = await stack.enter_async_context(await asyncssh.connect_agent(endpoint.agent_path))
        identities = await asyncio.to_thread(_identities, endpoint) if endpoint.identities_only else None
        keys = await agent.get_keys(identities)
    except (OSError, ValueError) as error:
        return _without_agent(f"{endpoint.agent_path} does not answer: {error}") if required else ()
    if required and not keys:
        raise AuthFailed("the SSH agent has no key; add one with ssh-add", agent_path=endpoint.agent_path)
    # An empty list of identities would stand for all, where IdentitiesOnly without a public key means none.
    return () if identities == [] else keys


def _without_agent(why: str) -> Sequence[asyncssh.SSHKeyPair]:
    raise AuthFailed(f"the SSH agent cannot be used, {why}; start one and ssh-add a key, or use another auth method")


def _identities(endpoint: Endpoint) -> list[bytes]:
    """The public keys that IdentitiesOnly leaves: of the files that are named, as they stand beside the private keys."""
    named = endpoint.auth.private_key_path
    blobs = []
    for path in (named,) if named is not None else endpoint.identity_files:
        for candidate in (f"{path}.pub", path):
            try:
                blobs.append(asyncssh.read_public_key(absolute(candidate)).public_data)
                break
            except (OSError, asyncssh.KeyImportError):
                continue
    return blobs


def _file_keys(endpoint: Endpoint) -> list[asyncssh.SSHKeyPair]:
    auth = endpoint.auth
    if auth.names_a_key:
        return _named_key(auth)
    keys = [key for path in endpoint.identity_files for key in _key_if_usable(path, endpoint)]
    if auth.method == "private_key" and not keys:
        raise InvalidOption('auth method "private_key" found no usable key; give private_key_path or private_key_pem')
    return keys


def _named_key(auth: Auth) -> list[asyncssh.SSHKeyPair]:
    path = auth.private_key_path
    what = f"the private key {path}" if path is not None else "the private key given as private_key_pem"
    try:
        source = Path(absolute(path)) if path is not None else (auth.private_key_pem or "").strip().encode() + b"\n"
        keys = list(asyncssh.load_keypairs(source, auth.passphrase))
    except OSError as error:
        raise InvalidOption(f"cannot read {what}: {error.strerror}") from error
    except asyncssh.KeyEncryptionError as error:
        raise AuthFailed(f"cannot decrypt {what}: the passphrase is wrong; give the right one as passphrase") from error
    except asyncssh.KeyImportError as error:
        raise _import_failure(what, auth, error) from error
    if not keys:
        raise InvalidOption(f"{what} holds no private key")
    return keys


def _import_failure(what: str, auth: Auth, error: Exception) -> AuthFailed | InvalidOption:
    """PEM keys with a wrong passphrase are import errors in asyncssh, as are encrypted ones without any."""
    if auth.passphrase is None and str(error).startswith("Passphrase"):
        return AuthFailed(f"{what} is encrypted; give its passphrase, or use the agent")
    if str(error).startswith("Unable to decrypt"):
        return AuthFailed(f"cannot decrypt {what}: the passphrase is wrong; give the right one as passphrase")
    return InvalidOption(f"{what} is not in a known format; OpenSSH and PEM (PKCS#1, PKCS#8) are")


def _key_if_usable(path: str, endpoint: Endpoint) -> Sequence[asyncssh.SSHKeyPair]:
    """As in ssh(1), a key that nobody named is passed over when it is missing, broken, or needs a passphrase."""
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
