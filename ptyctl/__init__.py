"""ptyctl: a session controller for terminals that AI agents and people share.

The public Python API: `open_session` for a session in this process, `connect` for the daemon's shared sessions,
`LocalController` for many sessions in one program. Names are imported on first use, so that the command line starts quickly.
"""

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .api.errors import ErrorCode, PtyctlError
    from .api.handle import SessionHandle
    from .controller.local import LocalController
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

_MODULES = {
    "Connection": "ptyctl.library",
    "ErrorCode": "ptyctl.api.errors",
    "LocalController": "ptyctl.controller.local",
    "PtyctlError": "ptyctl.api.errors",
    "SessionHandle": "ptyctl.api.handle",
    "connect": "ptyctl.library",
    "open_session": "ptyctl.library",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
