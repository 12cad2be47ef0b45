"""vttest menus 1 (cursor movement) and 2 (screen features), drawn by the screen model and by tmux.

Neither implements DECCOLM, so the tests for 132 columns are drawn on 80.
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
#: The text before vttest waits for a key: in a menu, or in a test.
MENU_PROMPT = rb"Enter choice number \(0 - \d+\): "
WAIT = re.compile(rb"Push <RETURN>|" + MENU_PROMPT)

BACKSPACE = (
    "A backspace after a letter in the last column goes to the one before it (DEC STD 070, xterm); tmux stays in the last."
)
ORIGIN = "DECSTBM in origin mode brings the cursor to the region's top (VT220 manual, 4.13); tmux brings it to the screen's."
IN_132_COLUMNS = "The screen should be cleared,  and hader of"
AUTOWRAP = "Test of autowrap, mixing control and print characters."
ORIGIN_MODE = "This line should be the one above the bottom of the screen."
#: Expected differences from tmux, by text on the screen.
EXPLAINED = {
    IN_132_COLUMNS: Explained(frozenset({78}), BACKSPACE),
    AUTOWRAP: Explained(frozenset({0, 79}), BACKSPACE),
    ORIGIN_MODE: Explained(frozenset(range(80)), ORIGIN),
}
Run = tuple[bytes, list[tuple[int, ScreenSnapshot]]]


class Screens:
    """The screens at which vttest waited: the number of received bytes, and the snapshot."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.all: list[tuple[int, ScreenSnapshot]] = []

    async def next(self) -> bool:
        """Wait for the next screen; return True for a menu."""
        begin = self.all[-1][0] if self.all else 0
        while (found := WAIT.search(self._terminal.raw, begin)) is None:
            await self._terminal.take()
        self.all.append((len(self._terminal.raw), self._terminal.model.snapshot(attributes=True)))
        return re.fullmatch(MENU_PROMPT, found[0]) is not None

    async def run_menus(self, menus: Iterable[str]) -> None:
        assert await self.next()
        for menu in menus:
            await self._terminal.type(f"{menu}\r")
            while not await self.next():
                await self._terminal.type("\r")


async def run(folder: Path) -> Run:
    """Run vttest; return its output and screens."""
    terminal = Terminal(*SIZE)
    screens = Screens(terminal)
    await terminal.start((require_program("vttest", "vttest"),), str(folder), NEUTRAL_ENVIRONMENT)
    try:
        await screens.run_menus(MENUS)
    finally:
        await terminal.close()
    return bytes(terminal.raw), screens.all


@pytest.fixture(scope="module")
def vttest(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asyncio.run(run(tmp_path_factory.mktemp("vttest")))


def explanation(snapshot: ScreenSnapshot) -> Explained | None:
    text = "\n".join(snapshot.rows)
    return next((explained for title, explained in EXPLAINED.items() if title in text), None)


def test_tmux_draws_same_cells_as_vttest(tmux: TmuxServer, vttest: Run) -> None:
    raw, screens = vttest
    found = {
        number: unexplained(differences(from_snapshot(snapshot), tmux.draw(raw[:end], *SIZE)), explanation(snapshot))
        for number, (end, snapshot) in enumerate(screens, 1)
    }
    assert len(found) >= 20
    assert {number: cells for number, cells in found.items() if cells} == {}


def test_screens_that_differ_in_tmux_match_their_description(vttest: Run) -> None:
    """Checks what vttest asks a person to check, on the screens with expected differences from tmux."""
    shown = {what: [snapshot.rows for _, snapshot in vttest[1] if what in "\n".join(snapshot.rows)] for what in EXPLAINED}
    (border,) = shown[IN_132_COLUMNS]
    assert {row[78] for row in border[1:9] + border[16:22]} == {"+"}
    assert len(shown[AUTOWRAP]) == 2  # for 132 columns and for 80
    for rows in shown[AUTOWRAP]:
        assert [row[0] + row[79] for row in rows[2:20]] == [letter + letter.lower() for letter in "IJKLMNOPQRSTUVWXYZ"]
    (rows,) = shown[ORIGIN_MODE]
    assert rows[:22] == ("",) * 22
    assert rows[22].startswith(ORIGIN_MODE)
    assert rows[23] == "Origin mode test. This line should be at the bottom of the screen."
