"""The parts of a text that a rule is about, which an approver must see."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.controller.policies import PolicyStore
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind
from ptyctl.platforms import Platforms
from ptyctl.session.judgement import Judgement, Place, Subject, shortest_spans

WORDS = st.sampled_from(["show", "reload", "in", "5", "write", "erase", "\n", " ", "\t", "reload;"])


def _judgement() -> Judgement:
    store = PolicyStore(Settings(policy="guarded"), Platforms())
    subject = Subject("s1", "ssh", "sw1", None)
    return Judgement(store, store.identity, subject, Kind.AGENT, "bot", "night", hides_input=False)


@pytest.mark.parametrize(
    ("platform", "text", "marked"),
    [
        ("linux", "mkfs.ext4 /dev/nope", ["mkfs.ext4"]),
        ("linux", "echo mkfs.ext4; mkfs.ext4 /dev/nope", ["mkfs.ext4"]),
        ("linux", "\n".join([*["echo x"] * 300, "sudo mkfs.ext4 /dev/nope"]), ["mkfs.ext4"]),
        ("linux", "for x in a b; do\n  mkfs.ext4 $x\ndone", ["mkfs.ext4"]),
        ("linux", "$x /dev/nope; echo $x", ["$x"]),
        ("cisco_ios", "show version\nrel in 5\nshow clock\nreload", ["rel", "reload"]),
        ("cisco_ios", "write  erase", ["write  erase"]),
    ],
)
def test_spans_are_the_words_that_the_rule_is_about(platform: str, text: str, marked: list[str]) -> None:
    judgement, places = _judgement(), [Place(platform, "exec")]
    verdict = judgement.verdict(text, places)
    assert verdict.decision == "ask"
    assert [text[begin:end] for begin, end in judgement.spans(text, verdict.rules, places)] == marked


def test_spans_of_a_text_without_rules_are_none() -> None:
    assert _judgement().spans("echo 'unparsed", (), [Place("linux")]) == []


@given(st.lists(WORDS, max_size=60))
def test_spans_of_any_text_match_and_are_separate(words: list[str]) -> None:
    text, pattern = " ".join(words), re.compile(r"\breload\b|\bwrite\s+erase\b")
    spans = shortest_spans(text, lambda part: pattern.search(part) is not None)
    assert all(pattern.search(text[begin:end]) for begin, end in spans)
    assert all(0 <= end <= begin for (_, end), (begin, _) in pairwise(spans))
    unmarked = text
    for begin, end in reversed(spans):
        unmarked = unmarked[:begin] + "x" + unmarked[end:]
    assert not re.search(r"\breload\b|\bwrite[ \t]+erase\b", unmarked)
