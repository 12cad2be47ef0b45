"""Checks the history of one console, from its received input and the results of calls.

A token is `<writer>.<number>`; a writer types each of its numbers once. Times are seconds of one clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar


class Typed(NamedTuple):
    """A token that the console has received. `connection` numbers its connections in the order of their first token."""

    token: str
    connection: int


class Written(NamedTuple):
    """A write that has ended.

    Attributes:
        fence: of the writer's lock.
        outcome: `acknowledged`; `refused`, with an error that states that nothing was sent; else `unknown`.
        began, ended: when the call began and returned.
    """

    token: str
    fence: int
    outcome: Literal["acknowledged", "refused", "unknown"] = "acknowledged"
    began: float = 0.0
    ended: float = 0.0


class Granted(NamedTuple):
    """A lock that a call has granted."""

    holder: str
    fence: int
    began: float
    ended: float


Call = TypeVar("Call", Written, Granted)


def find_faults(
    typed: Sequence[Typed],
    written: Sequence[Written],
    granted: Sequence[Granted] = (),
    *,
    has_all_writes: bool = False,
    reconnects: bool = False,
) -> list[str]:
    """Return the faults of a history.

    Args:
        typed: the tokens in order of arrival.
        has_all_writes: whether `written` has each write that was tried, not only those that were acknowledged.
        reconnects: whether a session can connect again to a line that was cut, with its lock.
    """
    faults = [*_overlaps(typed), *_repeated(typed), *_lost(typed, written), *_refused(typed, written)]
    faults += [
        *_fences(typed, written, reconnects),
        *_shared_fences(written, granted),
        *_grants(granted),
        *_late_writes(written, granted),
    ]
    return faults + (_foreign(typed, written) if has_all_writes else [])


def _overlaps(typed: Sequence[Typed]) -> list[str]:
    """Return the faults of connections that type after a later connection has begun."""
    newest = -1
    faults = []
    for token, connection in typed:
        if connection < newest:
            faults.append(f"{token} of connection {connection} was typed after connection {newest} had begun")
        newest = max(newest, connection)
    return faults


def _repeated(typed: Sequence[Typed]) -> list[str]:
    counts = Counter(token for token, _ in typed)
    return [f"{token} was typed {count} times" for token, count in counts.items() if count > 1]


def _lost(typed: Sequence[Typed], written: Sequence[Written]) -> list[str]:
    received = {token for token, _ in typed}
    return [
        f"{write.token} was acknowledged and not typed"
        for write in written
        if write.outcome == "acknowledged" and write.token not in received
    ]


def _refused(typed: Sequence[Typed], written: Sequence[Written]) -> list[str]:
    received = {token for token, _ in typed}
    return [
        f"{write.token} was refused and typed" for write in written if write.outcome == "refused" and write.token in received
    ]


def _foreign(typed: Sequence[Typed], written: Sequence[Written]) -> list[str]:
    tokens = {write.token for write in written}
    return [f"{token} was typed by nobody" for token, _ in typed if token not in tokens]


def _fences(typed: Sequence[Typed], written: Sequence[Written], reconnects: bool) -> list[str]:
    """Fences never decrease in the order of arrival, and grow with each connection unless sessions reconnect."""
    fence_of = {write.token: write.fence for write in written if write.outcome == "acknowledged"}
    known = [(fence_of[token], connection, token) for token, connection in typed if token in fence_of]
    return [
        f"{token} has the fence {fence} after {earlier}"
        for (earlier, earlier_connection, _), (fence, connection, token) in pairwise(known)
        if fence < earlier or (not reconnects and connection > earlier_connection and fence == earlier)
    ]


def _shared_fences(written: Sequence[Written], granted: Sequence[Granted]) -> list[str]:
    """A fence belongs to one holder."""
    holders: dict[int, str] = {}
    uses = [(grant.fence, grant.holder) for grant in granted]
    uses += [(write.fence, write.token.partition(".")[0]) for write in written]
    return [
        f"the fence {fence} is that of {holders[fence]} and of {holder}"
        for fence, holder in uses
        if holders.setdefault(fence, holder) != holder
    ]


def _grants(granted: Sequence[Granted]) -> list[str]:
    """A lock that is requested after another one was granted has no smaller fence."""
    return [
        f"{grant.holder} was granted the fence {grant.fence} after {before.fence} of {before.holder}"
        for grant, before in _after_grants(granted, granted)
        if grant.fence < before.fence
    ]


def _late_writes(written: Sequence[Written], granted: Sequence[Granted]) -> list[str]:
    """No write that begins after a lock was granted succeeds with a smaller fence."""
    return [
        f"{write.token} was written with the fence {write.fence} after {before.holder} was granted {before.fence}"
        for write, before in _after_grants((write for write in written if write.outcome == "acknowledged"), granted)
        if write.fence < before.fence
    ]


def _after_grants(calls: Iterable[Call], granted: Sequence[Granted]) -> list[tuple[Call, Granted]]:
    """Return each call with the greatest grant that had ended before it began."""
    pending = sorted(granted, key=lambda grant: grant.ended, reverse=True)
    greatest: Granted | None = None
    pairs = []
    for call in sorted(calls, key=lambda call: call.began):
        while pending and pending[-1].ended < call.began:
            grant = pending.pop()
            greatest = grant if greatest is None or grant.fence > greatest.fence else greatest
        if greatest is not None:
            pairs.append((call, greatest))
    return pairs
