"""ptyctl: a session controller for terminals, shared safely by agents and people."""

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api.errors import ErrorCode, PtyctlError
    from .api.handle import SessionHandle
    from .controller import LocalController
    from .library import Connection, connect, open_session

__all__ = [
    "Connection",
    "ErrorCode",
    "LocalController",
    "PtyctlError",
    "SessionHandle",
    "__version__",
    "connect",
    "open_session",
]

_HOMES = {
    "Connection": "ptyctl.library",
    "ErrorCode": "ptyctl.api.errors",
    "LocalController": "ptyctl.controller",
    "PtyctlError": "ptyctl.api.errors",
    "SessionHandle": "ptyctl.api.handle",
    "connect": "ptyctl.library",
    "open_session": "ptyctl.library",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: the command line starts without the transports."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
