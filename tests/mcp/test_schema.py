"""Schemas and descriptions of the core tools: size, validity, and agreement with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from ptyctl.api import ErrorCode, ExecReply, IoReply, PtyctlError, SessionReply
from ptyctl.mcp.schema import input_schema, output_schema
from ptyctl.mcp.server import INSTRUCTIONS, definition
from ptyctl.mcp.toolsets import Tool, choose

CORE = choose("core")
ALL = choose("all")
EVERY = choose("all,terminal")

#: Example calls of each tool, as in the documentation.
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "ptyctl_session": [
        {"action": "open", "protocol": "ssh", "host": "192.0.2.10", "username": "admin"},
        {
            "action": "open",
            "protocol": "telnet",
            "host": "console.local",
            "session_type": "console",
            "device_id": "switch-001",
            "acquire_lock": True,
            "task_id": "task-123",
            "expect": {"pager_regexes": ["--More--"]},
        },
        {"action": "open", "protocol": "local", "command": ["bash", "-l"], "env": {"A": "b"}, "pty": {"cols": 80}},
        {"action": "lock", "session_id": "s", "task_id": "task-123", "lock_ttl_ms": 60000},
    ],
    "ptyctl_session_exec": [
        {"session_id": "s", "cmd": "uname -a", "timeout_ms": 15000, "task_id": "task-123"},
        {"session_id": "s", "lines": ["interface e1", "shutdown"], "on_error": "stop"},
        {"session_id": "s", "cmd": "x", "rc_mode": {"enabled": False}, "responses": [{"match": "y/n", "send": "y\n"}]},
    ],
    "ptyctl_session_io": [
        {"session_id": "s", "action": "write", "data": "show version\n", "task_id": "task-123"},
        {"session_id": "s", "action": "read", "cursor": "1234", "until_idle_ms": 500},
        {"session_id": "s", "action": "write", "data": "y\n", "until_any": ["done", "[$] $"]},
        {"conversation_id": "c", "action": "write", "key": "ctrl_c", "repeat_ms": 200, "until_regex": "loader> "},
    ],
    "ptyctl_session_config": [{"session_id": "s", "action": "resize", "cols": 120, "rows": 40}],
}


#: Fields that the core tools accept and their schemas leave out.
UNLISTED = {
    "node",
    "return_pending",
    "client_id",
    "env",
    "rc_mode",
    "expect",
    "timeouts",
    "telnet_options",
    "input_hints",
    "cancel_after_ms",
    "details",
    "terminal",
    "not_after",
    "while_locked",
}
#: Of exec only: `block_id` does the same.
UNLISTED_IN_EXEC = {"approval_id"}


def named(tool: Tool) -> str:
    return tool.name


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, list):
        for item in schema:
            yield from nodes(item)
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            yield from nodes(list(value.values()) if key == "properties" else value)


def listed(tool: Tool) -> dict[str, Any]:
    """Return what a client passes on to the model."""
    return {"name": tool.name, "description": tool.description, "inputSchema": definition(tool).input_schema}


def test_core_tool_definitions_take_less_than_8_kb() -> None:
    definitions = [listed(tool) for tool in CORE]
    assert [tool["name"] for tool in definitions] == list(EXAMPLES)
    assert len(json.dumps(definitions)) < 8000  # with the spaces that some clients insert


def test_all_tool_definitions_take_less_than_15_kb() -> None:
    assert len(json.dumps([listed(tool) for tool in ALL], separators=(",", ":"))) < 15_000


def test_definitions_of_every_toolset_take_less_than_16_kb() -> None:
    """`terminal` is for other callers than the toolsets of `all`; its tool takes about 1 KB."""
    assert {*EVERY} - {*ALL} == {*choose("terminal")}
    assert len(json.dumps([listed(tool) for tool in EVERY], separators=(",", ":"))) < 16_000


@pytest.mark.parametrize("tool", EVERY, ids=named)
def test_input_schema_uses_only_portable_keywords(tool: Tool) -> None:
    """Rules of google-genai, openai-agents (strict), Anthropic and llguidance; `test_schema_clients` runs the libraries."""
    for node in nodes(definition(tool).input_schema):
        assert set(node) <= {"type", "properties", "required", "items", "enum", "anyOf", "description"}
        assert isinstance(node.get("type", "string"), str)
        assert ("type" in node) != ("anyOf" in node)
        assert all(isinstance(value, str) for value in node.get("enum", ()))
        assert node.get("type") != "object" or node.get("properties")  # no map of any names
        assert node.get("type") != "array" or node["items"]
        assert set(node.get("required", ())) <= set(node.get("properties", ()))


@pytest.mark.parametrize("tool", CORE, ids=named)
def test_schemas_are_valid_json_schema(tool: Tool) -> None:
    for schema in (input_schema(tool.request), output_schema(tool.reply)):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"


@pytest.mark.parametrize("tool", CORE, ids=named)
def test_input_schema_has_no_titles_references_or_nulls(tool: Tool) -> None:
    schema = input_schema(tool.request)
    # Model providers reject alternatives at the root.
    assert not {"anyOf", "oneOf", "allOf", "$defs"} & set(schema)
    for node in nodes(schema):
        assert not {"title", "$ref"} & set(node)
        assert {"type": "null"} not in node.get("anyOf", [])
        assert node.get("default", 0) is not None


@pytest.mark.parametrize("tool", CORE, ids=named)
def test_input_schema_has_all_fields_of_its_model(tool: Tool) -> None:
    schema = input_schema(tool.request)
    raw = tool.request.model_json_schema()["properties"]
    assert set(schema["properties"]) == {name for name, field in raw.items() if not field.get("unlisted")}
    assert set(tool.request.model_fields) - set(schema["properties"]) <= UNLISTED | (
        UNLISTED_IN_EXEC if tool.name == "ptyctl_session_exec" else set()
    )
    required = {name for name, field in tool.request.model_fields.items() if field.is_required()}
    assert set(schema.get("required", ())) == required


def test_input_schema_keeps_nested_fields() -> None:
    auth = input_schema(CORE[0].request)["properties"]["auth"]
    assert set(auth["properties"]) == {
        "method",
        "password",
        "private_key_pem",
        "private_key_path",
        "passphrase",
        "enable_secret",
        "one_time_code",
    }
    responses = input_schema(CORE[1].request)["properties"]["responses"]
    assert set(responses["items"]["properties"]) == {"match", "send", "sensitive"}


@pytest.mark.parametrize(("tool", "arguments"), [(tool, call) for tool in CORE for call in EXAMPLES[tool.name]])
def test_documented_example_matches_schema_and_model(tool: Tool, arguments: dict[str, Any]) -> None:
    Draft202012Validator(input_schema(tool.request)).validate(arguments)
    tool.request.of(arguments)


@pytest.mark.parametrize("tool", CORE, ids=named)
def test_error_of_each_code_matches_output_schema(tool: Tool) -> None:
    validator = Draft202012Validator(output_schema(tool.reply))
    for code in ErrorCode:
        validator.validate(PtyctlError(code, "why", {"a": 1}).payload())


@pytest.mark.parametrize(
    "reply",
    [
        SessionReply(action="open", session_id="s", state="open", next_cursor="0"),
        IoReply(action="read", chunk="", encoding="utf-8", next_cursor="0"),
        ExecReply(stdout="", done_reason="idle", duration_ms=1, block_id="1_1", cursor="0", next_cursor="0"),
        ExecReply(stdout="", exit_code=3, done_reason="marks", duration_ms=1, block_id="1_1", cursor="0", next_cursor="0"),
    ],
)
def test_reply_matches_output_schema(reply: SessionReply | IoReply | ExecReply) -> None:
    (tool,) = [tool for tool in CORE if tool.reply is type(reply)]
    Draft202012Validator(output_schema(tool.reply)).validate(reply.payload())


@pytest.mark.parametrize("tool", CORE, ids=named)
def test_incomplete_payload_does_not_match_output_schema(tool: Tool) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(output_schema(tool.reply)).validate({"message": "half of an error"})


def test_annotations_of_core_tools_describe_their_effect() -> None:
    hints = {tool.name: definition(tool).annotations for tool in CORE}
    for name, hint in hints.items():
        assert hint is not None
        assert hint.title
        assert (hint.read_only_hint, hint.open_world_hint) == (False, True)
        harmless = name == "ptyctl_session_config"
        assert (hint.destructive_hint, hint.idempotent_hint) == (not harmless, harmless)


@pytest.mark.parametrize(
    "term",
    [
        "tail",
        "next_cursor",
        "heartbeat at half",
        "unlock",
        "LOCKED",
        "BUSY",
        "truncated",
        r"timed_out.*block_id",
        "RE2",
        r"\(\?m\)",
        "sensitive",
        "Enter",
    ],
)
def test_core_descriptions_explain_workflow(term: str) -> None:
    definitions = json.dumps([[tool.description, input_schema(tool.request)] for tool in CORE])
    assert re.search(term, definitions)


def test_instructions_name_core_tools_and_stay_short() -> None:
    for name in ("ptyctl_session open", "ptyctl_session_io", "ptyctl_session_exec"):
        assert name in INSTRUCTIONS
    assert len(INSTRUCTIONS) < 1200
