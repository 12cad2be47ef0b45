"""Answers requests on the policy that is in force, and judges the program of an open request by it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.policy import PolicyReply, PolicyRequest, PolicyRule
from ptyctl.api.session import SessionRequest
from ptyctl.core.principal import Kind, Principal
from ptyctl.core.shells import is_plain_shell
from ptyctl.inventory import Inventory
from ptyctl.platforms import Platforms
from ptyctl.policy.policy_file import PlacedRule, Policy
from ptyctl.policy.rules import SHELL_PLATFORM, UNKNOWN_PLATFORM, Decision, DecisionRequest, strictest
from ptyctl.policy.shell_command import changes_programs, text_run_from
from ptyctl.session.calls.mode_change import mode_at
from ptyctl.session.clients import current_principal
from ptyctl.session.io.gate import Writer
from ptyctl.session.judgement import PolicyDecisionPoint
from ptyctl.session.session import Session
from ptyctl.session.verdict_thread import judge_outside_loop

from .policies import PolicyStore

if TYPE_CHECKING:
    from .destinations import Destination  # the transports, which requests do not need, are slow to import

#: Most characters of the command and the environment of an open: as of a command that is typed.
MAX_PROGRAM_TEXT = 128 * 1024


class PolicyChecks:
    """Answers requests on the policy in force."""

    def __init__(self, store: PolicyStore, inventory: Inventory, platforms: Platforms) -> None:
        self._store = store
        self._inventory = inventory
        self._platforms = platforms

    async def answer(self, request: PolicyRequest, by: Principal, session: Session | None = None) -> PolicyReply:
        """Answer a request of a principal.

        Args:
            session: that of the request.

        Raises:
            PtyctlError: POLICY_DENIED for a check without a policy; INVALID_ARGUMENT for a faulty policy at `reload`, and for a
                mode that the platform does not have; UNSUPPORTED for an unknown platform; NOT_FOUND for an unknown device.
        """
        if request.action == "check":
            return await self._check(request, by, session)
        if request.action == "reload":
            await asyncio.to_thread(self._store.reload, by.name)
        reply = self._reply()
        if reply.sha256 is not None:
            policy = self._store.policy
            reply.rules, reply.rule_details = [placed.rule.id for placed in policy.rules], _details(policy)
            reply.defaults = {name: str(decision) for name, decision in asdict(policy.settings).items()}
        return reply

    def _reply(self) -> PolicyReply:
        return PolicyReply(policy=self._store.name, sha256=self._store.sha256 or None, problem=self._store.problem)

    async def _check(self, request: PolicyRequest, by: Principal, session: Session | None) -> PolicyReply:
        policy, reply = self._store.policy, self._reply()
        by = replace(by, name=request.principal or by.name, kind=Kind(request.kind or by.kind))
        text = request.text or ""
        place = await self._place(request, session)
        mode = self._mode(request, place)
        writer = Writer(request.task_id, by=by)
        judged = None if session is None else await session.authorization.check(text, writer, request.mode, request.where)
        if judged is None:
            where = request.where or "prompt"
            place = replace(place, text=text, mode=mode, kind=by.kind, principal=by.name, task=request.task_id, where=where)
            verdict = await judge_outside_loop(lambda: policy.evaluator.verdict(place), len(text))
            reply.platform, reply.where = place.platform, place.where
        else:
            verdict, at = judged
            reply.platform, reply.where = at.platform, at.where
        reply.decision, reply.reason, reply.canonical = str(verdict.decision), verdict.reason, verdict.canonical
        reply.mode, reply.rules, reply.rule_details = verdict.mode, list(verdict.rules), _details(policy, verdict.rules)
        return reply

    async def _place(self, request: PolicyRequest, session: Session | None) -> DecisionRequest:
        """Return a request without a text for the session, the device of the inventory, or the platform."""
        if session is not None:
            spec = session.spec
            platform = spec.platform or (SHELL_PLATFORM if session.has_shell() else None)
            return DecisionRequest("", platform, spec.protocol, spec.device or spec.device_id, mode_at(session))
        platform, protocol = request.platform, request.protocol
        if request.device is not None and platform is None:
            device = await self._inventory.device(request.device)
            platform, protocol = device.platform, protocol or device.protocol
        return DecisionRequest("", platform, protocol, request.device)

    def _mode(self, request: PolicyRequest, where: DecisionRequest) -> str | None:
        """Return the mode of the request or of the session; without either, the platform's mode for running commands."""
        if where.platform is None:
            return request.mode or where.mode
        platform = self._platforms.get(where.platform)
        if request.mode is not None and request.mode not in platform.modes:
            hint = f"use one of: {', '.join(platform.modes)}"
            raise invalid(f"{where.platform} has no mode {request.mode!r}", hint=hint, field="mode")
        return request.mode or where.mode or platform.home[0]


def _details(policy: Policy, ids: Collection[str] | None = None) -> list[PolicyRule]:
    """Return the rules with these ids, or all rules, in the order of the files."""
    return [_detail(placed) for placed in policy.rules if ids is None or placed.rule.id in ids]


def _detail(placed: PlacedRule) -> PolicyRule:
    rule = placed.rule
    definition = rule.model_dump(mode="json", exclude_defaults=True, exclude={"id", "decision", "reason"}, exclude_none=True)
    return PolicyRule(
        id=rule.id,
        decision=str(rule.decision),
        reason=rule.reason,
        source=placed.source,
        line=placed.line,
        definition=definition,
    )


async def check_program(policy: PolicyDecisionPoint, request: SessionRequest, destination: Destination) -> str | None:
    """Judge the program of an open request as if it were typed into a shell. Return a warning, or None.

    What the inventory adds to the request is not judged. A program that needs an approval is refused: before the
    session exists, there is no screen to show to an approver.

    Raises:
        PtyctlError: POLICY_DENIED; LIMIT_EXCEEDED if the texts are too long; as `judge_in_thread` for a long one.
    """
    size = _program_size(request)
    if size > MAX_PROGRAM_TEXT:
        raise PtyctlError(
            ErrorCode.LIMIT_EXCEEDED,
            f"the command and the environment of a session have at most {MAX_PROGRAM_TEXT} characters, and these have {size}",
            {"limit": "max_program_text", "max_program_text": MAX_PROGRAM_TEXT},
            hint="put the text into a file",
        )
    return await judge_outside_loop(partial(_judge_program, policy, request, destination), size)


def _program_size(request: SessionRequest) -> int:
    """Return the number of characters in the command and the environment of a request."""
    command, env = request.command or (), request.env or {}
    words = len(command) if isinstance(command, str) else sum(len(word) + 1 for word in command)
    return words + sum(len(name) + len(value) + 1 for name, value in env.items())


def _judge_program(policy: PolicyDecisionPoint, request: SessionRequest, destination: Destination) -> str | None:
    """Judge the program of a request; runs in any thread. Raises PtyctlError POLICY_DENIED."""
    texts = list(_program_texts(request))
    if not texts:
        return None
    by = current_principal()
    protocol, platform = destination.request.protocol, destination.request.platform
    if protocol == "local":
        platforms: tuple[str, ...] = (SHELL_PLATFORM,)
    else:
        platforms = (platform,) if platform else (SHELL_PLATFORM, UNKNOWN_PLATFORM)
    verdicts = [
        policy.verdict(
            DecisionRequest(text, name, protocol, destination.device, kind=by.kind, principal=by.name, task=request.task_id)
        )
        for text in texts
        for name in platforms
    ]
    decision = strictest(verdict.decision for verdict in verdicts)
    worst = next(verdict for verdict in verdicts if verdict.decision is decision)
    if decision is Decision.ALLOW:
        return None
    if decision is Decision.WARN:
        return f"policy warning for the program of this session: {worst.reason}"
    needs = "denies" if decision is Decision.DENY else "asks for an approval of"
    rules = f" (rule {', '.join(worst.rules)})" if worst.rules else ""
    raise PtyctlError(
        ErrorCode.POLICY_DENIED,
        f"the policy {needs} the program of this session{rules}: {worst.reason}; it was not started",
        {
            "decision": str(decision),
            "rules": list(worst.rules),
            "reason": worst.reason,
            "canonical": worst.canonical,
            "field": "command" if request.command is not None else "env",
        },
        hint="open a shell, and run the command there, where a person can approve it",
    )


def _program_texts(request: SessionRequest) -> Iterator[str]:
    """Yield the texts that the request makes a shell run."""
    env = request.env or {}
    for name, value in env.items():
        if (text := text_run_from(name, value)) and text.strip():
            yield text
    # The text of a variable whose name is not a valid shell name may be run as a function, like that of BASH_ENV.
    changing = {name if name.isidentifier() else "BASH_ENV": value for name, value in env.items() if changes_programs(name)}
    assigned = [f"{name}={shlex.quote(value)}" for name, value in changing.items()]
    command = request.command or ()
    line = command if isinstance(command, str) else shlex.join(command)
    if not line or _is_plain_shell(line):
        line = "sh" if assigned else ""
    if line:
        yield " ".join((*assigned, line))


def _is_plain_shell(line: str) -> bool:
    try:
        return is_plain_shell(shlex.split(line))
    except ValueError:  # unbalanced quotes
        return False


def denies_keys(policy: PolicyDecisionPoint, request: SessionRequest) -> bool:
    """Return whether the policy in force denies the caller keys that no rule names in programs of a local shell."""
    by = current_principal()
    keys = DecisionRequest("", SHELL_PLATFORM, "local", kind=by.kind, principal=by.name, task=request.task_id, where="program")
    try:
        return policy.verdict(keys).decision is Decision.DENY
    except PtyctlError:  # no policy could be loaded: it denies everything
        return True
