"""vttest's first two menus, cursor movements and screen features, run in our PTY and drawn by us and by real tmux.

Both keep 80 columns: neither lets a program change the size (DECCOLM), so what vttest means for 132 columns is drawn on 80.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from fixtures.captures.terminal import NEUTRAL_ENVIRONMENT, Terminal
from fixtures.servers.programs import require_program
from fixtures.tmux.cells import Explained, differences, from_snapshot, unexplained
from fixtures.tmux.server import TmuxServer
from ptyctl.core.screen import ScreenSnapshot

SIZE = (80, 24)
MENUS = ("1", "2")
#: The last that vttest writes before it waits for a key: a menu's, or a test's.
IN_A_MENU = rb"Enter choice number \(0 - \d+\): "
WAITS = re.compile(rb"Push <RETURN>|" + IN_A_MENU)

BACKSPACE = (
    "A backspace after a letter in the last column goes to the one before it (DEC STD 070, xterm); tmux stays in the last."
)
ORIGIN = "DECSTBM in origin mode brings the cursor to the region's top (VT220 manual, 4.13); tmux brings it to the screen's."
IN_132_COLUMNS = "The screen should be cleared,  and hader of"
AUTOWRAP = "Test of autowrap, mixing control and print characters."
ORIGIN_MODE = "This line should be the one above the bottom of the screen."
#: By what a screen says.
EXPLAINED = {
    IN_132_COLUMNS: Explained(frozenset({78}), BACKSPACE),
    AUTOWRAP: Explained(frozenset({0, 79}), BACKSPACE),
    ORIGIN_MODE: Explained(frozenset(range(80)), ORIGIN),
}
Run = tuple[bytes, list[tuple[int, ScreenSnapshot]]]


class Screens:
    """Each screen that vttest waited at: how many bytes had come, and our picture."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.all: list[tuple[int, ScreenSnapshot]] = []

    async def next(self) -> bool:
        """Waits for a screen; True for a menu."""
        begin = self.all[-1][0] if self.all else 0
        while (found := WAITS.search(self._terminal.raw, begin)) is None:
            await self._terminal.take()
        self.all.append((len(self._terminal.raw), self._terminal.model.snapshot(attributes=True)))
        return re.fullmatch(IN_A_MENU, found[0]) is not None

    async def through(self, menus: Iterable[str]) -> None:
        assert await self.next()
        for menu in menus:
            await self._terminal.type(f"{menu}\r")
            while not await self.next():
                await self._terminal.type("\r")


async def run(folder: Path) -> Run:
    """All that vttest wrote, and its screens."""
    terminal = Terminal(*SIZE)
    screens = Screens(terminal)
    await terminal.start((require_program("vttest", "vttest"),), str(folder), NEUTRAL_ENVIRONMENT)
    try:
        await screens.through(MENUS)
    finally:
        await terminal.close()
    return bytes(terminal.raw), screens.all


@pytest.fixture(scope="module")
def vttest(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asyncio.run(run(tmp_path_factory.mktemp("vttest")))


def explanation(picture: ScreenSnapshot) -> Explained | None:
    text = "\n".join(picture.rows)
    return next((explained for said, explained in EXPLAINED.items() if said in text), None)


def test_tmux_draws_the_same_cells(tmux: TmuxServer, vttest: Run) -> None:
    raw, screens = vttest
    found = {
        number: unexplained(differences(from_snapshot(picture), tmux.draw(raw[:end], *SIZE)), explanation(picture))
        for number, (end, picture) in enumerate(screens, 1)
    }
    assert len(found) >= 20
    assert {number: cells for number, cells in found.items() if cells} == {}


def test_what_vttest_asks_the_eye_for(vttest: Run) -> None:
    """In the screens where tmux is no witness."""
    said = {what: [picture.rows for _, picture in vttest[1] if what in "\n".join(picture.rows)] for what in EXPLAINED}
    (border,) = said[IN_132_COLUMNS]
    assert {row[78] for row in border[1:9] + border[16:22]} == {"+"}
    assert len(said[AUTOWRAP]) == 2  # for 132 columns and for 80
    for rows in said[AUTOWRAP]:
        assert [row[0] + row[79] for row in rows[2:20]] == [letter + letter.lower() for letter in "IJKLMNOPQRSTUVWXYZ"]
    (rows,) = said[ORIGIN_MODE]
    assert rows[:22] == ("",) * 22
    assert rows[22].startswith(ORIGIN_MODE)
    assert rows[23] == "Origin mode test. This line should be at the bottom of the screen."
