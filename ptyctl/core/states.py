"""State tables: the states of a session, the modes of its terminal, and the states of a run and of an approval request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

SessionState = Literal["opening", "open", "reconnecting", "eof", "lost", "closed"]
TerminalMode = Literal["idle", "block_running", "interactive"]
StateEvent = Literal["opened", "ended", "broke", "reconnect", "close"]
ModeEvent = Literal["begin_block", "begin_interactive", "end"]
RunState = Literal["queued", "awaiting", "typing", "running", "asking", "ended"]
RunEvent = Literal["hold", "release", "type", "typed", "attach", "ask", "answer", "end"]
ApprovalState = Literal["pending", "approved", "redeemed", "declined", "expired", "withdrawn", "stale"]
ApprovalEvent = Literal["approve", "redeem", "decline", "expire", "withdraw", "set_stale"]

_STATES: dict[SessionState, dict[StateEvent, SessionState]] = {
    "opening": {"opened": "open", "ended": "eof", "broke": "lost", "close": "closed"},
    "open": {"ended": "eof", "broke": "lost", "close": "closed"},
    "reconnecting": {"opened": "open", "ended": "eof", "broke": "lost", "close": "closed"},
    "eof": {"reconnect": "reconnecting", "close": "closed"},
    "lost": {"reconnect": "reconnecting", "close": "closed"},
    "closed": {},
}
_MODES: dict[TerminalMode, dict[ModeEvent, TerminalMode]] = {
    "idle": {"begin_block": "block_running", "begin_interactive": "interactive"},
    "block_running": {"end": "idle"},
    "interactive": {"end": "idle"},
}
#: Lines of a device are typed one by one: a run returns to `typing` for each. Runs that this process did not start are
#: attached. A run that needs an approval is held until a person decides.
_RUN_STATES: dict[RunState, dict[RunEvent, RunState]] = {
    "queued": {"hold": "awaiting", "type": "typing", "attach": "running", "end": "ended"},
    "awaiting": {"release": "queued", "end": "ended"},
    "typing": {"typed": "running", "ask": "asking", "end": "ended"},
    "running": {"type": "typing", "ask": "asking", "end": "ended"},
    "asking": {"type": "typing", "answer": "running", "end": "ended"},
    "ended": {},
}
#: How a request ends without its text being typed. An approver may also revoke an approval (`decline`).
_UNUSED_APPROVAL: dict[ApprovalEvent, ApprovalState] = {
    "decline": "declined",
    "expire": "expired",
    "withdraw": "withdrawn",
    "set_stale": "stale",
}
#: An approval is used once (`redeem`).
_APPROVAL_STATES: dict[ApprovalState, dict[ApprovalEvent, ApprovalState]] = {
    "pending": {"approve": "approved", **_UNUSED_APPROVAL},
    "approved": {"redeem": "redeemed", **_UNUSED_APPROVAL},
    "redeemed": {},
    "declined": {},
    "expired": {},
    "withdrawn": {},
    "stale": {},
}

State = TypeVar("State", bound=str)
Event = TypeVar("Event", bound=str)


class InvalidTransition(Exception):
    """An event that the current state or mode does not allow: an internal error."""


def next_state(state: SessionState, event: StateEvent) -> SessionState:
    """Return the state after an event; raise InvalidTransition if the table has none."""
    return _next(_STATES, "a session in state", state, event)


def next_mode(mode: TerminalMode, event: ModeEvent) -> TerminalMode:
    """Return the mode after an event; raise InvalidTransition if the table has none."""
    return _next(_MODES, "a terminal in mode", mode, event)


def next_run_state(state: RunState, event: RunEvent) -> RunState:
    """Return the state after an event; raise InvalidTransition if the table has none."""
    return _next(_RUN_STATES, "a run in state", state, event)


def next_approval_state(state: ApprovalState, event: ApprovalEvent) -> ApprovalState:
    """Return the state after an event; raise InvalidTransition if the table has none."""
    return _next(_APPROVAL_STATES, "an approval request in state", state, event)


def _next(table: Mapping[State, Mapping[Event, State]], subject: str, state: State, event: Event) -> State:
    try:
        return table[state][event]
    except KeyError:
        raise InvalidTransition(f"{subject} {state} has no transition for {event}") from None
