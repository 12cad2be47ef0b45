"""A tool as a value: what a client is told of it, and what a call to it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptyctl.api import PtyctlError
from ptyctl.api.methods import Call
from ptyctl.api.model import Reply, Request


@dataclass(frozen=True, slots=True)
class Tool:
    """The hints are those of MCP's ToolAnnotations: `destructive`, it may change or end what is there; `idempotent`, the same
    call made again changes nothing more. Every tool may reach a device, so all have openWorldHint.

    `told` names the fields of the reply that the tool fills, where it shares the reply's model with others. `refused` makes the
    reply to an error, where the surface answers errors as it answers all else; without it they are errors of MCP's.
    """

    name: str
    title: str
    description: str
    request: type[Request]
    reply: type[Reply]
    call: Call
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    told: tuple[str, ...] | None = None
    refused: Callable[[PtyctlError], Reply] | None = None
