"""One link to each other node, opened at its first use and again after it was lost."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from nats.aio.client import Client

from ptyctl.core.json_lines import MAX_REPLY_LINE_BYTES
from ptyctl.daemon.client import RemoteController

from .link import open_link, rpc_subject


class NodeLinks:
    """Controllers of the other nodes, by name; nodes of other sites as `site/node`."""

    def __init__(self, client: Client, site: str, node: str) -> None:
        self._client = client
        self._site = site
        self._node = node
        self._controllers: dict[str, RemoteController] = {}
        self._processes: dict[str, str] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def has(self, node: str) -> bool:
        """Return whether a link to a node is open."""
        controller = self._controllers.get(node)
        return controller is not None and controller.is_connected

    async def controller(self, node: str) -> RemoteController:
        """Return the controller of a node. Raises PtyctlError CONNECT_FAILED."""
        async with self._opening[node]:
            if not self.has(node):
                if (lost := self._controllers.pop(node, None)) is not None:
                    await lost.aclose()
                site, _, name = node.rpartition("/")
                subject = rpc_subject(site or self._site, name)
                reader, writer, self._processes[node] = await open_link(self._client, subject, self._node, MAX_REPLY_LINE_BYTES)
                self._controllers[node] = RemoteController(reader, writer, names_user=True)
            return self._controllers[node]

    def process_of(self, node: str) -> str | None:
        """Return the id of the process at the end of the last link to a node."""
        return self._processes.get(node)

    async def aclose(self) -> None:
        """Close all links."""
        await asyncio.gather(*(controller.aclose() for controller in self._controllers.values()))
