"""A login, from whatever the terminal shows to a prompt of the device: it says what to do next, and does nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptyctl.api.errors import ErrorCode

from .command import Answer
from .credentials import Credentials, Layer
from .log_lines import LogLines
from .login_action import ENTER, WAIT, Action, failed, key
from .mode_graph import ModeGraph
from .pattern import any_matches

#: What two layers, a setup dialogue, a pager and a left-over mode together could need, twice.
_MOST_ANSWERS = 40
#: So many Enters wake a console that can be woken, and so many Ctrl-C leave a question that can be left.
_MOST_ENTERS = 3
_MOST_INTERRUPTS = 2
#: What a password is wanted for stands in one of the last so many lines.
_TOLD_LINES = 3


class LoginDialog:
    """Call `heard` when output came and nothing more follows, `silent` when nothing came for a while, and do what they say.

    Each gets the lines that came since the last answer, as a terminal shows them, from the line on which that was typed:
    what a pager wiped away is gone. The last line is where the cursor stands. Where nothing came, it is an empty text.
    Whatever is pending from the previous user is left, never confirmed: a first silence is met by the key that empties a
    line, and only the next by Enter, as Enter alone could run a half-typed command or confirm a reload.
    """

    def __init__(self, layers: Sequence[Layer], answers: Sequence[Answer] = ()) -> None:
        """`layers`: the device is the last. `answers`: the caller's own, before those of the family."""
        self.credentials = Credentials(layers)
        self._platform = layers[-1].platform
        self._logins = tuple(layer.platform.login for layer in layers)
        self._graph = ModeGraph(self._platform)
        self._log = LogLines(self._platform)
        self._answers = tuple(answers)
        self._leaving: tuple[Answer, ...] = ()
        self._left: dict[str, int] = {}
        self._answered = self._enters = self._interrupts = 0
        self._cleared = False
        self._line = ""

    def heard(self, seen: str) -> Action:
        """What to do about what is shown."""
        lines = self._new(seen)
        return self._counted(self._answer(lines), lines)

    def silent(self, seen: str) -> Action:
        """What to do when nothing follows what is shown."""
        lines = self._new(seen)
        action = self._answer(lines)
        return self._counted(self._wake(lines) if action.kind == "wait" else action, lines)

    def closed(self) -> Action:
        """The far end hung up before the login was done."""
        if self.credentials.last_prompt:
            return self.credentials.refused("the far end closed the line; it last asked")
        return failed(ErrorCode.CONNECT_FAILED, "the far end closed the line before it asked for a login; try again later", "")

    def _new(self, seen: str) -> list[str]:
        """The lines that nothing was answered to yet. A CR repaints the line that was answered: it is no new prompt."""
        lines = seen.split("\n")
        if not self._answered:
            return lines
        return lines[1:] or ([""] if lines[0].rstrip() == self._line else lines)

    def _counted(self, action: Action, lines: list[str]) -> Action:
        if action.kind not in ("wait", "done", "failed"):
            self._answered += 1
            self._line = lines[-1].rstrip()
        if action.kind not in ("wait", "username", "secret"):
            self.credentials.let_through()
        if self._answered > _MOST_ANSWERS:
            return failed(
                ErrorCode.CONNECT_FAILED,
                f"no prompt came after {_MOST_ANSWERS} answers; look at what the console shows, and answer by hand",
                self.credentials.last_prompt,
            )
        return action

    def _answer(self, lines: list[str]) -> Action:
        if any_matches(self._platform.look_alikes, lines[-1]):
            return WAIT
        rules: tuple[Callable[[list[str]], Action | None], ...] = (
            self._question,
            self._new_password,
            self.credentials.asked,
            self._pager,
            self._prompt,
            self._pending_question,
            self._asleep,
        )
        return next((action for rule in rules if (action := rule(lines)) is not None), WAIT)

    def _question(self, lines: list[str]) -> Action | None:
        line = _last_text(lines)
        known = (answer for login in self._logins for answer in login.questions)
        for answer in (*self._answers, *self._leaving, *known):
            if answer.match.matches(line):
                if answer.secret is not None:
                    return Action("secret", secret=answer.secret, enter=answer.enter, layer=len(self._logins) - 1)
                return Action("answer", answer.send or "", enter=answer.enter)
        return None

    def _new_password(self, lines: list[str]) -> Action | None:
        asks = any(any_matches(login.password, lines[-1]) for login in self._logins)
        told = lines[-_TOLD_LINES:] if asks else lines[-1:]  # a plain "Enter Password:" may have it above
        if not any(any_matches(login.new_password, line) for login in self._logins for line in told):
            return None
        prompt = lines[-1].strip()
        why = f"the far end wants a new password ({prompt!r}), which is not ours to set; set it by hand"
        return failed(ErrorCode.AUTH_FAILED, why, prompt)

    def _pager(self, lines: list[str]) -> Action | None:
        for pager in self._platform.pagers:
            if pager.pattern.matches(lines[-1]):
                return key("quit_pager", pager.quit)
        return None

    def _prompt(self, lines: list[str]) -> Action | None:
        shown = self._graph.shown(lines)
        if shown is None:
            return ENTER if self._log.buried_prompt(lines) is not None else None
        return self._leave(shown.mode) or Action("done", enter=False, mode=shown.mode)

    def _leave(self, mode: str) -> Action | None:
        """The next command that leads out of a left-over configuration; None where it is none, or cannot be left."""
        way = self._graph.way_home(mode) if self._platform.modes[mode].config else ()
        if not way:
            return None
        move, done = way[0].move, self._left.get(mode, 0)
        if done == len(move.commands):
            why = f"a previous user's configuration is open and could not be left ({mode}); commit or drop it, then leave it"
            return Action("done", enter=False, mode=mode, why=why)
        self._left[mode] = done + 1
        self._leaving = move.dialog
        return Action("leave_mode", move.commands[done], enter=move.enter)

    def _pending_question(self, lines: list[str]) -> Action | None:
        """What somebody else was asked: Ctrl-C is no answer to it on any device."""
        if not any_matches(self._platform.confirmations, lines[-1]):
            return None
        if self._interrupts == _MOST_INTERRUPTS:
            prompt = lines[-1].strip()
            why = f"the console waits for an answer to {prompt!r}; answer it, then open it again"
            return failed(ErrorCode.CONNECT_FAILED, why, prompt)
        self._interrupts += 1
        return key("interrupt", self._platform.keys.interrupt)

    def _asleep(self, lines: list[str]) -> Action | None:
        return ENTER if any(any_matches(login.wake, _last_text(lines)) for login in self._logins) else None

    def _wake(self, lines: list[str]) -> Action:
        if self.credentials.let_through():
            self._cleared, self._enters = False, 0
        if not self._cleared or self._graph.typed_behind(lines) is not None:
            self._cleared = True
            return key("clear_line", self._platform.keys.clear_line)
        if self._enters < _MOST_ENTERS:
            self._enters += 1
            return ENTER
        return failed(
            ErrorCode.CONNECT_TIMEOUT,
            f"the console shows no prompt after {_MOST_ENTERS} Enters; is the device on, and the line rate right?",
            self.credentials.last_prompt,
        )


def _last_text(lines: list[str]) -> str:
    """The last line that is not blank: what waits for a key often has blank lines behind it."""
    return next((line for line in reversed(lines) if line.strip()), "")
