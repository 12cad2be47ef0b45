"""The login of a request as SSH's transport takes it: here the secrets leave their wrapping."""

from __future__ import annotations

from pydantic import SecretStr

from ptyctl.api.session import Auth
from transports import ssh


def auth_of(auth: Auth) -> ssh.SshAuth:
    """Raises InvalidOption for what contradicts itself."""
    return ssh.SshAuth(
        method=auth.method,
        password=_secret(auth.password),
        private_key_pem=_secret(auth.private_key_pem),
        private_key_path=auth.private_key_path,
        passphrase=_secret(auth.passphrase),
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
