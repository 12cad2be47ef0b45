"""The tools' input schemas in the client libraries that convert them: each library accepts every tool.

The libraries are large and optional (`pip install 'ptyctl[clients]'`); `test_schema` always checks the rules behind them.
"""

from __future__ import annotations

import copy
import json

import pytest

from ptyctl.mcp.server import definition
from ptyctl.mcp.toolsets import choose

TOOLS = [definition(tool) for tool in choose("all")]


def test_google_genai_converts_every_tool() -> None:
    convert = pytest.importorskip("google.genai._mcp_utils", exc_type=ImportError).mcp_to_gemini_tool
    for tool in TOOLS:
        (declaration,) = convert(tool).function_declarations
        assert set(declaration.parameters.properties or ()) == set(tool.input_schema["properties"])


def test_openai_agents_makes_every_schema_strict() -> None:
    make_strict = pytest.importorskip("agents.strict_schema", exc_type=ImportError).ensure_strict_json_schema
    for tool in TOOLS:
        strict = make_strict(copy.deepcopy(tool.input_schema))
        assert strict["additionalProperties"] is False
        assert set(strict["required"]) == set(tool.input_schema["properties"])


def test_anthropic_transforms_every_schema() -> None:
    transform = pytest.importorskip("anthropic").transform_schema
    for tool in TOOLS:
        assert set(transform(tool.input_schema)["properties"]) == set(tool.input_schema["properties"])


def test_llguidance_compiles_every_schema() -> None:
    matcher = pytest.importorskip("llguidance").LLMatcher
    for tool in TOOLS:
        assert matcher.validate_grammar(matcher.grammar_from_json_schema(json.dumps(tool.input_schema))) == ""
