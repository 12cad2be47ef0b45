"""A site in memory: the buckets of leases and claims, and nodes that use them, on the clock of a virtual loop.

Each node reaches the buckets over a link that loses requests or answers, delivers requests late, or stops with its process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import ConflictError, Entry, encode_key
from ptyctl.fleet.claim import Claim
from ptyctl.fleet.claim_directory import ClaimDirectory
from ptyctl.fleet.console_claims import ClaimedElsewhereError, ConsoleClaims, HeldClaim
from ptyctl.fleet.node_lease import LeaseDirectory, LeaseTimes, NodeLease

T = TypeVar("T")

CONSOLE = "rack"
KEY = encode_key(CONSOLE)

#: How long a message takes; how long a client waits for an answer; how soon a node finds that its servers have forgotten it.
_LATENCY_S, _TIMEOUT_S, _CHECK_S = 0.001, 5.0, 1.0


def loop_time() -> float:
    return asyncio.get_running_loop().time()


class Store:
    """The values of a bucket on its servers."""

    def __init__(self, ttl_s: float | None = None, created_s: int = 6400) -> None:
        self.ttl_s = ttl_s
        self.created_s = created_s
        self.revision = 0
        self.values: dict[str, tuple[Entry, float]] = {}
        self.watchers: list[asyncio.Queue[tuple[str, Entry | None]]] = []
        #: Number of writes by key.
        self.writes: Counter[str] = Counter()

    def current(self, key: str) -> Entry | None:
        entry, at = self.values.get(key, (None, 0.0))
        return entry if self.ttl_s is None or loop_time() < at + self.ttl_s else None

    def present(self) -> list[tuple[str, Entry | None]]:
        """Return the keys with their values."""
        return [(key, self.current(key)) for key in self.values if self.current(key) is not None]

    def create(self, key: str, value: bytes) -> int:
        if self.current(key) is not None:
            raise ConflictError
        return self.put(key, value)

    def update(self, key: str, value: bytes, revision: int) -> int:
        current = self.current(key)
        if current is None or current.revision != revision:
            raise ConflictError
        return self.put(key, value)

    def put(self, key: str, value: bytes) -> int:
        self.revision += 1
        self.writes[key] += 1
        entry = Entry(value, self.revision)
        self.values[key] = entry, loop_time()
        self._report(key, entry)
        return self.revision

    def delete(self, key: str) -> None:
        """Delete a key as a person does with other software."""
        self.values.pop(key, None)
        self._report(key, None)

    def expire(self, key: str) -> None:
        """Let a key expire early, as a server does whose clock is set forward: that is not reported."""
        self.values.pop(key, None)

    def _report(self, key: str, entry: Entry | None) -> None:
        for watcher in self.watchers:
            watcher.put_nowait((key, entry))


class Link:
    """The way of one process to the servers."""

    def __init__(self) -> None:
        self.state: Literal["up", "cut", "answers lost", "late"] = "up"
        #: When a late request arrives.
        self.late_s = 8.0
        #: Number of next answers, and of next requests, that are lost while the link is up.
        self.losses = self.drops = 0
        #: Set while the process runs.
        self.running = asyncio.Event()
        self.running.set()
        self.is_killed = False
        #: Number of times that the link was interrupted.
        self.interruptions = 0

    async def call(self, request: Callable[[], T]) -> T:
        """Perform a request at the servers; return the answer."""
        await self._run()
        state = self.state
        await asyncio.sleep(_LATENCY_S)
        if state == "late":
            asyncio.get_running_loop().call_later(self.late_s, _perform, request)
        if self.drops and state == "up":
            self.drops -= 1
            state = "cut"
        if state in ("cut", "late"):
            return await self._no_answer()
        answer: T | None = None
        refusal: ConflictError | None = None
        try:
            answer = request()
        except ConflictError as error:
            refusal = error
        if self.losses or "up" not in (state, self.state):
            self.losses = max(0, self.losses - 1)
            return await self._no_answer()
        await asyncio.sleep(_LATENCY_S)
        await self._run()
        if refusal is not None:
            raise refusal
        return answer  # type: ignore[return-value]

    async def _run(self) -> None:
        """Wait until the process runs; end its task if it was killed."""
        await self.running.wait()
        if self.is_killed:
            raise asyncio.CancelledError

    async def _no_answer(self) -> Any:
        await asyncio.sleep(_TIMEOUT_S)
        await self._run()
        raise PtyctlError(ErrorCode.IO_ERROR, "no answer")

    def interrupt(self, state: Literal["cut", "answers lost", "late"]) -> None:
        self.state = state
        self.interruptions += 1

    def heal(self) -> None:
        self.state = "up"


def _perform(request: Callable[[], object]) -> None:
    with suppress(ConflictError):
        request()


class LinkedBucket:
    """A bucket as one process uses it: in place of `ptyctl.fleet.buckets.Bucket`."""

    def __init__(self, store: Store, link: Link) -> None:
        self._store = store
        self._link = link
        self.ttl_s, self.created_s = store.ttl_s, store.created_s

    async def get(self, key: str) -> Entry | None:
        return await self._link.call(lambda: self._store.current(key))

    async def create(self, key: str, value: bytes) -> int:
        return await self._link.call(lambda: self._store.create(key, value))

    async def update(self, key: str, value: bytes, revision: int) -> int:
        return await self._link.call(lambda: self._store.update(key, value, revision))

    async def watch(self) -> AsyncGenerator[tuple[str, Entry | None] | None]:
        """Yield the values, None and the changes; after an interruption of the link, nothing more."""
        changes: asyncio.Queue[tuple[str, Entry | None]] = asyncio.Queue()
        interruptions = self._link.interruptions

        def begin() -> list[tuple[str, Entry | None]]:
            self._store.watchers.append(changes)
            return self._store.present()

        try:
            for value in await self._link.call(begin):
                yield value
            yield None
            while True:
                change = await changes.get()
                await self._link._run()
                if interruptions == self._link.interruptions:
                    yield change
        finally:
            if changes in self._store.watchers:
                self._store.watchers.remove(changes)


@contextmanager
def claim_answers_lost(node: Node) -> Iterator[None]:
    """Let a write of a claim have no answer, nor the look for it that follows; both reach the servers."""
    bucket, is_lost = node.directory.bucket, False
    update, get = bucket.update, bucket.get

    async def lose_update(key: str, value: bytes, revision: int) -> int:
        nonlocal is_lost
        await update(key, value, revision)
        is_lost = True
        raise PtyctlError(ErrorCode.IO_ERROR, "no answer")

    async def lose_get(key: str) -> Entry | None:
        entry = await get(key)
        if is_lost:
            raise PtyctlError(ErrorCode.IO_ERROR, "no answer")
        return entry

    bucket.update, bucket.get = lose_update, lose_get  # type: ignore[method-assign]
    yield
    bucket.update, bucket.get = update, get  # type: ignore[method-assign]


class Site:
    """The buckets of a site."""

    def __init__(self, times: LeaseTimes | None = None) -> None:
        self.times = times or LeaseTimes()
        self.leases = Store(self.times.ttl_s)
        self.claims = Store()

    async def node(self, name: str, state_id: str | None = None, clock_s: float = 0.0) -> Node:
        """Return a node that follows the buckets."""
        node = Node(self, name, state_id or f"state of {name}", clock_s)
        await asyncio.sleep(0.01)
        return node

    def stored(self, console: str = CONSOLE) -> Claim:
        """Return the claim on a console."""
        entry = self.claims.current(encode_key(console))
        assert entry is not None
        return Claim.decode(entry.value)

    async def cut_off_owner(self, node: Node, session_id: str = "s1") -> HeldClaim:
        """Let a node claim the console, after which it is cut off and its lease expires early."""
        held = await node.claim(session_id)
        node.link.interrupt("cut")
        self.leases.expire(encode_key(node.name))
        return held


class Node:
    """The process of a node."""

    def __init__(self, site: Site, name: str, state_id: str, clock_s: float = 0.0) -> None:
        self.site, self.name, self.state_id = site, name, state_id
        #: How far its clock is ahead of that of the loop.
        self.clock_s = clock_s
        self.link = Link()
        leases: Any = LinkedBucket(site.leases, self.link)
        claims: Any = LinkedBucket(site.claims, self.link)
        self.leases = LeaseDirectory(leases, site.times, self.now)
        self.directory = ClaimDirectory(claims, self.leases, self.now)
        self.lease = NodeLease(leases, name, site.times, self.now)
        self.claims = ConsoleClaims(self.lease, self.directory, self.now)
        self.claims.use_state(state_id)
        self.lost: list[HeldClaim] = []
        self.following = [asyncio.create_task(self._follow(each)) for each in (self.leases, self.directory)]

    def now(self) -> float:
        return loop_time() + self.clock_s

    async def _follow(self, directory: LeaseDirectory | ClaimDirectory) -> None:
        """Follow a bucket; begin again after each interruption of the link."""
        while True:
            interruptions = self.link.interruptions
            following = asyncio.create_task(directory.follow())
            while not following.done() and (interruptions == self.link.interruptions or self.link.state != "up"):
                await asyncio.wait({following}, timeout=_CHECK_S)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            if self.link.is_killed:
                return
            await asyncio.sleep(0.1)

    async def claim(self, session_id: str, console: str = CONSOLE, **options: Any) -> HeldClaim:
        return await self.claims.claim(console, session_id, **{"on_lost": self.lost.append, **options})

    async def claim_when_free(self, session_id: str, console: str = CONSOLE) -> HeldClaim:
        while True:
            with suppress(ClaimedElsewhereError):
                return await self.claim(session_id, console)
            await asyncio.sleep(0.5)

    def kill(self) -> None:
        """End the process: it sends nothing more."""
        self.link.is_killed = True
        self.link.running.set()
        self.link.interruptions += 1

    async def restart(self) -> Node:
        """Kill the process; return a new one with the same state directory."""
        self.kill()
        return await self.site.node(self.name, self.state_id, self.clock_s)

    def may_type(self, held: HeldClaim) -> bool:
        """Whether this process may type under a claim now."""
        if self.link.is_killed:
            return False
        try:
            held.check(self.now())
        except PtyctlError:
            return False
        return True
