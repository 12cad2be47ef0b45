"""Default patterns for prompts, pagers and errors; overrides; the learned prompt."""

from __future__ import annotations

from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.search import compile_pattern, program_size
from ptyctl.platforms import UNKNOWN_DEVICE, Platforms
from ptyctl.platforms.pattern import LINE_STEPS, line_patterns
from ptyctl.session.device.output_end import classify_line
from ptyctl.session.io.prompt import Prompt


@pytest.mark.parametrize(
    "line",
    ["Switch>", "Switch#", "R1(config-if)# ", "user@host:~$ ", "[root@box ~]# ", "<HUAWEI>", "[~HUAWEI]", "RP/0/RP0/CPU0:ios#",
     "A:admin@sr1# ", "[admin@MikroTik] > ", "host% ", "$ ", "# ", "bash-5.2$ ", ">>> "],
)  # fmt: skip
def test_default_prompt_matches_many_families(line: str) -> None:
    assert Prompt().match(line, UNKNOWN_DEVICE) == "regex"


@pytest.mark.parametrize("line", ["", " ", "50%", "Copying 100% ", "plain text", "Password: ", "  indented text >x"])
def test_default_prompt_rejects_other_lines(line: str) -> None:
    assert Prompt().match(line, UNKNOWN_DEVICE) is None


def test_match_learned_line_is_exact() -> None:
    prompt = Prompt()
    prompt.learn("R1# ")
    assert prompt.match("R1# ", UNKNOWN_DEVICE) == "exact"
    assert prompt.match("R1(config)# ", UNKNOWN_DEVICE) == "regex"


@pytest.mark.parametrize(
    "line",
    [" --More-- ", "--More--", "  ---- More ----", "---(more 40%)---", "---(more)---", "<--- More --->",
     "Press any key to continue (Q to quit)",
     "-- MORE --, next page: Space, next line: Enter, quit: Control-C",
     "[Q quit|D dump|right|down]",
     "--More-- (50%)",
     "the first part of a lo --More-- "],
)  # fmt: skip
def test_default_pagers_match_many_families(line: str) -> None:
    assert UNKNOWN_DEVICE.pager(line)
    assert classify_line(line, UNKNOWN_DEVICE, None).kind == "pager"


@pytest.mark.parametrize(
    "line", ["", "R1# ", "more or less text goes here and on", "no more", "--more", "--more-verbose", "a --More-- b"]
)
def test_default_pagers_reject_other_lines(line: str) -> None:
    assert not UNKNOWN_DEVICE.pager(line)


@pytest.mark.parametrize(
    ("line", "may_ask"),
    [("-- MORE --, next page:", False), ("--- more secrets: password: ", True), ("Repeat count [5]: ", True)],
)
def test_start_of_pager_is_no_question_unless_it_asks(line: str, may_ask: bool) -> None:
    assert UNKNOWN_DEVICE.may_ask(line) is may_ask


def test_override_of_prompt_replaces_the_default() -> None:
    profile = UNKNOWN_DEVICE.with_overrides(prompt=r"^ts-\d+: $")
    assert profile.is_prompt("ts-1: ")
    assert not profile.is_prompt("R1# ")
    assert profile.pagers == UNKNOWN_DEVICE.pagers


def test_override_of_pagers_keeps_the_keys_of_the_platform() -> None:
    profile = Platforms().get("cisco_xr").profile
    end = next(pager for pager in profile.pagers if pager.key == "q")
    overridden = profile.with_overrides(pagers=(end.pattern.text, "^more$"))
    assert [pager.key for pager in overridden.pagers] == ["q", " "]


def test_empty_override_clears_a_list() -> None:
    profile = UNKNOWN_DEVICE.with_overrides(pagers=(), errors=())
    assert profile.pager("--More--") is None
    assert profile.errors == ()


@pytest.mark.parametrize(("field", "value"), [("prompt", "(?=x)"), ("pagers", ("(?=x)",)), ("errors", ("(?=x)",))])
def test_override_that_re2_refuses_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(PtyctlError, match=r"expect\."):
        UNKNOWN_DEVICE.with_overrides(**{field: value})


@pytest.mark.parametrize("field", ["pagers", "errors"])
def test_override_with_too_large_programs_together_names_the_pattern(field: str) -> None:
    with pytest.raises(PtyctlError, match=r"expect\.\w+\[3\]: the pattern is too complex") as caught:
        UNKNOWN_DEVICE.with_overrides(**{field: tuple(f"a.{{0,350}}{end}" for end in "wxyz")})
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


def test_override_with_the_prompts_of_the_platform_keeps_their_reach() -> None:
    profile = Platforms().get("juniper_junos").profile
    assert profile.with_overrides(prompt=profile.prompt.text).prompt is profile.prompt


@pytest.mark.parametrize("texts", [["a[ab]{400}z"], ["a[ab]{400}z", "b.{0,300}c", "more"], [r"^.{0,200}#$"]])
def test_patterns_of_a_caller_take_a_limited_number_of_steps_on_a_line(texts: list[str]) -> None:
    patterns = line_patterns(texts, "expect.pager_regexes")
    assert sum(program_size(compile_pattern(text, "pattern")) * patterns[0].reach for text in texts) <= LINE_STEPS


def test_pattern_with_a_large_program_examines_the_end_of_a_long_line() -> None:
    pattern = line_patterns(["^a[ab]{400}z|y[xy]{400}w"], "expect.prompt_regex")[0]
    begin, end = "a" * 401 + "z", "y" * 401 + "w"
    assert [pattern.matches(line) for line in (begin, begin + "." * 900, "." * 900 + end, "." * 900 + begin)] == [
        True, False, True, False
    ]  # fmt: skip
