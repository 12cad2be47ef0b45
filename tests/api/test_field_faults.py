"""Errors of requests with invalid fields."""

from __future__ import annotations

import pytest

from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.model import Request


def _refused(request: type[Request], **fields: object) -> PtyctlError:
    with pytest.raises(PtyctlError) as refused:
        request.of(fields)
    return refused.value


def test_unknown_field_error_names_similar_field_and_all_fields() -> None:
    error = _refused(ExecRequest, session_id="s", command="show clock")
    assert error.message == "command: unknown field; did you mean cmd?"
    assert error.hint is not None
    assert error.hint.startswith("the fields are session_id, conversation_id, task_id, cmd, lines, ")
    assert error.details == {"fields": [{"field": "command", "problem": "unknown field; did you mean cmd?"}]}


def test_unknown_field_without_similar_one_is_only_named() -> None:
    assert _refused(IoRequest, session_id="s", action="read", zzz=1).message == "zzz: unknown field"


def test_long_unknown_field_is_shortened() -> None:
    assert len(_refused(IoRequest, action="read", **{"x" * 100_000: 1}).message) < 400


def test_invalid_value_error_has_no_list_of_fields() -> None:
    error = _refused(ExecRequest, session_id="s", cmd="show clock", timeout_ms="soon")
    assert error.message.startswith("timeout_ms: Input should be a valid integer")
    assert error.hint is None


def test_field_of_another_action_error_lists_fields_of_the_action() -> None:
    error = _refused(IoRequest, session_id="s", action="write", data="x", max_lines=3)
    assert error.message.startswith('action "write" takes no max_lines: its fields are ')
    assert " data, " in error.message
