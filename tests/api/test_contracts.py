"""docs/contracts.md lists every tool, request field, reply field and part of them, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ptyctl.api.approvals import ApprovalsReply
from ptyctl.api.blocks import BlocksReply
from ptyctl.api.config import ConfigReply
from ptyctl.api.controller import Controller
from ptyctl.api.devices import DevicesReply
from ptyctl.api.exec import ExecReply
from ptyctl.api.history import RecordingReply, SearchReply
from ptyctl.api.io import IoReply
from ptyctl.api.methods import METHODS, PTY_REQUESTS
from ptyctl.api.model import Reply, Request
from ptyctl.api.operator import AuditReply, GcReply, LogReply, NotifyReply, WatchItem, WatchRequest
from ptyctl.api.policy import PolicyReply
from ptyctl.api.pty import PtyReply, PtyReplyBase, PtyRequest
from ptyctl.api.screen import DeltasReply, RawReply, ScreenReply, ScreenStatusReply, ScrollbackReply
from ptyctl.api.session import SessionReply

PAGE = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^##+ (\S[^\n]*)\n(.*?)(?=^##+ |\Z)", PAGE, re.M | re.S))
#: Tools with a section each, and their replies.
CORE: dict[str, type[Reply]] = {
    "ptyctl_session": SessionReply,
    "ptyctl_session_exec": ExecReply,
    "ptyctl_session_io": IoReply,
    "ptyctl_session_config": ConfigReply,
    "ptyctl_approvals": ApprovalsReply,
}
#: Tools that share a section with a row each, and their replies.
SCREEN: dict[str, type[Reply]] = {
    "pty_read_screen": ScreenReply,
    "pty_read_screen_deltas": DeltasReply,
    "pty_screen_status": ScreenStatusReply,
    "pty_read_scrollback": ScrollbackReply,
    "pty_read_raw": RawReply,
}
OTHER: dict[str, tuple[type[Request], type[Reply]]] = {
    "watch": (WatchRequest, WatchItem),
    "notify": (METHODS["notify"].request, NotifyReply),
    "log": (METHODS["log"].request, LogReply),
    "recording": (METHODS["recording"].request, RecordingReply),
    "search": (METHODS["search"].request, SearchReply),
    "devices": (METHODS["devices"].request, DevicesReply),
    "gc": (METHODS["gc"].request, GcReply),
    "audit": (METHODS["audit"].request, AuditReply),
    "policy": (METHODS["policy"].request, PolicyReply),
    "approvals": (METHODS["approvals"].request, ApprovalsReply),
}
COMMON_REPLY = set(PtyReplyBase.model_fields)


def names(cell: str) -> set[str]:
    return {name.rstrip("?") for name in re.findall(r"`(\w+\??)`", cell)}


def tables(section: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table: the first cell of its header, and its rows."""
    for table in re.findall(r"(?:^\|.*\|\n)+", section, re.M):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        yield rows[0][0], rows[2:]


def fields(section: str, header: str) -> set[str]:
    """Return the first column of the tables with this header."""
    return {name for first, rows in tables(SECTIONS[section]) if first == header for row in rows for name in names(row[0])}


def rows(header: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return request and reply fields of the tables with a row for each tool or call."""
    return {
        row[0].strip("`"): (names(row[1]), names(row[2]))
        for section in SECTIONS.values()
        for first, table in tables(section)
        if first == header and len(table[0]) == 3
        for row in table
    }


def parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models within a model, at any depth."""
    for field in model.model_fields.values():
        for part in models_in(field.annotation):
            yield part
            yield from parts(part)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, UnionType) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


REQUESTS = [*(method.request for method in METHODS.values()), WatchRequest]
REPLIES = [*CORE.values(), PtyReply, BlocksReply, *SCREEN.values(), *(reply for _, reply in OTHER.values())]
PARTS = sorted({part for model in (*REQUESTS, *REPLIES) for part in parts(model)}, key=lambda part: part.__name__)


@pytest.mark.parametrize("tool", CORE)
def test_core_tool_fields_are_listed(tool: str) -> None:
    assert fields(tool, "request field") == set(METHODS[tool].request.model_fields)
    assert fields(tool, "reply field") == set(CORE[tool].model_fields)


def test_tools_and_calls_are_all_listed() -> None:
    listed = {row for row in rows("tool") if row in PTY_REQUESTS or row.startswith(("pty_", "blocks_"))}
    assert listed == set(PTY_REQUESTS)
    assert set(rows("call")) == set(OTHER)
    assert set(METHODS) | {"watch"} == set(CORE) | listed | set(OTHER)
    assert {"session", "exec", "io", "config", "pty", "aclose", *OTHER} == {
        name for name in vars(Controller) if not name.startswith("_")
    }


@pytest.mark.parametrize("tool", PTY_REQUESTS)
def test_pty_tool_request_fields_are_listed(tool: str) -> None:
    own = set(PTY_REQUESTS[tool].model_fields) - set(PtyRequest.model_fields)
    assert rows("tool")[tool][0] == own


def test_pty_reply_fields_are_listed() -> None:
    assert fields("pty_*", "reply field") == set(PtyReply.model_fields)
    assert fields("blocks_*", "reply field") == set(BlocksReply.model_fields)


@pytest.mark.parametrize("tool", SCREEN)
def test_screen_tool_reply_fields_are_listed(tool: str) -> None:
    assert rows("tool")[tool][1] == set(SCREEN[tool].model_fields) - COMMON_REPLY


@pytest.mark.parametrize("call", OTHER)
def test_call_fields_are_listed(call: str) -> None:
    request, reply = OTHER[call]
    assert rows("call")[call] == (set(request.model_fields), set(reply.model_fields))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_part_fields_are_listed(part: type[BaseModel]) -> None:
    assert fields(part.__name__, "field") == set(part.model_fields)


def test_parts_of_the_page_exist() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE, re.M)
    assert sorted(headings) == [part.__name__ for part in PARTS]
