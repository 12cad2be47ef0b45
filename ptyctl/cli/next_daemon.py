"""What goes on with a session when its daemon has ended: in the next one, if the session does."""

from __future__ import annotations

import asyncio

from ptyctl.controller.settings import load_settings
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.place import Place
from ptyctl.session.transcript.kept_sessions import was_closed

#: A daemon that ends gives its programs a grace; so often it is looked whether it has ended.
_LOOK_S = 0.05


async def next_daemon(session_id: str) -> RemoteController | None:
    """None where the last one has closed the session in order: for that no other is started."""
    place = Place()
    while await asyncio.to_thread(control.look, place) is None:
        if not control.is_ending(place):
            if was_closed(load_settings().state_dir / "sessions" / session_id):
                return None
            break
        await asyncio.sleep(_LOOK_S)
    return await RemoteController.connect(place)
