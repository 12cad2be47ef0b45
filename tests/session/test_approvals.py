"""Approval requests: who may answer, single use, expiry, standing approvals, limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.pty import encode_error
from ptyctl.core.lease import Owner
from ptyctl.core.limits import LIMITS
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session import approvals as approvals_module
from ptyctl.session.approvals import ApprovalChanged, Approvals, Bond, HeldText

PERSON = Principal("ada", Kind.PERSON, Role.APPROVER)
OTHER = Principal("ben", Kind.PERSON, Role.ADMIN)
AGENT = Principal("ada/mcp", Kind.AGENT, Role.ADMIN)
OWNER = Owner(AGENT.name, "task")
HELD = HeldText(
    session_id="s1", device="sw1", platform="cisco_ios", mode="exec", owner=OWNER, text="reload", canonical="reload",
    rules=("reload",), reason="it restarts the device", binding="hash", screen=("sw1#",),
)  # fmt: skip


class Clock:
    """Replaces the loop's clock."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        loop.time = lambda: self.now  # type: ignore[method-assign]

    async def advance(self, seconds: float) -> None:
        """Move the clock, and run the timers that are due."""
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def approvals(clock: Clock) -> AsyncIterator[Approvals]:
    made = Approvals(timeout_s=600)
    yield made
    made.close()


def refused(code: ErrorCode, match: str | None = None) -> pytest.RaisesExc[PtyctlError]:
    return pytest.raises(PtyctlError, match=match, check=lambda error: error.code is code)


async def test_approved_request_is_redeemed_once(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    with refused(ErrorCode.APPROVAL_PENDING):
        request.redeem()
    approvals.approve(request.approval_id, PERSON, comment="go")
    assert (request.state, request.decided_by, request.comment, request.edited) == ("approved", "ada", "go", False)
    assert request.redeem() == "reload"
    assert (request.state, request.redeemed) == ("approved", True)
    with refused(ErrorCode.DECLINED, "used already") as used:
        request.redeem()
    assert used.value.details["reason"] == "used"
    assert "nothing was typed" not in str(used.value)
    assert not used.value.retryable


async def test_pending_error_has_what_a_client_needs(approvals: Approvals) -> None:
    request = approvals.ask(replace(HELD, block_id="b1"))
    error = request.pending_error()
    assert error.retryable
    assert error.details == {**request.info(), "answerable": False, "block_id": "b1"}
    assert request.info() == {
        "approval_id": request.approval_id, "reason": "it restarts the device", "rules": ["reload"],
        "expires_at": request.expires_at,
    }  # fmt: skip
    assert error.hint is NextStep.FIND_APPROVER


async def test_declined_request_reports_comment_of_person(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    pending = encode_error(request.pending_error()).approval
    assert pending is not None
    assert pending.approval_id == request.approval_id
    approvals.decline(request.approval_id, PERSON, comment="not before midnight")
    with refused(ErrorCode.DECLINED, "ada declined it: not before midnight") as declined:
        request.redeem()
    reply = encode_error(declined.value)
    assert (reply.error, reply.message, reply.approval) == ("declined", declined.value.message, None)
    assert declined.value.details == {
        "approval_id": request.approval_id, "reason": "declined", "rules": ["reload"], "comment": "not before midnight",
        "decided_by": "ada",
    }  # fmt: skip


async def test_agent_with_any_role_cannot_answer(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    agent = replace(AGENT, name="another")
    answers: list[Callable[[str, Principal], object]] = [approvals.approve, approvals.decline, approvals.revoke]
    for answer in answers:
        with refused(ErrorCode.FORBIDDEN, "only people"):
            answer(request.approval_id, agent)
    assert request.state == "pending"


async def test_own_request_is_not_approved_unless_allowed(approvals: Approvals) -> None:
    own = replace(HELD, owner=Owner(PERSON.name, "task"))
    request = approvals.ask(own)
    with refused(ErrorCode.FORBIDDEN, "their own request"):
        approvals.approve(request.approval_id, PERSON)
    assert approvals.approve(request.approval_id, OTHER).state == "approved"
    allowing = Approvals(allow_self=True)
    assert allowing.approve(allowing.ask(own).approval_id, PERSON).state == "approved"
    allowing.close()


async def test_second_answer_changes_nothing(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    approvals.approve(request.approval_id, PERSON)
    with refused(ErrorCode.ALREADY_CLOSED, "approved before by ada"):
        approvals.decline(request.approval_id, OTHER)
    request.redeem()
    with refused(ErrorCode.ALREADY_CLOSED, "approved and used"):
        approvals.approve(request.approval_id, OTHER)
    with refused(ErrorCode.NOT_FOUND) as unknown:
        approvals.approve("ap-00000000", PERSON)
    assert encode_error(unknown.value).error == "not_found"


async def test_answer_after_session_ended_reports_why(approvals: Approvals) -> None:
    request, other = approvals.ask(HELD), approvals.ask(replace(HELD, session_id="s2"))
    approvals.session_ended("s1", "the session was closed")
    assert (request.state, other.state) == ("withdrawn", "pending")
    with refused(ErrorCode.ALREADY_CLOSED, "withdrawn before: the session was closed"):
        approvals.approve(request.approval_id, PERSON)
    with refused(ErrorCode.DECLINED, "withdrawn: the session was closed"):
        request.redeem()
    approvals.approve(other.approval_id, PERSON)
    approvals.session_ended("s2", "closed")
    with refused(ErrorCode.ALREADY_CLOSED, "was withdrawn before: closed"):
        approvals.revoke(other.approval_id, PERSON)


async def test_unanswered_request_expires_and_wakes_waiter(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    waiting = asyncio.ensure_future(request.wait(clock.now + 10_000))
    await clock.advance(599)
    assert not waiting.done()
    await clock.advance(2)
    await waiting
    assert request.state == "expired"
    with refused(ErrorCode.DECLINED, "expired: nobody answered in time"):
        request.redeem()


async def test_wait_returns_at_deadline_and_at_answer(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    waiting = asyncio.ensure_future(request.wait(clock.now + 30))
    await clock.advance(31)
    await waiting
    assert request.state == "pending"
    waiting = asyncio.ensure_future(request.wait(clock.now + 30))
    await clock.advance(0)
    approvals.approve(request.approval_id, PERSON)
    await waiting


async def test_expiry_before_its_timer_runs_refuses_answer_and_use(approvals: Approvals, clock: Clock) -> None:
    late, unused = approvals.ask(HELD), approvals.ask(replace(HELD, binding="other"))
    approvals.approve(unused.approval_id, PERSON)
    clock.now += 601  # no timer has run: the event loop is busy
    with refused(ErrorCode.ALREADY_CLOSED, "expired"):
        approvals.approve(late.approval_id, PERSON)
    with refused(ErrorCode.DECLINED, "not used in time"):
        unused.redeem()


async def test_approval_given_late_can_be_used_for_the_same_time_again(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    await clock.advance(599)
    approvals.approve(request.approval_id, PERSON)
    await clock.advance(599)
    assert request.redeem() == "reload"


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
async def test_step_of_wall_clock_does_not_move_expiry(
    approvals: Approvals, clock: Clock, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    request = approvals.ask(HELD)
    stepped = time.time() + step_s
    monkeypatch.setattr(time, "time", lambda: stepped)
    await clock.advance(599)
    assert request.state == "pending"
    await clock.advance(2)
    assert request.state == "expired"


async def test_stale_approval_types_nothing(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    approvals.approve(request.approval_id, PERSON)
    request.set_stale("the mode changed")
    with refused(ErrorCode.DECLINED, "no longer valid: the mode changed"):
        request.redeem()
    request.set_stale("again")
    request.withdraw("again")
    assert (request.state, request.comment) == ("stale", "the mode changed")


async def test_edited_text_is_checked_and_replaces_text(approvals: Approvals) -> None:
    async def check(text: str) -> None:
        if "erase" in text:
            raise PtyctlError(ErrorCode.POLICY_DENIED, "erase is denied")

    request = approvals.ask(replace(HELD, check=check))
    with refused(ErrorCode.POLICY_DENIED):
        await approvals.approve_edited(request.approval_id, PERSON, "write erase")
    for text in ("", "reload\n", "reload\x03", "reload\x1b[A", "reload\u202e", "x" * (approvals_module.MAX_TEXT + 1)):
        with refused(ErrorCode.INVALID_ARGUMENT):
            await approvals.approve_edited(request.approval_id, PERSON, text)
    with refused(ErrorCode.INVALID_ARGUMENT, "later calls"):
        await approvals.approve_edited(request.approval_id, PERSON, "reload in 5", same_s=60)
    assert request.state == "pending"
    await approvals.approve_edited(request.approval_id, PERSON, "reload in 5")
    assert (request.edited, request.redeem()) == (True, "reload in 5")


async def test_edited_text_of_request_that_is_answered_during_its_check_is_refused(approvals: Approvals) -> None:
    async def check(text: str) -> None:
        approvals.approve(request.approval_id, OTHER)

    request = approvals.ask(replace(HELD, check=check))
    with refused(ErrorCode.ALREADY_CLOSED):
        await approvals.approve_edited(request.approval_id, PERSON, "reload in 5")
    assert (request.decided_by, request.edited, request.redeem()) == (OTHER.name, False, "reload")


async def test_same_text_as_edit_is_no_edit(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    await approvals.approve_edited(request.approval_id, PERSON, "reload", same_s=60)
    assert not request.edited


async def test_standing_approval_covers_same_command_of_same_owner_only(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    assert not approvals.covers(HELD)
    approvals.approve(request.approval_id, PERSON, same_s=60)
    assert approvals.covers(replace(HELD, text=" reload ", binding="later"))
    others = (
        replace(HELD, text="rel"), replace(HELD, platform="linux"),
        replace(HELD, session_id="s2"),
        replace(HELD, owner=Owner(AGENT.name, "other")), replace(HELD, owner=Owner("x", "task")),
        replace(HELD, canonical="reload in 5"), replace(HELD, mode="config"), replace(HELD, rules=("reload", "night")),
    )  # fmt: skip
    assert not any(approvals.covers(other) for other in others)
    assert not approvals.keys_allowed("s1", OWNER)
    clock.now += 61
    assert not approvals.covers(HELD)
    await clock.advance(0)
    assert approvals.grants_of(request.approval_id) == []


async def test_standing_approval_covers_no_text_that_differs_in_unknown_words(approvals: Approvals) -> None:
    held = replace(HELD, platform="linux", mode=None, text="reload $A", canonical="reload ?")
    approvals.approve(approvals.ask(held).approval_id, PERSON, same_s=60)
    assert approvals.covers(held)
    assert not approvals.covers(replace(held, text="reload $B"))


@pytest.mark.parametrize("end", ["stale", "withdrawn", "declined"])
async def test_standing_approvals_end_with_their_request(approvals: Approvals, end: str) -> None:
    request = approvals.ask(HELD)
    changes: list[ApprovalChanged] = []
    if end == "stale":  # as soon as it is approved, as for a run whose terminal is in use
        request.subscribe(lambda: request.set_stale("the terminal is in use"))
    approvals.subscribe(changes.append)
    approvals.approve(request.approval_id, PERSON, same_s=60, keys_s=60)
    if end == "withdrawn":
        request.withdraw("the session was reset")
    elif end == "declined":
        approvals.revoke(request.approval_id, OTHER)
    assert request.state == end
    assert [(change.event, change.why) for change in changes[-2:]] == [("grant_end", request.comment)] * 2
    assert not approvals.covers(HELD)
    assert not approvals.keys_allowed("s1", OWNER)
    with refused(ErrorCode.ALREADY_CLOSED):
        approvals.revoke(request.approval_id, PERSON)


async def test_standing_approvals_outlive_expiry_and_can_be_revoked(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    approvals.approve(request.approval_id, PERSON, same_s=3600, keys_s=3600)
    await clock.advance(601)
    assert request.state == "expired"
    assert approvals.covers(HELD)
    assert approvals.revoke(request.approval_id, OTHER).state == "expired"
    assert not approvals.covers(HELD)
    assert not approvals.keys_allowed("s1", OWNER)
    with refused(ErrorCode.ALREADY_CLOSED, "expired"):
        approvals.revoke(request.approval_id, PERSON)


async def test_keys_are_allowed_to_requester_until_time_is_over(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    approvals.approve(request.approval_id, PERSON, keys_s=60)
    assert approvals.keys_allowed("s1", OWNER)
    assert not approvals.keys_allowed("s2", OWNER)
    assert not approvals.keys_allowed("s1", Owner("ada", "task"))
    assert not approvals.covers(HELD)
    await clock.advance(61)
    assert not approvals.keys_allowed("s1", OWNER)


@pytest.mark.parametrize("end", ["lock", "session", "revoke"])
async def test_standing_approvals_end_with_lock_session_or_revocation(approvals: Approvals, end: str) -> None:
    request = approvals.ask(HELD)
    approvals.approve(request.approval_id, PERSON, same_s=60, keys_s=60)
    request.redeem()
    approvals.lock_ended("s1", Owner("x", "task"))
    assert approvals.covers(HELD)
    ends: list[ApprovalChanged] = []
    approvals.subscribe(ends.append)
    match end:
        case "lock":
            approvals.lock_ended("s1", OWNER)
        case "session":
            approvals.session_ended("s1", "closed")
        case _:
            approvals.revoke(request.approval_id, PERSON, comment="enough")
    assert [change.event for change in ends] == ["grant_end", "grant_end"]
    assert not approvals.covers(HELD)
    assert not approvals.keys_allowed("s1", OWNER)
    with refused(ErrorCode.ALREADY_CLOSED):
        approvals.revoke(request.approval_id, PERSON)


async def test_revoked_approval_that_was_not_used_is_declined(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    with refused(ErrorCode.ALREADY_CLOSED):
        approvals.revoke(request.approval_id, PERSON)
    approvals.approve(request.approval_id, PERSON)
    approvals.revoke(request.approval_id, OTHER)
    with refused(ErrorCode.DECLINED, "ben declined it: the approval was revoked"):
        request.redeem()


async def test_find_returns_requests_of_same_principal_and_session_only(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    assert approvals.find(request.approval_id, "s1", Owner(AGENT.name, "")) is request
    for session_id, owner in (("s2", OWNER), ("s1", Owner("x", "task"))):
        with refused(ErrorCode.NOT_FOUND):
            approvals.find(request.approval_id, session_id, owner)


async def test_repeated_call_without_run_is_the_same_request(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    assert approvals.ask(HELD) is request
    assert approvals.ask(replace(HELD, binding="later")) is not request
    assert approvals.ask(replace(HELD, block_id="b1")) is not approvals.ask(replace(HELD, block_id="b1"))
    approvals.approve(request.approval_id, PERSON)
    assert approvals.ask(HELD) is not request


async def test_pending_requests_are_limited_by_session_and_principal(approvals: Approvals) -> None:
    of_session, of_principal = (LIMITS[name].maximum for name in ("max_session_approvals", "max_principal_approvals"))
    for number in range(of_session):
        approvals.ask(replace(HELD, binding=str(number)))
    with refused(ErrorCode.LIMIT_EXCEEDED, "max_session_approvals"):
        approvals.ask(HELD)
    assert approvals.pending("s1") == of_session
    for number in range(of_principal - of_session):
        approvals.ask(replace(HELD, session_id=f"other{number}"))
    with refused(ErrorCode.LIMIT_EXCEEDED, f"requests of {HELD.principal} wait for an answer.*max_principal_approvals"):
        approvals.ask(replace(HELD, session_id="new"))
    assert approvals.limits_in_use() == {"max_session_approvals": of_session, "max_principal_approvals": of_principal}
    assert approvals.ask(replace(HELD, session_id="new", owner=Owner("x", "task"))).state == "pending"


async def test_ended_requests_are_forgotten_beyond_limit(approvals: Approvals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals_module, "MAX_ENDED", 3)
    granted = approvals.ask(HELD)
    approvals.approve(granted.approval_id, PERSON, same_s=60)
    granted.redeem()
    requests = []
    for _ in range(6):
        requests.append(approvals.ask(HELD))
        requests[-1].withdraw("test")
    pending = approvals.ask(HELD)
    assert approvals.all() == [granted, *requests[-3:], pending]


async def test_large_text_and_screen_are_bounded(approvals: Approvals) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "at most"):
        approvals.ask(replace(HELD, text="x" * (approvals_module.MAX_TEXT + 1)))
    screen = approvals.ask(replace(HELD, screen=("x" * 5000,) * 5000)).held.screen
    assert (len(screen), len(screen[0])) == (200, 500)


async def test_subscribers_get_each_change_and_requests_only_those_of_others(approvals: Approvals) -> None:
    changes: list[ApprovalChanged] = []
    end = approvals.subscribe(changes.append)
    request = approvals.ask(HELD)
    states: list[str] = []
    request.subscribe(lambda: states.append(request.state))
    approvals.approve(request.approval_id, PERSON, via="cli", comment="go")
    request.redeem()
    end()
    approvals.ask(replace(HELD, session_id="s2"))
    assert changes == [
        ApprovalChanged(request, "ask"),
        ApprovalChanged(request, "approve", "ada", "cli", "go"),
        ApprovalChanged(request, "redeem"),
    ]
    assert states == ["approved"]
    assert request.revision == 3
    assert approvals.revision == 4


async def test_subscriber_of_request_can_redeem_at_once(approvals: Approvals) -> None:
    request = approvals.ask(HELD)
    typed: list[str] = []
    request.subscribe(lambda: typed.append(request.redeem()))
    await approvals.approve_edited(request.approval_id, PERSON, "reload in 5")
    assert typed == ["reload in 5"]


async def test_answerable_while_approver_watches_or_program_notifies(approvals: Approvals, clock: Clock) -> None:
    request = approvals.ask(HELD)
    assert not request.answerable
    with approvals.watching():
        assert request.answerable
        await clock.advance(100)
        assert approvals.answerable
    assert approvals.answerable  # the next watch follows
    await clock.advance(6)
    assert not approvals.answerable
    assert Approvals(notifies=True).answerable


PRINCIPALS = [
    PERSON,
    OTHER,
    AGENT,
    Principal("bot", Kind.AGENT, Role.APPROVER),
    Principal("eve", Kind.PERSON, Role.OPERATOR),
]
ACTIONS = ["ask", "approve", "decline", "revoke", "advance", "late", "set_stale", "withdraw", "redeem", "session_ended"]
REFUSALS = {
    ErrorCode.FORBIDDEN, ErrorCode.ALREADY_CLOSED, ErrorCode.DECLINED, ErrorCode.APPROVAL_PENDING, ErrorCode.NOT_FOUND,
}  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 4), st.integers(0, 3)), max_size=40)


@given(STEPS, st.booleans())
def test_random_answers_never_release_a_text_twice_or_without_another_person(
    steps: list[tuple[str, int, int]], allow_self: bool
) -> None:
    run(lambda: _check_random_steps(steps, allow_self=allow_self))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        await test()

    asyncio.run(body())


async def _check_random_steps(steps: list[tuple[str, int, int]], *, allow_self: bool) -> None:
    """Compare with a model: the expected state of each request, and its possible approvers."""
    clock = Clock()
    approvals = Approvals(timeout_s=100, allow_self=allow_self)
    states: list[str] = []
    deadlines: list[float] = []
    requests: list[approvals_module.Approval] = []

    def expire() -> None:
        for number, deadline in enumerate(deadlines):
            if clock.now >= deadline and states[number] in ("pending", "approved"):
                states[number] = "expired"

    for action, who, which in steps:
        by = PRINCIPALS[who]
        if action == "ask":
            held = replace(HELD, owner=Owner(by.name, "task"), session_id=f"s{which}", binding=str(len(requests)))
            requests.append(approvals.ask(held))
            states.append("pending")
            deadlines.append(clock.now + 100)
            continue
        if action == "advance":
            await clock.advance(30)
            expire()
            continue
        if action == "late":
            clock.now += 30  # without running the timers
            expire()
            continue
        if not requests:
            continue
        number = -1 - which % len(requests)
        request, state = requests[number], states[number]
        try:
            match action:
                case "approve":
                    own = request.held.owner.principal == by.name
                    approvals.approve(request.approval_id, by)
                    assert state == "pending"
                    assert by.kind is Kind.PERSON
                    assert allow_self or not own
                    states[number], deadlines[number] = "approved", clock.now + 100
                case "decline":
                    approvals.decline(request.approval_id, by)
                    assert (state, by.kind) == ("pending", Kind.PERSON)
                    states[number] = "declined"
                case "revoke":
                    approvals.revoke(request.approval_id, by)
                    assert (state, by.kind) == ("approved", Kind.PERSON)
                    states[number] = "declined"
                case "redeem":
                    found = approvals.find(request.approval_id, request.held.session_id, Owner(by.name, "task"))
                    assert found.held.owner.principal == by.name
                    assert found.redeem() == "reload"
                    assert state == "approved"
                    states[number] = "redeemed"
                case "session_ended":
                    approvals.session_ended(request.held.session_id, "closed")
                    for each, other in enumerate(requests):
                        if other.held.session_id == request.held.session_id and states[each] in ("pending", "approved"):
                            states[each] = "withdrawn"
                case _:
                    getattr(request, action)("test")
                    if state in ("pending", "approved"):
                        states[number] = {"set_stale": "stale", "withdraw": "withdrawn"}[action]
        except PtyctlError as error:
            if error.code not in REFUSALS:
                raise
    await clock.advance(0)
    assert [("redeemed" if request.redeemed else request.state) for request in requests] == states
    approvals.close()


async def test_request_ends_with_its_lock_which_an_extension_moves(approvals: Approvals, clock: Clock) -> None:
    until = clock.now + 30
    bond = Bond("1 7", lambda: "its lock has ended" if clock.now >= until else None, lambda: until)
    request, other = approvals.ask(replace(HELD, bond=bond)), approvals.ask(replace(HELD, binding="other"))
    approvals.approve(approvals.ask(unused := replace(HELD, bond=bond, binding="unused")).approval_id, PERSON)
    assert unused in [each.held for each in approvals.all() if each.state == "approved"]
    await clock.advance(20)
    until = clock.now + 30
    await clock.advance(20)
    assert (request.state, approvals.pending("s1")) == ("pending", 2)
    changes: list[str] = []
    approvals.subscribe(lambda changed: changes.append(changed.event))
    await clock.advance(10)
    assert (changes, request.comment) == (["set_stale", "set_stale"], "its lock has ended")
    assert (other.state, approvals.pending("s1")) == ("pending", 1)
    with refused(ErrorCode.ALREADY_CLOSED, "stale before: its lock has ended"):
        approvals.approve(request.approval_id, PERSON)


@pytest.mark.parametrize("call", ["all", "get", "pending", "approve", "ask", "redeem"])
async def test_request_without_lock_is_stale_before_its_timer_runs(approvals: Approvals, clock: Clock, call: str) -> None:
    until = clock.now + 30
    bond = Bond("1 7", lambda: "its lock has ended" if clock.now >= until else None, lambda: until)
    request = approvals.ask(held := replace(HELD, bond=bond))
    clock.now += 30
    match call:
        case "all":
            assert [each.state for each in approvals.all()] == ["stale"]
        case "get":
            assert approvals.get(request.approval_id).state == "stale"
        case "pending":
            assert approvals.pending("s1") == 0
        case "approve":
            with refused(ErrorCode.ALREADY_CLOSED):
                approvals.approve(request.approval_id, PERSON)
        case "ask":
            assert approvals.ask(replace(held, bond=Bond())) is not request
        case _:
            with refused(ErrorCode.DECLINED, "its lock has ended"):
                request.redeem()


@pytest.mark.parametrize("token", [None, "another"], ids=["revoked", "created again"])
async def test_approval_of_requester_whose_token_was_revoked_is_stale(clock: Clock, token: str | None) -> None:
    tokens: dict[str, str | None] = {AGENT.name: "first"}
    approvals = Approvals(token_of=tokens.get)
    pending, approved = approvals.ask(HELD), approvals.ask(replace(HELD, text="write erase"))
    approvals.approve(approved.approval_id, PERSON, same_s=60)
    assert approvals.covers(approved.held)
    tokens[AGENT.name] = token
    assert not approvals.covers(approved.held)
    with refused(ErrorCode.DECLINED, "token"):
        approved.redeem()
    assert (approved.state, approvals.get(pending.approval_id).state) == ("stale", "stale")
    approvals.close()


async def test_standing_approval_does_not_cover_text_for_another_shell(approvals: Approvals) -> None:
    request = approvals.ask(replace(HELD, shell="0 None None"))
    approvals.approve(request.approval_id, PERSON, same_s=60)
    assert approvals.covers(request.held)
    assert not approvals.covers(replace(HELD, shell="0 2 (17, 'bash')"))
