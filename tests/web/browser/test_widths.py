"""The cells of the page: its terminal, its cards and its screens place each character as the server's screen does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptyctl.core.renderer import render
from ptyctl.core.screen import ScreenModel
from ptyctl.core.screen.cells import split_columns, width, width_ranges

from .desk import Desk

COLS = 40
#: Characters of all widths, and those that join others.
PIECES = st.sampled_from(
    [*"ab|", "⚠️", "⚠", "☺︎", "\u200b", "\u200d", "\u2060", "\ufe0f", "e\u0301", "\u0301", "漢", "ｱ", "🙂", "👍🏽", "👩‍👩‍👧",
     "🇩🇪", "🇩", "각", "\u1100\u1161", "ก็", "\u00ad", "\u3164", "█", "\U000e0061", "クﾞ"]
)  # fmt: skip
_TERMINAL = """async (texts) => {
    const { createTerminal } = await import("/static/terminal.js");
    const box = document.querySelector("main").appendChild(document.createElement("div"));
    const { xterm } = createTerminal(box, { readOnly: true });
    xterm.resize(COLS, 10);
    const found = [];
    for (const text of texts) {
        await new Promise((resolve) => xterm.write(`\\x1bc${text}`, resolve));
        const line = xterm.buffer.active.getLine(0);
        const cells = Array.from({ length: xterm.buffer.active.cursorX }, (_, column) => line.getCell(column).getChars());
        found.push(cells);
    }
    xterm.dispose();
    box.remove();
    return found;
}""".replace("COLS", str(COLS))
_CELLS = """async (texts) => {
    const { toCells } = await import("/static/cells.js");
    return texts.map((text) => toCells(text, 0));
}"""


def _cells(text: str) -> list[str]:
    """Return the cells of the first row of the server's screen up to the cursor."""
    model = ScreenModel(COLS, 10, scrollback=0)
    model.feed(text.encode())
    shown = model.snapshot()
    return split_columns(shown.rows[0])[: shown.cursor[1]]


@pytest.fixture
def texts() -> list[str]:
    """Many texts that fit into a row and begin with a character that has a column."""
    found: set[str] = {"⚠️|x", "a\u200b|x", "👩‍👩‍👧|x", "e\u0301|x", "🇩🇪|x", "漢\u200bx", "a\u200db|x"}

    @settings(max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(PIECES, min_size=1, max_size=12))
    def collect(pieces: list[str]) -> None:
        found.add(f"x{''.join(pieces)}|")

    collect()
    return sorted(found)


async def test_page_places_each_cell_as_the_server_does(desk: Desk, texts: list[str]) -> None:
    page = await desk.open()
    servers = [_cells(text) for text in texts]
    assert all(render(text.encode(), COLS).strip() == text.strip() for text in texts)
    terminals: list[list[str]] = await page.evaluate(_TERMINAL, texts)
    cells: list[list[str]] = await page.evaluate(_CELLS, texts)
    for text, server, terminal, pieces in zip(texts, servers, terminals, cells, strict=True):
        named = ascii(text)
        assert len(pieces) == len(server), named
        assert [bool(cell) for cell in pieces] == [bool(cell) for cell in server], named
        assert [bool(cell) for cell in terminal] == [bool(cell) for cell in server], named
        assert [cell[:1] for cell in terminal] == [cell[:1] for cell in server], named


async def test_page_has_the_widths_of_the_server_for_all_characters(desk: Desk) -> None:
    page = await desk.open()
    script = """async () => {
        const { width } = await import("/static/cells.js");
        return Array.from({ length: 0x20000 - 0xa0 }, (_, index) => width(index + 0xa0));
    }"""
    widths: list[int] = await page.evaluate(script)
    codes = [code for code in range(0xA0, 0x20000) if not 0xD800 <= code < 0xE000]
    assert [code for code in codes if widths[code - 0xA0] != width(chr(code))] == []


def test_width_ranges_are_ascending_and_separate() -> None:
    for ranges in width_ranges().values():
        ends: list[Any] = [place for span in ranges for place in span]
        assert ends == sorted(ends)


async def test_neighbours_of_joined_characters_are_shown_after_a_reload(desk: Desk) -> None:
    from .visitor import visit

    session = await desk.open_shell()
    await desk.exec(session, "printf '%b|x\\n' '\\u26a0\\ufe0f' 'a\\u200b' '\\U1f469\\u200d\\U1f467' '\\u6f22'; cd /")
    alice = await visit(desk, session)
    for text in ("\u26a0\ufe0f|x", "a\u200b|x", "\U0001f469\u200d\U0001f467|x", "\u6f22|x"):
        await alice.wait_for_text(text)
    await alice.page.reload()
    for text in ("\u26a0\ufe0f|x", "a\u200b|x", "\U0001f469\u200d\U0001f467|x", "\u6f22|x"):
        await alice.wait_for_text(text)
