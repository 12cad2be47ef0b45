"""JSON Schemas (2020-12) of the tools, generated from the models of `ptyctl.api` and compacted to save an agent's tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from ptyctl.api import ErrorCode

Schema = dict[str, Any]

#: Keywords omitted from the schemas. The models still enforce them, and an error names the invalid field.
_OMITTED_KEYWORDS = frozenset(
    {
        "title", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "pattern",
        "format", "writeOnly", "default", "$defs",
    }
)  # fmt: skip
_NULL: Schema = {"type": "null"}

_ERROR_PROPERTIES: Schema = {
    "error_code": {"type": "string", "enum": [str(code) for code in ErrorCode]},
    "message": {"type": "string"},
    "hint": {"type": "string"},
    "details": {"type": "object"},
    "retryable": {"type": "boolean"},
}


def input_schema(model: type[BaseModel], *, read_only: bool = False) -> Schema:
    """Return the schema of a tool's arguments: definitions inlined, null omitted (same as absent).

    Fields that are marked `Unlisted` are absent, and `task_id` of a tool that only reads. It uses only what every model
    provider accepts: google-genai rejects `additionalProperties: false` and enums of several types, strict modes reject maps.
    """
    schema = _Compactor(model, nullable=False).schema
    if read_only:
        schema["properties"].pop("task_id", None)
    return schema


def reply_schema(model: type[BaseModel], fields: Collection[str]) -> Schema:
    """Return the schema of a reply that reports errors with `ok` false. Includes only the given fields; none is ever null."""
    small = _Compactor(model, nullable=False).schema
    properties = {name: schema for name, schema in small["properties"].items() if name in fields}
    return {"type": "object", "properties": properties, "required": ["ok"]}


def output_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a reply or an MCP error.

    Widely used clients validate the structured content of errors against this schema too, and drop an error that does not
    match (typescript-sdk issue 1943), so one schema describes both. Objects stay open, because fields may be added later.
    """
    small = _Compactor(model, nullable=True).schema
    return {
        "type": "object",
        "properties": {**_ERROR_PROPERTIES, **small["properties"]},
        "anyOf": [{"required": small["required"]}, {"required": [name for name in _ERROR_PROPERTIES if name != "hint"]}],
    }


class _Compactor:
    """Compacts the schema of one model. `nullable`: keep null in the types of the fields."""

    def __init__(self, model: type[BaseModel], *, nullable: bool) -> None:
        raw = model.model_json_schema(mode="validation")
        self._definitions: Mapping[str, Schema] = raw.get("$defs", {})
        self._nullable = nullable
        self.schema = self._definition(raw)

    def _definition(self, node: Schema) -> Schema:
        # A model's docstring is for developers; callers read the descriptions of the fields.
        return self._compact({key: value for key, value in node.items() if key != "description"})

    def _compact(self, node: Schema) -> Schema:
        small: Schema = {}
        for key, value in node.items():
            if key == "$ref":
                small.update(self._definition(self._definitions[value.removeprefix("#/$defs/")]))
            elif key == "anyOf":
                small.update(self._union(value))
            elif key == "properties":
                small[key] = {name: self._compact(field) for name, field in value.items() if not field.get("unlisted")}
            elif key in ("items", "additionalProperties"):
                if isinstance(value, dict):
                    small[key] = self._compact(value)
            elif key not in _OMITTED_KEYWORDS:
                small[key] = value
        return small

    def _union(self, options: list[Schema]) -> Schema:
        """Merge alternatives that differ only in null into one schema."""
        kept = [self._compact(option) for option in options if option != _NULL]
        null = [None] if self._nullable and _NULL in options else []
        if len(kept) > 1:
            return {"anyOf": [*kept, *([_NULL] if null else [])]}
        (only,) = kept
        if not null:
            return only
        enum = {"enum": [*only["enum"], None]} if "enum" in only else {}
        return {**only, "type": [only["type"], "null"], **enum}
