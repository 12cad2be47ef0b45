"""The public contract: requests, replies, error codes, and the Controller protocol.

Start with `controller.py`, which has a method for each tool. One module for each tool defines its request and reply:
`session`, `exec`, `io`, `config`, `pty`, `blocks`, `screen`, and `operator` for calls without a tool. `handle` is the client
class for Python programs. docs/contracts.md lists every field.

Contains values only: nothing here waits, opens a file or connects. Imports nothing else of ptyctl.
"""

from .blocks import BlocksReply
from .config import ConfigReply, ConfigRequest
from .controller import Controller, Progress
from .errors import ErrorCode, PtyctlError
from .exec import ExecReply, ExecRequest
from .io import IoReply, IoRequest
from .operator import GcReply, GcRequest, LogLine, LogReply, LogRequest, NotifyReply, NotifyRequest, WatchItem, WatchRequest
from .pty import PtyReply, PtyRequest
from .session import SessionReply, SessionRequest

__all__ = [
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
