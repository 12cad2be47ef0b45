"""State tables: the states of a session, the modes of its terminal, and the states of a run and of an approval request."""

from __future__ import annotations

from typing import Literal

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
#: An approval is used once (`redeem`). An unused approval can end otherwise: an approver may revoke it (`decline`).
_APPROVAL_STATES: dict[ApprovalState, dict[ApprovalEvent, ApprovalState]] = {
    "pending": {
        "approve": "approved",
        "decline": "declined",
        "expire": "expired",
        "withdraw": "withdrawn",
        "set_stale": "stale",
    },
    "approved": {
        "redeem": "redeemed",
        "decline": "declined",
        "expire": "expired",
        "withdraw": "withdrawn",
        "set_stale": "stale",
    },
    "redeemed": {},
    "declined": {},
    "expired": {},
    "withdrawn": {},
    "stale": {},
}


class InvalidTransition(Exception):
    """An event that the current state or mode does not allow: an internal error."""


def next_state(state: SessionState, event: StateEvent) -> SessionState:
    """Return the state after an event; raise InvalidTransition if the table has none."""
    try:
        return _STATES[state][event]
    except KeyError:
        raise InvalidTransition(f"a session in state {state} has no transition for {event}") from None


def next_mode(mode: TerminalMode, event: ModeEvent) -> TerminalMode:
    """Return the mode after an event; raise InvalidTransition if the table has none."""
    try:
        return _MODES[mode][event]
    except KeyError:
        raise InvalidTransition(f"a terminal in mode {mode} has no transition for {event}") from None


def next_run_state(state: RunState, event: RunEvent) -> RunState:
    """Return the next value; raises InvalidTransition for a pair that is not in the table."""
    try:
        return _RUN_STATES[state][event]
    except KeyError:
        raise InvalidTransition(f"a run in state {state} has no transition for {event}") from None


def next_approval_state(state: ApprovalState, event: ApprovalEvent) -> ApprovalState:
    """Return the next value; raises InvalidTransition for a pair that is not in the table."""
    try:
        return _APPROVAL_STATES[state][event]
    except KeyError:
        raise InvalidTransition(f"an approval request in state {state} has no transition for {event}") from None
