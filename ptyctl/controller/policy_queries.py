"""Answers requests on the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import asdict, replace

from ptyctl.api.errors import invalid
from ptyctl.api.policy import PolicyReply, PolicyRequest, PolicyRule
from ptyctl.core.principal import Kind, Principal
from ptyctl.inventory import Inventory
from ptyctl.platforms import Platforms
from ptyctl.policy.policy_file import PlacedRule, Policy
from ptyctl.policy.rules import SHELL_PLATFORM, DecisionRequest
from ptyctl.session.calls.mode_change import mode_at
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session
from ptyctl.session.verdict_thread import judge_outside_loop

from .policies import PolicyStore


class PolicyQueries:
    """Answers by the policy that is in force."""

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
