"""Lines that the session types at a device's prompt by itself: on the way to a mode, to save, to turn paging off."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Answer, LogLines, ModeGraph, Platform, Shown
from ptyctl.platforms.command import USERNAME
from ptyctl.platforms.pattern import any_matches
from ptyctl.session.io.gate import SYSTEM, SYSTEM_SECRET, Writer
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .seen import Seen, lines_before

#: A question, and a pager, stays the end of the output for so long; a prompt that is new for longer, as output may look like
#: one.
QUIET_S = 0.1
#: Nothing comes for so long: the device takes the line, and shows no prompt.
PATIENCE_S = 15.0
#: So many keys leave a question that was not answered: an interrupt, then Enter as often as a secret is asked for.
_MOST_LEAVING = 4
#: A line that is silent for so long is asked for its prompt.
SILENT_S = 1.0

#: What the end of the output waits for: a command, an answer, a CR that brings the prompt back from behind log lines, nothing.
Waiting = Literal["prompt", "question", "log", "silence"]
#: What ended a line: the prompt; a question that nobody here answers; a secret that was refused, or is not known; silence.
Outcome = Literal["prompt", "question", "refused", "unknown_secret", "silence"]


@dataclass(frozen=True, slots=True)
class Said:
    """What the device said to a line, without its echo and the prompt; `asked` is the last question, `secret` that a secret
    was typed."""

    outcome: Outcome
    lines: tuple[str, ...] = ()
    shown: Shown | None = None
    asked: str = ""
    secret: bool = False

    @property
    def text(self) -> str:
        """In one line, for a message."""
        return " / ".join(line.strip() for line in self.lines if line.strip()) or "nothing"


class CommandLine:
    """The command line of one device, typed at as the session itself: what it has begun it ends, whoever has the lock by then.

    `enable_secret` is what its dialogues may ask for, `username` and `password` those of the login.
    """

    def __init__(
        self,
        terminal: TerminalState,
        platform: Platform,
        enable_secret: SecretStr | None = None,
        password: SecretStr | None = None,
        username: str | None = None,
    ) -> None:
        self.platform = platform
        self.graph = ModeGraph(platform)
        self._terminal = terminal
        self._log = LogLines(platform)
        self._username = username or ""
        self._secrets = {"enable": enable_secret, "password": password}

    def shown(self, raw_end: int | None = None) -> Shown | None:
        """The prompt at the end of what came, or at an offset of it."""
        stream = self._terminal.stream
        end = stream.raw_size if raw_end is None else raw_end
        return self.graph.shown(lines_before(stream, end, stream.incarnation_raw))

    def knows(self, dialog: Sequence[Answer]) -> bool:
        """Whether all that a dialogue may ask for is known."""
        return all(answer.secret is None or self._secrets[answer.secret] is not None for answer in dialog)

    async def run(
        self,
        line: str,
        dialog: Sequence[Answer],
        *,
        enter: bool = True,
        quits: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> Said:
        """Types one line, answers what `dialog` knows, each question once, and comes back with the prompt or what else came.

        Args:
            quits: leave a pager; otherwise all pages are read.
            patience_s: so long nothing may come.

        Raises:
            PtyctlError: REMOTE_CLOSED.
        """
        seen, said, answered, asked = self._typing(), list[str](), set[Answer](), ""
        await self._type(line, enter)
        echo = line if enter else ""
        while (ended := await self._ended(seen, dialog, patience_s, echo)) != "silence":
            lines, echo = seen.new_lines(), ""
            secret = any(answer.secret for answer in answered)
            if ended == "prompt":
                shown = self._at_prompt(lines)
                return Said("prompt", (*said, *self._output(lines[: len(lines) - shown.lines])), shown, asked, secret)
            said += lines[:-1]
            key = self._key(lines, quits)
            if key is not None:
                seen.typed()
                await self._type(key, enter=False)
                continue
            asked = lines[-1].strip()
            answer = next((one for one in dialog if one.match.matches(lines[-1])), None)
            outcome = self._unanswered(answer, answered)
            if outcome is not None or answer is None:
                return Said(outcome or "question", tuple(said), None, asked, secret)
            answered.add(answer)
            seen.typed()
            await self._answer(answer)
        return Said("silence", (*said, *seen.new_lines()), None, asked)

    async def prompt(self) -> Shown:
        """The prompt that is there, once it has settled; a silent line is asked for it with one Enter.

        Raises:
            PtyctlError: BUSY, where a question waits for somebody's answer; IO_ERROR, where no prompt comes.
        """
        known = self.shown()
        if known is not None and self._known_prompt():
            return known
        seen = Seen(self._terminal.stream, self._terminal.stream.incarnation_raw)
        ended = await self._ended(seen, (), SILENT_S)
        if ended == "prompt":
            return self._at_prompt(seen.new_lines())
        last = seen.new_lines()[-1].strip()
        if ended == "question" and self._key(seen.new_lines(), quits=True) is None:
            raise PtyctlError(ErrorCode.BUSY, f"the device waits for an answer to {last!r}; give it, or press ctrl_c, first")
        key = self._key(seen.new_lines(), quits=True) if ended == "question" else None
        said = await self.run(key or "", (), enter=key is None, quits=True)
        if said.shown is None:
            told = f"it shows {last!r}" if last else "it shows nothing"
            raise PtyctlError(ErrorCode.IO_ERROR, f"no prompt of {self.platform.title} came; {told}: look at the screen")
        return said.shown

    async def leave(self, *, enters: bool = False) -> Shown | None:
        """Leaves a question without an answer to it; the prompt that is there then, or None where it stays.

        Args:
            enters: press Enter where an interrupt does not help, as after a wrong password: some devices then hang up.
        """
        seen = self._typing()
        with suppress(PtyctlError):
            await self._type(self.platform.keys.interrupt, enter=False)
            for _ in range(_MOST_LEAVING):
                if await self._ended(seen, (), SILENT_S) == "prompt":
                    return self._at_prompt(seen.new_lines())
                if not enters or any_matches(self.platform.confirmations, seen.text().split("\n")[-1]):
                    return None  # an Enter could confirm it, or count as a wrong password
                seen.typed()
                await self._type("", enter=True)
        return None

    @property
    def closed(self) -> bool:
        """Whether the far end has hung up."""
        return self._terminal.stream.ended is not None

    def _at_prompt(self, lines: list[str]) -> Shown:
        shown = self.graph.shown(lines)
        assert shown is not None
        self._terminal.prompt.learn(self._terminal.last_line())
        return shown

    def _output(self, lines: list[str]) -> list[str]:
        """Lines above a prompt, without an earlier one that the device's log had pushed away."""
        buried = self._log.buried_prompt(lines)
        if buried is None:
            return lines
        begin = max(at for at, line in enumerate(lines) if line.startswith(buried.shown.prompt.rstrip()))
        return lines[: begin + 1 - buried.shown.lines]

    def _unanswered(self, answer: Answer | None, answered: set[Answer]) -> Outcome | None:
        """Why a question gets no answer, if so."""
        if answer is None:
            return "question"
        if answer in answered:
            return "refused"
        return "unknown_secret" if not self.knows((answer,)) else None

    def _typing(self) -> Seen:
        seen = Seen(self._terminal.stream, self._terminal.stream.incarnation_raw)
        seen.typed()
        return seen

    async def _type(self, text: str, enter: bool, writer: Writer = SYSTEM) -> None:
        if enter:
            await self._terminal.gate.type(text + "\n", writer)
        else:
            await self._terminal.gate.write(text.encode(), writer)

    async def _answer(self, answer: Answer) -> None:
        secret = self._secrets[answer.secret] if answer.secret is not None else None
        send = (answer.send or "").replace(USERNAME, self._username)
        text = send if secret is None else secret.get_secret_value()
        await self._type(text, answer.enter, SYSTEM if secret is None else SYSTEM_SECRET)

    async def _ended(self, seen: Seen, dialog: Sequence[Answer], patience_s: float = PATIENCE_S, echo: str = "") -> Waiting:
        """Waits until what came since the last text was typed ends in a prompt, or waits for an answer, or nothing comes.
        `echo` is that text, where it is shown."""
        terminal, stream = self._terminal, self._terminal.stream
        since, brought_back = terminal.now(), 0
        while stream.ended is None:
            waits = self._waits_for(seen.new_lines(), dialog)
            if waits == "log" and brought_back == stream.raw_size:
                waits = "silence"
            stays_s = self._stays_s(waits, patience_s)
            if echo and self._answers(seen, echo, waits, dialog):
                stays_s = min(stays_s, ANSWER_S)
            due = max(stream.last_data, since) + stays_s
            if terminal.now() < due or not await terminal.nothing_more():
                await stream.signal.wait(due)
            elif waits != "log":
                return waits
            else:  # a single CR brings the prompt back
                brought_back, since = stream.raw_size, terminal.now()
                await self._type("", enter=True)
        raise PtyctlError(
            ErrorCode.REMOTE_CLOSED, f"the far end closed the line: {stream.ended.message}; open the session again"
        )

    def _answers(self, seen: Seen, echo: str, waits: Waiting, dialog: Sequence[Answer]) -> bool:
        """Whether the very prompt that was there before, or a question of the dialogue, stands directly below the whole echo:
        the device has said all that it has to say. Output and log lines would stand between."""
        typed_on, *lines = seen.text().split("\n")
        shown = self.graph.shown(lines) if waits == "prompt" and self._known_prompt() else None
        between = lines[: -shown.lines] if shown is not None else lines[:-1]
        if not typed_on.endswith(echo) or any(line.strip() for line in between):
            return False
        return shown is not None or (waits == "question" and any(one.match.matches(lines[-1]) for one in dialog))

    def _known_prompt(self) -> bool:
        return self._terminal.last_line() == self._terminal.prompt.learned

    def _stays_s(self, waits: Waiting, patience_s: float) -> float:
        if waits in ("silence", "question"):
            return patience_s if waits == "silence" else QUIET_S
        least = 0.0 if waits == "prompt" and self._known_prompt() else SETTLE_S
        return max(least, self.platform.settle_ms / 1000)

    def _waits_for(self, lines: list[str], dialog: Sequence[Answer]) -> Waiting:
        if not lines or not lines[-1].strip():
            return "log" if self._log.buried_prompt(lines) is not None else "silence"
        if self.graph.shown(lines) is not None:
            return "prompt"
        asks = (*self.platform.confirmations, *self.platform.login.password, *(answer.match for answer in dialog))
        if any_matches(asks, lines[-1]) or self._key(lines, quits=True) is not None:
            return "question"
        return "log" if self._log.buried_prompt(lines) is not None else "silence"

    def _key(self, lines: Sequence[str], quits: bool) -> str | None:
        """The key that a pager waits for, if one is there."""
        pager = next((pager for pager in self.platform.pagers if pager.pattern.matches(lines[-1])), None)
        return None if pager is None else pager.quit if quits else pager.key
