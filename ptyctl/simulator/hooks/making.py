"""What a console is made with: its pager, its idea of the screen, and of Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptyctl.simulator.keys import KeyDecoder
from ptyctl.simulator.pager_styles import STYLES

from .hook import Hook

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console


class PagerOf(Hook):
    """The pager of another family."""

    def install(self, console: Console) -> None:
        console.pager_style = STYLES[str(self.value)]


class PagesOnceSized(Hook):
    """There are no pages until the client has told the size of its window."""

    def install(self, console: Console) -> None:
        console.start_endless()


class CountsEachLineEnd(Hook):
    """CR and LF are an Enter each: who sends both presses it twice."""

    def install(self, console: Console) -> None:
        console.decoder = KeyDecoder(pairs=False)


class InsistsOnOptions(Hook):
    """A refusal of ECHO or SGA is answered by offering it again. The Telnet server looks at the field itself."""
