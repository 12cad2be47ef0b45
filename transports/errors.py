"""The errors that a channel raises. Exceptions of libraries and of the operating system are translated to these.

    ChannelError
    ├── InvalidOption       INVALID_ARGUMENT   an option is invalid; raised before any connection attempt
    ├── Unsupported         UNSUPPORTED        this kind of channel has no such operation
    ├── ConnectTimeout      CONNECT_TIMEOUT    no response, or none that completes the connection
    ├── ConnectFailed       CONNECT_FAILED     refused, unreachable, or not an executable program
    ├── AuthFailed          AUTH_FAILED        the server rejected the credentials
    ├── HostKeyMismatch     HOSTKEY_MISMATCH   `details["reason"]`: unknown, changed or fingerprint
    ├── ChannelClosed       ALREADY_CLOSED     closed from this side
    ├── ChannelEnded        REMOTE_CLOSED      closed cleanly by the remote end
    ├── ChannelBroken       IO_ERROR           reset, unanswered keepalive, or protocol error
    │   └── WriteRightEnded                    the right to write has ended (`Channel.guard_output`)
    └── ReceiverFailed      INTERNAL           ended from this side: a bug prevents the processing of its output

Closed, ended and broken are distinct: a client may reconnect after a break; an end or a requested close is final.
No message, hint or detail contains a secret.
"""

from __future__ import annotations

from typing import ClassVar


class ChannelError(Exception):
    """Base class of all errors of a channel.

    Attributes:
        code: the stable error code.
        retryable: whether the same call may succeed later.
        message: what failed, on what, and why.
        hint: the next step, or None.
        details: JSON-compatible values for programs.
    """

    code: ClassVar[str] = "IO_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = details


class InvalidOption(ChannelError):
    """An option is missing, contradicts another one, or is out of range."""

    code = "INVALID_ARGUMENT"


class Unsupported(ChannelError):
    """The channel has no such operation."""

    code = "UNSUPPORTED"


class ConnectTimeout(ChannelError):
    """The remote end did not respond, or stopped responding before the channel was open."""

    code = "CONNECT_TIMEOUT"
    retryable = True


class ConnectFailed(ChannelError):
    """The remote end refused the connection or could not be reached, or a program could not be started."""

    code = "CONNECT_FAILED"
    retryable = True


class AuthFailed(ChannelError):
    """The credentials were rejected, or cannot be used."""

    code = "AUTH_FAILED"


class HostKeyMismatch(ChannelError):
    """The host key is not the expected one: `details["reason"]` is unknown, changed or fingerprint."""

    code = "HOSTKEY_MISMATCH"


class ChannelClosed(ChannelError):
    """The channel was closed from this side."""

    code = "ALREADY_CLOSED"


class ChannelEnded(ChannelError):
    """The remote end closed the channel cleanly: a shell exited, or a peer sent FIN."""

    code = "REMOTE_CLOSED"


class ChannelBroken(ChannelError):
    """The channel broke: reset, unanswered keepalive, or protocol error."""

    code = "IO_ERROR"
    retryable = True


class WriteRightEnded(ChannelBroken):
    """The right to write has ended; nothing was sent. The channel is still open."""


class ReceiverFailed(ChannelError):
    """The channel was ended from this side because its receiver raised an exception."""

    code = "INTERNAL"
