"""The login on a terminal, right after its channel opened: it does what a LoginDialog says."""

from __future__ import annotations

from pydantic import SecretStr

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Action, Layer, LoginDialog, Platform
from ptyctl.session.io.gate import SYSTEM, SYSTEM_SECRET
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .accounts import Account, Accounts
from .seen import Seen

#: What is shown is looked at when nothing follows for so long; a prompt must stay longer, since a banner may look like one, and
#: a command would be taken for a name. Behind the password no other login comes.
QUIET_S = 0.1
PROMPT_STAYS_S = 0.3
#: So long nothing may come before something is typed to see who is there; longer each time, as a server that checks a
#: password elsewhere may take its time. The last one is the end of the patience.
SILENCES_S = (1.0, 1.0, 2.0, 4.0, 8.0)


async def log_in(terminal: TerminalState, platform: Platform, server: Platform, accounts: Accounts) -> Action:
    """From whatever the terminal shows to a prompt of the device; the last action, `done`, has its mode.

    Args:
        server: the family of what is in front of the device, with logins of its own: a console server.

    Raises:
        PtyctlError: AUTH_FAILED with the prompt that came back in `details`; CONNECT_FAILED, CONNECT_TIMEOUT.
    """
    families = [*(server for _ in accounts.layers[1:]), platform]
    layers = [_layer(family, account) for family, account in zip(families, accounts.layers, strict=True)]
    last = await _Login(terminal, LoginDialog(layers, accounts.answers), accounts).run()
    if last.kind == "failed":
        raise PtyctlError(last.code or ErrorCode.CONNECT_FAILED, last.why, {"prompt": last.prompt})
    return last


def _layer(family: Platform, account: Account) -> Layer:
    return Layer(family, account.username is not None, account.password is not None)


class _Login:
    """One login; what it types goes out as the session's own."""

    def __init__(self, terminal: TerminalState, dialog: LoginDialog, accounts: Accounts) -> None:
        self._terminal = terminal
        self._stream = terminal.stream
        self._dialog = dialog
        self._accounts = accounts
        self._deadline = terminal.now() + accounts.timeout_s
        self._seen = Seen(self._stream, self._stream.incarnation_raw)
        self._typed_at = terminal.now()
        self._name = ""
        self._silences = iter(SILENCES_S)

    async def run(self) -> Action:
        while (action := await self._next()).kind not in ("done", "failed"):
            await self._type(action)
        return action

    async def _next(self) -> Action:
        """What is to be done now."""
        silence_s, heard = self._longer(), -1
        while self._terminal.now() < self._deadline:
            size, due = self._stream.raw_size, self._last_event() + silence_s
            if self._stream.ended is not None:
                return self._dialog.closed()
            if self._seen.something and size != heard:
                due = self._stream.last_data + (ANSWER_S if self._password_follows() else QUIET_S)
                if self._terminal.now() >= due and await self._terminal.nothing_more():
                    heard, action = size, self._dialog.heard(self._seen.text())
                    if action.kind == "done" and not await self._stays():
                        continue
                    if action.kind != "wait":
                        self._silences = iter(SILENCES_S)
                        return action
                    continue
            elif self._terminal.now() >= due:
                return self._dialog.silent(self._seen.text())
            await self._stream.signal.wait(min(due, self._deadline))
        return self._gave_up()

    def _longer(self) -> float:
        return next(self._silences, SILENCES_S[-1])

    def _last_event(self) -> float:
        return max(self._stream.last_data, self._typed_at)

    def _password_follows(self) -> bool:
        """Whether its prompt stands directly below the whole echo of the name: it can be nothing else."""
        typed_on, *lines = self._seen.text().split("\n") if self._name else ("",)
        return len(lines) == 1 and typed_on.endswith(self._name) and self._dialog.credentials.wants_password(lines[0])

    async def _stays(self) -> bool:
        """Whether the prompt stays the end of the output."""
        stays_s = SETTLE_S if self._dialog.credentials.given else PROMPT_STAYS_S
        size, until = self._stream.raw_size, self._stream.last_data + stays_s
        while self._stream.raw_size == size and self._terminal.now() < until:
            await self._stream.signal.wait(until)
        return self._stream.raw_size == size

    async def _type(self, action: Action) -> None:
        secret = self._secret(action)
        text = action.text if secret is None else secret.get_secret_value()
        self._name = ""
        if action.kind == "username":
            text = self._name = f"{self._accounts.layers[action.layer].username}{action.text}"
        writer = SYSTEM if secret is None else SYSTEM_SECRET
        self._seen.typed()
        try:
            if action.enter:
                await self._terminal.gate.type(text + "\n", writer)
            else:
                await self._terminal.gate.write(text.encode(), writer)
        except PtyctlError as error:
            if self._stream.ended is None:
                raise
            raise PtyctlError(ErrorCode.CONNECT_FAILED, f"the login was cut short: {error.message}") from None
        self._typed_at = self._terminal.now()

    def _secret(self, action: Action) -> SecretStr | None:
        if action.kind != "secret":
            return None
        known = self._accounts.enable_secret if action.secret == "enable" else self._accounts.layers[action.layer].password
        if known is None:
            raise PtyctlError(
                ErrorCode.AUTH_FAILED,
                f"the device asks for the {action.secret} secret, and none is known; name it, and open again",
            )
        return known

    def _gave_up(self) -> Action:
        shown = self._seen.text().split("\n")[-1].strip()
        why = f"no prompt came within {self._accounts.timeout_s:g} s; {shown!r} is shown last: log in by hand"
        return Action("failed", enter=False, code=ErrorCode.CONNECT_TIMEOUT, why=why, prompt=shown)
