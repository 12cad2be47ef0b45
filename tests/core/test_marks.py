"""Marks that are accepted, by their counters, and the text that they report."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.marks import MarkReader, with_line
from ptyctl.core.normaliser import Normaliser


@pytest.mark.parametrize(("counter", "is_read"), [(5, False), (6, True), (500, True), (999_999_999_999, False)])
def test_mark_is_read_only_if_its_counter_is_a_little_larger(counter: int, is_read: bool) -> None:
    reader = MarkReader.resume({"n": 5})
    assert (reader.read(b"7717;n;%d;P;0;0;/" % counter) is not None) is is_read
    assert reader.counters() == {"n": counter if is_read else 5}


@pytest.mark.parametrize("payload", [b"P;0;0;/", b"P;0+;0;/", b"P;0,a;0;/", b"L", b"L;a"])
def test_prompt_or_line_mark_with_the_nonce_of_typed_marks_is_not_read(payload: bytes) -> None:
    reader = MarkReader("typed", "n")
    assert reader.read(b"7717;n;1;P;0+;0;/") is not None
    assert reader.read(b"7717;typed;2;" + payload) is None
    assert reader.counters() == {"typed": 0, "n": 1}
    assert reader.read(b"7717;typed;2;B;0") is not None
    assert reader.read(b"7717;n;2;L;a") is not None


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ([], b"n;1"),
        ([b"1;P;0;0;/"], b"n;2"),
        ([b"1;P;0+;0;/"], b"n;1"),
        ([b"1;P;0+;0;/"], b"n;3"),
        ([b"1;P;0+;0;/"], b"other;2"),
        ([b"1;P;0+;0;/", b"2;L"], b"n;3"),
        ([b"1;P;0+;0;/", b"2;B;true"], b"n;3"),
        ([b"1;P;0+;0;/", b"2;B;true", b"3;E;0"], b"n;4"),
        ([b"1;P;0+;0;/", b"2;P;0;0;/"], b"n;3"),
        ([b"1;P;0+;0;/", b"4;P;0+;0;/"], b"n;2"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_line_mark_counts_once_and_directly_after_the_prompt_that_announces_it(before: list[bytes], line: bytes) -> None:
    reader = MarkReader("typed", "n")
    for mark in before:
        assert reader.read(b"7717;n;" + mark) is not None
    counters = reader.counters()
    assert reader.read(b"7717;%s;L" % line) is None
    assert reader.counters() == counters


@pytest.mark.parametrize("line_follows", [False, True])
def test_line_mark_after_a_restored_prompt_counts_if_that_announces_it(line_follows: bool) -> None:
    reader = MarkReader.resume({"typed": 9, "n": 5}, line_follows=line_follows)
    assert reader.read(b"7717;typed;10;L") is None
    assert (reader.read(b"7717;n;6;L") is not None) is line_follows


def encoded(text: bytes) -> bytes:
    """The text as the hooks of zsh encode it."""
    return re.sub(rb"[\x00-\x1f\x7f%;]", lambda found: b"%%%02X" % found[0][0], text)


@given(st.none() | st.binary(max_size=20))
def test_line_mark_reports_the_text_that_the_prompt_mark_announces(text: bytes | None) -> None:
    machine = Normaliser(reader=MarkReader("n"))
    assert machine.feed(b"\x1b]7717;n;1;P;0+,a;1;/\x07") != b""
    assert machine.feed(b"\x1b]7717;n;2;L%s\x07" % (b"" if text is None else b";" + encoded(text))) == b""
    prompt, line = (placed.mark for placed in machine.marks)
    assert (prompt.line, prompt.line_follows, line.kind) == (b"a", True, "line")
    assert with_line(prompt, line) == prompt._replace(line=text, line_follows=False)


@given(st.none() | st.binary(max_size=20), st.binary(max_size=5), st.integers(0, 255))
def test_text_in_the_line_of_a_prompt_mark_is_read_at_each_cut(text: bytes | None, cwd: bytes, status: int) -> None:
    line = b"" if text is None else b"," + encoded(text)
    mark = b"\x1b]7717;n;1;P;%d%s;1700000000000,%%0As;%s\x07" % (status, line, encoded(cwd))
    for cut in range(len(mark) + 1):
        machine = Normaliser(reader=MarkReader("n"))
        machine.feed(mark[:cut])
        machine.feed(mark[cut:])
        (placed,) = machine.marks
        assert (placed.mark.line, placed.mark.status, placed.mark.cwd, placed.mark.keys) == (text, status, cwd, "\ns")
