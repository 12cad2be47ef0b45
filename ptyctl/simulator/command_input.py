"""The command line at a prompt: what `LineInput` does, and the help of `?`, completion and the ways out of configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .commands import complete_in, help_in
from .editor import repaint
from .grammar import CommandError
from .inputs import LineInput
from .keys import Key

if TYPE_CHECKING:
    from .console import Console


class CommandInput(LineInput):
    """Reads one command of `console`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        super().__init__(
            console, console.painted_prompt, console.execute, self._cancelled, view=self._visible, paint=self._painted
        )

    def key(self, key: Key | str) -> None:
        match key:
            case "?":
                self._help()
            case Key.TAB:
                self._complete()
            case Key.CTRL_Z:
                self.cancel("^Z")
            case Key.ENTER:
                for hook in self._console.hooks:
                    hook.entered(self._console)
                super().key(key)
            case _:
                super().key(key)

    def _visible(self, line: str) -> str:
        for hook in self._console.hooks:
            line = hook.visible(self._console, line)
        return line

    def _painted(self, before: str, after: str) -> str:
        text = repaint(before, after)
        for hook in self._console.hooks:
            text = hook.echo(self._console, before, after, text)
        return text

    def _cancelled(self) -> None:
        # Both Ctrl-C and Ctrl-Z lead from any configuration mode to the privileged one.
        if self._console.mode.configures:
            self._console.leave_configuration(self._console.prompt)
        else:
            self._console.prompt()

    def _help(self) -> None:
        line = self.editor.text
        self.terminal.write("?\n")
        try:
            rows = [f"  {name}\n" for name in help_in(self._console.mode, line)]
            self.terminal.write("".join(rows) + "\n")
        except CommandError as error:
            self.terminal.write(error.report(self._console.prompt_text, line))
        self.redraw()

    def _complete(self) -> None:
        completed = complete_in(self._console.mode, self.editor.text)
        if completed is not None:
            self.terminal.write(self.editor.replace(completed))
