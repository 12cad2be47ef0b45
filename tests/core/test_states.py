"""State tables: every pair of state and event has a transition or raises InvalidTransition."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.states import (
    ApprovalEvent,
    ApprovalState,
    InvalidTransition,
    ModeEvent,
    RunEvent,
    RunState,
    SessionState,
    StateEvent,
    TerminalMode,
    next_approval_state,
    next_mode,
    next_run_state,
    next_state,
)

STATES = {
    ("opening", "opened"): "open",
    ("reconnecting", "opened"): "open",
    ("opening", "ended"): "eof",
    ("open", "ended"): "eof",
    ("reconnecting", "ended"): "eof",
    ("opening", "broke"): "lost",
    ("open", "broke"): "lost",
    ("reconnecting", "broke"): "lost",
    ("eof", "reconnect"): "reconnecting",
    ("lost", "reconnect"): "reconnecting",
    **{(state, "close"): "closed" for state in get_args(SessionState) if state != "closed"},
}
MODES = {
    ("idle", "begin_block"): "block_running",
    ("idle", "begin_interactive"): "interactive",
    ("block_running", "end"): "idle",
    ("interactive", "end"): "idle",
}
RUN_STATES = {
    ("queued", "hold"): "awaiting",
    ("awaiting", "release"): "queued",
    ("queued", "type"): "typing",
    ("queued", "attach"): "running",
    ("typing", "typed"): "running",
    ("typing", "ask"): "asking",
    ("running", "type"): "typing",
    ("running", "ask"): "asking",
    ("asking", "type"): "typing",
    ("asking", "answer"): "running",
    **{(state, "end"): "ended" for state in get_args(RunState) if state != "ended"},
}
APPROVAL_STATES = {
    ("pending", "approve"): "approved",
    ("approved", "redeem"): "redeemed",
    **{(state, "decline"): "declined" for state in ("pending", "approved")},
    **{(state, "expire"): "expired" for state in ("pending", "approved")},
    **{(state, "withdraw"): "withdrawn" for state in ("pending", "approved")},
    **{(state, "set_stale"): "stale" for state in ("pending", "approved")},
}


@pytest.mark.parametrize(("state", "event"), [*product(get_args(SessionState), get_args(StateEvent))])
def test_next_state_every_pair_follows_table_or_raises(state: SessionState, event: StateEvent) -> None:
    if (state, event) in STATES:
        assert next_state(state, event) == STATES[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{state}.*{event}"):
            next_state(state, event)


@pytest.mark.parametrize(("mode", "event"), [*product(get_args(TerminalMode), get_args(ModeEvent))])
def test_next_mode_every_pair_follows_table_or_raises(mode: TerminalMode, event: ModeEvent) -> None:
    if (mode, event) in MODES:
        assert next_mode(mode, event) == MODES[mode, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{mode}.*{event}"):
            next_mode(mode, event)


def test_closed_state_has_no_transition() -> None:
    assert not [pair for pair in STATES if pair[0] == "closed"]


@pytest.mark.parametrize(("state", "event"), [*product(get_args(RunState), get_args(RunEvent))])
def test_next_run_state_every_pair_follows_table_or_raises(state: RunState, event: RunEvent) -> None:
    if (state, event) in RUN_STATES:
        assert next_run_state(state, event) == RUN_STATES[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{state}.*{event}"):
            next_run_state(state, event)


@given(st.lists(st.sampled_from(get_args(RunEvent)), max_size=30))
def test_run_state_after_any_events_is_known_and_ended_is_terminal(events: list[RunEvent]) -> None:
    state: RunState = "queued"
    ended = False
    for event in events:
        try:
            state = next_run_state(state, event)
        except InvalidTransition:
            assert (state, event) not in RUN_STATES
        else:
            assert not ended
            assert state in get_args(RunState)
        ended = ended or event == "end"
        assert (state == "ended") is ended


@pytest.mark.parametrize(("state", "event"), [*product(get_args(ApprovalState), get_args(ApprovalEvent))])
def test_next_approval_state_every_pair_follows_table_or_raises(state: ApprovalState, event: ApprovalEvent) -> None:
    if (state, event) in APPROVAL_STATES:
        assert next_approval_state(state, event) == APPROVAL_STATES[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{state}.*{event}"):
            next_approval_state(state, event)
