"""The states of a session and the modes of its terminal, each in one table (design, section 2)."""

from __future__ import annotations

from typing import Literal

SessionState = Literal["opening", "open", "reconnecting", "eof", "lost", "closed"]
TerminalMode = Literal["idle", "block_running", "interactive"]
StateEvent = Literal["opened", "ended", "broke", "reconnect", "close"]
ModeEvent = Literal["begin_block", "begin_interactive", "end"]

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


class InvalidTransition(Exception):
    """The event cannot happen in that state or mode: a fault of ours, never of the caller's."""


def next_state(state: SessionState, event: StateEvent) -> SessionState:
    """Raises InvalidTransition for a pair that is not in the table."""
    try:
        return _STATES[state][event]
    except KeyError:
        raise InvalidTransition(f"a session that is {state} cannot take {event}") from None


def next_mode(mode: TerminalMode, event: ModeEvent) -> TerminalMode:
    """Raises InvalidTransition for a pair that is not in the table."""
    try:
        return _MODES[mode][event]
    except KeyError:
        raise InvalidTransition(f"a terminal that is {mode} cannot take {event}") from None
