"""Where a session is kept that a person means by a name: for what reads its files, and needs no server."""

from __future__ import annotations

from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid

from .left import meta_of


def kept_folder(sessions: Path, name: str) -> Path:
    """The folder of the session of that id, or of the only one whose id holds it, or of a device's or a console's last one.

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT where several could be meant.
    """
    folders = list(sessions.glob("[!.]*"))
    found = [folder for folder in folders if folder.name == name]
    found = found or [folder for folder in folders if name and name in folder.name]
    found = found or _last_of(folders, name)
    if len(found) > 1:
        ids = ", ".join(sorted(folder.name for folder in found))
        raise invalid(f"{name} means {len(found)} sessions: {ids}; give more of the id")
    if not found:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no session {name} is kept", {"session_id": name})
    return found[0]


def _last_of(folders: list[Path], name: str) -> list[Path]:
    metas = [(meta_of(folder) or {}, folder) for folder in folders]
    named = [(meta["created_at"], folder) for meta, folder in metas if name in (meta.get("device_id"), meta.get("device"))]
    return [folder for _, folder in sorted(named)[-1:]]
