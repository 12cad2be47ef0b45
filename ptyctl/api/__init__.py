"""Requests, replies, errors, and the Controller protocol that every door speaks. Values only: nothing here waits or opens."""

from .config import ConfigReply, ConfigRequest
from .controller import Controller, Progress
from .errors import ErrorCode, PtyctlError
from .exec import ExecReply, ExecRequest
from .gc import GcReply, GcRequest
from .io import IoReply, IoRequest
from .log import LogLine, LogReply, LogRequest
from .notify import NotifyReply, NotifyRequest
from .pty import PtyRequest
from .pty_replies import BlocksReply, PtyReply
from .session import SessionReply, SessionRequest
from .watch import Watched, WatchRequest

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
    "WatchRequest",
    "Watched",
]
