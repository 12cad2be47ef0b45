"""docs/containers.md: the payloads of its troubleshooting section are those of the contract, and its lists are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ptyctl.terminal import runtime_mode
from ptyctl.terminal.errors import RequestClass, TerminalError, TerminalErrorCode, fallback

PAGE = (Path(__file__).parents[2] / "docs" / "containers.md").read_text()


def payload(title: str) -> dict[str, Any]:
    """Return the example of a section."""
    found = re.search(rf"^### {title}\n.*?^```js\n(.*?)^```", PAGE, re.M | re.S)
    assert found is not None, title
    return dict(json.loads(found[1]))


@pytest.mark.parametrize(
    ("title", "code"),
    [
        pytest.param("No program can be started", "PM_TERM_GUI_UNAVAILABLE", id="spec-9.6-1"),
        pytest.param("The bridge cannot be reached", "PM_TERM_GUI_UNAVAILABLE", id="spec-9.6-2"),
        pytest.param("The bridge does not answer in time", "PM_TERM_TIMEOUT", id="spec-9.6-3"),
        pytest.param("A person declines the command", "PM_TERM_DECLINED", id="spec-9.6-4"),
    ],
)
def test_payload_of_the_page_is_that_of_the_contract(title: str, code: str) -> None:
    shown = payload(title)
    known = TerminalErrorCode(code)
    error = TerminalError(known, shown["error"]["message"], shown["error"]["details"])
    assert shown == {"error": error.payload(), "fallback": fallback(known, RequestClass("execute", "interactive"))}


def test_page_names_every_variable() -> None:
    names = {value for value in vars(runtime_mode).values() if isinstance(value, str) and value.startswith("PM_")}
    assert names
    short = {name.removeprefix("PM_INTERACTIVE_TERMINAL") for name in names}
    assert {name for name in short if name not in PAGE} == set()
