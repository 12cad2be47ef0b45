"""What tells a family from the others."""

from __future__ import annotations

from pydantic import Field

from ptyctl.api.model import Value

from .pattern import Pattern


class Sign(Value):
    """`ratio`: how many times likelier a line like this is seen on this family than on another."""

    pattern: Pattern
    ratio: float = Field(gt=1, le=10_000)


class Signs(Value):
    """`command` changes nothing and needs no rights. `banners` are seen before the prompt, `outputs` in any answer."""

    command: str | None = None
    banners: tuple[Sign, ...] = ()
    prompts: tuple[Sign, ...] = ()
    outputs: tuple[Sign, ...] = ()
