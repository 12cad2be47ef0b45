"""Lines for device command lines get the verdicts of corpus_device.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ptyctl.policy.rules import SHELL_PLATFORM, DecisionRequest

from .presets import PLATFORMS, preset

GROUPS = tomllib.loads((Path(__file__).parent / "corpus_device.toml").read_text())["group"]


def test_corpus_has_lines_for_every_platform() -> None:
    assert sum(len(group["lines"]) for group in GROUPS) >= 150
    assert {group["platform"] for group in GROUPS} == set(PLATFORMS) - {SHELL_PLATFORM}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['platform']}-{group['mode']}")
def test_line_of_the_corpus_gets_its_verdict(group: dict[str, Any]) -> None:
    platform, mode = group["platform"], group["mode"]
    found = []
    for text, *_ in group["lines"]:
        request = DecisionRequest(text, platform, mode=mode)
        assert preset("off").evaluator.verdict(request).decision == "allow"
        found.append([text, *(str(preset(name).evaluator.verdict(request).decision) for name in ("guarded", "readonly"))])
    assert found == group["lines"]
