"""The inventory: reads devices.toml when it has changed, and makes of a device's name what an open needs."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping
from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError

from .model import Device
from .reading import Contents, Stamp, read, stamp_of
from .resolving import Resolution
from .target import Target


class Inventory:
    """One file, looked at anew at each use: an edit counts at once, a broken one is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None
        self._contents: Contents | None = None

    async def devices(self) -> Mapping[str, Device]:
        """All devices by name, each with what its groups and the defaults give it. No secret is fetched.

        Raises:
            PtyctlError: NOT_FOUND without a file; IO_ERROR, POLICY_DENIED; INVALID_ARGUMENT with every fault in it.
        """
        return (await self._current()).devices

    async def resolve(self, name: str) -> Target:
        """A device with its secrets, fetched now.

        Raises:
            PtyctlError: as `devices`; NOT_FOUND for an unknown name; what `secrets.fetch` raises.
        """
        contents = await self._current()
        if name not in contents.devices:
            raise self._unknown(name, contents)
        return await Resolution(contents.document, self.path.parent).target(name, contents.devices[name])

    async def _current(self) -> Contents:
        stamp = await asyncio.to_thread(stamp_of, self.path)
        if self._contents is None or stamp != self._stamp:
            # The stamp is older than the contents, if anything: then they are only read once more.
            contents = await asyncio.to_thread(read, self.path)
            self._stamp, self._contents = stamp, contents
        return self._contents

    def _unknown(self, name: str, contents: Contents) -> PtyctlError:
        near = difflib.get_close_matches(name, contents.devices, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {len(contents.devices)}; `ptyctl devices` lists them"
        return PtyctlError(ErrorCode.NOT_FOUND, f"no device {name!r} in {self.path}; {hint}", {"field": "device", "near": near})
