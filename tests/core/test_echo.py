"""Detection of the end of an echo, for each way of line editors to display a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.echo import echo_end, may_continue_echo, strip_echo, strip_prompt
from ptyctl.core.renderer import render_line

PROMPT = "sw1#"
LONG = "show interfaces status | include " + "x" * 60
WHOLE = PROMPT + LONG
#: Display forms of devices with width 80: plain, in two rows, with a doubled character, truncated at either end.
SHOWN = {
    "plain": LONG,
    "rows": f"{WHOLE[4:80]}\r\n{WHOLE[80:]}",
    "doubled": f"{WHOLE[4:80]}{WHOLE[80]}\r{WHOLE[80:]}",
    "cut behind": f"{WHOLE[4:79]}$",
    "cut before": f"{WHOLE[4:80]}\r{PROMPT}${WHOLE[40:]}\x1b[K",
    "repainted": "".join(f"\r{PROMPT}{LONG[:end]}\x1b[K" for end in (*range(1, len(LONG), 8), len(LONG))),
}
OUTPUT = b"first line of output\r\nsecond\r\n"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("how", SHOWN)
def test_echo_end_each_display_form_found_after_line_end(how: str, width: int) -> None:
    """Also with a terminal wider than the device assumes."""
    echo = SHOWN[how].encode() + b"\r\n"
    assert echo_end(echo + OUTPUT, PROMPT, LONG, width) == len(echo)
    for end in range(len(echo)):
        assert echo_end(echo[:end], PROMPT, LONG, width) is None, "its line end has not come yet"
        if how != "cut before":  # which draws over the end of the line
            assert may_continue_echo(echo[:end], PROMPT, LONG, width)


def test_output_without_echo_does_not_continue_it() -> None:
    for output in (b"Checking", b"\rPassword: ", b"$ ", b"xsw1#"):
        assert not may_continue_echo(output, PROMPT, "show version", 80)
    for output in (b"", b"s", b"\rsw1#sho", b"show version"):
        assert may_continue_echo(output, PROMPT, "show version", 80)


@pytest.mark.parametrize("prompt", ["abcd> ", "日本> "])
def test_echo_end_of_wrapped_line_that_fish_draws_again_is_found_after_last_drawing(prompt: str) -> None:
    """fish moves to the next row of the echo with a line feed."""
    line = "echo " + "y" * 150
    to_end = "\x1b[A\r\r\n\x1b[41C"
    echo = f"\r\x1b[6Cecho \r\x1b[11C{line[5:]}{to_end}\x1b[A\x1b[35D{line}{to_end}\r\n".encode()
    assert echo_end(echo + OUTPUT, prompt, line, 120) == len(echo)
    for end in range(len(echo)):
        assert echo_end(echo[:end], prompt, line, 120) is None, "its line end has not come yet"


@pytest.mark.parametrize("up", ["\x1b[A\x1b[A", "\x1b[2A", "\x1bM\x1bM"])
def test_echo_end_of_many_words_in_the_third_row_that_fish_draws_one_by_one_is_found(up: str) -> None:
    """fish goes to the first row and back again for each word: the line feeds are more than the rows of the echo."""
    prompt, begin, words = "tester@a-host-with-a-long-name ~> ", "echo " + "y" * 210 + ";", [" echo", " go;"] * 10
    line, column = begin + "".join(words), (len(prompt) + len(begin)) % 120
    echo = begin
    for word in words:
        echo += f"{up}\r\r\n\r\n\x1b[{column}C{word}"
        column += len(word)
    assert column < 120
    data = f"{echo}{up}\r\r\n\r\n\x1b[{column}C\r\n".encode()
    assert echo_end(data + OUTPUT, prompt, line, 120, max_rows=16) == len(data)
    for end in range(len(data)):
        assert echo_end(data[:end], prompt, line, 120, max_rows=16) is None, "its line end has not come yet"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=300), st.binary(max_size=60))
def test_echo_end_plain_echo_found_before_any_output(line: str, output: bytes) -> None:
    echo = line.encode() + b"\r\n"
    assert echo_end(echo + output, PROMPT, line, 80) == len(echo)


def test_echo_end_without_echo_is_zero() -> None:
    assert echo_end(OUTPUT, PROMPT, "show version", 80) == 0
    assert echo_end(b"", PROMPT, "show version", 80) is None
    assert echo_end(b"\r\n" + OUTPUT, PROMPT, "show version", 80) == 2, "of Enter only"


def test_echo_end_repainted_prompt_with_new_time_found() -> None:
    echo = b"\r10:00:02 sw1#show clock\x1b[K\r\n"
    assert echo_end(echo + OUTPUT, "10:00:01 sw1#", "show clock", 80) == len(echo)


def test_strip_echo_and_prompt() -> None:
    assert strip_echo("R1# show x\none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("R1# \none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("one\ntwo", "R1# ", "show x") == "one\ntwo"
    assert strip_prompt("one\nR1# ", "R1# ") == "one\n"
    assert strip_prompt("R1# ", "R1# ") == ""
    assert strip_prompt("one\ntwo", "R1# ") == "one\ntwo"
    assert render_line(b" --More-- " + b"\b" * 10 + b" " * 10 + b"\b" * 10 + b"R1# ") == "R1# "
