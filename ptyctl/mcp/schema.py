"""JSON Schemas of tools (2020-12), generated from the api's models and then made small: an agent pays for each byte."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from ptyctl.api import ErrorCode

Schema = dict[str, Any]

#: Noise to a reader. The models hold a request against them all the same, and the answer names the field that is wrong.
_NOISE = frozenset({"title", "minLength", "maxLength", "minItems", "minimum", "maximum", "format", "writeOnly", "$defs"})
#: Defaults that anybody would assume.
_PLAIN_DEFAULTS: tuple[object, ...] = (None, False, "", [], "auto")
_NULL: Schema = {"type": "null"}

_ERROR_PROPERTIES: Schema = {
    "error_code": {"type": "string", "enum": [str(code) for code in ErrorCode]},
    "message": {"type": "string"},
    "hint": {"type": "string"},
    "details": {"type": "object"},
    "retryable": {"type": "boolean"},
}


def input_schema(model: type[BaseModel]) -> Schema:
    """What a tool takes: the root closed, definitions inlined, null left out (an absent field says the same)."""
    small = _Compactor(model, nullable=False).schema
    return {**small, "additionalProperties": False}


def told_schema(model: type[BaseModel], told: Collection[str]) -> Schema:
    """What a tool answers that tells errors in the reply itself (`ok` false): these fields of the model. None is ever null."""
    small = _Compactor(model, nullable=False).schema
    properties = {name: field for name, field in small["properties"].items() if name in told}
    return {"type": "object", "properties": properties, "required": ["ok"]}


def output_schema(model: type[BaseModel]) -> Schema:
    """What a tool answers: the reply, or an error.

    Widely used clients hold the structured content of an error against this schema too, and drop the error if it does not
    fit (typescript-sdk issue 1943): so one schema describes both. Fields may be added later, so no object is closed.
    """
    small = _Compactor(model, nullable=True).schema
    return {
        "type": "object",
        "properties": {**_ERROR_PROPERTIES, **small["properties"]},
        "anyOf": [{"required": small["required"]}, {"required": [name for name in _ERROR_PROPERTIES if name != "hint"]}],
    }


class _Compactor:
    """One model's schema, rewritten. `nullable`: whether null stays among the types of a field."""

    def __init__(self, model: type[BaseModel], *, nullable: bool) -> None:
        raw = model.model_json_schema(mode="validation")
        self._definitions: Mapping[str, Schema] = raw.get("$defs", {})
        self._nullable = nullable
        self.schema = self._definition(raw)

    def _definition(self, node: Schema) -> Schema:
        # A model's docstring is for whoever reads the code; what a caller should know stands at its fields.
        return self._compact({key: value for key, value in node.items() if key != "description"})

    def _compact(self, node: Schema) -> Schema:
        small: Schema = {}
        for key, value in node.items():
            if key == "$ref":
                small.update(self._definition(self._definitions[value.removeprefix("#/$defs/")]))
            elif key == "anyOf":
                small.update(self._union(value))
            elif key == "properties":
                small[key] = {name: self._compact(field) for name, field in value.items()}
            elif key in ("items", "additionalProperties"):
                if isinstance(value, dict):
                    small[key] = self._compact(value)
            elif key not in _NOISE and not (key == "default" and value in _PLAIN_DEFAULTS):
                small[key] = value
        return small

    def _union(self, options: list[Schema]) -> Schema:
        """Alternatives as one schema, where they differ in null only."""
        kept = [self._compact(option) for option in options if option != _NULL]
        null = [None] if self._nullable and _NULL in options else []
        if len(kept) > 1:
            return {"anyOf": [*kept, *([_NULL] if null else [])]}
        (only,) = kept
        if not null:
            return only
        enum = {"enum": [*only["enum"], None]} if "enum" in only else {}
        return {**only, "type": [only["type"], "null"], **enum}
