"""Authorization of input: the policy judges every text of a caller before it is sent to the far end.

The command of a run is judged whole. Other input passes the gate key by key. The model of the typed line
(`ptyctl.policy.typed_line`) has the line that a key submits, if it is known. Otherwise the line is read from the screen.
What the session types itself (logins, pager keys, replies to queries) is not judged.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.control_sequences import ETX, PASTE_END
from ptyctl.core.lease import Owner
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.core.shells import may_run_shell, shell_dialect
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.platforms import DeviceProfile
from ptyctl.policy.rules import SHELL_PLATFORM, Decision, Request, Verdict, Where
from ptyctl.policy.shell_command import expands_history
from ptyctl.policy.typed_line import DEVICE_KEYS, SHELL_KEYS, TypedLine
from ptyctl.session.device.exchange import lines_before, rendered, text_behind_prompt
from ptyctl.session.io.gate import Refusal, Split, Writer
from ptyctl.session.io.prompt import is_continuation
from ptyctl.session.io.terminal_state import TerminalState
from ptyctl.session.runs.runs import LONG_COMMAND
from ptyctl.session.screen.screen import Screen
from ptyctl.session.screen.shown_line import shown_lines, shows_only, text_after

from .approvals import Approval, Approvals, HeldText

#: The echo of keys has settled after this much silence, on this machine and on another one (seconds).
ECHO_QUIET_S = 0.05
REMOTE_ECHO_QUIET_S = 0.15
#: The longest wait for the first echo, and until it has settled (seconds).
ECHO_WAIT_S = 1.0
SETTLE_WAIT_S = 5.0
#: How often a line is read again because the screen has changed meanwhile.
_READINGS = 3
#: How often a local program is asked whether it has read the input (seconds).
_POLL_S = 0.005
#: A longer text for a device is judged line by line only, in characters.
_MAX_JOINED = 16_384
#: Other tasks run after this many lines of one write were judged.
_BATCH_LINES = 16
#: Rows of the output in an approval request, and the number of bytes that they are rendered from.
_SCREEN_ROWS, _SCREEN_BYTES = 24, 8192
#: Shells that do not expand `!`; `sh` may be bash.
_WITHOUT_HISTORY_EXPANSION = frozenset(("fish", "dash"))
#: Deletes the line of a program that reads lines from the terminal (VKILL of termios), and of most line editors.
_KILL_LINE = b"\x15"
#: Keys of line editors; a newline ends a line.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KEYS = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]")
#: The longest line that a terminal in canonical mode takes, in bytes, without its end.
_MAX_PASSWORD = 4095
#: A password up to its Enter: no key that ends the program which asks for it, so that a shell gets the rest.
_PASSWORD = re.compile(rb"[^\x00-\x14\x16-\x1f]{0,%d}(?:[\r\n]|\Z)" % _MAX_PASSWORD)
_ORDER = {decision: severity for severity, decision in enumerate(Decision)}


class Policy(Protocol):
    """The policy in force."""

    @property
    def name(self) -> str:
        """The name of its preset or file."""
        ...

    def verdict(self, request: Request) -> Verdict:
        """Return the verdict on a text. Raises PtyctlError POLICY_DENIED while no policy can be loaded."""
        ...

    def verdict_by_rules(self, request: Request, *, known_only: bool = False) -> Verdict:
        """Return the verdict of the rules that match; ALLOW if none does. `known_only`: an unknown word matches none."""
        ...

    def unreadable(self, request: Request) -> Verdict:
        """Return the verdict on a line that cannot be read."""
        ...


class Subject(NamedTuple):
    """The properties of a session that rules compare."""

    session_id: str
    protocol: str
    device: str | None
    program: str | None


class Place(NamedTuple):
    """Where a text goes. In a program, the shell below may read it later, so that its rules count too.

    `is_ahead`: the program may not read it at all; then also words that are not known count in the shell.
    """

    platform: str | None
    mode: str | None = None
    where: Where = "prompt"
    is_ahead: bool = False


class Authorization:
    """Judges the input of callers in one session, and refuses or holds what the policy does not allow.

    Before `set_policy` everything is allowed: the input of a session that is only read from disk.
    """

    def __init__(
        self,
        subject: Subject,
        terminal: TerminalState,
        screen: Screen,
        *,
        platform: Callable[[], tuple[str | None, bool]],
        profile: Callable[[], DeviceProfile],
        is_shell: Callable[[], bool],
        has_marks: Callable[[], bool],
        is_running: Callable[[], bool],
        binding: Callable[[], str],
        post_notice: Callable[[str], None],
    ) -> None:
        """Create it.

        Args:
            platform: returns the name of the platform, and whether it is a device rather than a POSIX shell.
            is_shell: returns whether a session without a platform has a POSIX shell.
            has_marks: returns whether the shell reports its prompts; `is_running` whether a command runs in it.
            binding: returns what an approval depends on: the incarnation, and the fencing token of the lock.
        """
        self._subject = subject
        self._terminal = terminal
        self._stream = terminal.stream
        self._screen = screen
        self._platform = platform
        self._profile = profile
        self._is_shell = is_shell
        self._has_marks, self._is_running = has_marks, is_running
        self._binding = binding
        self._post_notice = post_notice
        self._policy: Policy | None = None
        self._approvals: Approvals | None = None
        self._line = TypedLine()
        self._cleared = 0
        self._incarnation_raw = self._stream.incarnation_raw
        #: Where the output of the terminal began in which something was typed last.
        self._used_raw = -1
        self._ahead: tuple[str, Sequence[Place], Owner, Verdict] | None = None
        #: The output and the time when a key was last typed, the time of the first one without output since, and its delay.
        self._typed_raw = 0
        self._typed_at = self._unanswered_at = self._echo_delay_s = 0.0
        #: The wake-ups of the program in the foreground before the next keys are sent, and before the last ones were.
        self._wakeups: int | None = None
        self._typed_wakeups: int | None = None
        self._prompt_at: tuple[int, tuple[str | None, str]] = (-1, (None, ""))
        #: Whether the last line was submitted to a shell that had read all input before it.
        self._shell_has_line = False
        #: Whether the lines before the pending one may have a secret.
        self._has_secret = False
        #: What was typed since the last Enter, up to more than a password, and whether its echo is masked.
        self._typed = b""
        self._is_masked = False

    def set_policy(self, policy: Policy, approvals: Approvals) -> None:
        """Set the policy that judges all further input."""
        self._policy, self._approvals = policy, approvals

    @property
    def policy_name(self) -> str | None:
        """The name of the policy in force."""
        return None if self._policy is None else self._policy.name

    def session_ended(self, why: str) -> None:
        """Withdraw the requests for approvals."""
        if self._approvals is not None:
            self._approvals.session_ended(self._subject.session_id, why)

    def lock_ended(self, owner: Owner) -> None:
        """End the standing approvals of a lock's owner."""
        if self._approvals is not None:
            self._approvals.lock_ended(self._subject.session_id, owner)

    def check(self, text: str, writer: Writer, mode: str | None, where: Where | None) -> tuple[Verdict, Place] | None:
        """Return the verdict on a text as on typed input, and where it would go now; None without a policy.

        Args:
            mode: instead of the mode of the prompt that is shown.
            where: instead of where the session is.
        """
        if self._policy is None:
            return None
        places, prompt = self._places(), self._prompt_place()
        if where is not None and where != places[0].where:
            places = (prompt,) if where == "prompt" else self._in_program(prompt)
        if mode is not None:
            places = tuple(place._replace(mode=mode) for place in places)
        return self._judge(text, places, writer), places[0]

    def pending_approvals(self) -> int:
        """Return the number of texts that wait for an approval."""
        return 0 if self._approvals is None else self._approvals.pending(self._subject.session_id)

    def find_approval(self, approval_id: str, owner: Owner) -> Approval:
        """Return the approval that a caller continues with. Raises PtyctlError NOT_FOUND."""
        if self._approvals is None:
            raise PtyctlError(ErrorCode.NOT_FOUND, f"there is no approval {approval_id}", {"approval_id": approval_id})
        return self._approvals.find(approval_id, self._subject.session_id, owner)

    # Commands of runs

    async def judge_ahead(self, text: str, writer: Writer) -> None:
        """Judge a long command in a thread; `judge_command` uses the verdict if the command still goes to the same place."""
        if self._policy is not None:
            places = self._places_of_run()
            self._ahead = text, places, writer.owner, await self._judge_in_thread(text, places, writer)

    def judge_command(self, text: str, writer: Writer, block_id: str, *, is_quoted: bool | None) -> Approval | None:
        """Judge the command of a run; return the approval that it must wait for, or None.

        Args:
            is_quoted: whether a shell gets the command as a quoted word. Otherwise control characters are keys. None: it is not
                known before the shell is. Then a Tab, which indents scripts, is taken for text.

        Raises:
            PtyctlError: POLICY_DENIED.
        """
        if self._policy is None:
            return None
        places = self._places_of_run()
        verdict = self._judge(text, places, writer)
        keys = _CONTROL if is_quoted is None else _KEYS
        if not is_quoted and (keys.search(text) or (is_quoted is False and self._recalls(text, places))):
            verdict = self._stricter(verdict, self._policy.unreadable(self._request(text, places[0], writer)))
        approval = self._decide(verdict, text, places, writer, block_id)
        if approval is None:
            self._line.note_command(text)
        return approval

    def check_command(self, text: str, writer: Writer) -> None:
        """Judge a command that the session types for a caller, as part of a mode change or of saving.

        Raises:
            PtyctlError: POLICY_DENIED, also for a command that needs an approval: the caller can run it as a separate command.
        """
        if self._policy is None:
            return
        self._check_whole(text, self._places_of_run(), writer, "run this command by itself, and have it approved")

    def check_break(self, writer: Writer) -> None:
        """Judge a break condition, as the command `break`.

        Raises:
            PtyctlError: POLICY_DENIED, also if it needs an approval: only text can be approved.
        """
        if self._policy is not None:
            self._check_whole("break", self._places(), writer, "ask a person to send it")

    def _check_whole(self, text: str, places: Sequence[Place], writer: Writer, hint: str) -> None:
        """Judge a text that cannot wait for an approval. Raises PtyctlError POLICY_DENIED."""
        verdict = self._judge(text, places, writer)
        if verdict.decision is Decision.ASK and not self._keys_allowed(places, writer):
            message = f"{text!r} needs an approval: {verdict.reason}; nothing was typed"
            raise PtyctlError(ErrorCode.POLICY_DENIED, message, _details(verdict, sensitive=writer.sensitive), hint=hint)
        self._decide(verdict, text, places, writer)

    def confirm(self, approval: Approval, writer: Writer) -> str:
        """Redeem an approval, and return the text to type.

        Raises:
            PtyctlError: DECLINED if there is no approval, or the state it is bound to has changed; APPROVAL_PENDING.
        """
        if approval.state == "approved":
            held = approval.held
            places = self._places_of_run() if held.block_id is not None else self._places()
            if not held.keys and (not self._unfinished.empty or self._shows_typed_text()):
                approval.set_stale("text was typed into the line meanwhile")
            self._shell_has_line = "\n" not in approval.text and places[0].where == "prompt" and self._shell_reads()
            if held.binding != self._bound(held.text, places):
                why = "the connection, the prompt, the folder, the program or the lock has changed since it was asked for"
                approval.set_stale(why)
        text = approval.redeem()
        self._line.note_command(text)
        writer.review.permit, writer.review.edited = approval, approval.edited
        return text

    # Input that passes the gate

    def typed(self, data: bytes, *, secret: bool = False) -> None:
        """Update the pending line with input that was sent."""
        self._synchronise()
        self._used_raw = self._stream.incarnation_raw
        for _ in self._line.feed(data):
            pass
        end = max(data.rfind(b"\r"), data.rfind(b"\n")) + 1
        self._typed = (data[end:] if end else self._typed + data)[: _MAX_PASSWORD + 1]
        self._is_masked = self._typed != b"" and (secret or (self._is_masked and not end))
        self._has_secret = (secret or self._has_secret) and (self._line.continued or self._line.line) != ""
        self._note_typed()

    def is_judged(self, data: bytes, writer: Writer) -> bool:
        """Return whether input is judged before it is sent: it may submit a line, or a program may read it key by key."""
        return self._line.may_be_submitted_by(data) or self._judges_keys(writer)

    def split(self, data: bytes, judged: int) -> Split:
        """Split input before the first key that may submit a line which is not judged; `judged` lines are."""
        size = lines = 0
        for piece in self._line.copy().feed(data):
            if piece.submits:
                if lines == judged:
                    return Split(size, lines, len(piece.data))
                lines += 1
            size += len(piece.data)
        return Split(size, lines, 0)

    def line_replaced(self) -> None:
        """Clear the pending line: the command of a run is typed at an empty prompt."""
        self._used_raw = self._stream.incarnation_raw
        self._line.clear()
        self._typed, self._is_masked = b"", False

    def lose_line(self) -> None:
        """Mark the pending line as unknown: the command of a run was not sent whole, or a break may have changed it."""
        self._synchronise()
        self._line.lose()

    async def review(self, data: bytes, writer: Writer) -> int:
        """Judge the lines that input submits, as far as they are known before any of it is sent; return their number.

        Raises:
            Refusal: the policy does not allow one of them; nothing is to be sent.
        """
        self._synchronise()
        if self._policy is None:
            return 1 << 30
        if not self._line.may_be_submitted_by(data):
            self._judge_keys(data, writer)
            return 0
        lines = [] if await self._will_take_password(data) else self._known_lines(data)
        self._wakeups = self._terminal.wakeups()
        if lines:
            await self._judge_lines(lines, writer)
        self._judge_keys(data, writer)
        return len(lines)

    def review_now(self, data: bytes, writer: Writer) -> bool:
        """Judge input as `review` does, without waiting: an unknown line counts as unreadable. A password is not judged.

        Return whether it may be sent to any program; otherwise only to one that reads a password.
        """
        self._synchronise()
        if self._policy is None:
            return True
        pieces = list(self._line.copy().feed(data))
        if self._takes_password(data) and not any(piece.submits for piece in pieces[:-1]):
            return False
        lines = self._known_lines(data)
        self._judge_keys(data, writer)
        places = self._places()
        verdict = self._judge_typed(lines, places, writer) if lines else None
        is_known = not any(piece.submits and piece.line is None for piece in pieces)
        is_known = is_known and not any(self._recalls(line, places) for line in lines)
        if not is_known:
            verdict = self._stricter(verdict, self._of_unknown(places, writer))
        if verdict is not None:
            self._enforce(verdict, "\n".join(lines), places, writer, readable=is_known)
        return True

    async def admit(self, key: bytes, writer: Writer) -> None:
        """Judge the line that a key submits before the key is sent. Raises Refusal."""
        if self._policy is not None and not await self._will_take_password(key):
            await self._admit(key, writer)
            self._wakeups = self._terminal.wakeups()

    async def _admit(self, key: bytes, writer: Writer) -> None:
        line = next((piece.line for piece in self._line.copy().feed(key) if piece.submits), None)
        if line is not None:
            await self._judge_lines([line], writer)
            return
        places, readings = await self._read_line(key)
        if self._is_masked:
            readings = []
        verdict = None
        for reading in readings:
            verdict = self._stricter(verdict, self._judge(self._with_continued(reading, places), places, writer))
        is_certain = not places[-1].is_ahead and not any(self._recalls(reading, places) for reading in readings)
        if verdict is None or not is_certain:
            verdict = self._stricter(verdict, self._of_unknown(places, writer))
        readable = is_certain and len(readings) == 1
        self._enforce(verdict, readings[0] if readings else "", places, writer, readable=readable)
        if readings and self._line.line is None:
            self._line.submitted(readings[0])

    def _known_lines(self, data: bytes) -> list[str]:
        """Return the lines that input submits, up to the first unknown one."""
        model = self._line.copy()
        lines: list[str] = []
        for piece in model.feed(data):
            if piece.submits:
                if piece.line is None:
                    break
                lines.append(piece.line)
        return lines

    def _judges_keys(self, writer: Writer) -> bool:
        """Return whether the policy asks for, or denies, input to a program that no rule names."""
        name, is_device = self._platform()
        if self._policy is None or is_device:
            return False
        return _is_strict(self._policy.verdict(self._request("", Place(name, where="program"), writer)))

    def _judge_keys(self, data: bytes, writer: Writer) -> None:
        """Judge what follows the last line of some input: a program may read it key by key. Raises Refusal."""
        if not self._judges_keys(writer):
            return
        keys, follows = b"", False
        for piece in self._line.copy().feed(data):
            keys, follows = (b"", True) if piece.submits else (keys + piece.data, follows)
        if not keys:
            return
        places = self._places()
        if places[0].where == "prompt":
            if not follows and self._shell_reads():
                return
            places = self._in_program(places[0]._replace(is_ahead=True))
        if follows or not self._terminal.reads_lines():
            text = keys.decode("utf-8", "surrogateescape")
            self._enforce(self._judge(text, places, writer), text, places, writer, keys=True)

    def _shell_reads(self) -> bool:
        """Return whether a shell has read all input before, and waits at its prompt."""
        terminal = self._terminal
        if self._has_marks() and self._shows_prompt_since_enter():
            return True
        if is_continuation(terminal.last_line(), terminal.prompt.learned):
            return True
        is_editing = terminal.shell_in_foreground() is True and terminal.line_editor_active() and not self._is_running()
        return (is_editing and terminal.input_is_read() is True) or self._shows_prompt_since_enter()

    def _hides_input(self) -> bool:
        """Return whether a program, or a command of the shell, reads a line without echo."""
        return self._terminal.program_hides_input() or (self._is_running() and self._terminal.echo_off())

    def _takes_password(self, data: bytes) -> bool:
        """Return whether input begins with, or ends, a password that a program such as sudo waits for."""
        is_password = _PASSWORD.match(self._typed + data) is not None
        return is_password and self._terminal.reads_password() and self._terminal.input_is_read() is True

    async def _will_take_password(self, data: bytes) -> bool:
        """As `_takes_password`, after waiting until the program has read all earlier input."""
        deadline = self._terminal.now() + SETTLE_WAIT_S
        while self._terminal.reads_password() and self._terminal.now() < deadline:
            if self._takes_password(data):
                return True
            await asyncio.sleep(_POLL_S)
        return False

    async def _judge_lines(self, lines: Sequence[str], writer: Writer) -> None:
        """Judge lines that follow each other: at a prompt as one text, and each alone."""
        places, text = self._places(), "\n".join(lines)
        self._shell_has_line = len(lines) == 1 and places[0].where == "prompt" and self._shell_reads()
        verdict: Verdict | None = None
        if places[0].where == "prompt" and (len(text) <= _MAX_JOINED or places[0].platform == SHELL_PLATFORM):
            whole = self._with_continued(text, places)
            if len(whole) > LONG_COMMAND:
                verdict = await self._judge_in_thread(whole, places, writer)
            else:
                verdict = self._judge(whole, places, writer)
        if verdict is None or len(lines) > 1 or self._line.continued:
            judge = self._judge if verdict is None else self._judge_part
            for number, line in enumerate(lines):
                verdict = self._stricter(verdict, judge(line, places, writer))
                if number == 0:  # the first one may change the mode
                    places = tuple(place._replace(mode=None) for place in places)
                if number % _BATCH_LINES == _BATCH_LINES - 1:
                    await asyncio.sleep(0)
        assert verdict is not None
        places = self._places()
        if places[0].where == "program" and not self._line.may_be_continued:
            self._line.forget_continued()
        whole = self._line.continued + text
        for place in places[1:] if whole not in lines else ():  # a command may have several lines
            if len(whole) > LONG_COMMAND:
                verdict = await asyncio.to_thread(self._judge_for_shell, verdict, whole, place, writer)
            else:
                verdict = self._judge_for_shell(verdict, whole, place, writer)
        if self._has_secret:
            verdict = replace(verdict, canonical=text)
        if self._recalls(text, places):
            self._enforce(self._of_unknown(places, writer), text, places, writer, readable=False)
        self._enforce(verdict, text, places, writer)

    def _judge_typed(self, lines: Sequence[str], places: Sequence[Place], writer: Writer) -> Verdict:
        verdict = self._judge("\n".join(lines), places, writer)
        for line in lines:
            verdict = self._stricter(verdict, self._judge_part(line, places, writer))
        return verdict

    # Verdicts

    def _judge(self, text: str, places: Sequence[Place], writer: Writer) -> Verdict:
        """Judge a text in its first place, and by the rules of the other places if it is certainly a command there."""
        assert self._policy is not None
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:3] == (text, places, writer.owner):
            return ahead[3]
        verdict = self._policy.verdict(self._request(text, places[0], writer))
        for place in places[1:]:
            verdict = self._judge_for_shell(verdict, text, place, writer)
        return verdict

    def _judge_for_shell(self, verdict: Verdict, text: str, place: Place, writer: Writer) -> Verdict:
        """Judge a text for a program by the rules of the shell below, with what follows `!`: editors and pagers run that."""
        assert self._policy is not None
        hides = self._terminal.echo_off() and not self._terminal.reads_password()  # a password may look like a variable
        known_only = not place.is_ahead or hides
        for command in dict.fromkeys((text, text.partition("!")[2].lstrip("!"))):
            by_rules = self._policy.verdict_by_rules(self._request(command, place, writer), known_only=known_only)
            verdict = self._stricter(verdict, by_rules)
        return verdict

    async def _judge_in_thread(self, text: str, places: Sequence[Place], writer: Writer) -> Verdict:
        return await asyncio.to_thread(self._judge, text, places, writer)

    def _judge_part(self, line: str, places: Sequence[Place], writer: Writer) -> Verdict:
        """Judge one of several lines, which alone may be an incomplete command."""
        assert self._policy is not None
        if places[0].where == "program":
            return self._judge(line, places, writer)
        return self._policy.verdict_by_rules(self._request(line, places[0], writer))

    def _of_unknown(self, places: Sequence[Place], writer: Writer) -> Verdict:
        assert self._policy is not None
        request = self._request("", places[0], writer)
        if places[0].where == "program" and not places[-1].is_ahead:
            return self._policy.verdict(request)
        return self._policy.unreadable(request)

    def _recalls(self, text: str, places: Sequence[Place]) -> bool:
        """Return whether a shell that gets a typed text may run a part of its history instead."""
        if places[0].where != "prompt" or places[0].platform not in (None, SHELL_PLATFORM) or not expands_history(text):
            return False
        program = self._terminal.foreground_program()
        return program is None or program[1].rpartition("/")[2].lstrip("-") not in _WITHOUT_HISTORY_EXPANSION

    @staticmethod
    def _stricter(one: Verdict | None, other: Verdict) -> Verdict:
        return other if one is None or _ORDER[other.decision] > _ORDER[one.decision] else one

    def _request(self, text: str, place: Place, writer: Writer) -> Request:
        subject = self._subject
        return Request(
            text,
            platform=place.platform,
            protocol=subject.protocol,
            device=subject.device,
            mode=place.mode,
            kind=writer.by.kind,
            principal=writer.principal,
            task=writer.task_id,
            where=place.where,
        )

    def _with_continued(self, text: str, places: Sequence[Place]) -> str:
        """Return a line after the lines that it may continue: a shell reads them as one command."""
        return text if self._platform()[1] or places[0].where == "program" else self._line.continued + text

    # Decisions

    def _decide(
        self,
        verdict: Verdict,
        text: str,
        places: Sequence[Place],
        writer: Writer,
        block_id: str | None = None,
        *,
        keys: bool = False,
    ) -> Approval | None:
        """Record a verdict; return the approval that the text must wait for. For `keys` see `HeldText`.

        Raises:
            PtyctlError: POLICY_DENIED.
        """
        assert self._approvals is not None
        writer.review.record(verdict)
        is_secret = writer.sensitive or self._hides_input()
        if verdict.decision is Decision.WARN:
            shown = f" for {text.splitlines()[0][:60]!r}" if text and not is_secret else ""
            self._post_notice(f"policy warning{shown}: {verdict.reason}")
        if verdict.decision is Decision.DENY:
            raise _denied(verdict, sensitive=is_secret)
        if verdict.decision is not Decision.ASK or self._keys_allowed(places, writer):
            return None
        if not _is_text(text):
            raise _unreadable(verdict)
        if is_secret:
            raise _secret(verdict)
        held = HeldText(
            session_id=self._subject.session_id,
            device=self._subject.device,
            platform=places[0].platform,
            mode=places[0].mode,
            owner=writer.owner,
            text=text,
            canonical=verdict.canonical,
            rules=verdict.rules,
            reason=verdict.reason,
            binding=self._bound(text, places),
            screen=self._last_rows(),
            block_id=block_id,
            keys=keys,
            check=lambda edited: self._check_edited(edited, places, writer),
        )
        if self._approvals.covers(held):
            return None
        writer.review.permit = approval = self._approvals.ask(held)
        return approval

    def _check_edited(self, text: str, places: Sequence[Place], writer: Writer) -> None:
        """Check the text that an approver wants to be typed instead. Raises PtyctlError POLICY_DENIED."""
        verdict = self._judge(text, places, writer)
        if verdict.decision is Decision.DENY:
            raise _denied(verdict, sensitive=False)

    def _last_rows(self) -> tuple[str, ...]:
        """Return the rows of the output for an approval request."""
        end = self._stream.raw_size
        return tuple(rendered(self._stream, max(end - _SCREEN_BYTES, 0), end).split("\n")[-_SCREEN_ROWS:])

    def _enforce(
        self,
        verdict: Verdict,
        text: str,
        places: Sequence[Place],
        writer: Writer,
        *,
        readable: bool = True,
        keys: bool = False,
    ) -> None:
        """Raise Refusal unless a text may be sent. A line that cannot be read cannot be approved either."""
        try:
            if verdict.decision is Decision.ASK and not (readable or self._keys_allowed(places, writer)):
                raise _unreadable(verdict)
            approval = self._decide(verdict, text, places, writer, keys=keys)
        except PtyctlError as error:
            raise Refusal(error, self._erasing_keys(places)) from None
        if approval is not None:
            raise Refusal(approval.pending_error(), self._erasing_keys(places))

    def _bound(self, text: str, places: Sequence[Place]) -> str:
        """Return the hash of the state that an approval is bound to."""
        parts = [text, self._subject.session_id, self._binding(), self._surroundings(), *map(str, places)]
        if places[0].where == "program":
            parts.append(str(self._terminal.foreground_program()))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def _surroundings(self) -> str:
        """Return what an approver sees besides the text: the folder that the shell reports, or the prompt."""
        if self._used_raw != self._stream.incarnation_raw and not self._platform()[1]:
            return ""  # where the shell begins: it may not have reported that yet
        reported = self._stream.last_prompt if self._has_marks() else None
        if reported is not None:
            return str(reported.directory)
        if self._platform()[1]:
            return self._shown_prompt()[1]
        return self._terminal.prompt.learned or ""

    def _erasing_keys(self, places: Sequence[Place]) -> bytes:
        """Return the keys that delete the pending line; none if there is no pending line, or a program reads single keys."""
        if self._line.line == "":
            return b""
        if places[0].where == "program":
            return b"" if self._terminal.takes_keys() else _KILL_LINE
        keys = self._profile().clear_line.encode() if self._platform()[1] else ETX
        return PASTE_END + keys if self._line.is_pasting else keys

    def _keys_allowed(self, places: Sequence[Place], writer: Writer) -> bool:
        """Return whether an approver lets the caller type into the running program, and one runs."""
        approvals = self._approvals
        if approvals is None or not approvals.keys_allowed(self._subject.session_id, writer.owner):
            return False
        return places[0].where == "program" or (self._platform()[1] and not self._shown_prompt()[1])

    # Where a text goes

    def _places_of_run(self) -> tuple[Place, ...]:
        """Return where the command of a run goes: to the prompt, or to that of a program (a REPL) in the foreground."""
        prompt, terminal = self._prompt_place(), self._terminal
        in_program = self._is_program()
        if not in_program and terminal.shell_in_foreground() is False and len(self._stream.prompts):
            program = terminal.foreground_program()
            in_program = program is not None and not may_run_shell(program[1])
        return self._in_program(prompt) if in_program else (prompt,)

    def _places(self) -> tuple[Place, ...]:
        """Return where input goes now."""
        prompt, in_foreground = self._prompt_place(), self._terminal.shell_in_foreground()
        if self._platform()[1]:
            return (prompt,)
        if in_foreground is None:
            at_prompt = (self._has_marks() and not self._is_running()) or self._shows_prompt()
        elif in_foreground:
            at_prompt = not self._is_program()
        else:
            program = self._terminal.foreground_program()
            at_prompt = program is None or shell_dialect(program[1]) is not None
        is_ahead = not self._terminal.takes_keys()
        return (prompt,) if at_prompt else self._in_program(prompt._replace(is_ahead=is_ahead))

    @staticmethod
    def _in_program(prompt: Place) -> tuple[Place, ...]:
        """Return the places of a text for a program. The rules of the shell count too: it may read what the program leaves."""
        return (Place(prompt.platform, where="program"), prompt)

    def _is_program(self) -> bool:
        """Return whether the session was opened with a program that is not known to be a shell or a device."""
        return self._subject.program is not None and self._platform()[0] is None and not self._is_shell()

    def _prompt_place(self) -> Place:
        name, is_device = self._platform()
        if is_device:
            return Place(name, self._mode())
        if name is None and self._is_shell():
            name = SHELL_PLATFORM
        return Place(name)

    def _shows_prompt(self) -> bool:
        prompt, line = self._terminal.prompt, self._terminal.last_line()
        learned = prompt.learned
        return bool(learned and learned.strip() and line.startswith(learned)) or self._profile().is_prompt(line)

    def _shows_typed_text(self) -> bool:
        """Return whether text follows the prompt of a device."""
        if not self._platform()[1]:
            return False
        return bool(text_behind_prompt(self._terminal, self._profile(), self._terminal.last_line()))

    def _mode(self) -> str | None:
        """Return the mode of the prompt that is shown, also if text follows it."""
        return self._shown_prompt()[0]

    def _shown_prompt(self) -> tuple[str | None, str]:
        """Return the mode and the text of the prompt that is shown; None and empty if there is none."""
        raw = self._stream.raw_size
        if self._prompt_at[0] != raw:
            lines, profile = lines_before(self._stream, raw), self._profile()
            shown = profile.shown_prompt(lines)
            if shown is None and (before := profile.prompt_before_text(lines)) is not None:
                shown = before[0]
            self._prompt_at = raw, (None, "") if shown is None else (shown.mode, shown.prompt)
        return self._prompt_at[1]

    # The pending line

    def _synchronise(self) -> None:
        """Forget what was typed before if a prompt was verified or is shown since, or the terminal was replaced."""
        self._line.keys = DEVICE_KEYS if self._platform()[1] else SHELL_KEYS
        cleared, line = self._unfinished.cleared, self._line
        if self._incarnation_raw != self._stream.incarnation_raw:
            self._incarnation_raw = self._stream.incarnation_raw
            line.reset_keys()
        if cleared != self._cleared:
            self._cleared = cleared
            line.clear()
        elif (line.perhaps_submitted or (line.continued and line.line == "")) and self._at_new_prompt():
            if line.line == "" or self._platform()[1]:
                line.clear()
            else:  # the shell may insert text behind the prompt
                line.begin_command()
        elif line.continued and self._shell_has_line and self._is_read_by_program():
            self._shell_has_line = False
            line.forget_continued()
        if line.line == "" and self._is_filled_in():
            line.lose()

    def _is_read_by_program(self) -> bool:
        """Return whether the command that the shell has read runs, so that the next lines do not continue it."""
        if self._terminal.shell_in_foreground() is None:
            return self._has_marks() and self._is_running()
        return self._places()[0].where == "program"

    def _at_new_prompt(self) -> bool:
        """Return whether the shell has shown its prompt since the last line was submitted: it continues no earlier line."""
        if self._has_marks():
            return self._stream.shell_returned_raw >= self._unfinished.entered_raw
        line, prompt = self._terminal.last_line(), self._terminal.prompt
        return not is_continuation(line, prompt.learned) and prompt.match(line, self._profile()) is not None

    def _is_filled_in(self) -> bool:
        """Return whether the shell has inserted text after the prompt (`print -z` of zsh, a line that was put aside)."""
        line, learned = self._terminal.last_line(), self._terminal.prompt.learned
        return bool(learned and learned.strip() and line.startswith(learned) and line[len(learned) :].strip())

    def _shows_prompt_since_enter(self) -> bool:
        """Return whether a prompt is shown since the last line was submitted: what is typed before is not edited yet."""
        entered, stream = self._unfinished.entered_raw, self._stream
        if entered < 0:
            return True
        if self._has_marks():
            return not self._is_running() and stream.shell_returned_raw >= entered
        if self._platform()[1]:
            return True
        learned = self._terminal.prompt.learned or ""
        shown = rendered(stream, max(entered, stream.raw_size - _SCREEN_BYTES), stream.raw_size).split("\n")
        return not learned.strip() or any(text_after(learned, line) is not None for line in shown)

    @property
    def _unfinished(self) -> UnfinishedLine:
        return self._terminal.gate.unfinished_line

    def _note_typed(self) -> None:
        """Note the time of a key, and how long the echo of those before it has taken."""
        stream, now = self._stream, self._terminal.now()
        if stream.raw_size != self._typed_raw:
            if self._line.line != "":  # the output of a command is no echo
                self._note_echo(stream.last_data)
            self._unanswered_at = now
        self._typed_raw, self._typed_at, self._typed_wakeups = stream.raw_size, now, self._wakeups

    def _note_echo(self, at: float) -> None:
        self._echo_delay_s = min(max(at - self._unanswered_at, 0.0), ECHO_WAIT_S)

    async def _echo_settled(self) -> bool:
        """Wait until the far end has probably handled the typed keys; return False if it has not at the deadline."""
        terminal, stream = self._terminal, self._stream
        deadline = terminal.now() + SETTLE_WAIT_S
        quiet_s = ECHO_QUIET_S
        if terminal.input_is_read() is None:
            first = terminal.now() + ECHO_WAIT_S
            while stream.raw_size == self._typed_raw and stream.ended is None and terminal.now() < first:
                await stream.wait(first)
                if stream.raw_size != self._typed_raw:
                    self._note_echo(stream.last_data)
            quiet_s = max(REMOTE_ECHO_QUIET_S, 1.5 * self._echo_delay_s)
        while stream.ended is None and terminal.now() < deadline:
            if terminal.input_is_read() is False or self._is_asleep():
                await asyncio.sleep(_POLL_S)
            elif terminal.now() < (due := max(stream.last_data, self._typed_at) + quiet_s):
                await stream.wait(min(due, deadline))
            else:
                return True
        return False

    def _is_asleep(self) -> bool:
        """Return whether the program in the foreground, which gets each key, has done nothing since the last keys."""
        wakeups = self._terminal.wakeups()
        return wakeups is not None and wakeups == self._typed_wakeups and self._line.line != "" and self._terminal.takes_keys()

    async def _read_line(self, key: bytes) -> tuple[Sequence[Place], list[str]]:
        """Read the line at the cursor from the screen once the echo has settled, and where it goes then.

        There is no reading if the line cannot be read: the far end has not handled the keys, or sends more output.
        """
        for _ in range(_READINGS):
            is_settled, places, raw = await self._echo_settled(), self._places(), self._stream.raw_size
            in_lines = self._terminal.reads_lines()
            if not is_settled or (places[0].where == "prompt" and not self._shows_prompt_since_enter()):
                return places, []
            try:
                screen = (await self._screen.state()).snapshot
            except PtyctlError:
                return places, []
            await self._terminal.nothing_more()
            is_same = (raw, places, in_lines) == (self._stream.raw_size, self._places(), self._terminal.reads_lines())
            if is_same and self._terminal.input_is_read() is not False:
                return places, self._shown_lines(screen, key, places)
        return self._places(), []

    def _shown_lines(self, screen: ScreenSnapshot, key: bytes, places: Sequence[Place]) -> list[str]:
        """Return the readings of the line at the cursor. If they are what was typed, the pending line is known again."""
        prompt = self._terminal.prompt.learned
        readings = shown_lines(screen, prompt)
        if places[0].where == "program":
            return readings or [row.strip() for row in screen.rows[screen.cursor[0] :][:1]]
        typed = self._line.typed
        if not self._line.is_readable_at(key) or (typed is None and self._terminal.reads_lines()):
            return []  # the kernel's editor does not show the line again behind a new prompt
        if typed is not None and not any(typed.strip() in reading for reading in readings):
            return []
        if typed is not None and shows_only(screen, prompt, typed):
            self._line.confirm()
        return readings


def _is_strict(verdict: Verdict) -> bool:
    return verdict.decision in (Decision.ASK, Decision.DENY)


def _is_text(text: str) -> bool:
    """Return whether a text is valid Unicode, so that a person can review it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _denied(verdict: Verdict, *, sensitive: bool) -> PtyctlError:
    rules = ", ".join(verdict.rules)
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy denies this text{f' (rule {rules})' if rules else ''}: {verdict.reason}; it was not run",
        _details(verdict, sensitive=sensitive),
        hint="do something else, or ask the person who writes the policy",
    )


def _details(verdict: Verdict, *, sensitive: bool) -> dict[str, object]:
    shown = {} if sensitive else {"canonical": verdict.canonical}
    return {"decision": str(verdict.decision), "rules": list(verdict.rules), "reason": verdict.reason, **shown}


def _secret(verdict: Verdict) -> PtyctlError:
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"this text needs an approval ({verdict.reason}), and a secret cannot be shown to an approver; it was not run",
        _details(verdict, sensitive=True),
        hint="send it as ordinary text if it is not a secret",
    )


def _unreadable(verdict: Verdict) -> PtyctlError:
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        "the typed line is not known for certain, and so cannot be judged; it was not run",
        {"decision": "ask", "rules": list(verdict.rules), "reason": "unreadable"},
        hint="type the whole command in one write, without Tab, history or cursor keys",
    )
