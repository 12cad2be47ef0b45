"""The public contract: requests, replies, error codes, and the Controller protocol.

Start with `controller.py`, which has a method for each tool. One module for each tool defines its request and reply:
`session`, `exec`, `io`, `config`, `pty`, `blocks`, `screen`, `approvals`, and `operator` for calls without a tool. `handle` is
the client class for Python programs, `methods` the table of the calls, with the base of Controllers that send them as messages.
docs/contracts.md lists every field.

Contains values only: nothing here waits, opens a file or connects. Imports nothing else of ptyctl.
Names are imported on first use: the errors are needed where the models would be slow to import.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
    from .blocks import BlocksReply
    from .config import ConfigReply, ConfigRequest
    from .controller import Controller, Progress
    from .errors import ErrorCode, PtyctlError
    from .exec import ExecReply, ExecRequest
    from .io import IoReply, IoRequest
    from .operator import (
        AuditReply,
        AuditRequest,
        GcReply,
        GcRequest,
        LogLine,
        LogReply,
        LogRequest,
        NotifyReply,
        NotifyRequest,
        WatchItem,
        WatchRequest,
    )
    from .pty import PtyReply, PtyRequest
    from .session import SessionReply, SessionRequest

__all__ = [
    "ApprovalEntry",
    "ApprovalsReply",
    "ApprovalsRequest",
    "AuditReply",
    "AuditRequest",
    "BlocksReply",
    "ConfigReply",
    "ConfigRequest",
    "Controller",
    "ErrorCode",
    "ExecReply",
    "ExecRequest",
    "GcReply",
    "GcRequest",
    "IoReply",
    "IoRequest",
    "LogLine",
    "LogReply",
    "LogRequest",
    "NotifyReply",
    "NotifyRequest",
    "Progress",
    "PtyReply",
    "PtyRequest",
    "PtyctlError",
    "SessionReply",
    "SessionRequest",
    "WatchItem",
    "WatchRequest",
]

_MODULES = {
    "ApprovalEntry": "approvals",
    "ApprovalsReply": "approvals",
    "ApprovalsRequest": "approvals",
    "AuditReply": "operator",
    "AuditRequest": "operator",
    "BlocksReply": "blocks",
    "ConfigReply": "config",
    "ConfigRequest": "config",
    "Controller": "controller",
    "ErrorCode": "errors",
    "ExecReply": "exec",
    "ExecRequest": "exec",
    "GcReply": "operator",
    "GcRequest": "operator",
    "IoReply": "io",
    "IoRequest": "io",
    "LogLine": "operator",
    "LogReply": "operator",
    "LogRequest": "operator",
    "NotifyReply": "operator",
    "NotifyRequest": "operator",
    "Progress": "controller",
    "PtyReply": "pty",
    "PtyRequest": "pty",
    "PtyctlError": "errors",
    "SessionReply": "session",
    "SessionRequest": "session",
    "WatchItem": "operator",
    "WatchRequest": "operator",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
