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
