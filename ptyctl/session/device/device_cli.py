"""Commands that the session itself types at a device's prompt: to change the mode, save, turn paging off, detect the family."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import ModeGraph, Platform, QuestionAnswer, ShownPrompt
from ptyctl.platforms.pattern import any_matches
from ptyctl.platforms.platform import USERNAME
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .exchange import Exchange, lines_before, may_rename, prompt_stay_s
from .login import NO_CREDENTIALS, LoginCredentials
from .output_end import OutputEnd, classify, find_buried_prompt, only_blank_or_above
from .prompt_guard import PromptGuard

#: How long a question or a pager must remain the end of the output (seconds).
QUESTION_STAYS_S = 0.1
#: Silence after which a device that has read a line is considered to show no prompt (seconds).
SILENCE_S = 15.0
#: Silence after which Enter is pressed if the device shows no prompt (seconds). Longer than in `prompt_wait`, because the
#: device may still process a key.
DEVICE_REQUEST_AFTER_S = 1.0
#: Limit of the keys that leave an unanswered question: an interrupt, then one Enter for each question for a secret.
_MAX_LEAVE_KEYS = 4

#: How a command ended: at a prompt; at a question without an answer; with a secret that was refused or is unknown; in silence.
CommandOutcome = Literal["prompt", "question", "refused", "unknown_secret", "silence"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The output of a command without echo and prompt. `asked`: the last question. `secret`: whether a secret was typed."""

    outcome: CommandOutcome
    lines: tuple[str, ...] = ()
    shown: ShownPrompt | None = None
    asked: str = ""
    secret: bool = False

    @property
    def text(self) -> str:
        """The output in one line, for a message."""
        return " / ".join(line.strip() for line in self.lines if line.strip()) or "nothing"


class DeviceCli:
    """The command line of one device. `credentials` answer the questions of its dialogues."""

    def __init__(self, terminal: TerminalState, platform: Platform, credentials: LoginCredentials = NO_CREDENTIALS) -> None:
        self.platform = platform
        self.graph = ModeGraph(platform)
        self._terminal = terminal
        self._stream = terminal.stream
        self._profile = platform.profile
        self._credentials = credentials
        self._guard = PromptGuard(terminal, platform.profile)
        self._renames = False
        self._target: str | None = None

    @property
    def closed(self) -> bool:
        """Whether the far end has closed the connection."""
        return self._stream.ended is not None

    def shown(self) -> ShownPrompt | None:
        """Return the prompt at the end of the output."""
        return self._profile.shown_prompt(lines_before(self._stream, self._stream.raw_size))

    def can_answer(self, dialog: Sequence[QuestionAnswer]) -> bool:
        """Return whether all secrets of a dialogue are known."""
        return all(answer.secret is None or self._credentials.secret(answer.secret) is not None for answer in dialog)

    async def run(
        self,
        line: str,
        dialog: Sequence[QuestionAnswer] = (),
        *,
        enter: bool = True,
        quit_pager: bool = False,
        silence_s: float = SILENCE_S,
        target: str | None = None,
    ) -> CommandResult:
        """Type one line, answer the questions of `dialog`, each once, and return at the prompt or another end.

        Args:
            quit_pager: quit a pager; otherwise all pages are read.
            silence_s: silence after which the call returns (seconds).
            target: the mode in which the prompt may have another host name, such as that of a shell.

        Raises:
            PtyctlError: REMOTE_CLOSED.
        """
        if self._terminal.has_unfinished_line:
            await self._guard.clear_device_line()
        self._renames, self._target = may_rename(line), target
        exchange = Exchange(self._terminal)
        await exchange.type(line, enter=enter, echo=line if enter else "")
        return await self._follow(exchange, dialog, quit_pager=quit_pager, silence_s=silence_s)

    async def _follow(
        self, exchange: Exchange, dialog: Sequence[QuestionAnswer] = (), *, quit_pager: bool, silence_s: float = SILENCE_S
    ) -> CommandResult:
        output, answered, asked = list[str](), set[QuestionAnswer](), ""
        while (end := await self._end(exchange, dialog, silence_s)).kind != "unknown":
            if end.pager is not None:
                await exchange.answer_pager(end.pager.quit if quit_pager else end.pager.key)
                continue
            lines = exchange.new_lines()
            secret = any(answer.secret for answer in answered)
            if end.prompt is not None:
                output += self._without_pagers(self._without_buried_prompt(lines[: -end.prompt.lines]))
                return CommandResult("prompt", tuple(output), end.prompt, asked, secret)
            output += self._without_pagers(lines[:-1])
            asked = lines[-1].strip()
            answer = next((one for one in dialog if one.match.matches(lines[-1])), None)
            if answer is None or answer in answered or not self.can_answer((answer,)):
                refusal: CommandOutcome = (
                    "question" if answer is None else "refused" if answer in answered else "unknown_secret"
                )
                return CommandResult(refusal, tuple(output), None, asked, secret)
            answered.add(answer)
            await self._answer(exchange, answer)
        return CommandResult("silence", (*output, *exchange.new_lines()), None, asked)

    async def prompt(self, *, quit_pager: bool = False) -> ShownPrompt:
        """Return the prompt at the end of the output once it has settled. Presses Enter once if the terminal is silent.

        Raises:
            PtyctlError: BUSY if something other than an empty prompt is shown (see `PromptGuard`); IO_ERROR without a prompt.
        """
        await self._guard.wait_for_answer()
        await self._guard.clear_device_line()
        known = self.shown()
        if known is not None and self._at_known_prompt():
            return known
        exchange = Exchange(self._terminal)
        end = await self._end(exchange, (), DEVICE_REQUEST_AFTER_S)
        if end.prompt is not None:
            return end.prompt
        last = exchange.new_lines()[-1].strip()
        if end.kind not in ("unknown", "pager"):
            raise self._guard.refusal("question")
        if not quit_pager:
            self._guard.refuse_other()
        if end.kind == "unknown":
            await exchange.type("")
        result = await self._follow(exchange, quit_pager=True)
        if result.shown is None:
            shows = f"it shows {last!r}" if last else "it shows nothing"
            raise PtyctlError(
                ErrorCode.IO_ERROR, f"no prompt of {self.platform.title} was shown; {shows}", hint="look at the screen"
            )
        return result.shown

    async def leave_question(self, *, press_enter: bool = False) -> ShownPrompt | None:
        """Leave a question without answering it. Return the prompt that is shown next, or None if the question remains.

        Args:
            press_enter: type Enter if an interrupt has no effect, as after a wrong password, where some devices hang up.
        """
        exchange = Exchange(self._terminal)
        with suppress(PtyctlError):
            await exchange.type(self.platform.keys.interrupt, enter=False)
            for _ in range(_MAX_LEAVE_KEYS):
                end = await self._end(exchange, (), DEVICE_REQUEST_AFTER_S)
                if end.prompt is not None:
                    return end.prompt
                last = exchange.output().split("\n")[-1]
                if not press_enter or any_matches(self.platform.confirmations, last):
                    return None  # an Enter might confirm it, or count as a wrong password
                await exchange.type("")
        return None

    def _at_known_prompt(self) -> bool:
        return self._terminal.last_line() == self._terminal.learned_prompt

    def _without_buried_prompt(self, lines: list[str]) -> list[str]:
        """Return the output without an earlier prompt that log lines follow."""
        buried = find_buried_prompt(lines, self._profile)
        return lines if buried is None else lines[: buried.line + 1 - buried.prompt.lines]

    def _without_pagers(self, lines: list[str]) -> list[str]:
        return [line for line in lines if self._profile.pager(line) is None]

    async def _answer(self, exchange: Exchange, answer: QuestionAnswer) -> None:
        secret = None if answer.secret is None else self._credentials.secret(answer.secret)
        text = (answer.send or "").replace(USERNAME, self._credentials.account().username or "")
        typed = text if secret is None else secret.get_secret_value()
        await exchange.type(typed, enter=answer.enter, secret=secret is not None)

    async def _end(self, exchange: Exchange, dialog: Sequence[QuestionAnswer], silence_s: float) -> OutputEnd:
        """Wait for the end of the output, and learn a prompt. "unknown" means silence. Enter is pressed at a buried prompt."""
        requested_at = -1
        stream = self._stream

        def look() -> tuple[OutputEnd, float]:
            end = classify(exchange.new_lines(), self._profile, [answer.match for answer in dialog])
            requested = end.kind == "buried_prompt" and requested_at == stream.raw_size
            of_other_host = end.buried is not None and not self._host_expected(end.buried)
            erased = end.kind != "pager" or exchange.pager.erased
            if end.kind == "question" or requested or of_other_host or not erased or self._is_guess(end):
                end = OutputEnd("unknown")
            stay_s = silence_s if end.kind == "unknown" else self._stay_s(exchange, end)
            return end, min(stay_s, ANSWER_S) if self._answers_echo(exchange, end) else stay_s

        while (end := await exchange.settled(look)) is not None:
            if end.kind == "prompt":
                self._terminal.learn_prompt(self._terminal.last_line())
            if end.kind != "buried_prompt":
                return end
            requested_at = stream.raw_size
            if self._terminal.has_unfinished_line:
                await self._guard.clear_device_line()
            await exchange.press_enter()
        why = stream.ended.message if stream.ended is not None else ""
        raise PtyctlError(ErrorCode.REMOTE_CLOSED, f"the far end closed the connection: {why}", hint="open the session again")

    def _stay_s(self, exchange: Exchange, end: OutputEnd) -> float:
        terminal, profile = self._terminal, self._profile
        if end.kind == "prompt":
            any_host = end.prompt is not None and self._host_expected(end.prompt)
            return prompt_stay_s(terminal.prompt, terminal.last_line(), profile, exchange.pace.stay_s, any_host=any_host)
        return max(SETTLE_S, profile.family_settle_s) if end.kind == "buried_prompt" else QUESTION_STAYS_S

    def _is_guess(self, end: OutputEnd) -> bool:
        """Return whether a prompt has only a common form, and differs from the learned one: it may be an unknown pager."""
        differs = end.prompt is not None and self._terminal.prompt.match(end.prompt.prompt, self._profile) == "other_host"
        return self._profile.guesses_prompts and differs and not self._renames

    def _host_expected(self, shown: ShownPrompt) -> bool:
        """Return whether a prompt may follow the command: it has the known host name, or the command may change the name."""
        return self._renames or shown.mode == self._target or self._terminal.of_known_host(shown.prompt)

    def _answers_echo(self, exchange: Exchange, end: OutputEnd) -> bool:
        """Return whether a question of the dialogue is directly below the complete echo."""
        if end.kind != "dialog":
            return False
        lines = exchange.lines_below_echo()
        return lines is not None and only_blank_or_above(lines[:-1], self._profile)
