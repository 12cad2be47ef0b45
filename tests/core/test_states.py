"""The two tables: every pair is either in them or a typed error."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from ptyctl.api import session as api
from ptyctl.core.states import InvalidTransition, ModeEvent, SessionState, StateEvent, TerminalMode, next_mode, next_state

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


@pytest.mark.parametrize(("state", "event"), [*product(get_args(SessionState), get_args(StateEvent))])
def test_every_pair_of_state_and_event(state: SessionState, event: StateEvent) -> None:
    if (state, event) in STATES:
        assert next_state(state, event) == STATES[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{state}.*{event}"):
            next_state(state, event)


@pytest.mark.parametrize(("mode", "event"), [*product(get_args(TerminalMode), get_args(ModeEvent))])
def test_every_pair_of_mode_and_event(mode: TerminalMode, event: ModeEvent) -> None:
    if (mode, event) in MODES:
        assert next_mode(mode, event) == MODES[mode, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{mode}.*{event}"):
            next_mode(mode, event)


def test_the_replies_know_the_same_names() -> None:
    assert set(get_args(SessionState)) == set(get_args(api.State))
    assert set(get_args(TerminalMode)) == set(get_args(api.Mode))


def test_from_closed_nothing_leads_away() -> None:
    assert not [pair for pair in STATES if pair[0] == "closed"]
