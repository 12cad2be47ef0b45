"""Consoles at their login, made of stages: what each shows, and what it makes of what is typed. No clock, no terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from ptyctl.session.device.login_dialog import LoginAction, LoginDialog

#: Shows text, gets what was typed, and ends when it is passed; what ends in no CR was a key.
Stage = Generator[str, str, None]
MakesStage = Callable[[], Stage]
CR, CTRL_C, CTRL_U = "\r", "\x03", "\x15"


class Mishap(AssertionError):
    """The dialogue did what nobody may do on somebody else's console."""


def asleep(text: str) -> MakesStage:
    """Nothing is shown until Enter, then a text that waits for another."""

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
    """Asks one thing after the other, again after a refusal; closes the line after so many wrong sets."""

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
            raise Mishap(f"{text!r} was answered {typed!r}")

    return stage


def left_over_confirmation(text: str) -> MakesStage:
    """Nothing is shown; an Enter would confirm, any other key is a no (IOS)."""

    def stage() -> Stage:
        typed = yield ""
        if typed.startswith((CR, "y", "Y")):
            raise Mishap(f"{text!r} was confirmed")

    return stage


def left_over_question(text: str) -> MakesStage:
    """It is shown, and Ctrl-C leaves it."""

    def stage() -> Stage:
        typed = yield "\n" + text
        if typed != CTRL_C:
            raise Mishap(f"{text!r} was answered {typed!r}")

    return stage


def half_typed(command: str, clear: str = CTRL_U) -> MakesStage:
    """A command stands there unseen; an Enter before it is cleared would run it."""

    def stage() -> Stage:
        while (typed := (yield "")) != clear:
            if typed.endswith(CR) and clear not in typed:
                raise Mishap(f"{command!r} was run")
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
    """The far end hung up."""


@dataclass
class Console:
    """`shown` begins with the line on which the last text was typed, and is empty where nothing came. With `torn`, its first
    character comes by itself: `more` brings the others. A secret is typed as its name and layer, never as a value."""

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
        """Whether there was more."""
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
    """Does what the dialogue says until it is over; gives its last action, and all before."""
    actions: list[LoginAction] = []
    while len(actions) < 100:
        action = dialog.heard(console.shown)
        if action.kind == "wait" and console.more():
            continue
        if action.kind == "wait":
            action = dialog.closed() if console.closed else dialog.silent(console.shown)
        if action.kind in ("done", "failed"):
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
