"""Requests of the contract: legacy actions, rules between fields, and correlation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.terminal.aliases import ALIASES, CANONICAL_ACTIONS, AliasPhase
from ptyctl.terminal.errors import ERROR_KINDS, RequestClass, TerminalError, TerminalErrorCode, fallback
from ptyctl.terminal.request import MODES, CanonicalRequest, identify, parse
from ptyctl.terminal.response import Outcome, failure, success
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
            id="spec-1.1-1 spec-9.2-1",
        ),
        pytest.param(
            {"action": "kill", "session_id": "s"},
            {"action": "terminate", "target": {"session_id": "s"}},
            id="spec-1.1-2 spec-9.2-2",
        ),
        pytest.param(
            {"action": "send", "terminal_id": "t", "command": "ls"},
            {
                "action": "execute",
                "invocation": {"mode": "interactive", "intent": "execute_command"},
                "execution": {"command": "ls"},
                "target": {"terminal_id": "t"},
            },
            id="spec-1.1-3 spec-9.2-3",
        ),
        pytest.param(
            {"action": "close", "terminal_id": "t"},
            {"action": "terminate", "target": {"terminal_id": "t"}},
            id="spec-1.1-4 spec-9.2-4",
        ),
        pytest.param(
            {"action": "create", "name": "n", "env": {"A": "1"}},
            {"action": "execute", "invocation": OPEN, "execution": {"name": "n", "env": {"A": "1"}}},
            id="spec-1.1-5 spec-9.2-5",
        ),
        pytest.param({"action": "list"}, {"action": "list"}, id="spec-1.1-6"),
    ],
)
def test_legacy_action_becomes_canonical_request(legacy: dict[str, Any], canonical: dict[str, Any]) -> None:
    request = parsed(legacy).model_dump(exclude_unset=True)
    assert request.pop("compat", {"legacy_action": None})["legacy_action"] in (legacy["action"], None)
    assert request == canonical
    assert identify(legacy, 1).alias_applied == (legacy["action"] != "list")


@pytest.mark.parametrize("action", [pytest.param(action, id=f"spec-1.2-3 {action}") for action in ALIASES])
def test_strict_phase_rejects_legacy_action_with_canonical_request(action: str) -> None:
    arguments = {"action": action, "command": "ls", "session_id": "s"}
    with pytest.raises(TerminalError, check=lambda error: error.code is TerminalErrorCode.INVALID_ACTION) as caught:
        parsed(arguments, AliasPhase.STRICT)
    assert caught.value.details["canonical_request"]["action"] == ALIASES[action].action
    assert caught.value.details["canonical_request"]["target"] == {"session_id": "s"}


@pytest.mark.parametrize(
    ("arguments", "violated"),
    [
        pytest.param({"action": "execute", "invocation": {"intent": "open_only"}}, {"invocation.mode"}, id="spec-2.3-1"),
        pytest.param({"action": "execute", "invocation": {"mode": "interactive"}}, {"invocation.intent"}, id="spec-2.3-2"),
        pytest.param({"action": "execute", "invocation": RUN}, {"execution.command"}, id="spec-2.3-3"),
        pytest.param(
            {"action": "execute", "invocation": OPEN, "execution": {"command": "ls"}},
            {"execution.command"},
            id="spec-2.3-4",
        ),
        pytest.param({"action": "read_output"}, {"target"}, id="spec-2.3-5"),
        pytest.param({"action": "terminate", "target": {}}, {"target"}, id="spec-2.3-6"),
        pytest.param(
            {"action": "list", "execution": {"command": "x"}},
            {"execution"},
            id="spec-2.3-7",
        ),
        pytest.param({"action": "list", "target": {"session_id": "s"}}, {"target"}, id="spec-2.3-8"),
        pytest.param(
            {"action": "execute", "invocation": RUN, "execution": {"command": "x"}, "target": {"terminal_id": "t"}},
            {"target.terminal_id"},
            id="spec-2.3-9",
        ),
        pytest.param(
            {"action": "execute", "invocation": {"mode": "headless", "intent": "open_only"}},
            {"invocation.intent"},
            id="open_only is interactive",
        ),
        pytest.param(
            {"action": "execute", "invocation": OPEN, "execution": {"pty": False}, "target": {"session_id": "s"}},
            {"execution.pty", "target.session_id"},
            id="pty of a new headless session",
        ),
        pytest.param({"action": "list", "compat": {"legacy_action": "run"}}, {"compat.legacy_action"}, id="spec-2.3-16"),
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
        pytest.param(
            {"action": "list", "compat": {"legacy_action": "spawn"}}, TerminalErrorCode.INVALID_ACTION, id="spec-2.3-17"
        ),
        ({"action": "execute", "invocation": {"mode": "visible"}}, TerminalErrorCode.INVALID_MODE),
        ({"action": "execute", "invocation": {"mode": 1}}, TerminalErrorCode.INVALID_MODE),
    ],
)
def test_unknown_action_or_mode_has_its_own_code(arguments: Any, code: TerminalErrorCode) -> None:
    with pytest.raises(TerminalError) as caught:
        parsed(arguments)
    assert caught.value.code is code
    if code is TerminalErrorCode.INVALID_ACTION:
        assert caught.value.details["migration"]["run"] == "execute"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"action": "read_output", "target": {"session_id": "s"}}, id="spec-2.3-10 read"),
        pytest.param({"action": "terminate", "target": {"session_id": "s"}}, id="spec-2.3-10 terminate"),
        pytest.param(
            {
                "action": "execute",
                "invocation": {"mode": "interactive", "intent": "execute_command"},
                "execution": {"command": "x"},
                "target": {"terminal_id": "t"},
            },
            id="spec-2.3-11",
        ),
        pytest.param({"action": "execute", "invocation": OPEN}, id="spec-2.3-12"),
        pytest.param(
            {
                "action": "execute",
                "invocation": {"mode": "interactive", "intent": "execute_command"},
                "correlation": {"request_id": "r", "trace_id": "t", "client_request_id": "c"},
                "runtime": {"workspace_id": "w", "cwd": "/", "timeout_ms": 30_000},
                "execution": {"command": "x", "args": ["a", "b"], "env": {"OPTIONAL_KEY": "value"}},
                "target": {"session_id": "s", "terminal_id": "t"},
                "compat": {"legacy_action": "send", "caller_surface": "extension"},
            },
            id="spec-2.1-1",
        ),
    ],
)
def test_valid_request_is_accepted_as_it_is(arguments: dict[str, Any]) -> None:
    accepted = parsed(arguments).model_dump(mode="json", exclude_unset=True)
    assert accepted.pop("compat", None) == arguments.get("compat")
    assert accepted == {name: value for name, value in arguments.items() if name != "compat"}


IDS = {"request_id": "req_1", "trace_id": "trace_1", "client_request_id": "c"}


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        pytest.param({"action": "list", "correlation": IDS}, IDS, id="spec-2.3-15"),
        pytest.param({"action": "spawn", "correlation": IDS}, IDS, id="spec-2.3-15 of an invalid request"),
        pytest.param({"action": "list", "correlation": {"trace_id": "trace_1"}}, {"trace_id": "trace_1"}, id="spec-2.3-13"),
        pytest.param({"action": "list", "correlation": 5}, {}, id="spec-2.3-13 invalid"),
        pytest.param({"action": "list"}, {}, id="spec-2.3-14"),
    ],
)
def test_correlation_is_kept_or_made_of_the_request(arguments: dict[str, Any], kept: dict[str, str]) -> None:
    found = identify(arguments, 1).correlation
    assert {name: value for name, value in found._asdict().items() if name in kept} == kept
    assert found == identify(arguments, 1).correlation
    made = identify(arguments, 2).correlation
    for name in {"request_id", "trace_id"} - set(kept):
        assert getattr(found, name).startswith({"request_id": "req_", "trace_id": "trace_"}[name])
        assert getattr(found, name) != getattr(made, name)


@pytest.mark.parametrize(
    ("phase", "warning"),
    [
        pytest.param(AliasPhase.COMPAT, None, id="spec-1.2-1 spec-9.3-1"),
        pytest.param(
            AliasPhase.WARN,
            'the action "run" is deprecated; use "execute" with invocation.intent "execute_command"',
            id="spec-1.2-2",
        ),
    ],
)
def test_legacy_action_is_accepted_with_metadata_before_the_strict_phase(phase: AliasPhase, warning: str | None) -> None:
    legacy = identify({"action": "run", "command": "ls"}, 1)
    response = success(legacy, Outcome("completed", {}), warn=phase is not AliasPhase.COMPAT)
    assert (response["resolved"]["alias_applied"], response["resolved"]["legacy_action"]) == (True, "run")
    expected = {"alias_applied": True} if warning is None else {"alias_applied": True, "deprecation_warning": warning}
    assert response["compat"] == expected


@pytest.mark.parametrize("row", ["spec-9.3-2"])
def test_canonical_request_gets_no_alias_metadata(row: str) -> None:
    response = success(identify({"action": "list"}, 1), Outcome("completed", {}), warn=True)
    assert (response["resolved"]["alias_applied"], response["resolved"]["legacy_action"]) == (False, None)
    assert "compat" not in response


@pytest.mark.parametrize(
    ("value", "phase"),
    [
        pytest.param(None, AliasPhase.COMPAT, id="default"),
        pytest.param("compat", AliasPhase.COMPAT, id="spec-9.3-3 compat"),
        pytest.param("warn", AliasPhase.WARN, id="spec-9.3-3 warn"),
        pytest.param("strict", AliasPhase.STRICT, id="spec-9.3-3 strict"),
    ],
)
def test_phase_of_the_legacy_actions_is_a_setting(value: str | None, phase: AliasPhase) -> None:
    assert alias_phase({} if value is None else {"PM_TERM_ALIAS_PHASE": value}) is phase


@pytest.mark.parametrize(
    ("code", "category", "retriable", "strategy"),
    [
        pytest.param("INVALID_ACTION", "validation", False, "reject_no_retry", id="spec-3.1-1"),
        pytest.param("INVALID_PAYLOAD", "validation", False, "reject_no_retry", id="spec-3.1-2"),
        pytest.param("INVALID_MODE", "validation", False, "reject_no_retry", id="spec-3.1-3"),
        pytest.param("DECLINED", "user_decision", False, "report_decline", id="spec-3.1-4"),
        pytest.param("TIMEOUT", "runtime_timeout", True, "suggest_retry_headless_or_interactive", id="spec-3.1-5"),
        pytest.param("DISCONNECTED", "transport", True, "suggest_reconnect_retry", id="spec-3.1-6"),
        pytest.param("GUI_UNAVAILABLE", "runtime_unavailable", True, "fallback_to_headless_if_allowed", id="spec-3.1-7"),
        pytest.param("BLOCKED_DESTRUCTIVE", "authorization", False, "reject_with_safety_hint", id="spec-3.1-8"),
        pytest.param("NOT_FOUND", "identity", False, "refresh_list_then_retry", id="spec-3.1-9"),
        pytest.param("INTERNAL", "internal", True, "deterministic_internal_fallback", id="spec-3.1-10"),
    ],
)
def test_error_code_has_its_category_and_fallback(code: str, category: str, retriable: bool, strategy: str) -> None:
    error = TerminalError(TerminalErrorCode(f"PM_TERM_{code}"), "message").payload()
    assert (error["code"], error["category"], error["retriable"]) == (f"PM_TERM_{code}", category, retriable)
    assert fallback(TerminalErrorCode(error["code"]), RequestClass())["strategy"] == strategy
    assert len(ERROR_KINDS) == 10


@pytest.mark.parametrize("row", ["spec-3.2-1"])
def test_payload_of_an_error_has_every_field(row: str) -> None:
    arguments = {
        "action": "send",
        "terminal_id": "term_a",
        "command": "x",
        "correlation": {"request_id": "req_1", "trace_id": "trace_1"},
    }
    error = TerminalError(TerminalErrorCode.TIMEOUT, "no response", {"timeout_ms": 30_000, "target": "term_a"})
    assert failure(identify(arguments, 1), error) == {
        "success": False,
        "action": "execute",
        "status": "failed",
        "correlation": {"request_id": "req_1", "trace_id": "trace_1"},
        "resolved": {
            "canonical_action": "execute",
            "alias_applied": True,
            "legacy_action": "send",
            "mode": "interactive",
        },
        "identity": {"session_id": None, "terminal_id": None},
        "result": None,
        "error": {
            "code": "PM_TERM_TIMEOUT",
            "category": "runtime_timeout",
            "message": "no response",
            "retriable": True,
            "details": {"timeout_ms": 30_000, "target": "term_a"},
        },
        "fallback": {
            "strategy": "suggest_retry_headless_or_interactive",
            "next_action": "execute",
            "recommended_mode": "headless",
            "user_message": "The terminal did not answer in time. Retry, or use the other mode.",
            "can_auto_retry": False,
        },
        "compat": {"alias_applied": True},
    }


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


@pytest.mark.parametrize("row", ["spec-3.3-4"])
def test_decline_is_never_retried_automatically(row: str) -> None:
    classes = [RequestClass(action, mode) for action in (None, *CANONICAL_ACTIONS) for mode in (None, *MODES)]
    assert not any(fallback(TerminalErrorCode.DECLINED, each)["can_auto_retry"] for each in classes)
    assert not ERROR_KINDS[TerminalErrorCode.DECLINED].retriable


@pytest.mark.parametrize(
    ("override", "environment", "mode"),
    [
        pytest.param(
            "bundled",
            {"PM_TERM_ADAPTER_MODE": "local", "PM_RUNNING_IN_CONTAINER": "true"},
            "bundled",
            id="spec-5.2-1 spec-9.4-1",
        ),
        pytest.param(
            None, {"PM_TERM_ADAPTER_MODE": "local", "PM_RUNNING_IN_CONTAINER": "true"}, "local", id="spec-5.2-2 spec-9.4-2"
        ),
        pytest.param(None, {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="spec-5.2-3 spec-9.4-3"),
        pytest.param(None, {}, "local_or_bundled_auto", id="spec-5.2-4 spec-9.4-4"),
        pytest.param("auto", {"PM_RUNNING_IN_CONTAINER": "true"}, "container_bridge", id="spec-5.2-7"),
        pytest.param("auto", {}, "local_or_bundled_auto", id="spec-5.2-8"),
    ],
)
def test_adapter_mode_follows_the_order_of_precedence(override: str | None, environment: dict[str, str], mode: str) -> None:
    assert resolve_mode(override, environment) == mode


@pytest.mark.parametrize("override", [pytest.param("remote", id="spec-5.2-6 request"), pytest.param(None, id="spec-5.2-6")])
def test_unknown_adapter_or_alias_phase_is_refused(override: str | None) -> None:
    with pytest.raises(TerminalError, match="is not one of auto, local, bundled, container_bridge") as unknown:
        resolve_mode(override, {"PM_TERM_ADAPTER_MODE": "remote"})
    assert unknown.value.code is TerminalErrorCode.INVALID_PAYLOAD
    with pytest.raises(TerminalError, match="PM_TERM_ALIAS_PHASE is not one of compat, warn, strict"):
        alias_phase({"PM_TERM_ALIAS_PHASE": "off"})
