"""Enforcement of verdicts: a text may be sent, is refused, or waits for an approval."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.core.control_sequences import ETX, INTERRUPT_BYTES, NAK, PASTE_END
from ptyctl.core.lease import Owner
from ptyctl.policy.pending_line import PendingLine
from ptyctl.policy.rules import Decision, Verdict
from ptyctl.session.device.exchange import rendered
from ptyctl.session.io.gate import Refusal, Writer
from ptyctl.session.io.shell_identity import ShellReader
from ptyctl.session.io.terminal_state import FarEnd, TerminalState

from .approvals import Approval, Approvals, Bond, HeldText, note_held_input
from .foreground_reader import ForegroundReader
from .input_places import InputPlaces
from .judgement import Judgement, Place, PolicyDecisionPoint, Subject
from .line_synchronisation import LineSynchronisation

#: Rows of the output in an approval request, and the number of bytes that they are rendered from.
_SCREEN_ROWS, _SCREEN_BYTES = 24, 8192
#: Deletes the line of a program that reads lines from the terminal (VKILL of termios), and of most line editors.
_KILL_LINE = NAK
#: Next steps for a line that cannot be read for certain.
_WITHOUT_REPORT = "run the line as a command, or restart the shell: zsh does not report what its hooks put into the line"


class Enforcement:
    """Acts on the verdicts on one session's input: records them, refuses texts, and asks for approvals.

    `set_policy` must be called before any verdict is enforced.
    """

    def __init__(
        self,
        subject: Subject,
        terminal: TerminalState,
        far_end: FarEnd,
        line: PendingLine,
        places: InputPlaces,
        synchronisation: LineSynchronisation,
        reader: ForegroundReader,
        shell_reader: ShellReader,
        *,
        judgement: Callable[[Sequence[Place], Writer], Judgement],
        check_edited: Callable[[str, Sequence[Place], Writer], Awaitable[None]],
        bond: Callable[[], Bond],
        post_notice: Callable[[str], None],
        on_refused: Callable[[Writer, str, PtyctlError, str | None, str], None],
    ) -> None:
        """Create the enforcement of one session.

        Args:
            line: the model of the typed keys.
            judgement: returns what texts for some places are judged by now.
            check_edited: raises PtyctlError if the text that an approver wants to be typed instead must not be typed.
            bond, post_notice, on_refused: see `Authorization`.
        """
        self._subject = subject
        self._terminal = terminal
        self._stream = terminal.stream
        self._far_end = far_end
        self._line = line
        self._places, self._synchronisation, self._reader = places, synchronisation, reader
        self._shell_reader = shell_reader
        self._judgement = judgement
        self._check_edited = check_edited
        self._bond = bond
        self._post_notice = post_notice
        self._on_refused = on_refused
        self._policy: PolicyDecisionPoint | None = None
        self._approvals: Approvals | None = None
        #: The writers whose input is held, see `check_held`.
        self._held: set[Owner] = set()

    def set_policy(self, policy: PolicyDecisionPoint, approvals: Approvals) -> None:
        """Set the policy whose verdicts are enforced, and where approvals are asked for."""
        self._policy, self._approvals = policy, approvals

    def apply(
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
        if verdict.decision is Decision.ALLOW:
            return None
        is_secret = self._is_secret(writer, places, denied=verdict.decision is Decision.DENY)
        if verdict.decision is Decision.WARN:
            shown = f" for {text[:200].splitlines()[0][:60]!r}" if text and not is_secret else ""
            self._post_notice(f"policy warning{shown}: {verdict.reason}")
        if verdict.decision is Decision.DENY:
            raise self.report_refusal(denied(verdict, sensitive=is_secret), text, writer, block_id, is_secret=is_secret)
        if verdict.decision is not Decision.ASK or self.keys_allowed(places, writer):
            return None
        if not _is_text(text):
            raise self.report_refusal(self._unreadable(verdict), text, writer, block_id, is_secret=is_secret)
        if is_secret:
            raise self.report_refusal(_secret_needs_approval(verdict), text, writer, block_id, is_secret=True)
        judgement, rules = self._judgement(places, writer), verdict.rules
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
            binding=self.state_hash(text, places),
            screen=self._last_rows(),
            block_id=block_id,
            keys=keys,
            shell=self._shell_at(places),
            unfinished=block_id is None and self._is_in_unfinished_command(places),
            policy=None if self._policy is None else self._policy.identity,
            bond=self._bond(),
            find_spans=lambda: judgement.spans(text, rules, places),
            check=lambda edited: self._check_edited(edited, places, writer),
        )
        if self._approvals.covers(held):
            return None
        approval = self._approvals.ask(held)
        writer.review.record_request(approval)
        return approval

    def enforce(
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
            if verdict.decision is Decision.ASK and not (readable or self.keys_allowed(places, writer)):
                writer.review.record(verdict)
                raise self.report_refusal(
                    self._unreadable(verdict), text, writer, is_secret=self._is_secret(writer, places, denied=True)
                )
            approval = self.apply(verdict, text, places, writer, keys=keys)
        except PtyctlError as error:
            raise self._refusal(error, text, places, writer) from None
        if approval is not None:
            raise self._refusal(approval.pending_error(), text, places, writer)

    def _refusal(self, error: PtyctlError, text: str, places: Sequence[Place], writer: Writer) -> Refusal:
        """Return the refusal of a line. Within an unfinished command, further input of its writer is held.

        Its next lines were typed as a part of that command: without it, the shell would run them.
        """
        if self._is_in_unfinished_command(places):
            self._held.add(writer.owner)
            if error.code is not ErrorCode.APPROVAL_PENDING:  # which notes it itself
                note_held_input(error, None if self._is_secret(writer, places, denied=True) else text)
                error.hint = NextStep.LEAVE_UNFINISHED
        return Refusal(error, self._erasing_keys(places))

    def _is_in_unfinished_command(self, places: Sequence[Place]) -> bool:
        is_open = self._line.is_open or self._terminal.unfinished_line.incomplete
        return is_open and places[0].where == "prompt" and not self._far_end.is_device()

    def _shell_runs_command(self) -> bool:
        """Return whether a shell reads the line in a command (`read -e`), as far as its marks or the system tell."""
        if self._terminal.shell_in_foreground() is False:  # a nested shell
            return False
        if self._far_end.has_marks() and self._stream.command_begun:
            return self._terminal.shell_in_foreground() is True or not self._terminal.begins_with_prompt(
                self._terminal.last_line()
            )
        return self._terminal.waits_at_prompt() is False

    def holds(self, owner: Owner) -> bool:
        """Return whether a line of a writer was refused within an unfinished command."""
        return owner in self._held

    def check_held(self, data: bytes, writer: Writer) -> None:
        """Refuse input of a writer whose line was refused within an unfinished command, until the command is left or ended.

        Raises:
            PtyctlError: BUSY.
        """
        if not data.strip(INTERRUPT_BYTES):
            return
        if not (self._line.is_open or self._terminal.unfinished_line.incomplete):
            self._held.discard(writer.owner)
            return
        raise PtyctlError(
            ErrorCode.BUSY,
            "a line of yours was refused within an unfinished command; further input is held, and nothing was typed",
            {"reason": "continuation"},
            hint=NextStep.LEAVE_UNFINISHED,
        )

    def release(self, owner: Owner) -> None:
        """Take input of a writer again: its refused line was approved."""
        self._held.discard(owner)

    def report_refusal(
        self, error: PtyctlError, text: str, writer: Writer, block_id: str | None = None, *, is_secret: bool = False
    ) -> PtyctlError:
        """Report a text that is denied; return the error."""
        writer.review.record_refusal(is_secret=is_secret)
        via = "write" if block_id is None else "exec"
        self._on_refused(writer, text, error, None if is_secret else block_id, via)  # a secret command is not kept
        return error

    def keys_allowed(self, places: Sequence[Place], writer: Writer) -> bool:
        """Return whether an approver lets the caller type into the running program, and one runs."""
        approvals = self._approvals
        if approvals is None or not approvals.keys_allowed(self._subject.session_id, writer.owner):
            return False
        return places[0].where == "program" or (self._far_end.is_device() and not self._places.shown_prompt()[1])

    def state_hash(self, text: str, places: Sequence[Place]) -> str:
        """Return the hash of the state that an approval is bound to."""
        parts = [text, self._subject.session_id, self._bond().key, self._surroundings(), *map(str, places)]
        if places[0].where == "program":
            parts.append(str(self._terminal.foreground_program()))
        parts.append(self._shell_at(places))
        if self._is_in_unfinished_command(places):  # the text is a part of that command
            parts += [str(self._terminal.unfinished_line.entered_raw), str(self._terminal.unfinished_line.lines)]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def _shell_at(self, places: Sequence[Place]) -> str:
        """Return what identifies the shell that gets a text at its prompt; empty for a device, a program or an unused shell."""
        if places[0].where == "program" or self._far_end.is_device() or not self._reader.is_used:
            return ""
        return self._shell_reader.now().key

    def _surroundings(self) -> str:
        """Return what an approver sees besides the text: the folder of the shell, or the prompt of the device.

        Where nobody tells the folder, each line that is entered may change it.
        """
        if not (self._reader.is_used or self._far_end.is_device()):
            return ""  # where the shell begins: it may not have reported that yet
        reported = self._stream.last_prompt if self._far_end.has_marks() else None
        if reported is not None:
            return str(reported.directory)
        if self._far_end.is_device():
            return self._places.shown_prompt()[1]
        folder = self._terminal.foreground_directory() if self._terminal.foreground_shell() is not None else None
        return folder or f"{self._terminal.learned_prompt}\0{self._shell_reader.entered_lines}"

    def _last_rows(self) -> tuple[str, ...]:
        """Return the rows of the output for an approval request."""
        end = self._stream.raw_size
        return tuple(rendered(self._stream, max(end - _SCREEN_BYTES, 0), end).split("\n")[-_SCREEN_ROWS:])

    def _is_secret(self, writer: Writer, places: Sequence[Place], *, denied: bool) -> bool:
        """Return whether a text must not be shown: it, or a part of its line, is typed without echo.

        Elsewhere than on this machine, the echo of what was typed of the line tells. A text that is `denied` as a whole gets no
        echo, and nobody has to read it: it is hidden wherever a program may ask for a secret.
        """
        if writer.sensitive or self._reader.is_masked or self._reader.hides_input():
            return True
        is_answer = places[0].where == "program" or self._far_end.is_device()
        return is_answer and self._reader.may_hide_input(typed=not denied)

    def _unreadable(self, verdict: Verdict) -> PtyctlError:
        """Return the error for a line that cannot be read for certain."""
        is_lost = self._synchronisation.awaits_line() and self._terminal.line_report_lost()
        return PtyctlError(
            ErrorCode.POLICY_DENIED,
            "the typed line is not known for certain, and so cannot be judged; it was not run",
            {"decision": "ask", "rules": list(verdict.rules), "reason": "unreadable"},
            hint=_WITHOUT_REPORT if is_lost else NextStep.RETYPE_LINE,
        )

    def _erasing_keys(self, places: Sequence[Place]) -> bytes:
        """Return the keys that delete the pending line; none if there is none, or if no key certainly deletes only that.

        A program, and a command of a shell, may end at Ctrl-C. What the terminal driver holds of a line has a key in its modes.
        """
        if self._line.is_empty:
            return b""
        if key := self._terminal.kill_key():
            return PASTE_END + key if self._line.is_pasting else key
        if places[0].where == "program":
            return b""
        if self._is_in_unfinished_command(places):  # Ctrl-C would end the command, and its next lines would be commands
            keys = _KILL_LINE
        elif self._shell_runs_command():
            return b""
        else:
            keys = self._far_end.profile().clear_line.encode() if self._far_end.is_device() else ETX
        return PASTE_END + keys if self._line.is_pasting else keys


def _is_text(text: str) -> bool:
    """Return whether a text is valid Unicode, so that a person can review it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def denied(verdict: Verdict, *, sensitive: bool) -> PtyctlError:
    """Return the error for a text that the policy denies."""
    rules = ", ".join(verdict.rules)
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy denies this text{f' (rule {rules})' if rules else ''}: {verdict.reason}; it was not run",
        _verdict_details(verdict, sensitive=sensitive),
        hint="do something else, or ask the person who writes the policy",
    )


def not_approvable(verdict: Verdict, text: str, hint: str, *, sensitive: bool) -> PtyctlError:
    """Return the error for a text that needs an approval, typed by a call that cannot wait for one."""
    message = f"{text!r} needs an approval: {verdict.reason}; nothing was typed"
    return PtyctlError(ErrorCode.POLICY_DENIED, message, _verdict_details(verdict, sensitive=sensitive), hint=hint)


def _secret_needs_approval(verdict: Verdict) -> PtyctlError:
    """Return the error for a secret that needs an approval: nobody may see it."""
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"this text needs an approval ({verdict.reason}), and a secret cannot be shown to an approver; it was not run",
        _verdict_details(verdict, sensitive=True),
        hint="send it as ordinary text if it is not a secret",
    )


def place_changed(what: str) -> PtyctlError:
    """Return the error for a text that goes to another place, or is judged by another policy, than when its judgement began."""
    message = f"the prompt, the program or the policy has changed while {what} was judged; nothing was typed"
    return PtyctlError(ErrorCode.BUSY, message, {"reason": "place_changed"}, hint=NextStep.READ_STATE)


def policy_changed() -> PtyctlError:
    """Return the error for an edited text that was judged by a policy which is no longer in force."""
    message = "the policy has changed while the edited text was judged; the request waits as before"
    return PtyctlError(ErrorCode.BUSY, message, {"reason": "place_changed"}, hint="approve it again")


def too_long_at_once(limit: int) -> PtyctlError:
    """Return the error for an answer of more than `limit` bytes."""
    return PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy judges at most {limit} bytes of an answer that is typed at once; nothing was typed",
        {"decision": "deny", "rules": [], "reason": "too_long"},
        hint="wait for the question first, and then write the text",
    )


def _verdict_details(verdict: Verdict, *, sensitive: bool) -> dict[str, object]:
    """Return a verdict as the details of an error; without the text if that is sensitive."""
    shown = {} if sensitive else {"canonical": verdict.canonical}
    return {"decision": str(verdict.decision), "rules": list(verdict.rules), "reason": verdict.reason, **shown}
