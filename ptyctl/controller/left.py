"""Which sessions earlier servers have left for a device or a conversation: found by their meta.json files."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_Key = tuple[str, ...]


class LeftSessions:
    """Made when it is first asked, in a thread, for there may be thousands; then only what is new is read."""

    def __init__(self, sessions: Path) -> None:
        self._sessions = sessions
        self._read: set[str] = set()
        self._by_key: defaultdict[_Key, list[str]] = defaultdict(list)
        self._reading = asyncio.Lock()

    async def of_device(self, device_id: str) -> str | None:
        """The last session of a console, unless it was closed in order."""
        for session_id in await self._ids(_device(device_id)):
            meta = await asyncio.to_thread(meta_of, self._sessions / session_id)
            if meta is not None:  # it was not removed
                return session_id if meta.get("state") != "closed" else None
        return None

    async def of_conversation(self, conversation_id: str, client_id: str) -> list[str]:
        """The terminals that a conversation has had, the newest first."""
        return await self._ids(_conversation(conversation_id, client_id))

    async def consoles_of_inventory(self, age_s: float) -> list[str]:
        """Consoles that were opened by a device's name, not closed in order, and alive so many seconds ago."""
        return await asyncio.to_thread(self._recent_consoles, time.time() - age_s)

    def _recent_consoles(self, since: float) -> list[str]:
        """A device's last session only: an id begins with its time."""
        last: dict[str, str] = {}
        for meta_file in sorted(self._sessions.glob("*/meta.json")):
            meta = meta_of(meta_file.parent) if _changed_at(meta_file) >= since else None
            spec = meta.get("spec") if meta is not None and meta.get("state") != "closed" else None
            if isinstance(spec, dict) and spec.get("device") is not None and spec.get("session_type") == "console":
                last[spec["device"]] = meta_file.parent.name
        return list(last.values())

    async def _ids(self, key: _Key) -> list[str]:
        async with self._reading:
            await asyncio.to_thread(self._read_new)
        return sorted(self._by_key.get(key, ()), reverse=True)  # an id begins with its time

    def _read_new(self) -> None:
        if not self._sessions.is_dir():
            return
        for folder in self._sessions.iterdir():
            if folder.name not in self._read and (meta := meta_of(folder)) is not None:
                self._read.add(folder.name)
                for key in _keys(meta):
                    self._by_key[key].append(folder.name)


def _keys(meta: dict[str, Any]) -> Iterator[_Key]:
    spec = meta.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("device_id") is not None:
        yield _device(spec["device_id"])
    if spec.get("conversation_id") is not None:
        yield _conversation(spec["conversation_id"], spec.get("client_id", ""))


def _device(device_id: str) -> _Key:
    return "device", device_id


def _conversation(conversation_id: str, client_id: str) -> _Key:
    return "conversation", conversation_id, client_id


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # it is gone by now


def meta_of(folder: Path) -> dict[str, Any] | None:
    """None where it cannot be read: whoever asks for the session by its id is told why."""
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) else None
