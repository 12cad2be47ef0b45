"""Elicitation: the person at an MCP client answers the approval request of a call, if the server's settings allow it.

A client of the 2025 revisions is asked during the call. One of 2026-07-28 gets the question as the result, and repeats the
call with the answer (Multi Round-Trip Requests). The state in between is the id of the approval request: a client can use only
those of its own principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ptyctl.api import Controller
from ptyctl.api.approvals import ApprovalEntry, ApprovalsQuery, ApprovalsRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.model import Reply, Request
from ptyctl.api.policy import PendingApproval
from ptyctl.core.sanitizer import escape_controls

#: A longer text is not shown by elicitation, in characters: a person could not review it in a dialog.
MAX_SHOWN_TEXT = 2000
#: Rows of the screen in the message.
_SHOWN_ROWS = 12
#: Longest comment of an answer.
_MAX_COMMENT = 2000
#: The key of the question among the input requests of a result.
_QUESTION = "approval"
#: No answer is preselected: a client that accepts with the defaults approves nothing.
_FORM = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "title": "Answer", "enum": ["approve", "decline"]},
        "comment": {"type": "string", "title": "Comment for the requester", "maxLength": _MAX_COMMENT},
    },
    "required": ["answer"],
}

Perform = Callable[[Request], Awaitable[Reply]]


class InputRequiredError(Exception):
    """The client is to ask its user, and to repeat the call. `result` has the question."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("the client must ask its user")
        self.result = result


class Elicitor:
    """Performs one call of a client that can show a form to its user."""

    def __init__(self, controller: Controller, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> None:
        self._controller = controller
        self._context = context
        self._params = params
        self._deadline = asyncio.get_running_loop().time() + MAX_WAIT_MS / 1000

    @staticmethod
    def serves(context: ServerRequestContext[Any, Any]) -> bool:
        """Return whether the client can show forms: it declares elicitation of the kind `form`, or of no kind."""
        capabilities = context.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)

    async def call(self, request: Request, perform: Perform) -> Reply:
        """Perform a call. If it waits for an approval that the person at the client may give, ask, and continue the call.

        Raises:
            PtyctlError: as `perform`.
            InputRequiredError
        """
        if "approval_id" not in type(request).model_fields or isinstance(request, ApprovalsQuery):
            return await perform(request)
        if (approval_id := self._params.request_state) is not None:
            result = _response(self._params) if await self._may_have_asked(approval_id, request) else None
        else:
            pending = await _pending(perform, _updated(request, return_pending=True))
            if isinstance(pending, Reply):
                return pending
            approval_id, result = pending, await self._ask(pending)
        is_answered = await self._record(approval_id, result)
        return await perform(self._continued(request, approval_id, return_pending=not is_answered))

    async def _ask(self, approval_id: str) -> ElicitResult | None:
        """Ask the person, if the text can be shown. Return None if there is no answer in time. Raises InputRequiredError."""
        entry = await self._entry(approval_id)
        if len(entry.text) > MAX_SHOWN_TEXT:
            return None
        question = ElicitRequestFormParams(message=format_question(entry), requested_schema=_FORM)
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            questions = {_QUESTION: ElicitRequest(params=question)}
            raise InputRequiredError(InputRequiredResult(input_requests=questions, request_state=approval_id))
        with anyio.move_on_after(self._remaining_s()):
            try:
                return await self._context.session.elicit_form(question.message, _FORM, self._context.request_id)
            except (MCPError, ValidationError):  # the client cannot ask after all, or its response is invalid
                return None
        return None

    async def _may_have_asked(self, approval_id: str, request: Request) -> bool:
        """Return whether a question about this approval can have been the result of this call: the client chooses the id."""
        entry, session_id = await self._entry(approval_id), getattr(request, "session_id", None)
        return len(entry.text) <= MAX_SHOWN_TEXT and session_id in (None, entry.session_id)

    async def _entry(self, approval_id: str) -> ApprovalEntry:
        reply = await self._controller.approvals(ApprovalsRequest(action="get", approval_id=approval_id))
        assert reply.approval is not None, "a reply to get has the request"
        return reply.approval

    async def _record(self, approval_id: str, result: ElicitResult | None) -> bool:
        """Record the person's answer; return whether there is one. A dismissed or an incomplete form is none."""
        if result is None or result.action == "cancel":
            return False
        content = (result.content if result.action == "accept" else {"answer": "decline"}) or {}
        answer, comment = content.get("answer"), content.get("comment")
        if answer not in ("approve", "decline"):
            return False
        comment = comment.strip()[:_MAX_COMMENT] if isinstance(comment, str) else ""
        fields = {"action": answer, "approval_id": approval_id, "comment": comment or None, "via": "elicitation"}
        try:
            await self._controller.approvals(ApprovalsRequest.of(fields))
        except PtyctlError as error:
            if error.code is not ErrorCode.ALREADY_CLOSED:  # another person has answered, or the request has ended
                raise
        return True

    def _continued(self, request: Request, approval_id: str, *, return_pending: bool) -> Request:
        """Return the request that continues a call. All of it takes no longer than a call may take."""
        waits_ms = getattr(request, "timeout_ms", None)
        remaining = max(round(self._remaining_s() * 1000), 0)
        timeout = {} if waits_ms is None or waits_ms <= remaining else {"timeout_ms": remaining}
        return _updated(request, approval_id=approval_id, return_pending=return_pending, **timeout)

    def _remaining_s(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()


def format_question(entry: ApprovalEntry) -> str:
    """Return the question about a request as text, without control or invisible characters."""
    who = f"{entry.principal}, task {entry.task_id}" if entry.task_id else entry.principal
    where = f"{entry.device or entry.session_id}{f', mode {entry.mode}' if entry.mode else ''}"
    rows = [row.rstrip() for row in entry.screen or ()]
    while rows and not rows[-1]:
        rows.pop()
    facts = [f"{who} wants to type on {where}:", *_indented(entry.text.split("\n"))]
    if entry.canonical != entry.text:
        facts += ["Read as:", *_indented(entry.canonical.split("\n"))]
    facts += [f"Reason: {entry.reason} (rules: {', '.join(entry.rules)})"]
    if rows:
        facts += ["The screen shows:", *_indented(rows[-_SHOWN_ROWS:])]
    return "\n".join(map(escape_controls, facts))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _updated(request: Request, **fields: object) -> Request:
    """Return a request with changed values for the fields that it has."""
    return request.model_copy(update={name: value for name, value in fields.items() if name in type(request).model_fields})


async def _pending(perform: Perform, request: Request) -> Reply | str:
    """Perform a call; return the id of the approval request that it waits for, if the client may elicit the answer."""
    try:
        reply = await perform(request)
    except PtyctlError as error:
        if error.code is ErrorCode.APPROVAL_PENDING and error.details.get("elicitation"):
            return str(error.details["approval_id"])
        raise
    approval = getattr(reply, "approval", None)
    return str(approval.approval_id) if isinstance(approval, PendingApproval) and approval.elicitation else reply


def _response(params: CallToolRequestParams) -> ElicitResult | None:
    """Return the client's response to the question of an earlier result."""
    response = (params.input_responses or {}).get(_QUESTION)
    return response if isinstance(response, ElicitResult) else None
