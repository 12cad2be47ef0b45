"""Authorization of input: the policy judges every text of a caller before it is sent to the far end.

The command of a run is judged whole. Other input passes the gate key by key. The model of the typed line
(`ptyctl.policy.pending_line`) has the line that a key submits, if it is known. Otherwise the line is read from the screen.
What the session types itself (logins, pager keys, replies to queries) is not judged.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from ptyctl.api.errors import PtyctlError
from ptyctl.core.control_sequences import BRACKETED_PASTE, ESC
from ptyctl.core.lease import Owner
from ptyctl.core.renderer import render_line
from ptyctl.policy.pending_line import PendingLine, Piece, keys_after_last_line
from ptyctl.policy.rules import Decision, Verdict, Where
from ptyctl.policy.shell_command import expands_history, runs_history
from ptyctl.session.device.prompt_guard import SLOW_PROMPT_WAIT_S, PromptGuard
from ptyctl.session.io.gate import Refusal, Split, Writer
from ptyctl.session.io.input_echo import SETTLE_WAIT_S, InputEcho
from ptyctl.session.io.prompt import PROMPT_BYTES
from ptyctl.session.io.shell_identity import ShellReader
from ptyctl.session.io.terminal_state import FarEnd, TerminalState
from ptyctl.session.io.time_slice import TimeSlice
from ptyctl.session.screen.screen import Screen
from ptyctl.session.screen.shown_line import LineLocation

from .approvals import Approval, Approvals, Bond, HeldText, no_approval
from .enforcement import Enforcement, denied, not_approvable, place_changed, policy_changed, too_long_at_once
from .foreground_reader import ForegroundReader
from .input_places import InputPlaces
from .judgement import Judgement, Place, PolicyDecisionPoint, Subject, stricter
from .line_reader import LineReader
from .line_synchronisation import LineSynchronisation
from .verdict_thread import LONG_TEXT, judge_in_thread, judge_outside_loop

#: The longest wait for the text of a prompt that the shell has reported (seconds).
PROMPT_WAIT_S = 1.0
#: How often a wait that takes longer, because a local shell does not read yet, checks that (seconds).
_PROMPT_POLL_S = 0.05
#: How often a text is judged because it goes to another place, or another policy is in force, than when its judgement began.
_JUDGEMENTS = 3
#: The longest input that is judged while nothing else happens, in bytes: an answer that is typed once a pattern matches.
MAX_JUDGED_AT_ONCE = LONG_TEXT
#: Most verdicts on long commands that wait for their runs.
_MAX_AHEAD = 8
#: A write is followed in parts of this size, in bytes; other tasks may run between them.
_BATCH_BYTES = 256
#: A line of a text counts as this many characters in addition, when the time for its verdict is estimated.
_LINE_COST = 32
#: Keys of line editors; a newline ends a line.
_LINE_ENDS = re.compile(rb"[\r\n]")
#: Keys that submit the line in a terminal in canonical mode.
_END_OF_INPUT = b"\x04"
_SUBMITS_IN_DRIVER = (b"\r", b"\n", _END_OF_INPUT)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KEYS = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]")


class Authorization:
    """Judges the input of callers in one session, and refuses or holds what the policy does not allow.

    Before `set_policy` everything is allowed: the input of a session that is only read from disk.
    """

    def __init__(
        self,
        subject: Subject,
        terminal: TerminalState,
        screen: Screen,
        far_end: FarEnd,
        shell_reader: ShellReader,
        *,
        bond: Callable[[], Bond],
        post_notice: Callable[[str], None],
        on_refused: Callable[[Writer, str, PtyctlError, str | None, str], None],
    ) -> None:
        """Create the authorization of one session.

        Args:
            shell_reader: observes which shell reads.
            bond: returns the connection and the lock that an approval depends on.
            on_refused: called with a writer, the text that is denied, the error, the block_id of a command
                that is kept, and how the text came (`exec` or `write`).
        """
        self._subject = subject
        self._terminal = terminal
        self._stream, self._unfinished = terminal.stream, terminal.unfinished_line
        self._far_end = far_end
        self._line = PendingLine()
        location = LineLocation(terminal, far_end)
        self._places = InputPlaces(terminal, far_end, subject.program)
        self._synchronisation = LineSynchronisation(self._line, terminal, far_end, self._places)
        self._echo = InputEcho(terminal, lambda: self._line.is_empty, self._synchronisation.awaits_line)
        self._reader = ForegroundReader(terminal, location, far_end, self._places, subject.protocol)
        self._line_reader = LineReader(self._line, terminal, screen, location, self._echo, self._places, far_end)
        self._enforcement = Enforcement(
            subject,
            terminal,
            far_end,
            self._line,
            self._places,
            self._synchronisation,
            self._reader,
            shell_reader,
            judgement=self._judgement,
            check_edited=self._check_edited,
            bond=bond,
            post_notice=post_notice,
            on_refused=on_refused,
        )
        self._policy: PolicyDecisionPoint | None = None
        self._approvals: Approvals | None = None
        #: Where long commands would go, and the policy's verdicts on them there, which were found in the thread.
        self._ahead: dict[tuple[str, Owner], tuple[Sequence[Place], object, Verdict]] = {}
        #: Whether keys are judged, and for which policy, platform and caller. Kept, because each key needs it.
        self._keys_judged: tuple[object, bool] = (None, False)
        #: Whether the lines before the pending one may have a secret.
        self._has_secret = False
        #: The output at the last mark of a prompt that has shown no text.
        self._without_prompt_text = -1

    def set_policy(self, policy: PolicyDecisionPoint, approvals: Approvals) -> None:
        """Set the policy that judges all further input."""
        self._policy, self._approvals = policy, approvals
        self._enforcement.set_policy(policy, approvals)

    @property
    def policy_name(self) -> str | None:
        """The name of the policy in force."""
        return None if self._policy is None else self._policy.name

    def session_ended(self, why: str) -> None:
        """Withdraw the requests for approvals."""
        if self._approvals is not None:
            self._approvals.session_ended(self._subject.session_id, why)

    def lock_ended(self, owner: Owner) -> None:
        """End the standing approvals of a lock's owner, and the requests that were made under the lock."""
        if self._approvals is not None:
            self._approvals.lock_ended(self._subject.session_id, owner)

    def connection_ended(self) -> None:
        """End the requests that were made on an earlier connection."""
        if self._approvals is not None:
            self._approvals.expire_due(self._subject.session_id)

    async def check(self, text: str, writer: Writer, mode: str | None, where: Where | None) -> tuple[Verdict, Place] | None:
        """Return the verdict on a text as on typed input, and where it would go now; None without a policy.

        Args:
            mode: instead of the mode of the prompt that is shown.
            where: instead of where the session is.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if it takes too long.
        """
        if self._policy is None:
            return None
        places, prompt = self._places.now(), self._places.prompt()
        if where is not None and where != places[0].where:
            places = (prompt,) if where == "prompt" else self._places.in_program(prompt)
        if mode is not None:
            places = tuple(place._replace(mode=mode) for place in places)
        return await self._judge_outside_loop(text, places, writer), places[0]

    def pending_approvals(self) -> int:
        """Return the number of texts that wait for an approval."""
        return 0 if self._approvals is None else self._approvals.pending(self._subject.session_id)

    def find_approval(self, approval_id: str, owner: Owner) -> Approval:
        """Return the approval that a caller continues with. Raises PtyctlError NOT_FOUND."""
        if self._approvals is None:
            raise no_approval(approval_id)
        return self._approvals.find(approval_id, self._subject.session_id, owner)

    # Commands of runs

    async def judge_ahead(self, text: str, writer: Writer) -> None:
        """Judge a long command in a thread; `judge_command` uses the verdict if the command still goes to the same place.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if it takes too long.
        """
        if self._policy is None:
            return
        for _ in range(_JUDGEMENTS):
            places, policy = self._places.of_run(), self._policy.identity
            verdict = await judge_in_thread(partial(self._judgement(places, writer).verdict, text, places))
            if places == self._places.of_run() and policy is self._policy.identity:
                break
        while len(self._ahead) >= _MAX_AHEAD:  # their calls were cancelled
            del self._ahead[next(iter(self._ahead))]
        self._ahead[text, writer.owner] = places, policy, verdict

    def judge_command(self, text: str, writer: Writer, block_id: str, *, is_quoted: bool | None) -> Approval | None:
        """Judge the command of a run; return the approval that it must wait for, or None.

        Args:
            is_quoted: whether a shell gets the command as a quoted word. Otherwise control characters are keys. None: it is not
                known before the shell is. Then a Tab, which indents scripts, is taken for text.

        Raises:
            PtyctlError: POLICY_DENIED; BUSY if a long command was judged for another place or by another policy.
        """
        if self._policy is None:
            return None
        places = self._places.of_run()
        judged_for, policy, verdict = self._ahead.pop((text, writer.owner), (None, None, None))
        if verdict is None or judged_for != places or policy is not self._policy.identity:
            if len(text) > LONG_TEXT:
                raise place_changed("the command")
            verdict = self._judgement(places, writer).verdict(text, places)
        writer.review.record_reader(places[0].shell, is_program=places[0].where == "program")
        verdict = self._with_certainty(verdict, text, places, writer, is_quoted=is_quoted)
        approval = self._enforcement.apply(verdict, text, places, writer, block_id)
        if approval is None:
            self._synchronisation.note_command(text)
        return approval

    def _with_certainty(
        self, verdict: Verdict, text: str, places: Sequence[Place], writer: Writer, *, is_quoted: bool | None
    ) -> Verdict:
        """Return the verdict on the command of a run, or the stricter one on a text that may be changed on its way."""
        keys = _CONTROL if is_quoted is None else _KEYS
        is_known = is_quoted or not (keys.search(text) or (is_quoted is False and self._recalls(text, places)))
        if is_known and not self._terminal.rewrites_input():
            return verdict
        return stricter(verdict, self._judgement(places, writer).unreadable(places[0]))

    def check_for_shell(self, text: str, writer: Writer, block_id: str, *, is_quoted: bool) -> None:
        """Judge the command of a run again that was judged as input of a program, if a shell gets it now.

        Args:
            is_quoted: a shell certainly gets the command, as a quoted word. Otherwise it is judged if a prompt gets input now.

        Raises:
            PtyctlError: POLICY_DENIED; BUSY if it needs an approval that it does not have: the next call asks for it.
        """
        if self._policy is None or not (is_quoted or self._places.of_run()[0].where == "prompt"):
            return
        if len(text) > LONG_TEXT:
            raise place_changed("the command")
        places = (self._places.prompt(),)
        verdict = self._judgement(places, writer).verdict(text, places)
        verdict = self._with_certainty(verdict, text, places, writer, is_quoted=is_quoted)
        if verdict.decision is not Decision.ASK:
            self._enforcement.apply(verdict, text, places, writer, block_id)
        elif not _is_approved(text, verdict, writer):
            raise place_changed("the command")

    def check_command(self, text: str, writer: Writer) -> None:
        """Judge a command that the session types for a caller, as part of a mode change or of saving.

        Raises:
            PtyctlError: POLICY_DENIED, also for a command that needs an approval: the caller can run it as a separate command.
        """
        if self._policy is None:
            return
        self._check_whole(text, self._places.of_run(), writer, "run this command by itself, and have it approved")

    def check_break(self, writer: Writer) -> None:
        """Judge a break condition, as the command `break`.

        Raises:
            PtyctlError: POLICY_DENIED, also if it needs an approval: only text can be approved.
        """
        if self._policy is not None:
            self._check_whole("break", self._places.now(), writer, "ask a person to send it")

    def _check_whole(self, text: str, places: Sequence[Place], writer: Writer, hint: str) -> None:
        """Judge a text that cannot wait for an approval. Raises PtyctlError POLICY_DENIED."""
        verdict = self._judge(text, places, writer)
        if self._terminal.rewrites_input():
            verdict = stricter(verdict, self._judgement(places, writer).unreadable(places[0]))
        if verdict.decision is Decision.ASK and not self._enforcement.keys_allowed(places, writer):
            error = not_approvable(verdict, text, hint, sensitive=writer.sensitive)
            writer.review.record(verdict)
            raise self._enforcement.report_refusal(error, text, writer, is_secret=writer.sensitive)
        self._enforcement.apply(verdict, text, places, writer)

    def confirm(self, approval: Approval, writer: Writer) -> str:
        """Redeem an approval, and return the text to type.

        Raises:
            PtyctlError: DECLINED if there is no approval, the state it is bound to has changed, or the policy in force does not
                let it count; APPROVAL_PENDING.
        """
        if approval.state == "approved":
            held = approval.held
            places = self._places.of_run() if held.block_id is not None else self._places.now()
            if not held.keys and (not self._unfinished.empty or self._places.shows_text_after_prompt()):
                approval.set_stale("text was typed into the line meanwhile")
            if places[0].where == "prompt" and not self._knows_shell(held):
                approval.set_stale("a line was entered, and the shell that reads after it is not known yet")
            self._note_line_for(places, is_single="\n" not in approval.text)
            if held.binding != self._enforcement.state_hash(held.text, places):
                why = "the connection, the prompt, the folder, the program or the lock has changed since it was asked for"
                approval.set_stale(why)
            elif (why_not := self._no_longer_approvable(approval, places, writer)) is not None:
                approval.set_stale(why_not)
        text = approval.redeem()
        self._enforcement.release(writer.owner)
        self._synchronisation.note_command(text)
        writer.review.record_approval(approval, edited=approval.edited)
        return text

    async def shell_known(self, approval: Approval) -> None:
        """Wait until it is known which shell gets an approved line: it may still handle the keys that have erased the line."""
        terminal, stream = self._terminal, self._stream
        deadline = terminal.now() + PROMPT_WAIT_S
        while approval.state == "approved" and stream.ended is None and terminal.now() < deadline:
            if self._places.now()[0].where != "prompt" or self._knows_shell(approval.held):
                return
            await stream.wait(min(deadline, terminal.now() + _PROMPT_POLL_S))

    def _knows_shell(self, held: HeldText) -> bool:
        """Return whether the shell that reads is known: it has read all lines that users have entered, and shows its prompt.

        One that reads an unfinished command has run nothing since the request, whose binding has the lines of that command.
        """
        if self._far_end.is_device() or self._unfinished.entered_raw < 0:
            return True
        return (held.unfinished or self._reader.shell_reads()) and self._terminal.input_is_read() is not False

    def _no_longer_approvable(self, approval: Approval, places: Sequence[Place], writer: Writer) -> str | None:
        """Return why the policy in force does not let an approval count, or None. A long text is not judged again."""
        assert self._policy is not None
        held, text, is_same_policy = approval.held, approval.text, self._policy.identity is approval.held.policy
        if len(text) > LONG_TEXT:
            return None if is_same_policy else "the policy has changed since it was asked for"
        judgement = self._judgement(places, writer)
        try:
            if held.block_id is not None:
                verdict = judgement.verdict(text, places)
            else:
                verdict = judgement.lines(text.split("\n"), self._with_continued(text, places), places)
        except PtyctlError as error:
            return error.message
        if verdict.decision is Decision.DENY:
            return f"the policy denies this text now: {verdict.reason}"
        # The approver of an edited text has chosen it under the same policy.
        is_new = verdict.decision is Decision.ASK and not set(verdict.rules) <= set(held.rules)
        if is_new and not (approval.edited and is_same_policy):
            return f"another rule of the policy asks for an approval now: {verdict.reason}"
        return None

    def _note_line_for(self, places: Sequence[Place], *, is_single: bool) -> None:
        """Note whether a shell that has read all input before gets what is submitted next, which is a single line."""
        to_shell = is_single and places[0].where == "prompt" and self._reader.shell_reads()
        self._synchronisation.line_sent(to_shell=to_shell)

    # Input that passes the gate

    def awaits_prompt(self) -> bool:
        """Return whether a shell has returned to its prompt, and has not shown it yet: what is typed before is not edited."""
        stream, unfinished, returned_raw = self._stream, self._unfinished, self._stream.shell_returned_raw
        if not unfinished.empty or returned_raw < max(unfinished.entered_raw, 0):
            return False
        if stream.command_begun or self._without_prompt_text == returned_raw or self._is_text_shown_since(returned_raw):
            return False
        has_text = bool((self._terminal.learned_prompt or "").strip())
        return has_text or (self._far_end.has_marks() and BRACKETED_PASTE not in stream.terminal_modes)

    def _is_text_shown_since(self, raw: int) -> bool:
        stream = self._stream
        if stream.raw_size - raw > PROMPT_BYTES:
            return True
        shown = stream.read_raw(raw, stream.raw_size)
        return b"\n" in shown or bool(render_line(shown))

    async def prompt_shown(self) -> None:
        """Wait until the prompt is shown. One without text is waited for once."""
        terminal, stream = self._terminal, self._stream
        begin = terminal.now()
        deadline, limit = begin + PROMPT_WAIT_S, begin + SLOW_PROMPT_WAIT_S
        while self.awaits_prompt() and stream.ended is None:
            now = terminal.now()
            if now >= limit or (now >= deadline and not self._shell_has_yet_to_read()):
                self._without_prompt_text = stream.shell_returned_raw
                return
            deadline = max(deadline, now + _PROMPT_POLL_S)
            await stream.wait(deadline)
        while stream.ended is None and terminal.now() < deadline and not await terminal.nothing_more():
            pass

    def _shell_has_yet_to_read(self) -> bool:
        """Return whether the terminal would certainly handle a key before a shell reads it: Ctrl-D would be lost."""
        return self._terminal.reads_lines() and self._terminal.waits_for_input() is False

    def sending(self, data: bytes) -> None:
        """Note the program that gets input which may submit a line: its wake-ups then show whether it has read the input."""
        if self._policy is None:
            return
        self._reader.line_begins()
        if self._line.may_be_submitted_by(data):
            self._echo.sending(self._reader.sending(data))

    def typed(self, data: bytes, *, secret: bool = False) -> None:
        """Update the pending line with input that was sent."""
        self._synchronisation.synchronise()
        for _ in self._line.feed(data):
            pass
        if not self._line.is_empty and self._rewrites_input():
            self._line.lose()
        if self._reader.other_program_gets(data):
            self._line.read_by_program()
        was_incomplete = self._synchronisation.has_lost_lines and self._unfinished.incomplete
        self._unfinished.set_incomplete(self._line.is_open or was_incomplete)
        self._synchronisation.input_sent(data)
        self._reader.typed(data, secret=secret)
        self._has_secret = (secret or self._has_secret) and (self._line.has_continued or not self._line.is_empty)
        self._echo.typed()

    def is_judged(self, data: bytes, writer: Writer) -> bool:
        """Return whether input is judged before it is sent: it may submit a line, or a program may read it key by key.

        The last prompt may have reported a macro on one of these keys.
        """
        self._synchronisation.set_bindings()
        self._line.set_for_editor(self._may_reach_editor(data))
        return self._line.may_be_submitted_by(data) or self._judges_keys(writer)

    def _may_reach_editor(self, data: bytes) -> bool:
        """Return whether a program may get an Escape: one runs, or what was or is typed before may start one."""
        if ESC not in data or self._far_end.is_device():
            return False
        return b"\r" in data or b"\n" in data or self._places.now()[0].where == "program" or not self._reader.shell_reads()

    def check_held(self, data: bytes, writer: Writer) -> None:
        """Refuse input of a writer whose line was refused within an unfinished command. Raises PtyctlError BUSY."""
        if self._enforcement.holds(writer.owner):
            self._synchronisation.synchronise()
            self._enforcement.check_held(data, writer)

    def asks_secret(self) -> bool:
        """Return whether the last line of a far end whose echo is not known asks for a password, and is no shell's prompt."""
        return self._reader.asks_secret()

    def split(self, data: bytes, judged: int) -> Split:
        """Split input before the first key that may submit a line which is not judged; `judged` lines are."""
        self._line.set_for_editor(self._line.is_for_editor or self._may_reach_editor(data))
        if not self._line.may_be_submitted_by(data):
            return Split(len(data), 0, 0)
        if self._rewrites_input():
            judged = 0  # perhaps only since the lines were judged
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
        self._synchronisation.line_replaced()
        self._reader.line_replaced()

    def lose_line(self) -> None:
        """Mark the pending line as unknown: the command of a run was not sent whole, or a break may have changed it."""
        self._synchronisation.synchronise()
        self._line.lose()

    def line_restored(self, inputs: Sequence[tuple[bytes, bool]] | None, text: str | None, *, is_recorded: bool) -> None:
        """Continue the pending line of an earlier process.

        If the lines that it may continue are not known, a line at a shell's prompt is not: the screen cannot show them.

        Args:
            inputs: the input since the line was empty, and whether the lines up to the end of each piece are the beginning of
                a command; None if it is not known.
            text: what was typed of the line; empty after a line end, None if that is not known.
            is_recorded: whether all input of the earlier process is known.
        """
        self._synchronisation.restore(inputs, text, is_recorded=is_recorded)
        if not self._line.is_empty and self._rewrites_input():
            self._line.lose()
        if text:
            self._reader.typed(text.encode(), secret=False)

    async def review(self, data: bytes, writer: Writer) -> int:
        """Judge the lines that input submits, as far as they are known before any of it is sent; return their number.

        `is_judged` is called immediately before, so that the bindings of these keys are known.

        Raises:
            Refusal: the policy does not allow one of them; nothing is to be sent.
        """
        if self._policy is None:
            return 1 << 30
        if _LINE_ENDS.search(data, 0, len(data) - 1):
            await self._interrupt_answered()
            await self._line_reported()
        if not self._line.may_be_submitted_by(data) and self._places_of_keys(data, follows=False) is None:
            return 0
        self._synchronisation.synchronise()
        if not self._line.may_be_submitted_by(data):  # so the policy judges keys
            await self._judge_single_keys(data, writer, follows=False)
            return 0
        if self._ends_input(data, "" if self._line.is_empty else None):
            return 1
        lines = [] if await self._reader.will_take_password(data) else await self._known_lines(data)
        for _ in range(_JUDGEMENTS):
            judged_by = self._judged_by(writer)
            if lines:
                await self._judge_lines(lines, writer)
            await self._judge_keys(data, writer)
            if len(data) <= LONG_TEXT or self._judged_by(writer) == judged_by:
                return len(lines)
        raise place_changed("the text")

    def review_now(self, data: bytes, writer: Writer) -> bool:
        """Judge input as `review` does, without waiting: an unknown line counts as unreadable. A password is not judged.

        Return whether it may be sent to any program; otherwise only to one that reads a password. Long input is refused, as
        nothing else would happen until its verdict.
        """
        self._synchronisation.synchronise()
        if self._policy is None:
            return True
        if len(data) > MAX_JUDGED_AT_ONCE:  # so no password either
            raise Refusal(self._enforcement.report_refusal(too_long_at_once(MAX_JUDGED_AT_ONCE), "", writer), b"")
        model = self._line.copy()  # a write that has begun keeps its own
        model.set_for_editor(self._may_reach_editor(data))
        pieces = list(model.feed(data))
        if self._reader.takes_password(data) and not any(piece.submits for piece in pieces[:-1]):
            return False
        self._judge_keys_now(pieces, writer)
        self._judge_lines_now([piece.line for piece in pieces if piece.submits], writer)
        return True

    def _judge_keys_now(self, pieces: Sequence[Piece], writer: Writer) -> None:
        """Judge the text after the last line of some input, as `_judge_keys` does. Raises Refusal."""
        if not self._judges_keys(writer):
            return
        keys, follows = keys_after_last_line(pieces)
        if (places := self._places_of_keys(keys, follows=follows)) is not None:
            text = keys.decode("utf-8", "surrogateescape")
            self._enforcement.enforce(self._judge(text, places, writer), text, places, writer, keys=True)

    def _judge_lines_now(self, submitted: Sequence[str | None], writer: Writer) -> None:
        """Judge lines that follow each other, at once; an unknown one is None. Raises Refusal."""
        known = [line for line in takewhile(lambda line: line is not None, submitted) if line is not None]
        text, places = "\n".join(known), self._places.now()
        judgement = self._judgement(places, writer)
        verdict = None
        if known:
            verdict = judgement.verdict(text, places)
            for line in known:
                verdict = stricter(verdict, judgement.part(line, places))
            if self._reader.may_be_left(places):
                verdict = stricter(verdict, judgement.verdict(text, places[-1:]))
        is_known = len(known) == len(submitted)
        is_known = is_known and not (self._terminal.rewrites_input() or any(self._recalls(line, places) for line in known))
        is_known = is_known and not self._synchronisation.may_continue_lost_lines()
        if not is_known:
            verdict = stricter(verdict, judgement.unknown(places))
        if verdict is not None:
            self._enforcement.enforce(verdict, text, places, writer, readable=is_known)

    async def admit(self, key: bytes, writer: Writer) -> None:
        """Judge the line that a key submits before the key is sent. Raises Refusal."""
        if self._policy is not None and not await self._reader.will_take_password(key):
            await self._admit(key, writer)

    async def _admit(self, key: bytes, writer: Writer) -> None:
        line = self._line_submitted_by(key)
        if line is None and (in_driver := self._line_in_driver(key)) is not None:
            if self._ends_input(key, in_driver):
                return
            await self._judge_lines([in_driver], writer)
            if self._line_in_driver(key) != in_driver:
                raise place_changed("the line")
            self._line.read(in_driver)
            return
        if line is not None:
            await self._judge_lines([line], writer)
            return
        places, readings, verdict, is_certain = await self._judge_readings(key, writer)
        readable = is_certain and len(readings) == 1
        self._enforcement.enforce(verdict, readings[0] if readings else "", places, writer, readable=readable)
        if readings and self._line.line is None:
            self._note_readings(readings)

    def _ends_input(self, key: bytes, line: str | None) -> bool:
        """Return whether a key ends the input of a program that reads a line, and submits no text: any policy allows that."""
        return key == _END_OF_INPUT and line == "" and self._places.now()[0].where == "program" and self._reader.reads_line()

    def _line_submitted_by(self, key: bytes) -> str | None:
        """Return the line that a key submits; None if it is not known."""
        line = next((piece.line for piece in self._line.copy().feed(key) if piece.submits), None)
        if line is None and key in (b"\r", b"\n") and self.asks_secret():
            return self._line.typed  # the screen does not show it
        return line

    async def _judge_readings(self, key: bytes, writer: Writer) -> tuple[Sequence[Place], list[str], Verdict, bool]:
        """Judge the line that a key submits as the screen shows it.

        Return where it goes, its readings, the verdict, and whether the readings are certain.
        """
        verdict = None
        for _ in range(_JUDGEMENTS):
            places, readings = await self._readings(key)
            raw, judgement = self._stream.raw_size, self._judgement(places, writer)
            texts = [self._with_continued(reading, places) for reading in readings]
            size = sum(map(len, texts))
            for_readings = await judge_outside_loop(partial(judgement.strictest, texts, places), size)
            verdict = verdict if for_readings is None else stricter(verdict, for_readings)
            if size <= LONG_TEXT or self._judged_by(writer) == (places, judgement):
                break
        else:
            raise place_changed("the line")
        # long readings were judged in a thread
        is_same = raw == self._stream.raw_size and not (self._terminal.rewrites_input() or self._line_reader.is_displaced)
        is_certain = is_same and not places[-1].is_ahead and not any(self._recalls(reading, places) for reading in readings)
        if verdict is None or not is_certain:
            verdict = stricter(verdict, self._judgement(places, writer).unknown(places))
        return places, readings, verdict, is_certain

    async def _readings(self, key: bytes) -> tuple[Sequence[Place], list[str]]:
        """Return where the line that a key submits goes, and its readings: none if it is masked, or cannot be read."""
        # line editors show a paste at its end, and zsh takes the lines of one that pauses for 1 s for typed ones
        if self._line.is_pasting and BRACKETED_PASTE in self._stream.terminal_modes:
            return self._places.now(), []
        places, readings = await self._line_reader.read(key)
        if self._reader.is_masked or self._synchronisation.may_continue_lost_lines():
            return places, []
        return places, readings

    def _line_in_driver(self, key: bytes) -> str | None:
        """Return the line that Enter or Ctrl-D submits to a read(2) in canonical mode, if the terminal driver certainly has it.

        The mode of vi and other keys of the shell's line editor have no effect on it. If the read ends before it gets the
        line, the line editor gets the text and Enter: a macro of that key must not be known.
        """
        if key not in _SUBMITS_IN_DRIVER or self._synchronisation.may_continue_lost_lines() or self._terminal.rewrites_input():
            return None
        is_certain = self._line.is_readable_at(key) and self._reader.driver_has_line()
        return self._line.typed if is_certain else None

    def _note_readings(self, readings: Sequence[str]) -> None:
        """Note what the next lines may continue: the only reading, or the typed text if there are several readings."""
        filled, typed = self._unfinished.filled, self._line.typed_text
        if len(readings) == 1 or typed is None:
            self._line.read(readings[0])
        elif filled:
            self._line.read(filled.decode("utf-8", "surrogateescape") + typed)

    async def _interrupt_answered(self) -> None:
        """Wait until a shell has discarded its line at a Ctrl-C: until then, none of several lines is known."""
        terminal, stream, synchronisation = self._terminal, self._stream, self._synchronisation
        if synchronisation.awaits_interrupted_line():  # the kernel may deliver the key late, after the answer to an earlier one
            await PromptGuard(terminal, self._far_end.profile()).shell_has_read(self._far_end.has_marks)
            synchronisation.synchronise()
        begin = terminal.now()
        while synchronisation.awaits_interrupted_line() and stream.ended is None:
            now = terminal.now()
            limit_s = SLOW_PROMPT_WAIT_S if terminal.input_is_read() is False else PROMPT_WAIT_S
            if now >= begin + limit_s:
                return
            await synchronisation.clear_line_of_fish()
            await stream.wait(now + _PROMPT_POLL_S)
            synchronisation.synchronise()

    async def _line_reported(self) -> None:
        """Wait until zsh has reported what its hooks have put into the line: until then, none of several lines is known.

        The shell at its prompt reports it within milliseconds; a run may have ended before that.
        """
        await self._terminal.line_reported(SETTLE_WAIT_S, self._synchronisation.awaits_line)

    async def _known_lines(self, data: bytes) -> list[str]:
        """Return the lines that input submits, up to the first unknown one."""
        lines: list[str] = []
        async for piece in self._pieces_of(data):
            if piece.submits:
                if piece.line is None:
                    break
                lines.append(piece.line)
        return lines

    async def _pieces_of(self, data: bytes) -> AsyncIterator[Piece]:
        """Yield the pieces of input. Other tasks run between batches: if they type, the gate judges the input again."""
        model, time_slice = self._line.copy(), TimeSlice()
        for begin in range(0, len(data), _BATCH_BYTES):
            await time_slice.yield_if_over()
            for piece in model.feed(data[begin : begin + _BATCH_BYTES]):
                yield piece

    def _judges_keys(self, writer: Writer) -> bool:
        """Return whether the policy asks for, or denies, input to a program that no rule names."""
        name = self._far_end.platform()
        if self._policy is None or self._far_end.is_device():
            return False
        by = self._policy.identity, name, writer.by.kind, writer.by.name, writer.task_id
        if self._keys_judged[0] != by:
            place = Place(name, where="program")
            self._keys_judged = by, _is_strict(self._judgement((place,), writer).programs(place))
        return self._keys_judged[1]

    async def _judge_keys(self, data: bytes, writer: Writer) -> None:
        """Judge the text after the last line of some input: a program may read it key by key. Raises Refusal."""
        if not self._judges_keys(writer):
            return
        keys, follows = keys_after_last_line([piece async for piece in self._pieces_of(data)])
        await self._judge_single_keys(keys, writer, follows=follows)

    async def _judge_single_keys(self, keys: bytes, writer: Writer, *, follows: bool) -> None:
        """Judge text without a line end. `follows`: a line end of the same write precedes it. Raises Refusal."""
        text, places = keys.decode("utf-8", "surrogateescape"), self._places_of_keys(keys, follows=follows)
        if places is None:
            return
        verdict = None
        for _ in range(_JUDGEMENTS):
            judgement = self._judgement(places, writer)
            verdict = stricter(verdict, await judge_outside_loop(partial(judgement.verdict, text, places), len(text)))
            now = self._places_of_keys(keys, follows=follows) or places
            if len(text) <= LONG_TEXT or (now, self._judgement(now, writer)) == (places, judgement):
                break
            places = now  # another program has begun to read, or another policy is in force
        else:
            raise place_changed("the text")
        self._enforcement.enforce(verdict, text, places, writer, keys=True)

    def _places_of_keys(self, keys: bytes, *, follows: bool) -> Sequence[Place] | None:
        """Return where text without a line end goes if a program may read single keys of it; None otherwise.

        A program that waits for a line gets it at Enter. One that does not read yet may read single keys later.
        """
        if not keys or (not follows and self._reader.leaves_program(keys)):
            return None
        places = self._places.now()
        if places[0].where == "prompt":
            if not follows and self._reader.shell_reads():
                return None
            places = self._places.in_program(places[0]._replace(is_ahead=True))
        return places if follows or not self._reader.reads_line() else None

    def will_read_password(self, text: str) -> bool:
        """Return whether a program asks for a password that `text` may be, and has not begun to read it."""
        data = text.encode("utf-8", "surrogateescape")
        return self._policy is not None and self._reader.asks_for_password_before_reading(data)

    async def asks_until_password_is_read(self, text: str) -> bool:
        """Wait until the program that asks for a password reads it; return False if it does not ask any longer."""
        await self._reader.will_take_password(text.encode("utf-8", "surrogateescape"))
        return self._terminal.reads_password()

    async def _judge_lines(self, lines: Sequence[str], writer: Writer, *, may_wait: bool = True) -> None:
        """Judge lines that follow each other: at a prompt as one text, and each alone.

        `may_wait`: whether to wait for the line editor of a program, if the text may be sent once that has started.
        """
        text, verdict = "\n".join(lines), None
        for _ in range(_JUDGEMENTS):
            places, judgement = self._judged_by(writer)
            self._note_line_for(places, is_single=len(lines) == 1)
            if places[0].where == "program" and not self._line.may_be_continued:
                self._line.forget_continued()
            has_waited = self._judges_in_thread(lines)
            verdict = stricter(verdict, await self._verdict_on(lines, places, judgement))
            waits_for_editor = may_wait and len(lines) == 1 and places[-1].is_ahead and _is_strict(verdict)
            if waits_for_editor:
                may_wait = False
                waits_for_editor = await self._may_be_sent_to_editor(lines, places, judgement)
                if waits_for_editor and await self._reader.next_reader() in ("keys", "prompt"):
                    await self._judge_lines(lines, writer, may_wait=False)
                    return
            of_shell = None if _is_strict(verdict) else await self._verdict_if_left(lines, places, judgement)
            if of_shell is not None:
                verdict, has_waited = stricter(verdict, of_shell), True
            # At a prompt, the verdict tells whether a builtin runs history.
            runs = expands_history if places[0].where == "prompt" else runs_history
            recalls = self._reader.expands_history(places) and await judge_outside_loop(partial(runs, text), len(text))
            if not (has_waited or waits_for_editor) or self._judged_by(writer) == (places, judgement):
                break
        else:
            raise place_changed("the text")
        if self._has_secret:
            verdict = replace(verdict, canonical=text)
        if recalls or self._terminal.rewrites_input() or self._synchronisation.may_continue_lost_lines():
            self._enforcement.enforce(judgement.unknown(places), text, places, writer, readable=False)
        self._enforcement.enforce(verdict, text, places, writer)

    async def _may_be_sent_to_editor(self, lines: Sequence[str], places: Sequence[Place], judgement: Judgement) -> bool:
        """Return whether lines may be sent once the line editor of the program that runs reads them."""
        of_editor = tuple(place._replace(is_ahead=False) for place in places)
        return not _is_strict(await self._verdict_on(lines, of_editor, judgement))

    async def _verdict_on(self, lines: Sequence[str], places: Sequence[Place], judgement: Judgement) -> Verdict:
        """Judge lines, also after the lines that they may continue: at a prompt, or in the shell below a program."""
        text = "\n".join(lines)
        whole = self._line.continued + text
        judge = partial(judgement.lines, lines, self._with_continued(text, places), places)
        verdict = await judge_in_thread(judge) if self._judges_in_thread(lines) else judge()
        for place in places[1:] if whole not in lines else ():  # a command may have several lines
            verdict = await judge_outside_loop(partial(judgement.for_shell, verdict, whole, place), len(whole))
        return verdict

    def _judges_in_thread(self, lines: Sequence[str]) -> bool:
        """Return whether the verdict on lines may take long, with those that they may continue."""
        return len(self._line.continued) + sum(map(len, lines)) + _LINE_COST * len(lines) > LONG_TEXT

    async def _verdict_if_left(self, lines: Sequence[str], places: Sequence[Place], judgement: Judgement) -> Verdict | None:
        """Return the verdict on lines as commands of the shell, if a local program that does not read may leave them to it.

        None if the program will read them, or if the shell may run them.
        """
        if not self._reader.may_be_left(places):
            return None
        whole = self._line.continued + "\n".join(lines)
        verdict = await judge_outside_loop(partial(judgement.verdict, whole, places[-1:]), len(whole))
        return verdict if _is_strict(verdict) and await self._reader.next_reader() not in ("keys", "line") else None

    # Verdicts

    def _judgement(self, places: Sequence[Place], writer: Writer) -> Judgement:
        """Return what texts for these places are judged by now."""
        assert self._policy is not None
        hides_input = len(places) > 1 and (
            (self._terminal.echo_off() and not self._terminal.reads_password()) or self.asks_secret()
        )
        by = writer.by.kind, writer.by.name, writer.task_id
        return Judgement(self._policy, self._policy.identity, self._subject, *by, hides_input)

    def _judged_by(self, writer: Writer) -> tuple[Sequence[Place], Judgement]:
        """Return where input goes now, and what it is judged by."""
        places = self._places.now()
        return places, self._judgement(places, writer)

    def _judge(self, text: str, places: Sequence[Place], writer: Writer) -> Verdict:
        """Judge a text in its first place, and by the rules of the other places if it is certainly a command there."""
        return self._judgement(places, writer).verdict(text, places)

    async def _judge_outside_loop(self, text: str, places: Sequence[Place], writer: Writer) -> Verdict:
        """As `_judge`; a long text is judged in a thread."""
        return await judge_outside_loop(partial(self._judgement(places, writer).verdict, text, places), len(text))

    def _rewrites_input(self) -> bool:
        """Return whether a policy is in force, and the far end receives text that differs from what was typed."""
        return self._policy is not None and self._terminal.rewrites_input()

    def _recalls(self, text: str, places: Sequence[Place]) -> bool:
        """Return whether a shell that gets a typed text may run a part of its history instead."""
        return self._reader.may_be_history_shell(places) and expands_history(text) and self._reader.expands_history(places)

    def _with_continued(self, text: str, places: Sequence[Place]) -> str:
        """Return a line after the lines that it may continue: a shell reads them as one command."""
        return text if self._far_end.is_device() or places[0].where == "program" else self._line.continued + text

    async def _check_edited(self, text: str, places: Sequence[Place], writer: Writer) -> None:
        """Check the text that an approver wants to be typed instead. Raises PtyctlError POLICY_DENIED, BUSY, LIMIT_EXCEEDED."""
        assert self._policy is not None
        identity = self._policy.identity
        verdict = await self._judge_outside_loop(text, places, writer)
        if verdict.decision is Decision.DENY:
            raise denied(verdict, sensitive=False)
        if self._policy.identity is not identity:
            raise policy_changed()


def _is_strict(verdict: Verdict) -> bool:
    return verdict.decision in (Decision.ASK, Decision.DENY)


def _is_approved(text: str, verdict: Verdict, writer: Writer) -> bool:
    """Return whether a person has approved this text under all rules of the verdict."""
    permit = writer.review.permit
    return isinstance(permit, Approval) and permit.text == text and set(verdict.rules) <= set(permit.held.rules)
