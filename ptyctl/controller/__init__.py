"""Opens, finds, lists and closes sessions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .local import LocalController

__all__ = ["LocalController"]


def __getattr__(name: str) -> Any:
    """Imported when it is used: who only wants the settings starts without the transports."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .local import LocalController

    return LocalController
