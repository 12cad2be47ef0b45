"""The documentation is complete, its links resolve, and its examples are valid requests and replies."""

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
from ptyctl.core.limits import LIMITS
from ptyctl.terminal.request import CanonicalRequest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
#: Fields of an error; the hint is optional.
ERROR_FIELDS = {"error_code", "message", "details", "retryable"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def examples(page: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of all json blocks; a block may contain several."""
    decoder = json.JSONDecoder()
    for block in re.findall(r"^```json\n(.*?)^```", page.read_text(), re.M | re.S):
        rest = block.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            yield value
            rest = rest[end:].strip()


def model_of(example: dict[str, Any]) -> type[BaseModel] | None:
    """Return the model of an example, or None for a client's configuration."""
    if "mcpServers" in example:
        return None
    if example.get("action") in ("execute", "read_output", "terminate"):
        return CanonicalRequest
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
def test_json_example_of_a_page_matches_its_model(page: Path, number: int, example: dict[str, Any]) -> None:
    if "error_code" in example:
        assert set(example) - {"hint"} == ERROR_FIELDS
        assert example["error_code"] in set(ErrorCode)
    elif (model := model_of(example)) is not None:
        model.model_validate(example)


def test_errors_page_has_cause_and_next_step_of_every_code() -> None:
    page = (DOCS / "errors.md").read_text()
    sections: dict[str, str] = dict(re.findall(r"^## ([A-Z_]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert sorted(sections) == sorted(ErrorCode)
    for title, body in sections.items():
        assert re.search(r"^\*\*Cause\.\*\* \S", body, re.M), f"{title} has no cause"
        assert re.search(r"^\*\*Next step\.\*\* \S", body, re.M), f"{title} has no next step"


def test_errors_page_lists_exactly_the_retryable_codes() -> None:
    row = re.search(r"^\| yes \| (.*) \|$", (DOCS / "errors.md").read_text(), re.M)
    assert row is not None
    assert set(row[1].split(", ")) == set(RETRYABLE)


@pytest.mark.parametrize("index", [DOCS / "README.md", DOCS / "decisions" / "README.md"], ids=relative)
def test_index_links_every_page_of_its_folder(index: Path) -> None:
    text = index.read_text()
    pages = [page.name for page in index.parent.glob("*.md") if page != index]
    assert [name for name in pages if f"({name})" not in text] == []


def test_site_navigation_has_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in map(str, (page.relative_to(DOCS) for page in DOCS.rglob("*.md"))) if page not in navigation] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_of_a_page_resolve(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles], f"{target}#{anchor}"


@pytest.mark.parametrize("name", LIMITS)
def test_named_limit_is_documented_with_its_default(name: str) -> None:
    row = re.compile(rf"^\|.*`{name}`.*{LIMITS[name].maximum:,}", re.M)
    assert row.search((DOCS / "limits.md").read_text()) or name == "max_client_sessions"  # as max_sessions
    assert f"`PTYCTL_{name.upper()}`" in (DOCS / "files.md").read_text()
