"""Export of recordings: asciicast, text, HTML; a player shows the same screen."""

from __future__ import annotations

import json
import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.screen import ScreenModel
from ptyctl.core.session_export import Recording, RecordingFrame, asciicast, final_screen, html, plain_text

PIECES = st.one_of(
    st.sampled_from(["hello ", "é日本", "\r\n", "e\u0301", "<&>"]).map(str.encode),
    st.sampled_from([b"\x1b[31m", b"\x1b[m", b"\x1b[2;2H", b"\x1b[?1049h", b"\x1b[?1049l", b"x\x1b[6n", b"\xff", b"\xe6"]),
)
SIZES = st.tuples(st.sampled_from([5, 20]), st.sampled_from([2, 6]))
MOMENTS = st.lists(
    st.lists(PIECES, max_size=4).map(lambda pieces: (b"".join(pieces), None)) | SIZES.map(lambda size: (b"", size)), max_size=12
)


def take(*events: tuple[bytes, tuple[int, int] | None]) -> Recording:
    moments = [RecordingFrame(1_000_000 + 250 * number, data, size) for number, (data, size) in enumerate(events)]
    return Recording(20, 6, "xterm-256color", "a <title>", 1_000_000, moments)


def played(lines: list[str]) -> ScreenModel:
    """Play an asciicast."""
    header, *events = map(json.loads, lines)
    model = ScreenModel(header["width"], header["height"])
    for _, kind, data in events:
        if kind == "o":
            model.feed(data.encode())
        else:
            model.resize(*map(int, data.split("x")))
    return model


@given(MOMENTS)
def test_asciicast_played_shows_same_screen(events: list[tuple[bytes, tuple[int, int] | None]]) -> None:
    recording = take(*events, (b"\x18", None))
    lines = list(asciicast(recording))
    model = played(lines)
    assert model.snapshot(attributes=True) == final_screen(recording).snapshot(attributes=True)
    assert model.responses == []
    times = [json.loads(line)[0] for line in lines[1:]]
    assert times == sorted(times)


def test_asciicast_format() -> None:
    header, *events = map(json.loads, asciicast(take((b"a\xc3", None), (b"", (80, 24)), (b"\xa9", None))))
    assert header == {
        "version": 2, "width": 20, "height": 6, "timestamp": 1000, "title": "a <title>", "env": {"TERM": "xterm-256color"},
    }  # fmt: skip
    assert events == [[0.0, "o", "a"], [0.25, "r", "80x24"], [0.5, "o", "é"]]


def test_plain_text_is_rendered() -> None:
    assert plain_text(take((b"one\r\n10%\r", None), (b"99%\r\n\x1b[31mred\x1b[m", None))) == "one\n99%\nred"


def test_html_contains_colours_and_scrollback() -> None:
    page = html(take((b"first <&>\r\n" + b"\r\n" * 6 + b"\x1b[31;44mred\x1b[m \x1b[7mback\x1b[m \x1b[1;4mbold", None)))
    assert "first &lt;&amp;&gt;" in page
    assert '<span style="color:#cd0000;background:#0000ee">red</span>' in page
    assert '<span style="color:#000000;background:#e5e5e5">back</span>' in page
    assert '<span style="font-weight:bold;text-decoration:underline">bold</span>' in page
    assert "<title>a &lt;title&gt;</title>" in page


@given(MOMENTS)
def test_html_text_equals_screen_text(events: list[tuple[bytes, tuple[int, int] | None]]) -> None:
    recording = take(*events)
    model = final_screen(recording)
    text = re.search(r"<pre>\n(.*)\n</pre>", html(recording), re.DOTALL)
    assert text is not None
    lines = [*model.scrollback(1000), *model.snapshot().rows]
    shown = [unescape(re.sub(r"<[^>]*>", "", line)).rstrip() for line in text[1].split("\n")]
    assert "\n".join(shown).rstrip() == "\n".join(line.rstrip() for line in lines).rstrip()
