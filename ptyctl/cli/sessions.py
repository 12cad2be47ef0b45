"""`ptyctl sessions` and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson


def sessions(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those that have ended and are kept on disk.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open sessions, and what they take on disk. No daemon is started for it, unless the last one was killed."""
    from .listing import show

    show(everything=everything, as_json=as_json)
