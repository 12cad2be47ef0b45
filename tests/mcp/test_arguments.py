"""Arguments as models send them: JSON text, numbers as text, empty values for absent ones. Meanings of the contract stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.model import Request, field_kinds
from ptyctl.mcp.arguments import read_request
from ptyctl.mcp.server import build_server
from ptyctl.mcp.terminal_tool import TerminalCall
from ptyctl.mcp.toolsets import ALL, TOOLSETS, choose
from tests.mcp.stub_controller import StubController

TOOLS = {tool.name: tool.request for tool in choose(f"{ALL},terminal")}
STEP = {"expect": "ok", "send": "yes\n", "timeout_ms": 5}
#: Valid arguments of every tool that has other fields than an address.
VALID: list[tuple[str, dict[str, Any]]] = [
    ("ptyctl_session", {"action": "list", "details": True}),
    ("ptyctl_session", {"action": "open", "protocol": "local", "command": ["cat", "-A"], "env": {"A": "1"}}),
    (
        "ptyctl_session",
        {
            "action": "open", "protocol": "ssh", "host": "h", "port": 22, "auth": {"method": "password", "password": ""},
            "pty": {"cols": 80, "rows": 24}, "ssh_options": {"legacy_algorithms": True}, "timeouts": {"connect_timeout_ms": 9},
        },
    ),
    ("ptyctl_session", {"action": "lock", "session_id": "s", "task_id": "12", "lock_ttl_ms": 1000, "wait_ms": 0}),
    ("ptyctl_session_exec", {"session_id": "s", "cmd": "echo [1]", "timeout_ms": 0, "responses": [{"match": "a", "send": ""}]}),
    ("ptyctl_session_exec", {"session_id": "s", "lines": ["", "[a]", "5"], "expect": {"settle_ms": 0}}),
    ("ptyctl_session_exec", {"session_id": "s", "lines": ["echo a b"]}),
    ("ptyctl_session_exec", {"session_id": "s", "cmd": "", "rc_mode": {"enabled": True}}),
    ("ptyctl_session_exec", {"session_id": "s", "block_id": "1_2", "from_cursor": "0", "grep": "x", "grep_context": 2}),
    ("ptyctl_session_io", {"session_id": "s", "action": "read", "cursor": "0", "timeout_ms": 0}),
    ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": "", "until_any": ["a", "b"], "sensitive": False}),
    ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": '["a"]', "input_hints": {"wait_for_regexes": ["x"]}}),
    ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": "x", "until_any": ["a b"]}),
    ("ptyctl_session_io", {"session_id": "s", "action": "write", "key": "5"}),
    ("ptyctl_session_config", {"session_id": "s", "action": "resize", "cols": 80, "rows": 24}),
    ("ptyctl_session_config", {"session_id": "s", "action": "expect", "expect": {"prompt_regex": "x", "pager_regexes": ["y"]}}),
    ("ptyctl_approvals", {"action": "get", "approval_id": "7"}),
    ("pty_exec_block", {"conversation_id": "c", "cmd": "true", "wait_ms": 0}),
    ("pty_exec_interactive_expect", {"conversation_id": "c", "cmd": "x", "steps": [STEP, STEP], "timeout_ms": 0}),
    ("pty_exec_interactive_expect", {"conversation_id": "c", "cmd": "x", "steps": [STEP]}),
    ("pty_wait_for", {"conversation_id": "c", "match": "{}", "from_cursor": 0}),
    ("pty_expect_send", {"conversation_id": "c", "expect": "a", "send": "", "from_cursor": 0, "sensitive": True}),
    ("pty_send", {"conversation_id": "c", "data": ""}),
    ("pty_resize", {"conversation_id": "c", "cols": 80, "rows": 24}),
    ("pty_end_session", {"conversation_id": "c", "force": False}),
    ("blocks_since", {"session_id": "s", "cursor": 0, "limit": 5}),
    ("blocks_search", {"session_id": "s", "query": "5", "regex": False, "context": 0}),
    ("pty_read_screen", {"session_id": "s", "at": 0}),
    ("pty_read_screen", {"session_id": "s", "at": "1_2"}),
    ("pty_read_scrollback", {"session_id": "s", "from_line": 0}),
]  # fmt: skip
CASES = st.sampled_from(VALID)


def read(tool: str, arguments: dict[str, Any]) -> Request:
    return read_request(TOOLS[tool], arguments)


def loosely(data: st.DataObject, value: Any, *, top: bool = False) -> Any:
    """Return a value as a model may send it: any part as JSON text, any number as text, the only item of a list alone."""
    if isinstance(value, dict):
        value = {name: loosely(data, member) for name, member in value.items()}
    elif isinstance(value, list):
        value = [loosely(data, item) for item in value]
    elif isinstance(value, str):
        return int(value) if value.isdecimal() and str(int(value)) == value and data.draw(st.booleans()) else value
    if isinstance(value, list) and len(value) == 1 and value[0] and data.draw(st.booleans()):
        (value,) = value
    as_text = not top and not isinstance(value, str) and data.draw(st.booleans())
    return json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))) if as_text else value


@given(CASES, st.data())
def test_read_request_accepts_json_text_and_numbers_as_text(case: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    tool, arguments = case
    sent = loosely(data, arguments, top=True)
    assert read(tool, sent) == TOOLS[tool].of(arguments), sent


@given(CASES, st.data())
def test_read_request_takes_empty_values_of_other_fields_as_absent(
    case: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    tool, arguments = case
    optional = [name for name, field in TOOLS[tool].model_fields.items() if not field.is_required() and name not in arguments]
    wrong = {"not_after", "since_ts", "until_ts", "at", "from_line", "cwd"}  # fields whose 0 is a value, and always valid
    unused = [name for name in optional if name not in wrong]
    # one of cmd, lines and block_id, or of data and key, is given: the others have no meaning then
    added = (
        {name: data.draw(st.sampled_from(["", None])) for name in data.draw(st.sets(st.sampled_from(unused)))} if unused else {}
    )
    if arguments.get("data") == "" or "key" in arguments:
        added = {name: value for name, value in added.items() if name not in ("key", "data")}
    if arguments.get("cmd") == "":
        added = {name: value for name, value in added.items() if name not in ("cmd", "data")}
    expected, got = TOOLS[tool].of(arguments), read(tool, {**arguments, **added})
    kept = {name for name in added if added[name] == "" and getattr(got, name, None) == ""}
    assert got.model_copy(update={name: getattr(expected, name) for name in kept}) == expected, added


@pytest.mark.parametrize(
    ("tool", "sent", "meant"),
    [
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": '["cat", "-A"]'}, {"command": ("cat", "-A")}),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": '["sleep", 5]'}, {"command": ("sleep", "5")}),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": []}, {"command": None}),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": ""}, {"command": None}),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": "[]"}, {"command": None}),
        (
            "ptyctl_session",
            {"action": "open", "protocol": "local", "host": "", "port": 0, "username": "", "auth": {}, "ssh_options": {}},
            {"host": None, "port": None, "username": None, "auth": None, "ssh_options": None},
        ),
        (
            "ptyctl_session",
            {
                "action": "open",
                "protocol": "local",
                "auth": {"method": "auto", "password": "", "private_key_path": ""},
                "ssh_options": {"host_key_policy": "strict", "jump": "", "legacy_algorithms": False},
                "lock_ttl_ms": 0,
                "session_type": "",
                "device_id": "",
            },
            {"auth": None, "ssh_options": None, "lock_ttl_ms": None, "device_id": None},
        ),
        ("ptyctl_session", {"action": "list", "force": False, "wait_ms": 0, "port": 0, "env": {}}, {"force": None}),
        ("ptyctl_session", {"action": "list", "details": "false"}, {"details": False}),
        ("ptyctl_session_exec", {"cmd": "x", "until_idle_ms": 0, "lines": [], "responses": []}, {"cmd": "x"}),
        ("ptyctl_session_exec", {"cmd": "x", "grep": "", "until_regex": "", "from_cursor": ""}, {"grep": None}),
        ("ptyctl_session_exec", {"cmd": "x", "from_cursor": 0, "timeout_ms": 0}, {"from_cursor": None, "timeout_ms": 0}),
        ("ptyctl_session_exec", {"cmd": "", "lines": '["a"]', "block_id": ""}, {"cmd": None, "lines": ("a",)}),
        ("ptyctl_session_exec", {"cmd": "", "block_id": "1_2"}, {"cmd": None, "block_id": "1_2"}),
        ("ptyctl_session_exec", {"cmd": 5, "max_output_bytes": 0, "parse": ""}, {"cmd": "5", "max_output_bytes": 32_768}),
        ("ptyctl_session_exec", {"cmd": "x", "expect": "null", "timeout_ms": "null"}, {"timeout_ms": 15_000}),
        ("ptyctl_session_exec", {"cmd": "x", "rc_mode": '{"enabled": "true"}'}, {}),
        ("ptyctl_session_io", {"action": "read", "cursor": 0}, {"cursor": "0"}),
        ("ptyctl_session_io", {"action": "read", "cursor": ""}, {"cursor": None}),
        ("ptyctl_session_io", {"action": "read", "data": "", "key": "", "max_lines": 0, "sensitive": False}, {"data": None}),
        ("ptyctl_session_io", {"action": "write", "data": "ls\n", "key": ""}, {"data": "ls\n", "key": None}),
        ("ptyctl_session_io", {"action": "write", "data": "", "key": ""}, {"data": "", "key": None}),
        ("ptyctl_session_io", {"action": "write", "data": "", "key": "enter"}, {"data": None, "key": "enter"}),
        ("ptyctl_session_io", {"action": "write", "data": '{"a": 1}'}, {"data": '{"a": 1}'}),
        ("ptyctl_session_io", {"action": "write", "data": 42, "until_any": '["a"]'}, {"data": "42", "until_any": ("a",)}),
        ("ptyctl_session_config", {"action": "get", "cols": 0, "rows": "0", "expect": {}, "mode": ""}, {"cols": None}),
        ("pty_read_screen", {"at": "12"}, {"at": 12}),
        ("pty_read_screen", {"at": 0, "until_regex": "x"}, {"at": None}),
        ("pty_send", {"data": "", "key": "C-c"}, {"data": None}),
        ("ptyctl_session_exec", {"lines": "echo a  b"}, {"lines": ("echo a  b",)}),
        ("ptyctl_session_exec", {"lines": 5}, {"lines": ("5",)}),
        ("ptyctl_session_exec", {"lines": ""  , "cmd": "x"}, {"lines": None}),
        ("ptyctl_session_io", {"action": "write", "data": "x", "until_any": "a|b"}, {"until_any": ("a|b",)}),
        ("blocks_since", {"last": 0, "cursor": "3"}, {"last": None, "cursor": 3}),
        ("blocks_search", {"query": 404, "status": "", "block_id": ""}, {"query": "404", "status": None}),
    ],
)  # fmt: skip
def test_read_request_of_loose_arguments_has_their_meaning(tool: str, sent: dict[str, Any], meant: dict[str, Any]) -> None:
    address = {} if tool == "ptyctl_session" else {"session_id": "s", "conversation_id": ""}
    request = read(tool, {**address, **sent})
    assert {name: getattr(request, name) for name in meant} == meant


@pytest.mark.parametrize(
    ("tool", "sent", "named"),
    [
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": '["cat", "-A"'}, "JSON as text"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": "['cat', '-A']"}, "JSON as text"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": "['cat', 5, '-A"}, "JSON as text"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "command": ' [ "cat", ]'}, "JSON as text"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": '{"program": "cat"}'}, "JSON as text"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "command": '["a", ["b"]]'}, "command"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "host": "h", "port": 0}, "takes no host"),
        ("ptyctl_session", {"action": "open", "protocol": "", "device": ""}, "needs protocol"),
        ("ptyctl_session", {"action": ""}, "action"),
        ("ptyctl_session_exec", {"session_id": "", "cmd": "x"}, "give conversation_id"),
        ("ptyctl_session_exec", {"session_id": "s", "lines": [], "block_id": ""}, "exactly one of cmd, lines and block_id"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "timeout_ms": "5s"}, "timeout_ms"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": True}, "cmd"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": 1.5}, "cmd"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": ["ls"]}, "cmd"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": '{"match": "a"}'}, "responses.0.send"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": "a"}, "responses"),
        ("ptyctl_session_exec", {"session_id": "s", "lines": '["a"'}, "lines"),
        ("ptyctl_session_exec", {"session_id": "s", "lines": True}, "lines"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "timeout_ms": True}, "timeout_ms: Input should be a number"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "timeout_ms": False}, "timeout_ms: Input should be a number"),
        (
            "ptyctl_session_exec",
            {"session_id": "s", "cmd": "x", "until_idle_ms": True},
            "until_idle_ms: Input should be a number",
        ),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "expect": {"settle_ms": True}}, "expect.settle_ms"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "pty": {"cols": True, "rows": 5}}, "pty.cols"),
        (
            "pty_exec_interactive_expect",
            {"session_id": "s", "cmd": "x", "steps": {**STEP, "timeout_ms": True}},
            "steps.0.timeout_ms",
        ),
        ("pty_read_screen", {"session_id": "s", "at": True}, "at: Input should be a number"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": "[" * 5000}, "responses"),
        ("ptyctl_session_io", {"session_id": "s", "action": "write", "key": ""}, "exactly one of data and key"),
        ("ptyctl_session_io", {"session_id": "s", "action": "read", "cursor": 10**400}, "cursor"),
        ("pty_wait_for", {"session_id": "s", "from_cursor": ""}, "from_cursor"),
    ],
)
def test_read_request_of_uncertain_meaning_is_refused(tool: str, sent: dict[str, Any], named: str) -> None:
    with pytest.raises(PtyctlError) as caught:
        read(tool, sent)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert named in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "sent", [{"match": 5, "send": "y\n"}, '{"match": "5", "send": "y\\n"}', ['{"match": "5", "send": "y\\n"}']]
)
def test_read_request_of_one_response_is_a_list_of_it(sent: Any) -> None:
    assert read("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": sent}) == TOOLS["ptyctl_session_exec"].of(
        {"session_id": "s", "cmd": "x", "responses": [{"match": "5", "send": "y\n"}]}
    )


NUMBERS = [
    (tool, name)
    for tool, request in TOOLS.items()
    for name, field in request.model_fields.items()
    if {kind for kind, _ in field_kinds(field.annotation)} & {int, float}
]


@pytest.mark.parametrize(("tool", "name"), NUMBERS)
@pytest.mark.parametrize("value", [True, False])
def test_request_with_boolean_for_number_is_refused_by_name(tool: str, name: str, value: bool) -> None:
    with pytest.raises(PtyctlError, match=f"^{name}: Input should be a number"):
        read(tool, {"session_id": "s", name: value})


@pytest.mark.parametrize("command", ["[ -f x ] && echo y", "{ echo a; }", "[[ 1 ]]", "bash -l"])
def test_command_for_a_shell_that_is_no_json_is_kept(command: str) -> None:
    request = read("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "command": command})
    assert getattr(request, "command", None) == command


@pytest.mark.parametrize("mode", ["legacy", LATEST_MODERN_VERSION])
async def test_loose_arguments_are_accepted_on_every_protocol_version(mode: str) -> None:
    controller = StubController()
    async with Client(build_server(controller, TOOLSETS["core"]), mode=mode) as client:
        arguments = {"session_id": "s", "lines": '["hi"]', "cmd": "", "timeout_ms": "5", "until_idle_ms": 0}
        result = await client.call_tool("ptyctl_session_exec", arguments)
    assert not result.is_error
    (request,) = controller.requests
    assert getattr(request, "lines", None) == ("hi",)


EXECUTE = {"invocation": {"mode": "headless", "intent": "execute_command"}, "execution": {"command": "ls", "args": ["-l"]}}


@pytest.mark.parametrize(
    "sent",
    [
        {"action": "execute", **{name: json.dumps(part) for name, part in EXECUTE.items()}},
        {"action": "execute", **EXECUTE, "execution": {"command": '["ls", "-l"]'}},
        {"action": "execute", **EXECUTE, "execution": {"command": ["ls", "-l"], "args": [], "name": "", "env": ""}},
        {"action": "execute", **EXECUTE, "execution": {"command": "ls", "args": '["-l"]'}, "target": {"session_id": ""}},
        {"action": "execute", **EXECUTE, "execution": {"command": "ls", "args": '["-l"]'}, "target": {}, "runtime": ""},
        {"action": "run", "command": "ls", "args": '["-l"]', "timeout": "5000", "cwd": ""},
        {"action": "run", "command": '["ls", "-l"]', "session_id": ""},
        {"action": "run", "command": "ls", "args": "-l"},
    ],
)
def test_terminal_call_of_loose_arguments_has_the_contracts_form(sent: dict[str, Any]) -> None:
    request = TerminalCall.of(sent).arguments
    execution = request.get("execution", request)
    assert (execution["command"], execution["args"]) == ("ls", ["-l"])


@pytest.mark.parametrize("args", ["-l -a", "'-l'", '["-l"', "a\\ b", " "])
def test_terminal_call_with_text_that_may_be_several_words_keeps_it(args: str) -> None:
    request = TerminalCall.of({"action": "execute", **EXECUTE, "execution": {"command": "ls", "args": args}}).arguments
    assert request["execution"]["args"] == args


@pytest.mark.parametrize("sent", [None, 5, {}, {"action": 5}, {"action": "execute", "execution": "x"}, {"action": "fly"}])
def test_terminal_call_keeps_invalid_arguments_for_the_response(sent: Any) -> None:
    assert TerminalCall.of(sent).arguments == sent


@pytest.mark.parametrize(
    "command",
    [
        '[ "$HOME" ] && ls',
        '[ "a" = "a" ] && echo hi',
        '[ "a" = "a" ]',
        "[ 'x' ] || echo",
        '[ "$x" ]; ls "a", "b"]',
        '["$x" == "y"]',
        '[[ "$x" ]] && ls',
        '[ "$(cat f)" \\> "b" ]',
        '{ "ls"; }',
    ],
)
def test_command_that_begins_like_an_array_is_a_command(command: str) -> None:
    request = read("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "command": command})
    assert getattr(request, "command") == command  # noqa: B009 - not a field of all requests
