"""The login on a terminal whose channel has just opened: performs the actions of a `LoginDialog` with the known credentials."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from pydantic import SecretStr

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Platform, QuestionAnswer, SecretName
from ptyctl.session.io.errors import from_channel
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState
from transports.errors import ReceiverFailed

from .exchange import Exchange
from .login_dialog import Expected, LoginAction, LoginDialog, LoginLayer
from .prompt_wait import FIRST_PROMPT_WAIT_S

#: Limit of a whole login: every tool call returns within 55 s (docs/contracts.md).
LOGIN_LIMIT_S = 45.0
#: Silence after which output is examined (seconds).
OUTPUT_QUIET_S = 0.1
#: Settle time of a prompt (seconds): a banner may look like one, and the next command would be taken for a username. After the
#: device's password no other login follows, and `SETTLE_S` suffices.
PROMPT_STAYS_S = 0.3
#: How long a repeated prompt after a password must remain before the login has failed (seconds): it may be a repaint.
REFUSAL_STAYS_S = 1.0
#: Settle time of a line that is considered the prompt of a menu (seconds).
COLON_STAYS_S = 1.0
#: Successive silences after which a key is sent to wake the console (seconds); after the last one the login fails.
SILENCES_S = (1.0, 1.0, 2.0, 4.0, 8.0)
#: The encodings of devices that do not use UTF-8: Chinese, Japanese, Korean, Cyrillic, and those of Europe and Turkey.
_ENCODINGS = (
    *("gb18030", "big5", "shift_jis", "euc_jp", "cp949", "cp1251", "koi8_u", "cp866"),
    *("cp1252", "cp1250", "iso8859_2", "cp1254", "cp850", "cp852"),
)
#: A device that has not answered a password at all may wait for another Enter. It is pressed this long before the timeout
#: (seconds): while the password is being checked, Enter would count as another attempt.
LAST_ENTER_S = 10.0


@dataclass(frozen=True, slots=True)
class LoginAccount:
    """The answers to a username and a password prompt; None if not known."""

    username: str | None = None
    password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class LoginCredentials:
    """Credentials of a session for logins and for the privileged mode.

    Attributes:
        layers: the accounts of successive logins: a console server's, then the device's. Without any, the caller logs in.
        enable_secret: the secret for the privileged mode.
        answers: answers to questions before the first prompt.
        prepare: whether to turn paging off and widen the terminal after the login.
        only_if_asked: whether the terminal may need no login: then nothing is typed unless a question is shown.
        timeout_s: limit for the login with its preparation (seconds).
    """

    layers: tuple[LoginAccount, ...] = ()
    enable_secret: SecretStr | None = None
    answers: tuple[QuestionAnswer, ...] = ()
    prepare: bool = True
    only_if_asked: bool = False
    timeout_s: float = LOGIN_LIMIT_S

    def account(self, layer: int = -1) -> LoginAccount:
        """Return the account of a layer. The last layer is the device."""
        return self.layers[layer] if self.layers else LoginAccount()

    def secret(self, name: SecretName, layer: int = -1) -> SecretStr | None:
        return self.enable_secret if name == "enable" else self.account(layer).password


#: No credentials: nothing is typed.
NO_CREDENTIALS = LoginCredentials()


async def log_in(
    terminal: TerminalState, platform: Platform, server: Platform, credentials: LoginCredentials, *, new_terminal: bool = False
) -> LoginAction:
    """Log in from any state of the terminal up to a prompt of the device.

    Args:
        server: the platform of systems before the device that require a separate login, such as console servers.
        new_terminal: whether the terminal was made for this session, so that no previous user has left it.

    Returns:
        The last action: `done`, with the mode, or `left`.

    Raises:
        PtyctlError: AUTH_FAILED with the prompt shown last in `details`; CONNECT_FAILED, CONNECT_TIMEOUT.
    """
    platforms = [*(server for _ in credentials.layers[1:]), platform]
    layers = [
        LoginLayer(family, account.username is not None, account.password is not None)
        for family, account in zip(platforms, credentials.layers, strict=True)
    ]
    only_if_asked = credentials.only_if_asked
    dialog = LoginDialog(layers, credentials.answers, new_terminal=new_terminal, only_if_asked=only_if_asked)
    last = await _Login(terminal, dialog, credentials).run()
    if last.kind == "failed":
        raise PtyctlError(last.code or ErrorCode.CONNECT_FAILED, last.why, {"prompt": last.prompt}, hint=last.hint)
    return last


class _Login:
    def __init__(self, terminal: TerminalState, dialog: LoginDialog, credentials: LoginCredentials) -> None:
        self._terminal = terminal
        self._stream = terminal.stream
        self._dialog, self._prompts = dialog, dialog.credentials
        self._credentials = credentials
        self._deadline = terminal.now() + credentials.timeout_s
        self._exchange = Exchange(terminal)
        self._silences = iter(SILENCES_S)

    async def run(self) -> LoginAction:
        while (action := await self._next_action()).kind not in ("done", "left", "failed"):
            await self._perform(action)
        return action

    async def _next_action(self) -> LoginAction:
        remaining_s, examined = self._deadline - self._terminal.now(), -1
        silences_s: dict[Expected, float] = {
            "sleep": self._first_output_s(next(self._silences, SILENCES_S[-1])),
            "check": inf,
            "check_or_next": remaining_s / 2,
            "check_or_sleep": remaining_s - LAST_ENTER_S,
            "command": COLON_STAYS_S,
        }

        def look() -> tuple[Literal["output", "silence"], float]:
            if self._exchange.has_output and self._stream.raw_size != examined:
                return "output", ANSWER_S if self._password_follows_username() else OUTPUT_QUIET_S
            return "silence", silences_s[self._dialog.expected(self._output())]

        while (end := await self._exchange.settled(look, self._deadline)) == "output":
            examined, action = self._stream.raw_size, self._dialog.heard(self._output())
            if action.kind == "wait" or not await self._stays(action):
                continue
            self._silences = iter(SILENCES_S)
            return action
        if end == "silence":
            return self._dialog.silent(self._output())
        if isinstance(self._stream.ended, ReceiverFailed):
            raise from_channel(self._stream.ended)
        if self._stream.ended is not None:
            return self._dialog.closed(self._output())
        what = f"no prompt was shown within {self._credentials.timeout_s:g} s"
        return self._dialog.timed_out(self._output(), what)

    def _output(self) -> str:
        """Return the output since the last action; if it is not UTF-8, in an encoding in which it has the words of a login."""
        output = self._exchange.output()
        if "\ufffd" not in output:
            return output
        decoded = (self._exchange.output(encoding) for encoding in _ENCODINGS)
        return next(filter(self._dialog.is_about_login, decoded), output)

    def _first_output_s(self, silence_s: float) -> float:
        """Return the silence after which a terminal that may need no login is left: longer before its first output."""
        waits = self._credentials.only_if_asked and not self._exchange.has_output
        return max(silence_s, FIRST_PROMPT_WAIT_S) if waits else silence_s

    def _password_follows_username(self) -> bool:
        """Return whether the password prompt is directly below the complete echo of the username."""
        lines = self._exchange.lines_below_echo()
        return lines is not None and len(lines) == 1 and self._prompts.expects_password(lines[0])

    async def _stays(self, action: LoginAction) -> bool:
        """Wait out the settle time of a final action; return whether no output has arrived. Other actions need no wait."""
        if action.kind not in ("done", "failed"):
            return True
        size, stays_s = self._stream.raw_size, SETTLE_S if self._prompts.password_sent else PROMPT_STAYS_S
        until = self._stream.last_data + (stays_s if action.kind == "done" else REFUSAL_STAYS_S)
        while self._stream.raw_size == size and self._stream.ended is None and self._terminal.now() < until:
            await self._stream.wait(until)
        return self._stream.raw_size == size

    async def _perform(self, action: LoginAction) -> None:
        secret = self._secret(action)
        text = action.text if secret is None else secret.get_secret_value()
        if action.kind == "username":
            text = f"{self._credentials.account(action.layer).username}{action.text}"
        echo = text if action.kind == "username" else ""
        try:
            await self._exchange.type(text, enter=action.enter, secret=secret is not None, echo=echo)
        except PtyctlError as error:
            if self._stream.ended is None:
                raise
            raise PtyctlError(ErrorCode.CONNECT_FAILED, f"the login was interrupted: {error.message}") from None

    def _secret(self, action: LoginAction) -> SecretStr | None:
        if action.secret is None:
            return None
        secret = self._credentials.secret(action.secret, action.layer)
        if secret is None:
            raise PtyctlError(
                ErrorCode.AUTH_FAILED,
                f"the device asks for the {action.secret} secret, and none is known",
                hint="give the secret and open the session again",
            )
        return secret
