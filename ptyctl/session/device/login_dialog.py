"""The decisions of a login: computes the next input from the output of a terminal. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ptyctl.api.errors import ErrorCode
from ptyctl.platforms import UNKNOWN_DEVICE, ModeGraph, Platform, QuestionAnswer, SecretName
from ptyctl.platforms.pattern import Pattern, any_matches
from ptyctl.platforms.platform import LoginPatterns

from .output_end import classify

#: Number of username prompts after which the login fails. A password is typed once: repeated attempts lock an account on many
#: devices.
_MAX_USERNAMES = 3
#: Limit of the answers in one login: twice the number for two layers, a setup dialogue, a pager and an abandoned mode.
_MAX_ANSWERS = 40
#: Limits of the Enters that wake a console, and of the Ctrl-Cs that leave a question.
_MAX_ENTERS = 3
_MAX_INTERRUPTS = 2
#: Number of last lines in which the device may explain which password it asks for.
_EXPLANATION_LINES = 3

#: Expected state of a silent far end. "sleep": it waits for a key. "check": it checks the typed credential, so that nothing is
#: typed until it answers. "check_or_next": the same, or the next system waits for a key. "check_or_sleep": the same, or it
#: waits for another Enter. "command": it may show a prompt of an unknown form.
Expected = Literal["sleep", "check", "check_or_next", "check_or_sleep", "command"]
ActionKind = Literal[
    "wait",  # nothing to answer yet
    "username",  # the layer's, followed by `text`
    "secret",  # the layer's, named by `secret`
    "enter",
    "answer",  # `text`, to a question
    "clear_line",  # the key in `text`
    "interrupt",  # the key in `text`
    "quit_pager",  # the key in `text`
    "leave_mode",  # the command in `text`
    "done",  # at a prompt of `mode`, or at one of no known mode
    "left",  # nothing was typed, because nothing was asked that the session can answer: the caller answers it
    "failed",
]


@dataclass(frozen=True, slots=True)
class LoginAction:
    """The next input of a login, or the end of the login.

    Attributes:
        enter: whether Enter follows the input.
        mode: the mode of the device after the login, if `kind` is "done"; None at a prompt that the platform does not have.
        why, hint: explain a failure, or are a notice for the caller after the login.
        prompt: the last prompt that was shown.
    """

    kind: ActionKind
    text: str = ""
    enter: bool = True
    secret: SecretName | None = None
    layer: int = 0
    mode: str | None = None
    why: str = ""
    hint: str | None = None
    code: ErrorCode | None = None
    prompt: str = ""


#: The prompt of a menu.
_MENU = Pattern.of(r"(?i)^[^:\n]*\b(?:menu|select|selection|choose|choice|option|command)\b[^:\n]*:\s*$")
_OTHER_FAMILY = "the prompt {!r} is none of {}: its commands for paging and width were not typed"
_WAIT = LoginAction("wait", enter=False)
_ENTER = LoginAction("enter")


def _key(kind: ActionKind, text: str) -> LoginAction:
    return LoginAction(kind, text, enter=False)


def _failed(code: ErrorCode, why: str, prompt: str, hint: str) -> LoginAction:
    return LoginAction("failed", enter=False, code=code, why=why, hint=hint, prompt=prompt)


@dataclass(frozen=True, slots=True)
class LoginLayer:
    """One of successive logins, such as a console server's and the device's. `username`, `password`: whether they are known."""

    platform: Platform
    username: bool = False
    password: bool = False


class CredentialPrompts:
    """Decides which credential a prompt asks for, or that the login was refused. It holds no credentials."""

    def __init__(self, layers: Sequence[LoginLayer]) -> None:
        self._layers = layers
        self._at = 0
        self._usernames = 0
        self._refusable = False  # whether a repeated prompt is a refusal: a password was typed for our username
        self._sent: Literal["username", "password"] | None = None
        self._checked = False  # whether the reply to that input is awaited
        self.last_prompt = ""

    @property
    def password_sent(self) -> bool:
        """Whether the password of the last layer was typed, so that no other login follows."""
        return self._sent == "password" and self._at + 1 == len(self._layers)

    def accepted(self) -> bool:
        """Record that silence, or output without a login prompt, followed a password. Return whether the next layer begins."""
        self._checked = False
        begins_next = self._sent == "password" and self._at + 1 < len(self._layers)
        if begins_next:
            self._next_layer()
        return begins_next

    def expected(self, lines: Sequence[str]) -> Expected:
        """Return the expected state of a far end that is silent after these lines."""
        if not self._checked:
            return "sleep"
        if self._sent == "username":
            return "check"
        answered, is_last = any(line.strip(" *") for line in lines), self._at + 1 == len(self._layers)
        if answered:
            return "check" if is_last else "sleep"
        return "check_or_sleep" if is_last else "check_or_next"

    def has_failure(self, lines: Sequence[str]) -> bool:
        """Return whether a line is the message of a refused login."""
        return any(any_matches(self._patterns.failures, line) for line in lines)

    def expects_password(self, line: str) -> bool:
        """Return whether a line asks for the password of the username that was sent last."""
        return self._sent == "username" and any_matches(self._patterns.password, line)

    def answer(self, lines: Sequence[str]) -> LoginAction | None:
        """Return the answer if the last line asks for a username or a password. `lines`: all lines since the last answer."""
        login = self._patterns
        if any_matches(login.password, lines[-1]):
            return self._send("password", lines)
        return self._send("username", lines) if any_matches(login.username, lines[-1]) else None

    def refused(self, how: str) -> LoginAction:
        """Return the failure of a refused login, with the last prompt. `how` precedes the prompt in the message."""
        why = f"the login was refused: {how} {self.last_prompt!r}"
        return _failed(ErrorCode.AUTH_FAILED, why, self.last_prompt, f"check the credentials of {self._system()}")

    @property
    def _layer(self) -> LoginLayer:
        return self._layers[self._at]

    @property
    def _patterns(self) -> LoginPatterns:
        return self._layer.platform.login

    def _send(self, what: Literal["username", "password"], lines: Sequence[str]) -> LoginAction:
        if self._sent == "password" and self._is_next_layer(lines):
            self._next_layer()
        self.last_prompt = lines[-1].strip()
        if self._sent == "password" and (what == "password" or self._refusable):
            return self.refused("the far end asks again,")
        if what == "username" and self._usernames == _MAX_USERNAMES:
            return self.refused(f"after {_MAX_USERNAMES} usernames the far end asks again,")
        known = self._layer.username if what == "username" else self._layer.password
        if not known:
            why = f"the far end asks {self.last_prompt!r}, and {self._system()} has no {what}"
            return _failed(ErrorCode.AUTH_FAILED, why, self.last_prompt, f"give the {what} and open the session again")
        # A previous user may have left the first password prompt; the device asks for the username after it.
        self._refusable = self._sent == "username" or not self._layer.username
        self._sent, self._checked = what, True
        if what == "username":
            self._usernames += 1
            return LoginAction("username", self._patterns.username_suffix, layer=self._at)
        return LoginAction("secret", secret="password", layer=self._at)

    def _is_next_layer(self, lines: Sequence[str]) -> bool:
        """Return whether the prompt after a password is that of the next system.

        After a refusal there is an error message, or only the prompt again; any other text is the greeting of the next system.
        """
        if self._at + 1 == len(self._layers):
            return False
        texts = [line for line in lines[:-1] if line.strip()]
        return bool(texts) and not self.has_failure(texts)

    def _next_layer(self) -> None:
        self._at += 1
        self._usernames, self._sent, self._checked = 0, None, False

    def _system(self) -> str:
        return "the console server" if self._at + 1 < len(self._layers) else "the device"


class LoginDialog:
    """The state of a login. Call `heard` when output has settled, `silent` after a silence, and perform the returned action.

    Both take the output since the last action as a terminal shows it, beginning with the line in which the action was typed;
    an empty text if nothing was received. The cursor is in the last line.
    Input and questions of a previous user are abandoned and never confirmed: the line is cleared after the first silence, and
    Enter is pressed only after the next, because Enter alone might run a half-typed command or confirm a reload.
    In a new terminal there is no previous user: nothing at all is typed at a question that is not known.
    """

    def __init__(
        self,
        layers: Sequence[LoginLayer],
        answers: Sequence[QuestionAnswer] = (),
        *,
        new_terminal: bool = False,
        only_if_asked: bool = False,
    ) -> None:
        """Create the dialog. The last of `layers` is the device. `answers` of the caller precede those of the platform.

        Args:
            new_terminal: whether the terminal was made for this session, as over SSH: no previous user has left it.
            only_if_asked: whether to end the dialog, as "left", unless something is asked first that can be answered.
        """
        self.credentials = CredentialPrompts(layers)
        self._platform = layers[-1].platform
        self._profile, self._keys = self._platform.profile, self._platform.keys
        self._logins = tuple(layer.platform.login for layer in layers)
        self._graph = ModeGraph(self._platform)
        self._answers = tuple(answers)
        self._new_terminal, self._only_if_asked = new_terminal, only_if_asked
        self._leave_answers: tuple[QuestionAnswer, ...] = ()
        self._leave_commands: dict[str, int] = {}
        self._answered = self._enters = self._interrupts = 0
        self._cleared = False
        self._line = ""

    def is_about_login(self, output: str) -> bool:
        """Return whether the last line asks for a credential, or a line refuses one. Tells in which encoding the output is."""
        lines = self._unanswered(output)
        asked = (pattern for login in self._logins for pattern in (*login.username, *login.password, *login.new_password))
        return any_matches(tuple(asked), lines[-1]) or self.credentials.has_failure(lines)

    def heard(self, output: str) -> LoginAction:
        """Return the action for this output."""
        lines = self._unanswered(output)
        return self._counted(self._action(lines), lines)

    def expected(self, output: str) -> Expected:
        """Return the expected state of a far end that is silent after this output."""
        lines = self._unanswered(output)
        if self._may_be_prompt(lines) or self._is_prompt_of_other_family(lines):
            return "command"
        return "sleep" if self._profile.prompt_before_text(lines) is not None else self.credentials.expected(lines)

    def silent(self, output: str) -> LoginAction:
        """Return the action for silence after this output; a failure if a credential is still being checked."""
        lines = self._unanswered(output)
        action = self._action(lines)
        if self._may_be_prompt(lines):
            return LoginAction("done", enter=False, mode=self._platform.home[0])
        if self._is_prompt_of_other_family(lines):
            return LoginAction("done", enter=False, why=_OTHER_FAMILY.format(lines[-1], self._platform.title))
        if action.kind == "wait" and self.expected(output) == "check":
            return self.timed_out(output, "the far end is silent")
        if action.kind == "wait" and self._only_if_asked and not self._answered:
            return LoginAction("left", enter=False)
        return self._counted(self._wake(lines) if action.kind == "wait" else action, lines)

    def timed_out(self, output: str, what: str) -> LoginAction:
        """Return the failure for a timeout, which `what` describes."""
        lines = self._unanswered(output)
        if self.credentials.has_failure(lines):
            return self.credentials.refused(f"the far end shows {_last_text(lines).strip()!r}; it last asked")
        prompt = _last_text(lines).strip()
        why = f"{what}; the last line is {prompt!r}"
        if self.credentials.expected(lines) != "sleep":
            why = f"{what}, and did not answer {self.credentials.last_prompt!r}"
        return _failed(ErrorCode.CONNECT_TIMEOUT, why, prompt, "log in by hand, or allow more time for the connection")

    def closed(self, output: str) -> LoginAction:
        """Return the failure of a login during which the far end closes the connection."""
        if self.credentials.last_prompt:
            return self.credentials.refused("the far end closed the line; it last asked")
        why, prompt = "the far end closed the line before it asked for a login", _last_text(self._unanswered(output)).strip()
        if prompt:
            why = f"{why}; the last line is {prompt!r}"
        return _failed(ErrorCode.CONNECT_FAILED, why, prompt, "try again later")

    def _unanswered(self, output: str) -> list[str]:
        """Return the lines that were not answered yet. A line that a CR repaints after its answer is not a new prompt."""
        lines = output.split("\n")
        if not self._answered:
            return lines
        return lines[1:] or ([""] if lines[0].rstrip() == self._line else lines)

    def _counted(self, action: LoginAction, lines: list[str]) -> LoginAction:
        if action.kind == "failed" and self._only_if_asked and not self._answered:
            return LoginAction("left", enter=False, why=f"nothing was typed: {action.why}")
        if action.kind not in ("wait", "done", "failed"):
            self._answered += 1
            self._line = lines[-1].rstrip()
        if action.kind not in ("wait", "username", "secret"):
            self.credentials.accepted()
        if self._answered > _MAX_ANSWERS:
            why = f"no prompt was shown after {_MAX_ANSWERS} answers"
            hint = "look at what the console shows, and answer by hand"
            return _failed(ErrorCode.CONNECT_FAILED, why, self.credentials.last_prompt, hint)
        return action

    def _action(self, lines: list[str]) -> LoginAction:
        if any_matches(self._platform.look_alikes, lines[-1]):
            return _WAIT
        rules: tuple[Callable[[list[str]], LoginAction | None], ...] = (
            self._known_question,
            self._new_password,
            self.credentials.answer,
            self._output_end,
            self._asleep,
        )
        return next((action for rule in rules if (action := rule(lines)) is not None), _WAIT)

    def _known_question(self, lines: list[str]) -> LoginAction | None:
        line = _last_text(lines)
        known = (answer for login in self._logins for answer in login.questions)
        answer = next((one for one in (*self._answers, *self._leave_answers, *known) if one.match.matches(line)), None)
        if answer is None:
            return None
        if answer.secret is not None:
            return LoginAction("secret", secret=answer.secret, enter=answer.enter, layer=len(self._logins) - 1)
        return LoginAction("answer", answer.send or "", enter=answer.enter)

    def _new_password(self, lines: list[str]) -> LoginAction | None:
        asks = any(any_matches(login.password, lines[-1]) for login in self._logins)
        texts = lines[-_EXPLANATION_LINES:] if asks else lines[-1:]  # "Enter Password:" may be explained above
        if not any(any_matches(login.new_password, line) for login in self._logins for line in texts):
            return None
        prompt = lines[-1].strip()
        why = f"the far end wants a new password ({prompt!r}), which ptyctl never sets"
        return _failed(ErrorCode.AUTH_FAILED, why, prompt, "set it by hand")

    def _output_end(self, lines: list[str]) -> LoginAction | None:
        end = classify(lines, self._profile)
        if end.pager is not None:  # words of other families' pagers may ask for a key before the login
            is_own = any(pager.pattern.matches(lines[-1]) for pager in self._platform.pagers)
            return (None if is_own else self._asleep(lines)) or _key("quit_pager", end.pager.quit)
        if end.prompt is not None:
            return self._leave(end.prompt.mode) or LoginAction("done", enter=False, mode=end.prompt.mode)
        if end.kind == "buried_prompt":
            return _ENTER
        return self._pending_question(lines) if end.kind == "confirmation" else None

    def _leave(self, mode: str) -> LoginAction | None:
        """Return the next command that leaves a configuration mode; None in another mode, or if no transition leaves it."""
        path = self._graph.path_home(mode) if self._platform.modes[mode].config else ()
        if not path:
            return None
        transition, done = path[0].transition, self._leave_commands.get(mode, 0)
        if done == len(transition.commands):
            why = f"a previous user's configuration is open and could not be left ({mode}); commit or drop it, then leave it"
            return LoginAction("done", enter=False, mode=mode, why=why)
        self._leave_commands[mode] = done + 1
        self._leave_answers = transition.dialog
        return LoginAction("leave_mode", transition.commands[done], enter=transition.enter)

    def _pending_question(self, lines: list[str]) -> LoginAction:
        """Leave a previous user's question with the interrupt key, which is no answer on any device."""
        if self._new_terminal:
            return self._unknown_question(lines)
        if self._interrupts == _MAX_INTERRUPTS:
            prompt = lines[-1].strip()
            why = f"the console waits for an answer to {prompt!r}"
            return _failed(ErrorCode.CONNECT_FAILED, why, prompt, "answer it, then open the session again")
        self._interrupts += 1
        return _key("interrupt", self._keys.interrupt)

    def _unknown_question(self, lines: list[str]) -> LoginAction:
        """Return the failure at a question that neither the platform nor the caller has an answer to."""
        prompt = _last_text(lines).strip()
        why = f"the far end asks {prompt!r}, to which no answer is known; nothing was typed"
        hint = "add the question and its answer to the login of the device in the inventory, or log in by hand"
        return _failed(ErrorCode.CONNECT_FAILED, why, prompt, hint)

    def _is_prompt_of_other_family(self, lines: list[str]) -> bool:
        """Return whether the last line, if no output follows, is a prompt of a common form that the platform does not have.

        It follows the device's password: the login has succeeded, on a device of another family than the one named.
        """
        return (
            self._platform.describes_prompts
            and self.credentials.password_sent
            and UNKNOWN_DEVICE.is_prompt(lines[-1])
            and not self._profile.asks(lines[-1])
            and not self.credentials.has_failure(lines)
            and self._action(lines).kind == "wait"
        )

    def _may_be_prompt(self, lines: list[str]) -> bool:
        """Return whether the last line, if no output follows, is the prompt of a menu ("Menu [1-9]: ").

        Such a line contains a menu word, is not a question, and follows the device's password or is repeated after Enter. Any
        other line that ends in a colon may ask for a credential: a command would be a failed attempt.
        """
        line = lines[-1].rstrip()
        return (
            _MENU.matches(line)
            and not self._platform.describes_prompts
            and (self.credentials.password_sent or (self._enters > 0 and line == self._line))
            and not self._profile.asks(line)
            and not self.credentials.has_failure(lines)
            and self._action(lines).kind == "wait"
        )

    def _asleep(self, lines: list[str]) -> LoginAction | None:
        return _ENTER if any(any_matches(login.wake, _last_text(lines)) for login in self._logins) else None

    def _wake(self, lines: list[str]) -> LoginAction:
        if self.credentials.accepted():
            self._cleared, self._enters = False, 0
        if self._new_terminal:
            if self._profile.may_ask(_last_text(lines)):
                return self._unknown_question(lines)
        elif not self._cleared or self._profile.prompt_before_text(lines) is not None:
            self._cleared = True
            return _key("clear_line", self._keys.clear_line)
        if self._enters < _MAX_ENTERS:
            self._enters += 1
            return _ENTER
        why = f"the console shows no prompt after {_MAX_ENTERS} Enters"
        hint = "check that the device is on, and the line rate"
        return _failed(ErrorCode.CONNECT_TIMEOUT, why, self.credentials.last_prompt, hint)


def _last_text(lines: list[str]) -> str:
    """Return the last line that is not blank: blank lines often follow a text that waits for a key."""
    return next((line for line in reversed(lines) if line.strip()), "")
