"""What asyncssh and the operating system raise, told as the channel's errors: one table, most specific first."""

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

from .attempt import Attempt, Stage
from .client import printable

#: The next step after silence, or the end of a connection, at some stage.
_HINTS = {
    Stage.TCP: "check that it is up, and address, route and firewall",
    Stage.VERSION: "check that the port is that of an SSH server, and that it takes more connections",
}
#: The most that an error lists of a server's algorithms, characters.
_MAX_ALGORITHMS = 400
#: asyncssh lists what was sent, too: what it received is what helps.
_NO_ALGORITHM = re.compile(r"No matching (.+?) algorithm found, sent .* and received (.*)", re.DOTALL)
_SLOW_HINT = "try again later, or allow a longer connect_timeout_ms"
_LEGACY_HINT = "an old device may need legacy_algorithms true"
_HOP_LEGACY_HINT = "an old jump host needs its algorithms (KexAlgorithms, Ciphers, HostKeyAlgorithms) in the SSH configuration"


def translate(error: Exception, attempt: Attempt) -> ChannelError:
    """The channel's error for what went wrong while connecting or asking for the terminal."""
    if attempt.host_keys.failure is not None:
        return attempt.host_keys.failure
    return next(make(error, attempt) for kind, make in _TABLE if isinstance(error, kind))


def timed_out(seconds: float, attempt: Attempt | None, host: str) -> ConnectTimeout:
    """The error for an open that took longer than it may."""
    if attempt is None:
        return ConnectTimeout(f"reading the SSH configuration and keys for {host} took longer than {seconds:g} s", host=host)
    return ConnectTimeout(
        f"{attempt.endpoint.label} did not get ready within {seconds:g} s ({attempt.stage}); "
        f"{_HINTS.get(attempt.stage, _SLOW_HINT)}",
        stage=attempt.stage.name.lower(),
        **attempt.details,
    )


def ended(label: str, status: ExitStatus | None) -> ChannelEnded:
    """The reason for a channel that the far end closed."""
    how = ""
    if status is not None:
        how = f" (exit code {status.code})" if status.signal is None else f" (killed by signal {status.signal})"
    return ChannelEnded(f"{label} ended the session{how}; open a new one to go on")


def broken(error: Exception, label: str) -> ChannelBroken:
    """The reason for a channel whose connection broke."""
    return ChannelBroken(f"the connection to {label} broke: {_text(error)}; reconnect to go on")


def is_orderly(error: Exception) -> bool:
    """Whether the peer just closed its TCP connection (FIN), which many devices do at exit instead of closing the channel.

    asyncssh has one type for that and for unanswered keepalives.
    """
    return isinstance(error, asyncssh.ConnectionLost) and "keepalive" not in error.reason


def _text(error: Exception) -> str:
    if isinstance(error, asyncssh.Error):
        return printable(error.reason)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(str(error)) or type(error).__name__


def _own(error: Exception, attempt: Attempt) -> ChannelError:
    assert isinstance(error, ChannelError)
    return error


def _auth_failed(error: Exception, attempt: Attempt) -> ChannelError:
    endpoint = attempt.endpoint
    tried = ", ".join(attempt.tried) or "nothing, as there was nothing to try it with"
    offered = ", ".join(attempt.offered) or "none of the known methods"
    return AuthFailed(
        f"{endpoint.label} refused the login of user {endpoint.username}: tried {tried}; the server offers {offered}"
        f"{_asked(attempt)}. {_next_step(attempt)}",
        username=endpoint.username,
        offered=list(attempt.offered),
        tried=list(attempt.tried),
        prompts=list(attempt.prompts),
        **attempt.details,
    )


def _asked(attempt: Attempt) -> str:
    if not attempt.prompts:
        return ""
    prompts = ", ".join(f'"{prompt}"' for prompt in attempt.prompts)
    return f"; it asked {prompts}, and only a prompt for the password can be answered"


def _next_step(attempt: Attempt) -> str:
    auth = attempt.endpoint.auth
    missing = []
    if "publickey" in attempt.offered and not attempt.keys and auth.method != "password":
        missing.append("a key (private_key_path, or one in the agent)")
    if auth.password is None and {"password", "keyboard-interactive"} & set(attempt.offered):
        missing.append("a password")
    if missing and attempt.endpoint.is_hop:
        return f"Give the jump host credentials of its own: {' or '.join(missing)}; the target's password is not sent to it"
    return f"Give {' or '.join(missing)}" if missing else "Check the user name and the credentials"


def _lost(error: Exception, attempt: Attempt) -> ChannelError:
    """A server may drop the line instead of saying that it had enough of failed logins."""
    if attempt.stage is Stage.LOGIN and attempt.tried:
        return _auth_failed(error, attempt)
    return _failed(f"closed the connection ({attempt.stage})", _HINTS.get(attempt.stage, "see the server's log"), attempt)


def _disconnected(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.LOGIN:
        return _failed(f"ended the connection: {_text(error)}", "see the server's log", attempt)
    return AuthFailed(
        f"{attempt.endpoint.label} ended the login of user {attempt.endpoint.username}: {_text(error)}; "
        'of many keys name the one to use: auth method "private_key" with private_key_path',
        username=attempt.endpoint.username,
        offered=list(attempt.offered),
        **attempt.details,
    )


def _host_key(error: Exception, attempt: Attempt) -> ChannelError:
    """What asyncssh itself refuses: a certificate, or a key that is revoked."""
    return HostKeyMismatch(
        f"{attempt.endpoint.label} shows a host key that cannot be trusted: {_text(error)}; "
        "compare it on the device itself, and mend the known_hosts file",
        reason="changed" if "revoked" in str(error) else "unknown",
        fingerprint=None,
        known_hosts_path=next(iter(attempt.endpoint.known_hosts), None),
        **attempt.details,
    )


def _key_exchange_failed(error: Exception, attempt: Attempt) -> ChannelError:
    match = _NO_ALGORITHM.match(str(error))
    if match is None:
        return _failed(f"failed the key exchange: {_text(error)}", "see the server's log", attempt)
    kind, offered = match.groups()
    endpoint = attempt.endpoint
    hint = "see its SSH settings" if endpoint.legacy_algorithms else _HOP_LEGACY_HINT if endpoint.is_hop else _LEGACY_HINT
    offered = printable(offered, _MAX_ALGORITHMS)
    return _failed(f"has no {kind} algorithm in common with us, as it offers {offered}", hint, attempt)


def _not_ssh(error: Exception, attempt: Attempt) -> ChannelError:
    return _failed(f"does not speak SSH 2: {_text(error)}", "check the port, or use Telnet", attempt)


def _channel_refused(error: Exception, attempt: Attempt) -> ChannelError:
    assert isinstance(error, asyncssh.ChannelOpenError)
    if attempt.lost:
        return _lost(error, attempt)
    if attempt.stage is Stage.TCP and attempt.via is not None:
        hint = "check that it may forward to that host and port"
        return _failed(f"cannot be reached through {attempt.via}: {_text(error)}", hint, attempt)
    if error.code == constants.OPEN_REQUEST_PTY_FAILED:
        return Unsupported(f"{attempt.endpoint.label} gives no terminal; open it with pty.enabled false", **attempt.details)
    return _failed(f"refused the session: {_text(error)}", "the user may have no shell there, or too many sessions", attempt)


def _timeout(error: Exception, attempt: Attempt) -> ChannelError:
    return ConnectTimeout(
        f"{attempt.endpoint.label} did not answer ({attempt.stage}); {_HINTS[Stage.TCP]}",
        stage=attempt.stage.name.lower(),
        **attempt.details,
    )


def _unresolvable(error: Exception, attempt: Attempt) -> ChannelError:
    return _failed(f"has a name that cannot be resolved: {_text(error)}", "check the name, or give an address", attempt)


def _refused(error: Exception, attempt: Attempt) -> ChannelError:
    return _failed("refused the connection", "check the port, and that its SSH server runs", attempt)


def _unreachable(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.TCP:
        return _lost(error, attempt)
    return _failed(f"cannot be reached: {_text(error)}", _HINTS[Stage.TCP], attempt)


def _invalid(error: Exception, attempt: Attempt) -> ChannelError:
    if attempt.stage is not Stage.TCP:
        # asyncssh's errors for what it cannot decode are ValueErrors as well.
        return _protocol(error, attempt)
    return InvalidOption(f"the options for {attempt.endpoint.label} cannot be used: {_text(error)}", **attempt.details)


def _protocol(error: Exception, attempt: Attempt) -> ChannelError:
    """What asyncssh or cryptography stumbled over in the bytes of the far end."""
    return _failed(f"broke the protocol ({type(error).__name__})", "see the server's log", attempt)


def _failed(what: str, hint: str, attempt: Attempt) -> ConnectFailed:
    return ConnectFailed(f"{attempt.endpoint.label} {what}; {hint}", **attempt.details)


_TABLE: tuple[tuple[type[Exception], Callable[[Exception, Attempt], ChannelError]], ...] = (
    (ChannelError, _own),
    (asyncssh.PermissionDenied, _auth_failed),
    (asyncssh.HostKeyNotVerifiable, _host_key),
    (asyncssh.KeyExchangeFailed, _key_exchange_failed),
    (asyncssh.ProtocolNotSupported, _not_ssh),
    (asyncssh.ConnectionLost, _lost),
    (asyncssh.DisconnectError, _disconnected),
    (asyncssh.ChannelOpenError, _channel_refused),
    (TimeoutError, _timeout),
    (socket.gaierror, _unresolvable),
    (ConnectionRefusedError, _refused),
    (OSError, _unreachable),
    (ValueError, _invalid),
    (Exception, _protocol),
)
