"""Questions that commands ask, and answers that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptyctl.simulator.inputs import LineInput

from .hook import Hook, Then

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console


class ConfirmsSave(Hook):
    """Saving asks first, and takes `y` or `n` and Enter only."""

    QUESTION = "The current configuration will be written to the device. Continue? [y/n]: "

    def saving(self, console: Console, then: Then) -> bool:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "y" | "yes":
                    then()
                case "n" | "no":
                    console.finish()
                case _:
                    self.saving(console, then)

        console.ask(self.QUESTION, LineInput(console, self.QUESTION, answer, console.finish))
        return True


class AsksToCommit(Hook):
    """Configuration mode cannot be left with unsaved changes without a word about them."""

    QUESTION = "Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]: "

    def leaving(self, console: Console, then: Then) -> bool:
        if not console.device.modified:
            return False

        def answer(line: str) -> None:
            match line.strip().lower():
                case "yes" | "y":
                    console.device.save()
                    then()
                case "no" | "n":
                    console.device.discard()
                    then()
                case _:
                    console.finish()

        console.ask(self.QUESTION, LineInput(console, self.QUESTION, answer, console.finish))
        return True


class TellsPaging(Hook):
    """`terminal length` is answered in words."""

    def paging_set(self, console: Console, length: int) -> str:
        return "Pagination disabled.\n" if length == 0 else f"Pagination set to {length} lines.\n"
