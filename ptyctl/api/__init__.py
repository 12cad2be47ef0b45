"""Requests, replies, errors, and the Controller protocol that every door speaks. Values only: nothing here waits or opens."""

from .config import ConfigReply, ConfigRequest
from .controller import Controller, Progress
from .errors import ErrorCode, PtyctlError
from .exec import ExecReply, ExecRequest
from .io import IoReply, IoRequest
from .session import SessionReply, SessionRequest

__all__ = [
    "ConfigReply",
    "ConfigRequest",
    "Controller",
    "ErrorCode",
    "ExecReply",
    "ExecRequest",
    "IoReply",
    "IoRequest",
    "Progress",
    "PtyctlError",
    "SessionReply",
    "SessionRequest",
]
