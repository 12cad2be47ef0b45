"""The other sites of a fleet: their nodes and sessions, from the mirrors on the hub.

Each site is a JetStream domain; its servers are leaf nodes of the hub, whose domain is `hub`. The hub mirrors the buckets
`nodes` and `sessions` of each site, as streams `KV_nodes_<site>` and `KV_sessions_<site>`. Claims never leave a site.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import nats.errors
from nats.aio.client import Client
from nats.js import api
from nats.js.errors import APIError, BadRequestError
from nats.js.kv import KeyValue

from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import boot_time

from .buckets import BUCKET_TTL_S, NODES, SESSIONS, Bucket
from .directory import NodeDirectory, NodeRow, SessionDirectory, SessionRow

_LOG = logging.getLogger(__name__)

#: The hub's JetStream domain; no site has this name.
HUB = "hub"
#: Interval of reading the sites from the hub, and the time that it may take to answer (seconds).
CHECK_S, ANSWER_S = 5.0, 3.0
#: Time without a row of a site, while the hub answers, after which its mirrors are followed again (seconds).
_SILENCE_S = 20.0
#: How many nodes a notice names.
MAX_NAMED_NODES = 5
_MIRRORED = (NODES, SESSIONS)


def mirror_name(bucket: str, site: str) -> str:
    """Return the name of the hub's stream with the rows of a site's bucket."""
    return f"KV_{bucket}_{site}"


def qualified(site: str, node: str) -> str:
    """Return the name of a node of another site."""
    return f"{site}/{node}"


def see_nodes(nodes: Iterable[str]) -> str:
    """Return the command that shows nodes, for a hint. The command shows only the site of its fleet file."""
    sites = sorted({node.rpartition("/")[0] for node in nodes})
    others = [site for site in sites if site]
    if not others:
        return "ptyctl fleet nodes"
    of = f"of site {others[0]}" if len(others) == 1 else f"of each of the sites {', '.join(others)}"
    return f"ptyctl fleet nodes{', also' if '' in sites else ''} with --fleet FILE, a file {of}"


@dataclass(slots=True)
class _OtherSite:
    """A site that is followed."""

    nodes: NodeDirectory
    sessions: SessionDirectory
    following: list[asyncio.Task[None]]
    since: float


class OtherSites:
    """Follows the mirrors on the hub. While the hub is not reachable, the site works on without the others."""

    def __init__(self, client: Client, site: str, replicas: int = 1, now: Callable[[], float] = boot_time) -> None:
        self._hub = client.jetstream(domain=HUB, timeout=ANSWER_S)
        self._site = site
        self._replicas = replicas
        self._now = now
        self._sites: dict[str, _OtherSite] = {}
        #: Since when the hub does not answer (epoch seconds); None if it does, or was not asked yet.
        self.cut_since: float | None = None

    async def check(self) -> None:
        """Create the mirrors of this site on the hub, and follow the mirrors of other sites."""
        try:
            async with asyncio.timeout(2 * ANSWER_S):
                found = {info.config.name or "": info for info in await self._hub.streams_info()}
                await self._mirror_own(found)
        except (nats.errors.Error, OSError, TimeoutError, APIError) as error:
            if self.cut_since is None:
                self.cut_since = time.time()
                _LOG.warning("the hub of the fleet does not answer", extra={"why": str(error) or type(error).__name__})
            return
        if self.cut_since is not None:
            _LOG.warning("the hub of the fleet answers again")
            self.cut_since = None
            await self._forget_all()  # the consumers may have ended meanwhile
        prefix = mirror_name(NODES, "")
        for name, info in found.items():
            site = name.removeprefix(prefix)
            if name.startswith(prefix) and site != self._site and mirror_name(SESSIONS, site) in found:
                await self._follow(site, has_rows=info.state.messages > 0)

    async def aclose(self) -> None:
        """Stop following the hub."""
        await self._forget_all()

    def nodes(self) -> dict[str, NodeDirectory]:
        """Return the directories of the nodes by site."""
        return {name: site.nodes for name, site in self._sites.items()}

    def sessions(self) -> Iterator[SessionRow]:
        """Yield the sessions of the other sites at this moment, with qualified names of their nodes."""
        rows = [(name, site.sessions.others()) for name, site in self._sites.items()]
        return (row._replace(node=qualified(name, row.node)) for name, others in rows for row in others)

    def node_of(self, session_id: str) -> str | None:
        """Return the node of another site that has a session, with its qualified name, or None."""
        nodes = ((name, site.sessions.node_of(session_id)) for name, site in self._sites.items())
        return next((qualified(name, node) for name, node in nodes if node is not None), None)

    async def _mirror_own(self, found: dict[str, api.StreamInfo]) -> None:
        for bucket in _MIRRORED:
            name = mirror_name(bucket, self._site)
            if name in found:
                continue
            source = api.StreamSource(name=f"KV_{bucket}", external=api.ExternalStream(api=f"$JS.{self._site}.API"))
            config = api.StreamConfig(
                name=name,
                mirror=source,
                max_age=BUCKET_TTL_S[bucket] or 0.0,
                max_msgs_per_subject=1,
                allow_msg_ttl=True,
                num_replicas=self._replicas,
            )
            with suppress(BadRequestError):  # another node of the site has created it
                await self._hub.add_stream(config)

    async def _follow(self, site: str, *, has_rows: bool) -> None:
        known = self._sites.get(site)
        if known is not None:
            heard_at = max([known.since, *(self._now() - age_s for _, age_s in known.nodes.rows())])
            ended = any(task.done() for task in known.following)
            if not ended and not (has_rows and self._now() - heard_at > _SILENCE_S):
                return
            await cancel_and_wait(*known.following)
        nodes = known.nodes if known is not None else NodeDirectory(self._bucket(NODES, site), "", self._now)
        sessions = known.sessions if known is not None else SessionDirectory(self._bucket(SESSIONS, site), "")
        following = [asyncio.create_task(nodes.follow()), asyncio.create_task(sessions.follow())]
        self._sites[site] = _OtherSite(nodes, sessions, following, self._now())

    def _bucket(self, name: str, site: str) -> Bucket:
        store = KeyValue(name=name, stream=mirror_name(name, site), pre=f"$KV.{name}.", js=self._hub, direct=False)
        return Bucket(store, 0, BUCKET_TTL_S[name])

    async def _forget_all(self) -> None:
        """End the tasks. The rows are kept with their age."""
        await cancel_and_wait(*(task for site in self._sites.values() for task in site.following))


class FleetNodes:
    """The nodes of all sites, by name; nodes of other sites as `site/node`."""

    def __init__(self, own: NodeDirectory, others: OtherSites | None = None) -> None:
        self._own = own
        self._others = others

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._own.node

    def up(self) -> list[NodeRow]:
        """Return the rows of the nodes that are up, this site's first."""
        others = self._others.nodes() if self._others is not None else {}
        rows = [replace(row, node=qualified(site, row.node)) for site, nodes in others.items() for row in nodes.up()]
        return [*self._own.up(), *rows]

    def others_of_site(self) -> list[str]:
        """Return all other known nodes of this site, sorted, including nodes that are not up."""
        return sorted({row.node for row, _ in self._own.rows()} - {self.node})

    def other_sites(self, labels: Collection[str]) -> list[str]:
        """Return the known other sites that labels name, sorted."""
        return sorted(set(labels) & set(self._others.nodes())) if self._others is not None else []

    def silent(self) -> list[str]:
        """Return the known nodes of all sites that are not up."""
        names = [row.node for row, _ in self._own.rows()]
        for site, nodes in (self._others.nodes() if self._others is not None else {}).items():
            names += [qualified(site, row.node) for row, _ in nodes.rows()]
        return [name for name in names if not self.is_up(name)]

    def is_up(self, node: str) -> bool:
        """Return whether a node has announced itself within the TTL."""
        directory, name = self._find(node)
        return directory is not None and directory.is_up(name)

    def unreachable_for(self, node: str) -> float | None:
        """Return the seconds since an unreachable node was last seen; None if it is up or unknown."""
        directory, name = self._find(node)
        return directory.unreachable_for(name) if directory is not None else None

    def degraded(self, silent: list[str]) -> list[str]:
        """Return the degraded parts of the fleet for this node: since when, and the next step.

        Args:
            silent: nodes that are not reachable.
        """
        cut_s = self._own.cut_off_for()
        if cut_s is not None:
            return [
                f"node {self.node} is cut off from its NATS servers since {_clock_time(time.time() - cut_s)}: its consoles take"
                " no input, and the sessions of other nodes are not reachable; check the servers with ptyctl fleet doctor"
            ]
        found = []
        if self._others is not None and self._others.cut_since is not None:
            silent = [node for node in silent if "/" not in node]  # those of other sites are not known to be down
            found.append(
                f"this site is cut off from the hub since {_clock_time(self._others.cut_since)}, and works on without the other"
                " sites; check the hub's servers and the way to them"
            )
        if silent:
            named = [
                f"node {node} has not announced itself since {self._silent_since(node)}" for node in silent[:MAX_NAMED_NODES]
            ]
            more = [f"and {len(silent) - MAX_NAMED_NODES} more nodes"] if len(silent) > MAX_NAMED_NODES else []
            found.append(f"{', '.join(named + more)}; check {'its' if len(silent) == 1 else 'their'} machine and network")
        return found

    def _silent_since(self, node: str) -> str:
        return _clock_time(time.time() - (self.unreachable_for(node) or 0.0))

    def _find(self, node: str) -> tuple[NodeDirectory | None, str]:
        site, _, name = node.rpartition("/")
        if not site:
            return self._own, name
        return (self._others.nodes().get(site) if self._others is not None else None), name


def _clock_time(epoch_s: float) -> str:
    """Return a time to the minute: a text that does not change while the state lasts."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(epoch_s))


class FleetSessions:
    """The sessions of all sites."""

    def __init__(self, own: SessionDirectory, others: OtherSites | None = None) -> None:
        self._own = own
        self._others = others

    def others(self) -> Iterator[SessionRow]:
        """Yield the current sessions of other nodes, including closed ones. The caller may pause the iteration."""
        return chain(self._own.others(), self._others.sessions() if self._others is not None else ())

    def node_of(self, session_id: str) -> str | None:
        """Return the other node that has a session, or None."""
        if (node := self._own.node_of(session_id)) is not None or self._others is None:
            return node
        return self._others.node_of(session_id)

    def learn(self, session_id: str, node: str) -> None:
        """Remember the node of a session before its row arrives."""
        self._own.learn(session_id, node)
