"""What a channel can raise. Nothing a library raises passes a transport's edge.

    ChannelError
    ├── InvalidOption       INVALID_ARGUMENT   an option that cannot be, before anything was tried
    ├── Unsupported         UNSUPPORTED        this kind of channel cannot do that
    ├── ConnectTimeout      CONNECT_TIMEOUT    no answer, or one that stopped half-way
    ├── ConnectFailed       CONNECT_FAILED     refused, unreachable, not a program
    ├── AuthFailed          AUTH_FAILED        the far end knows us and says no
    ├── HostKeyMismatch     HOSTKEY_MISMATCH   `details["reason"]`: unknown, changed or fingerprint
    ├── ChannelClosed       ALREADY_CLOSED     we closed it
    ├── ChannelEnded        REMOTE_CLOSED      the far end ended it in order
    └── ChannelBroken       IO_ERROR           it broke: reset, keepalive unanswered, protocol error

End, closed and broken are three things: an end is readable history, a close was asked for, a break may be worth a reconnect.
Each error says what happened, to what, and the next step; none holds a secret.
"""

from __future__ import annotations

from typing import ClassVar


class ChannelError(Exception):
    """Base of all. `code` is stable, `details` is JSON-able, `retryable` says whether the same call may succeed later."""

    code: ClassVar[str] = "IO_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, object] = details


class InvalidOption(ChannelError):
    """An option is missing, contradicts another, or is out of range."""

    code = "INVALID_ARGUMENT"


class Unsupported(ChannelError):
    """This kind of channel cannot do what was asked."""

    code = "UNSUPPORTED"


class ConnectTimeout(ChannelError):
    """The far end did not answer, or stopped answering before the channel was open."""

    code = "CONNECT_TIMEOUT"
    retryable = True


class ConnectFailed(ChannelError):
    """The far end refused, could not be reached, or a program could not be started."""

    code = "CONNECT_FAILED"
    retryable = True


class AuthFailed(ChannelError):
    """The credentials were refused."""

    code = "AUTH_FAILED"


class HostKeyMismatch(ChannelError):
    """The host key is not the expected one: `details["reason"]` is unknown, changed or fingerprint."""

    code = "HOSTKEY_MISMATCH"


class ChannelClosed(ChannelError):
    """The channel was closed from this side."""

    code = "ALREADY_CLOSED"


class ChannelEnded(ChannelError):
    """The far end ended the channel in order: a shell exited, a peer sent FIN."""

    code = "REMOTE_CLOSED"


class ChannelBroken(ChannelError):
    """The channel broke: a reset, an unanswered keepalive, a protocol error."""

    code = "IO_ERROR"
    retryable = True
