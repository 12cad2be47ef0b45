"""Simulated consoles for login dialogues: sequences of stages that show text and react to input, without clock or terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from ptyctl.session.device.login_dialog import LoginAction, LoginDialog

#: Yields text to show, receives the input, and returns when it is passed. Input without a final CR is a key.
Stage = Generator[str, str, None]
MakesStage = Callable[[], Stage]
CR, CTRL_C, CTRL_U = "\r", "\x03", "\x15"


class LeftOverTouched(AssertionError):
    """The dialogue executed or confirmed the input of a previous user."""


def asleep(text: str) -> MakesStage:
    """Shows nothing until Enter, then a text that waits for another Enter."""

    def stage() -> Stage:
        while not (yield "").endswith(CR):
            pass
        while not (yield f"\n\n{text}\n\n\n").endswith(CR):
            pass

    return stage


REFUSED = "\nLogin incorrect\n\n"


def getty(
    asks: tuple[str, ...], accepts: tuple[str, ...], refusal: str = REFUSED, greets: str = "\n", patience: int = 3
) -> MakesStage:
    """Asks the questions in order, again after a refusal; closes the line after `patience` wrong sets."""

    def stage() -> Stage:
        shown = greets
        for _ in range(patience):
            given = []
            for ask in asks:
                typed = yield shown + ask
                given.append(typed.removesuffix(CR).lstrip(CTRL_U))
                shown = "\n"
            if tuple(given) == accepts:
                return
            shown = refusal
        raise StopConsole

    return stage


def question(text: str, declined_by: str) -> MakesStage:
    def stage() -> Stage:
        typed = yield "\n" + text
        if typed != declined_by:
            raise LeftOverTouched(f"{text!r} was answered {typed!r}")

    return stage


def left_over_confirmation(text: str) -> MakesStage:
    """Shows nothing; Enter confirms, any other key declines (IOS)."""

    def stage() -> Stage:
        typed = yield ""
        if typed.startswith((CR, "y", "Y")):
            raise LeftOverTouched(f"{text!r} was confirmed")

    return stage


def left_over_question(text: str) -> MakesStage:
    """Shows a question that Ctrl-C leaves."""

    def stage() -> Stage:
        typed = yield "\n" + text
        if typed != CTRL_C:
            raise LeftOverTouched(f"{text!r} was answered {typed!r}")

    return stage


def half_typed(command: str, clear: str = CTRL_U) -> MakesStage:
    """Holds an invisible half-typed command; Enter before it is cleared runs it."""

    def stage() -> Stage:
        while (typed := (yield "")) != clear:
            if typed.endswith(CR) and clear not in typed:
                raise LeftOverTouched(f"{command!r} was run")
        while not (yield "").endswith(CR):
            pass

    return stage


def left_over_pager(text: str, quit_key: str = "q") -> MakesStage:
    def stage() -> Stage:
        while (yield "\nthe page of somebody\n" + text) != quit_key:
            pass

    return stage


def left_over_config(prompt: str, *commands: str) -> MakesStage:
    def stage() -> Stage:
        for command in commands:
            while (yield "\n" + prompt) != command + CR:
                pass

    return stage


def at_prompt(prompt: str) -> MakesStage:
    def stage() -> Stage:
        while True:
            yield "\n" + prompt

    return stage


class StopConsole(Exception):
    """The far end closed the line."""


@dataclass
class Console:
    """`shown` begins with the line of the last input, and is empty without output.

    With `torn`, only its first character is shown until `more` is called. Secrets are typed as their name and layer.
    """

    stages: list[MakesStage]
    torn: bool = False
    shown: str = ""
    closed: bool = False

    def __post_init__(self) -> None:
        self._running = self._run()
        self._line = self._rest = ""
        self._show(next(self._running))

    def _run(self) -> Stage:
        for stage in self.stages:
            try:
                yield from stage()
            except StopConsole:
                break
        self.closed = True
        yield "\nConnection closed.\n"

    def type(self, text: str, echo: str) -> None:
        self._line = self.shown.rpartition("\n")[2] + echo if self.shown else self._line
        self._show(self._running.send(text))

    def more(self) -> bool:
        """Show the rest; whether there was any."""
        rest, self._rest = self._rest, ""
        self.shown += rest
        return bool(rest)

    def _show(self, text: str) -> None:
        cut = 1 if self.torn else len(text)
        self._rest = text[cut:]
        self.shown = self._line + text[:cut] if text else ""


def log_in(
    console: Console, dialog: LoginDialog, usernames: tuple[str, ...] = ("admin",)
) -> tuple[LoginAction, list[LoginAction]]:
    """Perform the dialogue's actions; its last action, and all earlier ones."""
    actions: list[LoginAction] = []
    while len(actions) < 100:
        action = dialog.heard(console.shown)
        if action.kind == "wait" and console.more():
            continue
        if action.kind == "wait":
            action = dialog.closed(console.shown) if console.closed else dialog.silent(console.shown)
        if action.kind in ("done", "left", "failed"):
            return action, actions
        actions.append(action)
        text = _text(action, usernames)
        console.type(text + (CR if action.enter else ""), text if action.kind in ("username", "answer", "leave_mode") else "")
    raise AssertionError("the dialogue does not end")


def _text(action: LoginAction, usernames: tuple[str, ...]) -> str:
    if action.kind == "username":
        return usernames[action.layer] + action.text
    return f"<{action.secret} {action.layer}>" if action.kind == "secret" else action.text


def kinds(actions: list[LoginAction]) -> list[str]:
    return [action.kind for action in actions]
