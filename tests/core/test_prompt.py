"""Default patterns for prompts, pagers and errors; the learned prompt; removal of echo and prompt."""

from __future__ import annotations

import pytest

from ptyctl.core.prompt import Expectations, Prompt, render_line, strip_echo, strip_prompt

EXPECT = Expectations.of(None, None, None)


@pytest.mark.parametrize(
    "line",
    ["Switch>", "Switch#", "R1(config-if)# ", "user@host:~$ ", "[root@box ~]# ", "<HUAWEI>", "[~HUAWEI]", "RP/0/RP0/CPU0:ios#",
     "A:admin@sr1# ", "[admin@MikroTik] > ", "host% ", "$ ", "# ", "bash-5.2$ ", ">>> "],
)  # fmt: skip
def test_default_prompt_matches_many_families(line: str) -> None:
    assert Prompt().match(line, EXPECT) == "regex"


@pytest.mark.parametrize("line", ["", " ", "50%", "Copying 100% ", "plain text", "Password: ", "  indented text >x"])
def test_default_prompt_rejects_other_lines(line: str) -> None:
    assert Prompt().match(line, EXPECT) is None


def test_match_learned_line_is_exact() -> None:
    prompt = Prompt()
    prompt.learn("R1# ")
    assert prompt.match("R1# ", EXPECT) == "exact"
    assert prompt.match("R1(config)# ", EXPECT) == "regex"


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
    assert EXPECT.pager(line)


@pytest.mark.parametrize(
    "line", ["", "R1# ", "more or less text goes here and on", "no more", "--more", "--more-verbose", "a --More-- b"]
)
def test_default_pagers_reject_other_lines(line: str) -> None:
    assert not EXPECT.pager(line)


def test_error_lines_are_distinct_and_ordered() -> None:
    text = "ok\n% Invalid input detected at '^' marker.\nfine 5% done\nError: no such thing\n% [ZEBRA] Unknown command: x\n"
    hints = EXPECT.error_lines(text)
    assert hints == ["% Invalid input detected at '^' marker.", "Error: no such thing", "% [ZEBRA] Unknown command: x"]


def test_strip_echo_and_prompt() -> None:
    assert strip_echo("R1# show x\none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("R1# \none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("one\ntwo", "R1# ", "show x") == "one\ntwo"
    assert strip_prompt("one\nR1# ", "R1# ") == "one\n"
    assert strip_prompt("R1# ", "R1# ") == ""
    assert strip_prompt("one\ntwo", "R1# ") == "one\ntwo"
    assert render_line(b" --More-- " + b"\b" * 10 + b" " * 10 + b"\b" * 10 + b"R1# ") == "R1# "
