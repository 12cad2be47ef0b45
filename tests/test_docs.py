"""The documents are complete, lead somewhere, and show calls and replies that the API has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptyctl.api import ConfigRequest, ErrorCode, ExecReply, ExecRequest, IoReply, IoRequest, SessionReply, SessionRequest
from ptyctl.api.errors import RETRYABLE

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def examples(page: Path) -> Iterator[dict[str, Any]]:
    """Each JSON object that stands in a block of its own; a block may have several, one after the other."""
    decoder = json.JSONDecoder()
    for block in re.findall(r"^```json\n(.*?)^```", page.read_text(), re.M | re.S):
        rest = block.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            yield value
            rest = rest[end:].strip()


def model_of(example: dict[str, Any]) -> type[BaseModel] | None:
    """What an example is an example of; None for a client's configuration."""
    if "mcpServers" in example:
        return None
    if "stdout" in example:
        return ExecReply
    if "success" in example:
        return SessionReply
    if "chunk" in example or "cursor_row" in example or "bytes_written" in example:
        return IoReply
    if example.get("action") in ("read", "write"):
        return IoRequest
    if example.get("action") in ("mode", "save", "pace"):
        return ConfigRequest
    return SessionRequest if "action" in example else ExecRequest


EXAMPLES = [(page, number, example) for page in PAGES for number, example in enumerate(examples(page), 1)]


@pytest.mark.parametrize(("page", "number", "example"), EXAMPLES, ids=lambda value: getattr(value, "name", None) or "")
def test_examples_are_of_the_api(page: Path, number: int, example: dict[str, Any]) -> None:
    if "error_code" in example:
        assert set(example) == {"error_code", "message", "details", "retryable"}
        assert example["error_code"] in set(ErrorCode)
    elif (model := model_of(example)) is not None:
        model.model_validate(example)


def test_every_error_code_is_documented() -> None:
    page = (DOCS / "errors.md").read_text()
    sections: dict[str, str] = dict(re.findall(r"^## ([A-Z_]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert sorted(sections) == sorted(ErrorCode)
    for title, body in sections.items():
        assert re.search(r"^\*\*Cause\.\*\* \S", body, re.M), f"{title} has no cause"
        assert re.search(r"^\*\*Next step\.\*\* \S", body, re.M), f"{title} has no next step"


def test_the_table_of_retryable_codes_is_true() -> None:
    row = re.search(r"^\| yes \| (.*) \|$", (DOCS / "errors.md").read_text(), re.M)
    assert row is not None
    assert set(row[1].split(", ")) == set(RETRYABLE)


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles], f"{target}#{anchor}"
