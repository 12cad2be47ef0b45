"""Upper bounds of the sizes in requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptyctl.api.blocks import BlocksRead
from ptyctl.api.config import ConfigRequest
from ptyctl.api.errors import MAX_MESSAGE, ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.model import Request
from ptyctl.api.pty import PtyExecBlock, PtyReadSpool, PtyResize
from ptyctl.api.screen import PtyReadRaw
from ptyctl.api.session import SessionRequest

SESSION = {"session_id": "1"}
TOO_LARGE = {"cols": 65535, "rows": 65535}


@pytest.mark.parametrize(
    ("request_type", "fields", "limit"),
    [
        (SessionRequest, {"action": "open", "protocol": "local", "pty": TOO_LARGE}, "200000 cells"),
        (ConfigRequest, {**SESSION, "action": "resize", **TOO_LARGE}, "200000 cells"),
        (PtyResize, {**SESSION, **TOO_LARGE}, "200000 cells"),
        (ExecRequest, {**SESSION, "cmd": "ls", "max_output_bytes": 10**9}, "4194304"),
        (ExecRequest, {**SESSION, "cmd": "x" * 131_073}, "131072"),
        (PtyExecBlock, {**SESSION, "cmd": "x" * 131_073}, "131072"),
        (IoRequest, {**SESSION, "action": "read", "max_bytes": 10**9}, "4194304"),
        (PtyReadSpool, {**SESSION, "from_cursor": 0, "max_bytes": 10**9}, "4194304"),
        (PtyReadRaw, {**SESSION, "max_bytes": 10**9}, "4194304"),
        (BlocksRead, {**SESSION, "block_id": "1_1", "max_bytes": 10**9}, "4194304"),
    ],
)
def test_size_above_its_limit_is_refused_with_the_limit(
    request_type: type[Request], fields: dict[str, Any], limit: str
) -> None:
    with pytest.raises(PtyctlError, match=limit) as caught:
        request_type.of(fields)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("size", [{"cols": 65535, "rows": 3}, {"cols": 1000, "rows": 200}])
def test_size_within_the_limit_is_accepted(size: dict[str, int]) -> None:
    assert PtyResize.of({**SESSION, **size}).cols == size["cols"]


@pytest.mark.parametrize("fields", [{"x" * 100_000: 1}, {"action": "read", "input_hints": {"y" * 100_000: 1}}])
def test_error_quotes_long_name_of_unknown_field_in_part(fields: dict[str, Any]) -> None:
    with pytest.raises(PtyctlError) as caught:
        IoRequest.of({**SESSION, **fields})
    assert len(json.dumps(caught.value.payload())) < 1000
    assert "more characters)" in caught.value.message


def test_message_of_an_error_is_shortened() -> None:
    error = PtyctlError(ErrorCode.NOT_FOUND, "x" * 100_000)
    assert (len(error.message) < 2 * MAX_MESSAGE, str(error)) == (True, error.message)
    assert error.message.endswith(f"x... ({100_000 - MAX_MESSAGE} more characters)")
