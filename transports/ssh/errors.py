"""Translation of asyncssh's and the operating system's exceptions to channel errors: one table, most specific class first."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import asyncssh
from asyncssh import constants

from transports.channel import ExitStatus
from transports.errors import (
    AuthFailed,
    ChannelBroken,
    ChannelEnded,
    ChannelError,
    ConnectFailed,
    ConnectTimeout,
    HostKeyMismatch,
    InvalidOption,
    Unsupported,
)
from transports.tcp import is_timeout

from .attempt import Attempt, Stage, printable

#: The hint after a timeout, or the end of the connection, in a stage.
_STAGE_HINTS = {
    Stage.TCP: "check that it is up, and check address, route and firewall",
    Stage.VERSION: "check that the port is that of an SSH server, and that the server accepts more connections",
}
_SLOW_HINT = "try again later, or allow a longer connect timeout"
_LOG_HINT = "see the server's log"
_LEGACY_HINT = "an old device may need legacy_algorithms true"
_JUMP_HOST_LEGACY_HINT = (
    "an old jump host needs its algorithms (KexAlgorithms, Ciphers, HostKeyAlgorithms) in the SSH configuration"
)
#: asyncssh's message; only the received algorithms are of interest.
_NO_ALGORITHM = re.compile(r"No matching (.+?) algorithm found, sent .* and received (.*)", re.DOTALL)
#: Maximum length of a server's algorithm list in a message, characters.
_MAX_ALGORITHMS = 400


def translate(error: Exception, attempt: Attempt) -> ChannelError:
    """Return the channel error for an exception raised while connecting or requesting the terminal."""
    if attempt.host_keys.failure is not None:
        return attempt.host_keys.failure
    if isinstance(error, ChannelError):
        return error
    return next(make(error, attempt) for kind, make in _TABLE if isinstance(error, kind))


def timed_out(seconds: float, attempt: Attempt | None, host: str) -> ConnectTimeout:
    """Return the error for an open that exceeded its timeout."""
    if attempt is None:
        return ConnectTimeout(f"reading the SSH configuration and keys for {host} took longer than {seconds:g} s", host=host)
    return ConnectTimeout(
        f"{attempt.endpoint.label} did not get ready within {seconds:g} s ({attempt.stage}){attempt.proxy_output}",
        hint=_STAGE_HINTS.get(attempt.stage, _SLOW_HINT),
        stage=attempt.stage.name.lower(),
        **attempt.details,
    )


def ended(label: str, status: ExitStatus | None) -> ChannelEnded:
    """Return the reason for a channel that the server closed."""
    how = ""
    if status is not None:
        how = f" (exit code {status.code})" if status.signal is None else f" (killed by signal {status.signal})"
    return ChannelEnded(f"{label} ended the session{how}", hint="open a new session")


def broken(error: Exception, label: str) -> ChannelBroken:
    """Return the reason for a channel whose connection broke."""
    return ChannelBroken(f"the connection to {label} broke: {_text(error)}", hint="open the session again to reconnect")


def is_orderly(error: Exception) -> bool:
    """Return whether the peer only closed the TCP connection (FIN), as many devices do instead of closing the channel.

    asyncssh raises the same exception for unanswered keepalives.
    """
    return isinstance(error, asyncssh.ConnectionLost) and "keepalive" not in error.reason


def _text(error: Exception) -> str:
    if isinstance(error, asyncssh.Error):
        return printable(error.reason)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(str(error)) or type(error).__name__


def _auth_failed(error: Exception, attempt: Attempt) -> ChannelError:
    endpoint = attempt.endpoint
    tried = ", ".join(attempt.tried) or "nothing, for lack of credentials"
    offered = ", ".join(attempt.offered) or "none of the known methods"
    return AuthFailed(
        f"{endpoint.label} rejected the login of user {endpoint.username}: tried {tried}; the server offers {offered}"
        f"{_prompts(attempt)}",
        hint=_auth_hint(attempt),
        username=endpoint.username,
        offered=list(attempt.offered),
        tried=list(attempt.tried),
        prompts=list(attempt.prompts),
        **attempt.details,
    )


def _prompts(attempt: Attempt) -> str:
    prompts = ", ".join(f'"{prompt}"' for prompt in attempt.prompts)
    return f"; it prompted {prompts}, which no given password or one-time code answers" if prompts else ""


def _auth_hint(attempt: Attempt) -> str:
    auth = attempt.endpoint.auth
    missing = []
    if "publickey" in attempt.offered and not attempt.keys and auth.method != "password":
        missing.append("a key (private_key_path, or one in the agent)")
    if auth.password is None and {"password", "keyboard-interactive"} & set(attempt.offered):
        missing.append("a password")
    if missing and attempt.endpoint.is_jump_host:
        return f"give the jump host separate credentials: {' or '.join(missing)}; the target's password is not sent to it"
    return f"give {' or '.join(missing)}" if missing else "check the user name and the credentials"


def _lost(error: Exception, attempt: Attempt) -> ChannelError:
    """Return the error for a lost connection; some servers drop it after failed logins instead of rejecting them."""
    if attempt.stage is Stage.LOGIN and attempt.tried:
        return _auth_failed(error, attempt)
    return _failed(f"closed the connection ({attempt.stage})", _STAGE_HINTS.get(attempt.stage, _LOG_HINT), attempt)


def _disconnected(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.LOGIN:
        return _failed(f"ended the connection: {_text(error)}", _LOG_HINT, attempt)
    return AuthFailed(
        f"{attempt.endpoint.label} ended the login of user {attempt.endpoint.username}: {_text(error)}",
        hint='if there are many keys, select one: auth method "private_key" with private_key_path',
        username=attempt.endpoint.username,
        offered=list(attempt.offered),
        **attempt.details,
    )


def _host_key(error: Exception, attempt: Attempt) -> ChannelError:
    """Return the error for a certificate or revoked key that asyncssh rejected."""
    return HostKeyMismatch(
        f"the host key of {attempt.endpoint.label} cannot be trusted: {_text(error)}",
        hint="compare it on the device itself, and correct the known_hosts file",
        reason="changed" if "revoked" in str(error) else "unknown",
        fingerprint=None,
        known_hosts_path=next(iter(attempt.endpoint.known_hosts), None),
        **attempt.details,
    )


def _key_exchange_failed(error: Exception, attempt: Attempt) -> ChannelError:
    match = _NO_ALGORITHM.match(str(error))
    if match is None:
        return _failed(f"failed the key exchange: {_text(error)}", _LOG_HINT, attempt)
    kind, offered = match.groups()
    if attempt.endpoint.legacy_algorithms:
        hint = "check the SSH settings of the server"
    else:
        hint = _JUMP_HOST_LEGACY_HINT if attempt.endpoint.is_jump_host else _LEGACY_HINT
    offered = printable(offered, _MAX_ALGORITHMS)
    return _failed(f"has no {kind} algorithm in common with this client; it offers {offered}", hint, attempt)


def _channel_refused(error: Exception, attempt: Attempt) -> ChannelError:
    assert isinstance(error, asyncssh.ChannelOpenError)
    if attempt.lost:
        return _lost(error, attempt)
    if attempt.stage is Stage.TCP and attempt.via is not None:
        hint = "check that the jump host may forward to that host and port"
        return _failed(f"cannot be reached through {attempt.via}: {_text(error)}", hint, attempt)
    if error.code == constants.OPEN_REQUEST_PTY_FAILED:
        return Unsupported(
            f"{attempt.endpoint.label} refused to allocate a terminal",
            hint="open the session without a terminal (pty.enabled false)",
            **attempt.details,
        )
    hint = "check that the user has a shell on the server, and that the session limit is not reached"
    return _failed(f"refused the session: {_text(error)}", hint, attempt)


def _timeout(error: Exception, attempt: Attempt) -> ChannelError:
    return ConnectTimeout(
        f"{attempt.endpoint.label} did not answer ({attempt.stage})",
        hint=_STAGE_HINTS[Stage.TCP],
        stage=attempt.stage.name.lower(),
        **attempt.details,
    )


def _unreachable(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.TCP:
        return _lost(error, attempt)
    if isinstance(error, OSError) and is_timeout(error):
        return _timeout(error, attempt)
    return _failed(f"cannot be reached: {_text(error)}", _STAGE_HINTS[Stage.TCP], attempt)


def _invalid(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.TCP:
        # asyncssh also raises ValueError for data that it cannot decode.
        return _protocol_error(error, attempt)
    return InvalidOption(f"the options for {attempt.endpoint.label} cannot be used: {_text(error)}", **attempt.details)


def _protocol_error(error: Exception, attempt: Attempt) -> ChannelError:
    """Return the error for data from the server that asyncssh or cryptography cannot process."""
    return _failed(f"violated the protocol ({type(error).__name__})", _LOG_HINT, attempt)


def _failed(what: str, hint: str, attempt: Attempt) -> ConnectFailed:
    if attempt.proxy_output:
        hint = "check the ProxyCommand of the SSH configuration"
    return ConnectFailed(f"{attempt.endpoint.label} {what}{attempt.proxy_output}", hint=hint, **attempt.details)


def _fails(what: str, hint: str) -> Callable[[Exception, Attempt], ChannelError]:
    return lambda error, attempt: _failed(what.format(_text(error)), hint, attempt)


_TABLE: tuple[tuple[type[Exception], Callable[[Exception, Attempt], ChannelError]], ...] = (
    (asyncssh.PermissionDenied, _auth_failed),
    (asyncssh.HostKeyNotVerifiable, _host_key),
    (asyncssh.KeyExchangeFailed, _key_exchange_failed),
    (asyncssh.ProtocolNotSupported, _fails("does not speak SSH 2: {}", "check the port, or use Telnet")),
    (asyncssh.ConnectionLost, _lost),
    (asyncssh.DisconnectError, _disconnected),
    (asyncssh.ChannelOpenError, _channel_refused),
    (TimeoutError, _timeout),
    (socket.gaierror, _fails("has a name that cannot be resolved: {}", "check the name, or give an address")),
    (ConnectionRefusedError, _fails("refused the connection", "check the port, and that an SSH server is running there")),
    (OSError, _unreachable),
    (ValueError, _invalid),
    (Exception, _protocol_error),
)
