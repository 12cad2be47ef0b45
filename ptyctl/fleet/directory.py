"""Directory of the nodes and of their sessions, and the nodes that may take a console or a device."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from ptyctl.api.session import SessionEntry
from ptyctl.clock import boot_time

from .buckets import Bucket, Entry, decode_key, encode_key

_LOG = logging.getLogger(__name__)

#: Fields of a session's row that change all the time; a change of these alone is not published.
_VOLATILE = {"last_activity_at", "bytes_received", "bytes_sent", "spool_size", "disk_bytes", "lock_expires_at"}
_MAX_LEARNED = 1024
#: Fields with fixed values in the row of an ended session.
_CLOSED: dict[str, Any] = {
    "state": "closed", "mode": None, "lock_holder": None, "lock_principal": None, "lock_expires_at": None, "observers": 0,
}  # fmt: skip


#: Seconds since 1970, of a year that the standard library can print.
_EpochSeconds = Annotated[float, Field(ge=0, lt=2**36)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node that announces itself.

    Attributes:
        started_at: epoch seconds.
        sessions: number of its live sessions.
        labels: what it can reach.
        draining: whether it takes no new console.
        site: the name of its site.
        policy: number of the fleet's policy that is in force on it; 0 without one.
        policy_problem: why the fleet's newest policy is not in force on it.
        hub_cut_since: since when the hub does not answer it (epoch seconds); None if it does, or the fleet has one site.
    """

    node: str
    version: str
    address: str
    started_at: _EpochSeconds
    sessions: _Count
    labels: tuple[str, ...] = ()
    draining: bool = False
    site: str = ""
    hub_cut_since: _EpochSeconds | None = None
    policy: _Count = 0
    policy_problem: str | None = None


_NODE_ROW = TypeAdapter(NodeRow)


def decode_node(key: str, entry: Entry) -> NodeRow:
    """Return the row of a node's key, without fields that are unknown to this version.

    Raises:
        ValueError: the value is no row of this node.
    """
    try:
        row = _NODE_ROW.validate_json(entry.value, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc'])) or 'the row'}: {fault['msg']}") from None
    if encode_key(row.node) != key:
        raise ValueError(f"it is a row of node {row.node}")
    return row


class _DirectoryValue(BaseModel):
    """The value of a session's key."""

    node: str
    entry: SessionEntry

    @field_validator("entry", mode="before")
    @classmethod
    def _leave_out_unknown_fields(cls, entry: Any) -> Any:
        """Nodes of a newer version may have others."""
        return {name: entry[name] for name in entry if name in SessionEntry.model_fields} if isinstance(entry, dict) else entry


#: The fields that count as set in an entry of a row: all of them, so that an assignment does not change the set.
_ENTRY_FIELDS = set(SessionEntry.model_fields)


class SessionRow(NamedTuple):
    """A session of a node. Of a fleet's 100,000 sessions, entries would need ten times the memory of their JSON.

    Attributes:
        value: the value of its key, with its entry as `list` shows it.
    """

    node: str
    session_id: str
    state: str
    device: str | None
    device_id: str | None
    value: bytes

    @classmethod
    def decode(cls, value: bytes) -> SessionRow:
        """Return the row of a key's value. Raises ValueError."""
        stored = _DirectoryValue.model_validate_json(value)
        entry = stored.entry
        return cls(stored.node, entry.session_id, entry.state, entry.device, entry.device_id, value)

    def entry(self) -> SessionEntry:
        """Return its entry, which the caller may change."""
        entry = _DirectoryValue.model_validate_json(self.value).entry
        # One set for all entries: Python's collector, which blocks the event loop, visits half as many objects of a list.
        object.__setattr__(entry, "__pydantic_fields_set__", _ENTRY_FIELDS)
        return entry


class NodeDirectory:
    """The nodes of a site. A node without an announcement within the bucket's TTL is unreachable."""

    def __init__(self, bucket: Bucket, node: str, now: Callable[[], float] = boot_time) -> None:
        self._bucket = bucket
        #: The name of this node.
        self.node = node
        self._now = now
        self._seen: dict[str, tuple[NodeRow, float]] = {}
        #: When each node has left; a node that was never seen has left before this directory was complete.
        self._left_at: dict[str, float] = {}
        self._complete_at: float | None = None
        self._is_withdrawn = False

    async def announce(self, row: NodeRow) -> None:
        """Announce this node for the next TTL, unless it was withdrawn. Raises PtyctlError IO_ERROR."""
        if self._is_withdrawn:
            return
        await self._bucket.put(encode_key(self.node), json.dumps(asdict(row)).encode())

    async def withdraw(self) -> None:
        """Remove this node's row, at its planned end. Later announcements have no effect. Raises PtyctlError IO_ERROR."""
        self._is_withdrawn = True
        await self._bucket.delete(encode_key(self.node))

    async def follow(self) -> None:
        """Follow the bucket until cancelled."""
        async for change in self._bucket.watch():
            if change is None:
                self._complete_at = self._now() if self._complete_at is None else self._complete_at
                continue
            key, entry = change
            if entry is not None:
                self._receive(key, entry)
            else:
                self._forget(key)

    def _forget(self, key: str) -> None:
        node = decode_key(key)
        if self._seen.pop(node, None) is not None:
            self._left_at[node] = self._now()

    def _receive(self, key: str, entry: Entry) -> None:
        """Take over a node's row; the servers let a node write its own key only."""
        try:
            row = decode_node(key, entry)
        except ValueError as error:
            _LOG.warning("a node's row is invalid", extra={"key": key, "why": str(error)})
            return
        self._seen[row.node] = (row, self._now())

    def rows(self) -> list[tuple[NodeRow, float]]:
        """Return the known nodes with the seconds since they were last seen."""
        now = self._now()
        return [(row, now - at) for row, at in self._seen.values()]

    def up(self) -> list[NodeRow]:
        """Return the rows of the nodes that are up."""
        return [row for row, _ in self.rows() if self.is_up(row.node)]

    def is_up(self, node: str) -> bool:
        """Return whether a node has announced itself within the TTL."""
        seen = self._seen.get(node)
        return seen is not None and self._now() - seen[1] < (self._bucket.ttl_s or float("inf"))

    def unreachable_for(self, node: str) -> float | None:
        """Return the seconds since an unreachable node was last seen; None if it is up or unknown."""
        if self.is_up(node) or self._complete_at is None:
            return None
        seen = self._seen.get(node)
        return self._now() - (seen[1] if seen is not None else self._left_at.get(node, self._complete_at))

    def cut_off_for(self) -> float | None:
        """Return the seconds since the servers have reported this node's own row, if that is longer than the TTL."""
        seen = self._seen.get(self.node)
        return None if seen is None or self.is_up(self.node) else self._now() - seen[1]


#: The fields of a `SessionRow`.
_Fields = tuple[str, str, str, str | None, str | None, bytes]


class SessionDirectory:
    """The sessions of all nodes; this node publishes its own."""

    def __init__(self, bucket: Bucket, node: str) -> None:
        self._bucket = bucket
        self._node = node
        #: The fields of the rows, by key. Python's collector visits each SessionRow, and forgets plain tuples of texts.
        self._rows: dict[str, _Fields] = {}
        #: Nodes by session id: a site can have 100,000 sessions, and each call looks for the node of one.
        self._nodes: dict[str, str] = {}
        #: Ids of this node's sessions that have a row.
        self._seen_own: set[str] = set()
        self._published: dict[str, Mapping[str, Any]] = {}
        self._publishing = asyncio.Lock()
        #: Nodes of sessions that this node had opened there; their rows may not have arrived yet.
        self._learned: OrderedDict[str, str] = OrderedDict()

    async def follow(self) -> None:
        """Follow the bucket until cancelled. Rows that were removed since the last time are missing at the start."""
        missing = set(self._rows)
        async for change in self._bucket.watch():
            if change is not None:
                missing.discard(change[0])
                self._receive(*change)
                continue
            for key in missing:
                self._receive(key, None)
            missing.clear()

    def _receive(self, key: str, entry: Entry | None) -> None:
        if entry is None:
            if (gone := self._rows.pop(key, None)) is not None:
                self._forget(SessionRow(*gone))
            return
        try:
            row = SessionRow.decode(entry.value)
            if session_key(row.node, row.session_id) != key:
                raise ValueError(f"the row is one of node {row.node}")
        except ValueError as error:
            _LOG.warning("a session's row is invalid", extra={"key": key, "why": str(error)})
            self._receive(key, None)  # an older value would be shown permanently
            return
        self._rows[key] = row[:]
        if row.node == self._node:
            self._seen_own.add(row.session_id)
        else:
            self._nodes[row.session_id] = row.node

    def _forget(self, row: SessionRow) -> None:
        if row.node == self._node:
            self._seen_own.discard(row.session_id)
        elif self._nodes.get(row.session_id) == row.node:
            del self._nodes[row.session_id]

    def node_of(self, session_id: str) -> str | None:
        """Return the other node that has a session, or None."""
        return self._nodes.get(session_id) or self._learned.get(session_id)

    def learn(self, session_id: str, node: str) -> None:
        """Remember the node of a session before its row arrives."""
        self._learned[session_id] = node
        if len(self._learned) > _MAX_LEARNED:
            self._learned.popitem(last=False)

    def others(self) -> Iterator[SessionRow]:
        """Yield the current sessions of other nodes, including closed ones. The caller may pause the iteration."""
        rows = list(self._rows.values())
        return (row for row in starmap(SessionRow, rows) if row.node != self._node)

    def ended(self, entries: list[SessionEntry]) -> set[str]:
        """Return this node's sessions whose rows show them as live, except the given live sessions."""
        own = self._own() - {entry.session_id for entry in entries}
        rows = {session_id: self._row(session_id) for session_id in own}
        return {session_id for session_id, row in rows.items() if row is None or row.state != "closed"}

    async def publish(self, entries: list[SessionEntry], transcripts: set[str] | None = None) -> None:
        """Publish this node's sessions as far as they have changed.

        Args:
            entries: the live sessions.
            transcripts: ids of the sessions that are on disk. A row becomes `closed` when its session has ended, and is removed
                when the transcript is gone. Without it, rows of ended sessions stay as they are.

        Raises:
            PtyctlError: IO_ERROR.
        """
        async with self._publishing:
            current = {entry.session_id: entry.payload() for entry in entries}
            for session_id, payload in current.items():
                stable = {name: value for name, value in payload.items() if name not in _VOLATILE}
                if self._published.get(session_id) != stable:
                    await self._bucket.put(self._key(session_id), json.dumps({"node": self._node, "entry": payload}).encode())
                    self._published[session_id] = stable
            if transcripts is not None:
                await self._publish_ended(self._own() - current.keys(), self.ended(entries), transcripts)

    async def _publish_ended(self, own: set[str], ended: set[str], transcripts: set[str]) -> None:
        for session_id in own - transcripts:
            await self._bucket.delete(self._key(session_id))
            self._published.pop(session_id, None)
        for session_id in ended & transcripts:
            row = self._row(session_id)
            if row is not None:  # otherwise its row has not come back from the servers yet
                entry = row.entry().model_copy(update=_CLOSED)
                await self._bucket.put(
                    self._key(session_id), json.dumps({"node": self._node, "entry": entry.payload()}).encode()
                )
                self._published.pop(session_id, None)

    def _own(self) -> set[str]:
        """Return the sessions that have a row of this node, including rows of an earlier process."""
        return self._seen_own | self._published.keys()

    def _row(self, session_id: str) -> SessionRow | None:
        """Return the row of a session of this node."""
        row = self._rows.get(self._key(session_id))
        return None if row is None else SessionRow(*row)

    def _key(self, session_id: str) -> str:
        return session_key(self._node, session_id)


def session_key(node: str, session_id: str) -> str:
    """Return the key of a session's row."""
    return f"{encode_key(node)}.{encode_key(session_id)}"


def may_reach(row: NodeRow, labels: Collection[str]) -> bool:
    """Return whether a node may reach a device with these `node_labels`. The names of a node and of its site are labels of it.

    A node of another site is named `site/node`, and may reach only devices that name its site: claims do not leave a site.
    """
    site, _, name = row.node.rpartition("/")
    return set(labels) <= {name, row.site, *row.labels} and (not site or site in labels)


def find_candidates(rows: Iterable[NodeRow], labels: Collection[str], *, prefer: str = "") -> list[str]:
    """Return the nodes that may take a device, the least loaded first.

    Args:
        rows: the nodes that are up.
        labels: the `node_labels` of the device.
        prefer: the node that is first among equally loaded ones: a call to another one costs a forwarding.
    """
    able = [row for row in rows if not row.draining and may_reach(row, labels)]
    return [row.node for row in sorted(able, key=lambda row: (row.sessions, row.node != prefer, row.node))]
