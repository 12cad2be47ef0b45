"""The tools' input schemas in the client libraries that convert them: each library accepts every tool.

The libraries are large (185 MB) and optional: without `pip install -e '.[clients]'` the tests are skipped, or fail under
PTYCTL_REQUIRE_SERVERS=1, as in CI. `test_schema` always checks the rules behind them.
"""

from __future__ import annotations

import copy
import importlib
import json
from typing import Any

import pytest
from mcp_types import Tool

from fixtures.servers.programs import require
from ptyctl.mcp.server import definition
from ptyctl.mcp.toolsets import choose


@pytest.fixture(scope="module")
def tools() -> list[Tool]:
    return [definition(tool) for tool in choose("all,terminal")]


def imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        require(False, str(error))
        raise


def test_google_genai_converts_every_tool(tools: list[Tool]) -> None:
    convert = imported("google.genai._mcp_utils").mcp_to_gemini_tool
    for tool in tools:
        (declaration,) = convert(tool).function_declarations
        assert set(declaration.parameters.properties or ()) == set(tool.input_schema["properties"])


def test_openai_agents_makes_every_schema_strict(tools: list[Tool]) -> None:
    make_strict = imported("agents.strict_schema").ensure_strict_json_schema
    for tool in tools:
        strict = make_strict(copy.deepcopy(tool.input_schema))
        assert strict["additionalProperties"] is False
        assert set(strict["required"]) == set(tool.input_schema["properties"])


def test_anthropic_transforms_every_schema(tools: list[Tool]) -> None:
    transform = imported("anthropic").transform_schema
    for tool in tools:
        assert set(transform(tool.input_schema)["properties"]) == set(tool.input_schema["properties"])


def test_llguidance_compiles_every_schema(tools: list[Tool]) -> None:
    matcher = imported("llguidance").LLMatcher
    for tool in tools:
        assert matcher.validate_grammar(matcher.grammar_from_json_schema(json.dumps(tool.input_schema))) == ""
