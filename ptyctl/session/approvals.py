"""Approval requests: texts that a policy holds back until a person answers. In memory; subscribers store and record them."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from ptyctl.api.approvals import ApprovalStatus, Via
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, invalid, shortened
from ptyctl.api.policy import PendingApproval
from ptyctl.clock import epoch_ms
from ptyctl.core.lease import Owner
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Kind, Principal
from ptyctl.core.states import ApprovalEvent, ApprovalState, next_approval_state
from ptyctl.trace import current_trace_id

from .io.publisher import Publisher, Unsubscribe
from .io.signal import Signal

#: Lifetime of a request (seconds); an approval must be used within the same time.
TIMEOUT_S = 600.0
#: Number of ended requests that are remembered.
MAX_ENDED = 500
#: Longest text of a request, in characters.
MAX_TEXT = 64 * 1024
#: Size of the stored part of a screen.
_MAX_SCREEN_ROWS, _MAX_SCREEN_COLS = 200, 500
#: Longest refused input that an error quotes, in characters.
_MAX_SHOWN_LINE = 200
#: How long after the end of a watch its approver counts as connected (seconds): the next watch usually follows at once.
_WATCH_GRACE_S = 5.0


def note_held_input(error: PtyctlError, text: str | None) -> None:
    """Note in a refusal within an unfinished command that further input is held; `text` is None if it is secret."""
    error.details["held"] = True
    if text is not None:
        error.details["line"] = shortened(text.rstrip("\r\n"), _MAX_SHOWN_LINE)
    error.message += "; the command that it continues is unfinished, so your further input is held until you press Ctrl-C"


async def _any_text(edited: str) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True)
class Bond:
    """The connection and the lock under which a request is made: it ends with either of them.

    Attributes:
        key: their numbers.
        why_ended: returns why one of them has ended, or None.
        until: returns when the lock expires, by the loop's clock; infinite without a lock.
    """

    key: str = ""
    why_ended: Callable[[], str | None] = lambda: None
    until: Callable[[], float] = lambda: math.inf


@dataclass(frozen=True, slots=True)
class HeldText:
    """The text of a request, and the state it is bound to.

    Attributes:
        text: the text to be typed: whole lines, without the final newline.
        canonical: the form that the policy judged.
        binding: hash of the state that must be unchanged when the text is typed.
        screen: the rows of the screen at the time of the request.
        block_id: of the run that waits for the answer.
        keys: whether the text is typed without Enter, for a program that reads keys.
        unfinished: whether the text continues an unfinished command, so that further input of the owner is held.
        policy: the identity of the policy that asked.
        shell: identifies the shell at whose prompt the text is typed; empty for another place.
        bond: the connection and the lock of the requester.
        find_spans: returns the parts of the text that the rules are about, each as begin and end (characters).
        check: raises PtyctlError for a text that must not be typed in its place.
        trace_id: that of the call.
        token: identifies the token of the requester; None without one.
    """

    session_id: str
    device: str | None
    platform: str | None
    mode: str | None
    owner: Owner
    text: str
    canonical: str
    rules: tuple[str, ...]
    reason: str
    binding: str
    screen: tuple[str, ...] = ()
    block_id: str | None = None
    keys: bool = False
    shell: str = ""
    unfinished: bool = False
    policy: object = field(default=None, compare=False)
    bond: Bond = field(default_factory=Bond, compare=False)
    find_spans: Callable[[], list[tuple[int, int]]] = field(default=list, compare=False)
    check: Callable[[str], Awaitable[None]] = field(default=_any_text, compare=False)
    trace_id: str | None = field(default_factory=current_trace_id, compare=False)
    token: str | None = field(default=None, compare=False)

    @property
    def principal(self) -> str:
        """The name of the requesting principal."""
        return self.owner.principal


@dataclass(frozen=True, slots=True)
class Grant:
    """A standing approval until `deadline` on the loop's clock, which is `expires_at` in epoch ms.

    Attributes:
        kind: `same`: the same command in the same mode; `keys`: anything typed into the running program.
        held: the requested text, with its session and owner.
    """

    approval_id: str
    kind: Literal["same", "keys"]
    held: HeldText
    deadline: float
    expires_at: int

    def covers(self, held: HeldText) -> bool:
        """Return whether a text is the same command: the approved text in the same place, and no further rule holds it back.

        The canonical forms of different commands can be equal: each word that is not known is `?`.
        """
        ours = self.held
        return (
            self.kind == "same"
            and (ours.session_id, ours.owner, ours.platform, ours.mode, ours.shell, ours.text.strip(), ours.canonical)
            == (held.session_id, held.owner, held.platform, held.mode, held.shell, held.text.strip(), held.canonical)
            and set(held.rules) <= set(ours.rules)
        )


@dataclass(frozen=True, slots=True)
class ApprovalChanged:
    """A request changed.

    Attributes:
        event: `ask`: it is new; `grant_end`: a standing approval ended.
        by: name of the principal whose answer it is.
    """

    approval: Approval
    event: ApprovalEvent | Literal["ask", "grant_end"]
    by: str | None = None
    via: Via | None = None
    why: str | None = None


class Approval:
    """One request. Its state changes only by `Approvals` and by the methods below.

    Attributes:
        text: what is typed once it is approved: the approver's text if `edited`.
        created_at, expires_at, decided_at: epoch ms, for display; the loop's clock decides.
        comment: of the person who answered, or why it ended.
        revision: grows with each change, over all requests.
    """

    def __init__(
        self,
        approval_id: str,
        held: HeldText,
        deadline: float,
        publish: Callable[[ApprovalChanged], None],
        is_answerable: Callable[[], bool],
        *,
        elicitation: bool = False,
    ) -> None:
        self.approval_id = approval_id
        self.held = held
        self.text = held.text
        self.edited = False
        self.comment: str | None = None
        self.decided_by: str | None = None
        self.decided_at: int | None = None
        self.via: Via | None = None
        self.created_at = epoch_ms(asyncio.get_running_loop().time())
        self.expires_at = epoch_ms(deadline)
        self.revision = 0
        self._is_answerable = is_answerable
        self._elicitation = elicitation
        self._state: ApprovalState = "pending"
        self._deadline = deadline
        self._publish = publish
        self._signal = Signal()
        self._publisher = Publisher()

    @property
    def state(self) -> ApprovalStatus:
        """The state; `approved` also once it was used (`redeemed`)."""
        return "approved" if self._state == "redeemed" else self._state

    @property
    def redeemed(self) -> bool:
        """Whether the approval was used."""
        return self._state == "redeemed"

    @property
    def ended(self) -> bool:
        """Whether the state cannot change again."""
        return self._state not in ("pending", "approved")

    @property
    def answerable(self) -> bool:
        """Whether an answer can be expected soon."""
        return self._is_answerable()

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The parts of the requested text that the rules are about; none if the policy cannot judge it now."""
        try:
            return self.held.find_spans()
        except PtyctlError:
            return []

    def subscribe(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call `callback` at each change of the state, except when the approval is used."""
        return self._publisher.subscribe(ApprovalChanged, lambda changed: callback())

    async def wait(self, deadline: float) -> None:
        """Wait until the request is no longer pending, or until a time of the loop's clock."""
        loop = asyncio.get_running_loop()
        while self._state == "pending" and loop.time() < deadline:
            await self._signal.wait(deadline)

    def redeem(self) -> str:
        """Use the approval, and return the text to type.

        Raises:
            PtyctlError: APPROVAL_PENDING; DECLINED if it was not approved, or was used before.
        """
        self.expire_if_due()
        if self._state == "pending":
            raise self.pending_error()
        if self._state != "approved":
            raise self.declined_error()
        self._change("redeem")
        return self.text

    def set_stale(self, why: str) -> None:
        """End the request because the state that it is bound to has changed. Without effect on one that has ended."""
        self.expire_if_due()
        self._end("set_stale", why)

    def withdraw(self, why: str) -> None:
        """End the request because no call waits for it any more. Without effect on one that has ended."""
        self.expire_if_due()
        self._end("withdraw", why)

    def expire_if_due(self) -> None:
        """End the request if its lock or its connection has ended, or its time is over."""
        if self.ended:
            return
        if (why := self.held.bond.why_ended()) is not None:
            self._end("set_stale", why)
        elif asyncio.get_running_loop().time() >= self._deadline:
            self._end("expire", "nobody answered in time" if self._state == "pending" else "the approval was not used in time")

    @property
    def due(self) -> float:
        """When `expire_if_due` has to be called next, by the loop's clock."""
        return min(self._deadline, self.held.bond.until())

    def restore(
        self,
        state: ApprovalState,
        created_at: int,
        expires_at: int,
        text: str,
        answer: tuple[str | None, int | None, Via | None, str | None],
    ) -> None:
        """Restore the state that an earlier process stored. `answer` has decided_by, decided_at, via and comment.

        A request that had not ended expires: the calls that waited for it have ended with their process.
        """
        self._state, self.created_at, self.expires_at = state, created_at, expires_at
        self.text, self.edited = text, text != self.held.text
        self.decided_by, self.decided_at, self.via, self.comment = answer
        self._end("expire", "the server was restarted")

    def approve(self, by: Principal, via: Via, comment: str | None, text: str | None, deadline: float) -> None:
        """Approve the request. Called only by `Approvals`, which checks the approver."""
        if text is not None and text != self.held.text:
            self.text, self.edited = text, True
        self._deadline, self.expires_at = deadline, epoch_ms(deadline)
        self._change("approve", by, via, comment)

    def decline(self, by: Principal, via: Via, comment: str | None) -> None:
        """Decline the request, or revoke an approval that was not used. Called only by `Approvals`."""
        self._change("decline", by, via, comment)

    def pending_error(self) -> PtyctlError:
        """Return APPROVAL_PENDING for a call whose timeout has passed."""
        held = self.held
        details = {**self.info(), "answerable": self.answerable}
        if held.block_id is not None:
            details["block_id"] = held.block_id
        error = PtyctlError(
            ErrorCode.APPROVAL_PENDING,
            f"a person must approve this first: {held.reason}; nothing was typed",
            details,
            hint=NextStep.AWAIT_ANSWER if self.answerable else NextStep.FIND_APPROVER,
        )
        if held.unfinished:
            note_held_input(error, held.text)
        return error

    def pending(self) -> PendingApproval | None:
        """Return the reply field `approval` of a pending request; None otherwise."""
        return PendingApproval(**self.info()) if self._state == "pending" else None

    def info(self) -> dict[str, Any]:
        """Return the request as the details of an error."""
        info: dict[str, Any] = {
            "approval_id": self.approval_id,
            "reason": self.held.reason,
            "rules": list(self.held.rules),
            "expires_at": self.expires_at,
        }
        return {**info, "elicitation": True} if self._elicitation else info

    def declined_error(self) -> PtyctlError:
        """Return DECLINED for a call that continues with a request that has ended."""
        reason = "used" if self._state == "redeemed" else self._state
        hint: str | None = "ask again if it is still needed"
        match reason:
            case "used":
                message = "the approval was used already: its text was typed then, and not again now"
                hint = "read the screen to see its effect; an approval is valid once, so ask again only to run it again"
            case "declined":
                through = " through its MCP client" if self.via == "elicitation" else ""
                message, hint = f"{self.decided_by} declined it{through}{f': {self.comment}' if self.comment else ''}", None
            case "stale":
                message, hint = f"the approval is no longer valid: {self.comment}", "read the screen, and ask again"
            case "expired":
                message = f"the request expired: {self.comment}"
            case _:
                message = f"the request was withdrawn: {self.comment}"
        details = {"approval_id": self.approval_id, "reason": reason, "rules": list(self.held.rules)}
        named = {"comment": self.comment, "decided_by": self.decided_by}
        details |= {name: value for name, value in named.items() if value is not None}
        if reason != "used":
            message += "; nothing was typed"
        return PtyctlError(ErrorCode.DECLINED, message, details, hint=hint)

    def _end(self, event: ApprovalEvent, why: str) -> None:
        if not self.ended:
            self._change(event, comment=why)

    def _change(
        self, event: ApprovalEvent, by: Principal | None = None, via: Via | None = None, comment: str | None = None
    ) -> None:
        """Change the state, wake waiters and report the change."""
        self._state = next_approval_state(self._state, event)
        if event != "redeem":
            self.comment = comment
        if by is not None:
            self.decided_by, self.via = by.name, via
            self.decided_at = epoch_ms(asyncio.get_running_loop().time())
        changed = ApprovalChanged(self, event, by.name if by else None, via, comment)
        self._publish(changed)
        self._signal.notify()
        if event != "redeem":
            self._publisher.publish(changed)


class Approvals:
    """The requests and standing approvals of all sessions, and who may answer."""

    def __init__(
        self,
        timeout_s: float = TIMEOUT_S,
        *,
        allow_self: bool = False,
        elicitation: bool = False,
        notifies: bool = False,
        limits: Mapping[str, Limit] = LIMITS,
        token_of: Callable[[str], str | None] = lambda principal: None,
    ) -> None:
        """Create the store of requests.

        Args:
            allow_self: whether a person may approve a request of the same principal.
            elicitation: whether the person at an MCP client may answer requests of the client's principal.
            notifies: whether a notify command reports new requests.
            limits: the named limits; this class enforces those of pending requests.
            token_of: returns a text that identifies the valid token of a principal; None for a principal without one.
        """
        self._token_of = token_of
        self._session_limit, self._principal_limit = limits["max_session_approvals"], limits["max_principal_approvals"]
        self._timeout_s = timeout_s
        self._allow_self = allow_self
        self._elicitation = elicitation
        self._notifies = notifies
        self._requests: dict[str, Approval] = {}  # in order of creation
        self._grants: dict[tuple[str, str], Grant] = {}  # by approval_id and kind
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._publisher = Publisher()
        self._watchers = 0
        self._watched_at = float("-inf")
        #: The revision of the newest change.
        self.revision = 0

    @cached_property
    def _changes(self) -> Signal:
        return Signal()  # needs a running event loop

    def subscribe(self, callback: Callable[[ApprovalChanged], None]) -> Unsubscribe:
        """Call `callback` at each change of a request."""
        return self._publisher.subscribe(ApprovalChanged, callback)

    # The requester's side

    def ask(self, held: HeldText) -> Approval:
        """Make a request. If the same text is already pending and no run waits for it, return that request.

        Raises:
            PtyctlError: LIMIT_EXCEEDED; INVALID_ARGUMENT for a text that is too long to be reviewed.
        """
        if len(held.text) > MAX_TEXT:
            message = f"a text that a person must approve has at most {MAX_TEXT} characters, and this one has {len(held.text)}"
            raise invalid(message, hint="send it in smaller parts")
        self.expire_due()
        pending = [request for request in self._requests.values() if request.state == "pending"]
        if held.block_id is None:
            for request in pending:
                if replace(request.held, screen=held.screen) == held:
                    return request
        of_session = sum(request.held.session_id == held.session_id for request in pending)
        of_principal = sum(request.held.principal == held.principal for request in pending)
        self._session_limit.check(of_session)
        self._principal_limit._replace(what=f"requests of {held.principal} wait for an answer").check(of_principal)
        held = self._with_token(held)
        held = replace(held, screen=tuple(row[:_MAX_SCREEN_COLS] for row in held.screen[:_MAX_SCREEN_ROWS]))
        approval_id, deadline = f"ap-{secrets.token_hex(4)}", self._deadline(self._timeout_s)
        request = Approval(approval_id, held, deadline, self._publish, lambda: self.answerable, elicitation=self._elicitation)
        self._requests[request.approval_id] = request
        self._schedule_end(request)
        self._publish(ApprovalChanged(request, "ask"))
        self._forget_oldest()
        return request

    def _with_token(self, held: HeldText) -> HeldText:
        """Bind a request to the token of its requester, if there is one."""
        token, why_ended = self._token_of(held.principal), held.bond.why_ended
        if token is None:
            return held

        def why() -> str | None:
            is_revoked = self._token_of(held.principal) != token
            return "the token of its requester was revoked, or has expired" if is_revoked else why_ended()

        return replace(held, bond=replace(held.bond, why_ended=why), token=token)

    def limits_in_use(self) -> dict[str, int]:
        """Return the use of the approval limits, by name: of the session and the principal with the most pending requests."""
        pending = [request.held for request in self._requests.values() if request.state == "pending"]
        return {
            self._session_limit.name: _most_frequent(held.session_id for held in pending),
            self._principal_limit.name: _most_frequent(held.principal for held in pending),
        }

    def find(self, approval_id: str, session_id: str, owner: Owner) -> Approval:
        """Return a request of a session and a principal.

        Raises:
            PtyctlError: NOT_FOUND.
        """
        request = self.get(approval_id)
        if (request.held.session_id, request.held.principal) != (session_id, owner.principal):
            raise no_approval(approval_id)
        return request

    def covers(self, held: HeldText) -> bool:
        """Return whether a standing approval covers a text: the same text, session, platform, mode and owner."""
        return any(grant.covers(held) for grant in self._live_grants())

    def keys_allowed(self, session_id: str, owner: Owner) -> bool:
        """Return whether a standing approval lets the owner type into the running program of a session."""
        return any(
            grant.kind == "keys" and (grant.held.session_id, grant.held.owner) == (session_id, owner)
            for grant in self._live_grants()
        )

    def add_stored(self, approval_id: str, held: HeldText) -> Approval:
        """Add a request of an earlier process, to be restored."""
        now = asyncio.get_running_loop().time()
        request = Approval(approval_id, held, now, self._publish, lambda: False)
        self._requests[approval_id] = request
        return request

    def session_ended(self, session_id: str, why: str) -> None:
        """Withdraw the requests of a session, and end its standing approvals."""
        for request in [request for request in self._requests.values() if request.held.session_id == session_id]:
            request.withdraw(why)
        self._end_grants(lambda grant: grant.held.session_id == session_id, why)

    def lock_ended(self, session_id: str, owner: Owner) -> None:
        """End what belongs to a lock of an owner: the standing approvals, and the requests that were made under it."""
        self._end_grants(lambda grant: (grant.held.session_id, grant.held.owner) == (session_id, owner), "the lock ended")
        self.expire_due(session_id)

    def expire_due(self, session_id: str | None = None) -> None:
        """End the requests, of one session or of all, whose lock or connection has ended, or whose time is over."""
        for request in list(self._requests.values()):
            if session_id in (None, request.held.session_id):
                request.expire_if_due()

    # The approver's side

    def approve(
        self,
        approval_id: str,
        by: Principal,
        *,
        via: Via = "library",
        comment: str | None = None,
        same_s: float | None = None,
        keys_s: float | None = None,
    ) -> Approval:
        """Approve a request.

        Args:
            same_s: also approve the same command for this time.
            keys_s: also let the requester type into the running program for this time.

        Raises:
            PtyctlError: NOT_FOUND; FORBIDDEN; ALREADY_CLOSED if it was answered or has ended.
        """
        return self._approve(self._approvable(approval_id, by, via), by, via, comment, None, same_s, keys_s)

    async def approve_edited(
        self,
        approval_id: str,
        by: Principal,
        text: str,
        *,
        via: Via = "library",
        comment: str | None = None,
        same_s: float | None = None,
        keys_s: float | None = None,
    ) -> Approval:
        """Approve a request with a text that is typed instead of the requested one. The policy judges it first.

        Raises:
            PtyctlError: as `approve`; INVALID_ARGUMENT; the error of the check of edited texts.
        """
        held = self._approvable(approval_id, by, via).held
        if text != held.text:
            if same_s is not None:
                raise invalid("an edited text cannot be approved for later calls too", hint="approve it once")
            _check_text(text)
            await held.check(text)
        # It may have been answered meanwhile.
        return self._approve(self._approvable(approval_id, by, via), by, via, comment, text, same_s, keys_s)

    def _approvable(self, approval_id: str, by: Principal, via: Via) -> Approval:
        """Return a request that a principal may approve. Raises PtyctlError as `approve`."""
        request = self._unanswered(approval_id, by, via)
        if by.name == request.held.principal and via != "elicitation" and not self._allow_self:
            message = f"{by.name} asked for this, and nobody approves their own request"
            raise PtyctlError(
                ErrorCode.FORBIDDEN,
                message,
                {"approval_id": approval_id},
                hint="another person must approve it; the setting approvals.allow_self allows it",
            )
        return request

    def _approve(
        self,
        request: Approval,
        by: Principal,
        via: Via,
        comment: str | None,
        text: str | None,
        same_s: float | None,
        keys_s: float | None,
    ) -> Approval:
        if same_s is not None:
            self._grant(request, "same", same_s)
        if keys_s is not None:
            self._grant(request, "keys", keys_s)
        request.approve(by, via, comment, text, self._deadline(self._timeout_s))
        if not request.ended:  # otherwise it was used at once
            self._schedule_end(request)
        return request

    def decline(self, approval_id: str, by: Principal, *, via: Via = "library", comment: str | None = None) -> Approval:
        """Decline a request.

        Raises:
            PtyctlError: NOT_FOUND; FORBIDDEN; ALREADY_CLOSED if it was answered or has ended.
        """
        request = self._unanswered(approval_id, by, via)
        request.decline(by, via, comment)
        return request

    def revoke(self, approval_id: str, by: Principal, *, via: Via = "library", comment: str | None = None) -> Approval:
        """Revoke an approval that was not used, and end its standing approvals.

        Raises:
            PtyctlError: NOT_FOUND; FORBIDDEN; ALREADY_CLOSED if nothing is left to revoke.
        """
        request = self.get(approval_id)
        _check_person(by)
        grants = self.grants_of(approval_id)
        is_unused = request.state == "approved" and not request.redeemed
        if not is_unused and not grants:
            raise _answered(request)
        why = comment or "the approval was revoked"
        if is_unused:
            request.decline(by, via, why)
        self._end_grants(lambda grant: grant.approval_id == approval_id, why, by.name, via)
        return request

    def get(self, approval_id: str) -> Approval:
        """Return a request.

        Raises:
            PtyctlError: NOT_FOUND.
        """
        request = self._requests.get(approval_id)
        if request is None:
            raise no_approval(approval_id)
        request.expire_if_due()
        return request

    async def wait_for_change(self, revision: int, deadline: float) -> None:
        """Wait for a newer change than `revision`, or until a time of the loop's clock."""
        loop = asyncio.get_running_loop()
        while self.revision <= revision and loop.time() < deadline:
            await self._changes.wait(deadline)

    def all(self) -> list[Approval]:
        """Return all remembered requests, oldest first."""
        self.expire_due()
        return list(self._requests.values())

    def pending(self, session_id: str) -> int:
        """Return the number of requests of a session that wait for an answer."""
        self.expire_due(session_id)
        return sum(request.held.session_id == session_id and request.state == "pending" for request in self._requests.values())

    def grants_of(self, approval_id: str) -> list[Grant]:
        """Return the standing approvals that a request's approval made and that are still valid."""
        return [grant for grant in self._live_grants() if grant.approval_id == approval_id]

    @property
    def answerable(self) -> bool:
        """Whether an answer can be expected soon: an approver watches, or a notify command runs."""
        since_s = asyncio.get_running_loop().time() - self._watched_at
        return self._notifies or self._watchers > 0 or since_s < _WATCH_GRACE_S

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count an approver as connected."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            self._watched_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Stop the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _unanswered(self, approval_id: str, by: Principal, via: Via) -> Approval:
        request = self.get(approval_id)
        if via == "elicitation":
            self._check_elicitation(request, by)
        else:
            _check_person(by)
        if request.state != "pending":
            raise _answered(request)
        return request

    def _check_elicitation(self, request: Approval, by: Principal) -> None:
        """Check an answer of the person at the MCP client of a principal. Raises PtyctlError FORBIDDEN."""
        if not self._elicitation or by.name != request.held.principal:
            message = f"the person at the MCP client of {by.name} may not answer this request"
            hint = "the setting approvals.elicitation allows it for requests of the same client"
            raise PtyctlError(ErrorCode.FORBIDDEN, message, {"approval_id": request.approval_id}, hint=hint)

    def _deadline(self, seconds: float) -> float:
        return asyncio.get_running_loop().time() + seconds

    def _schedule_end(self, request: Approval) -> None:
        """End the request once it is due. A lock that is extended makes that later."""

        def end_or_continue() -> None:
            request.expire_if_due()
            if not request.ended:
                self._schedule_end(request)

        self._set_timer(request.approval_id, request.due, end_or_continue)

    def _set_timer(self, key: object, deadline: float, callback: Callable[[], None]) -> None:
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_at(deadline, callback)

    def _cancel_timer(self, key: object) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def _publish(self, changed: ApprovalChanged) -> None:
        self.revision += 1
        request = changed.approval
        request.revision = self.revision
        self._changes.notify()
        if request.ended:
            self._cancel_timer(request.approval_id)
        self._publisher.publish(changed)
        if changed.event in ("decline", "withdraw", "set_stale"):
            why = changed.why or f"the request is {request.state}"
            self._end_grants(lambda grant: grant.approval_id == request.approval_id, why, changed.by, changed.via)

    def _grant(self, request: Approval, kind: Literal["same", "keys"], seconds: float) -> None:
        deadline = self._deadline(seconds)
        grant = Grant(request.approval_id, kind, request.held, deadline, epoch_ms(deadline))
        key = (grant.approval_id, kind)
        self._grants[key] = grant
        self._set_timer(key, deadline, lambda: self._end_grants(lambda each: each is grant, "its time is over"))

    def _live_grants(self) -> list[Grant]:
        now = asyncio.get_running_loop().time()
        return [grant for grant in self._grants.values() if now < grant.deadline and self._has_token(grant.held)]

    def _has_token(self, held: HeldText) -> bool:
        return held.token is None or self._token_of(held.principal) == held.token

    def _end_grants(self, chosen: Callable[[Grant], bool], why: str, by: str | None = None, via: Via | None = None) -> None:
        for key, grant in list(self._grants.items()):
            if chosen(grant):
                del self._grants[key]
                self._cancel_timer(key)
                request = self._requests[grant.approval_id]
                self._publish(ApprovalChanged(request, "grant_end", by, via, why))

    def _forget_oldest(self) -> None:
        """Forget the oldest requests that have ended and that no standing approval belongs to."""
        granted = {approval_id for approval_id, _ in self._grants}
        ended = [key for key, request in self._requests.items() if request.ended and key not in granted]
        for key in ended[: max(len(ended) - MAX_ENDED, 0)]:
            del self._requests[key]


def no_approval(approval_id: str) -> PtyctlError:
    """Return NOT_FOUND for a request that does not exist, or not for the caller."""
    message = f"there is no approval request {approval_id!r}"
    return PtyctlError(ErrorCode.NOT_FOUND, message, {"approval_id": approval_id}, hint="list the approval requests")


def _most_frequent(names: Iterable[str]) -> int:
    return max(Counter(names).values(), default=0)


def _check_person(by: Principal) -> None:
    if by.kind is Kind.AGENT:
        message = f"{by.name} is an agent, and only people answer approval requests"
        raise PtyctlError(ErrorCode.FORBIDDEN, message, {"kind": by.kind}, hint="ask your user")


def _check_text(text: str) -> None:
    if not text.strip() or len(text) > MAX_TEXT:
        raise invalid(f"an edited text has 1 to {MAX_TEXT} characters", hint="decline the request to type nothing")
    if text.endswith("\n") or any(not (letter.isprintable() or letter in "\t\n") for letter in text):
        raise invalid("an edited text has no control characters, and no newline at its end")


def _answered(request: Approval) -> PtyctlError:
    """Return the error of a second answer."""
    by = f" by {request.decided_by}" if request.state in ("approved", "declined") else ""
    state = "approved and used" if request.redeemed else request.state
    details: dict[str, object] = {"approval_id": request.approval_id, "state": request.state}
    if request.decided_by:
        details["decided_by"] = request.decided_by
    why = f": {request.comment}" if request.comment else ""
    return PtyctlError(ErrorCode.ALREADY_CLOSED, f"this request was {state} before{by}{why}; nothing has changed", details)
