"""The replies of single actions have the fields of their tool's reply."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ptyctl.api.io import IoReply, ReadReply, ScreenReadReply, WriteReply
from ptyctl.api.model import Reply
from ptyctl.api.session import CloseReply, ListReply, LockReply, OpenReply, SessionReply, StatusReply, UnlockReply

ACTIONS: dict[type[Reply], tuple[type[Reply], ...]] = {
    SessionReply: (OpenReply, CloseReply, ListReply, LockReply, UnlockReply, StatusReply),
    IoReply: (WriteReply, ReadReply, ScreenReadReply),
}
#: Fields of the tools' replies that no action has yet.
RESERVED = {SessionReply: {"queue_position"}, IoReply: set[str]()}


@pytest.mark.parametrize("tool", ACTIONS, ids=lambda tool: tool.__name__)
def test_action_replies_together_have_all_fields_of_the_tool(tool: type[Reply]) -> None:
    fields = set().union(*(action.model_fields for action in ACTIONS[tool]))
    assert fields == set(tool.model_fields) - RESERVED[tool]


@pytest.mark.parametrize("tool", ACTIONS, ids=lambda tool: tool.__name__)
def test_action_reply_field_has_the_type_of_the_tool_field_or_is_required(tool: type[Reply]) -> None:
    for action in ACTIONS[tool]:
        for name, field in action.model_fields.items():
            wire = tool.model_fields[name].annotation
            assert field.annotation == wire or field.annotation | None == wire, f"{action.__name__}.{name}"  # type: ignore[operator]


def test_action_reply_of_incomplete_tool_reply_is_rejected() -> None:
    with pytest.raises(ValidationError, match="lock_holder"):
        LockReply.of(SessionReply(action="lock", session_id="s"))
