"""Requests of the contract: legacy actions, rules between fields, and correlation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.terminal.aliases import ALIASES, CANONICAL_ACTIONS, AliasPhase
from ptyctl.terminal.errors import ERROR_KINDS, RequestClass, TerminalError, TerminalErrorCode, fallback
from ptyctl.terminal.request import CanonicalRequest, identify, parse
from ptyctl.terminal.response import failure
from ptyctl.terminal.runtime_mode import alias_phase, resolve_mode

RUN = {"mode": "headless", "intent": "execute_command"}
OPEN = {"mode": "interactive", "intent": "open_only"}


def parsed(arguments: Any, phase: AliasPhase = AliasPhase.COMPAT) -> CanonicalRequest:
    return parse(arguments, identify(arguments, 1), phase)


def paths(arguments: Any) -> set[str]:
    """Return the paths of all violations."""
    with pytest.raises(TerminalError) as caught:
        parsed(arguments)
    assert caught.value.code is TerminalErrorCode.INVALID_PAYLOAD
    return {violation["path"] for violation in caught.value.details["violations"]}


@pytest.mark.parametrize(
    ("legacy", "canonical"),
    [
        pytest.param(
            {"action": "run", "command": "ls", "args": ["-l"], "cwd": "/", "timeout": 5, "workspace_id": "w"},
            {
                "action": "execute",
                "invocation": RUN,
                "execution": {"command": "ls", "args": ("-l",)},
                "runtime": {"cwd": "/", "timeout_ms": 5, "workspace_id": "w"},
            },
            id="alias run",
        ),
        pytest.param(
            {"action": "kill", "session_id": "s"}, {"action": "terminate", "target": {"session_id": "s"}}, id="alias kill"
        ),
        pytest.param(
            {"action": "send", "terminal_id": "t", "command": "ls"},
            {
                "action": "execute",
                "invocation": {"mode": "interactive", "intent": "execute_command"},
                "execution": {"command": "ls"},
                "target": {"terminal_id": "t"},
            },
            id="alias send",
        ),
        pytest.param(
            {"action": "close", "terminal_id": "t"}, {"action": "terminate", "target": {"terminal_id": "t"}}, id="alias close"
        ),
        pytest.param(
            {"action": "create", "name": "n", "env": {"A": "1"}},
            {"action": "execute", "invocation": OPEN, "execution": {"name": "n", "env": {"A": "1"}}},
            id="alias create",
        ),
        pytest.param({"action": "list"}, {"action": "list"}, id="alias list"),
    ],
)
def test_legacy_action_becomes_canonical_request(legacy: dict[str, Any], canonical: dict[str, Any]) -> None:
    request = parsed(legacy).model_dump(exclude_unset=True)
    assert request.pop("compat", {"legacy_action": None})["legacy_action"] in (legacy["action"], None)
    assert request == canonical
    assert identify(legacy, 1).alias_applied == (legacy["action"] != "list")


@pytest.mark.parametrize("action", ALIASES)
def test_strict_phase_rejects_legacy_action_with_canonical_request(action: str) -> None:
    arguments = {"action": action, "command": "ls", "session_id": "s"}
    with pytest.raises(TerminalError, check=lambda error: error.code is TerminalErrorCode.INVALID_ACTION) as caught:
        parsed(arguments, AliasPhase.STRICT)
    assert caught.value.details["canonical_request"]["action"] == ALIASES[action].action
    assert caught.value.details["canonical_request"]["target"] == {"session_id": "s"}


@pytest.mark.parametrize(
    ("arguments", "violated"),
    [
        pytest.param({"action": "execute"}, {"invocation.mode", "invocation.intent"}, id="execute requires mode and intent"),
        pytest.param({"action": "execute", "invocation": RUN}, {"execution.command"}, id="execute_command requires command"),
        pytest.param(
            {"action": "execute", "invocation": OPEN, "execution": {"command": "ls"}},
            {"execution.command"},
            id="open_only forbids command",
        ),
        pytest.param({"action": "read_output"}, {"target"}, id="read_output requires a target"),
        pytest.param({"action": "terminate", "target": {}}, {"target"}, id="terminate requires a target"),
        pytest.param(
            {"action": "list", "execution": {"command": "x"}, "target": {"session_id": "s"}},
            {"execution", "target"},
            id="list forbids execution and target",
        ),
        pytest.param(
            {"action": "execute", "invocation": RUN, "execution": {"command": "x"}, "target": {"terminal_id": "t"}},
            {"target.terminal_id"},
            id="headless forbids terminal_id",
        ),
        pytest.param(
            {"action": "execute", "invocation": {"mode": "headless", "intent": "open_only"}},
            {"invocation.intent"},
            id="open_only is interactive",
        ),
        pytest.param(
            {"action": "list", "compat": {"legacy_action": "run"}}, {"compat.legacy_action"}, id="legacy_action maps to action"
        ),
        pytest.param(
            {"action": "execute", "invocation": {"mode": "headless"}, "runtime": {"timeout_ms": "x"}, "other": 1},
            {"invocation.intent", "runtime.timeout_ms", "other"},
            id="all violations at once",
        ),
        pytest.param([], {""}, id="not an object"),
    ],
)
def test_violated_rules_are_reported_with_their_paths(arguments: Any, violated: set[str]) -> None:
    if arguments == []:
        with pytest.raises(TerminalError, match="object"):
            parsed(arguments)
        return
    assert paths(arguments) == violated


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"action": "start"}, TerminalErrorCode.INVALID_ACTION),
        ({}, TerminalErrorCode.INVALID_ACTION),
        ({"action": 5}, TerminalErrorCode.INVALID_ACTION),
        ({"action": "list", "compat": {"legacy_action": "spawn"}}, TerminalErrorCode.INVALID_ACTION),
        ({"action": "execute", "invocation": {"mode": "visible"}}, TerminalErrorCode.INVALID_MODE),
        ({"action": "execute", "invocation": {"mode": 1}}, TerminalErrorCode.INVALID_MODE),
    ],
)
def test_unknown_action_or_mode_has_its_own_code(arguments: Any, code: TerminalErrorCode) -> None:
    with pytest.raises(TerminalError) as caught:
        parsed(arguments)
    assert caught.value.code is code


def test_correlation_is_kept_or_made_of_the_request() -> None:
    ids = {"request_id": "req_1", "trace_id": "trace_1", "client_request_id": "c"}
    assert identify({"action": "list", "correlation": ids}, 1).correlation == ("req_1", "trace_1", "c")
    first = identify({"action": "list"}, 1).correlation
    assert first == identify({"action": "list"}, 1).correlation
    assert first.request_id.startswith("req_")
    assert first.trace_id.startswith("trace_")
    assert first != identify({"action": "list"}, 2).correlation


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from([*CANONICAL_ACTIONS, *ALIASES, "other"]) | JSON,
        "invocation": st.fixed_dictionaries({}, optional={"mode": st.sampled_from(["headless", "interactive", "x"]) | JSON})
        | JSON,
        "correlation": st.fixed_dictionaries({}, optional={"trace_id": st.text(min_size=1, max_size=8) | JSON}) | JSON,
        "execution": JSON,
        "runtime": JSON,
        "target": JSON,
        "compat": st.fixed_dictionaries({}, optional={"legacy_action": st.sampled_from([*ALIASES, "x"]) | JSON}) | JSON,
        "command": JSON,
    },
)


@given(FIELDS | JSON)
def test_failed_request_has_all_fields_and_the_same_fallback_each_time(arguments: Any) -> None:
    identified, error = identify(arguments, 1), None
    try:
        parse(arguments, identified, AliasPhase.COMPAT)
    except TerminalError as failed:
        error = failed
    if error is None:
        return
    response = failure(identified, error)
    assert set(response) >= {"success", "action", "status", "correlation", "resolved", "error", "fallback"}
    assert response["correlation"]["request_id"]
    assert response["fallback"] == fallback(error.code, identified.request_class)


@given(
    st.sampled_from(list(TerminalErrorCode)), st.sampled_from([None, *CANONICAL_ACTIONS]), st.sampled_from([None, "headless"])
)
def test_fallback_depends_on_code_and_request_class_alone(
    code: TerminalErrorCode, action: str | None, mode: str | None
) -> None:
    steps = [fallback(code, RequestClass(action, mode)) for _ in range(2)]
    assert steps[0] == steps[1]
    assert steps[0]["strategy"] == ERROR_KINDS[code].strategy
    assert not (code is TerminalErrorCode.DECLINED and steps[0]["can_auto_retry"])


@pytest.mark.parametrize(
    ("override", "environment", "mode"),
    [
        pytest.param(
            "bundled", {"PM_TERM_ADAPTER_MODE": "local", "PM_RUNNING_IN_CONTAINER": "true"}, "bundled", id="1 request"
        ),
        pytest.param(None, {"PM_TERM_ADAPTER_MODE": "local", "PM_RUNNING_IN_CONTAINER": "true"}, "local", id="2 configuration"),
        pytest.param(None, {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="3 container"),
        pytest.param(None, {}, "local_or_bundled_auto", id="4 default"),
        pytest.param("auto", {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="auto in a container"),
        pytest.param("auto", {}, "local_or_bundled_auto", id="auto elsewhere"),
    ],
)
def test_adapter_mode_follows_the_order_of_precedence(override: str | None, environment: dict[str, str], mode: str) -> None:
    assert resolve_mode(override, environment) == mode


@pytest.mark.parametrize("override", ["remote", None])
def test_unknown_adapter_or_alias_phase_is_refused(override: str | None) -> None:
    with pytest.raises(TerminalError, match="is not one of auto, local, bundled, container_bridge") as unknown:
        resolve_mode(override, {"PM_TERM_ADAPTER_MODE": "remote"})
    assert unknown.value.code is TerminalErrorCode.INVALID_PAYLOAD
    with pytest.raises(TerminalError, match="PM_TERM_ALIAS_PHASE is not one of compat, warn, strict"):
        alias_phase({"PM_TERM_ALIAS_PHASE": "off"})
