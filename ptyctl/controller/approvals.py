"""Answers requests on approvals; stores, records and announces their changes."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from ptyctl.api.approvals import ApprovalEntry, ApprovalScope, ApprovalsReply, ApprovalsRequest
from ptyctl.api.errors import PtyctlError
from ptyctl.api.model import MAX_REPLY_BYTES
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.lease import Owner
from ptyctl.core.limits import Limit, UseCounter
from ptyctl.core.principal import Kind, Operation
from ptyctl.core.states import ApprovalState
from ptyctl.files import make_usable, replace_file
from ptyctl.session.activity import Recorder
from ptyctl.session.approvals import MAX_ENDED, Approval, ApprovalChanged, Approvals, HeldText, no_approval
from ptyctl.session.clients import current_principal
from ptyctl.session.transcript.append_file import AppendFile, json_line
from ptyctl.session.transcript.jsonl import cut_torn_line, read_rows
from ptyctl.session.verdict_thread import LONG_TEXT, judge_in_thread

_LOG = logging.getLogger(__name__)

#: The file is compacted when it has this size, and again at twice its size after the last compaction.
MAX_FILE_BYTES = 16 * 1024 * 1024
#: A file of this size was not written by a server (bytes).
_MAX_DAMAGED_BYTES = 1 << 30
#: How long a notify command may run (seconds), and the number of them at the same time and waiting.
NOTIFY_S = 30.0
_MAX_RUNNING, _MAX_NOTIFICATIONS = 4, 100
#: Variables of the environment of a notify command: they locate programs, the user's files and the desktop.
_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip

#: Whether an approval request exists for the caller.
ApprovalVisibility = Callable[[HeldText], bool]


class ApprovalCalls:
    """Serves the calls on approval requests, and follows their changes."""

    def __init__(
        self,
        approvals: Approvals,
        notify_command: Sequence[str],
        recorder: Recorder,
        limit: Limit,
    ) -> None:
        """Create the calls. `limit` bounds the number of concurrent watches."""
        self._approvals = approvals
        self._recorder = recorder
        self._notifier = Notifier(notify_command)
        self._file: ApprovalFile | None = None
        self._watches = UseCounter(limit)
        #: Distinguishes the cursors of this process from those of an earlier one.
        self._run = secrets.token_hex(4)
        approvals.subscribe(self._handle_change)

    @property
    def problem(self) -> str | None:
        """Why the notify command failed when it ran last."""
        return self._notifier.problem

    def limits_in_use(self) -> dict[str, int]:
        """Return the number of watches, by the name of its limit."""
        return {self._watches.limit.name: self._watches.in_use}

    async def store_in(self, folder: Path) -> None:
        """Store requests in a folder. Pending requests of an earlier process expire."""
        file = ApprovalFile(folder / "approvals.jsonl")
        try:
            rows = await asyncio.to_thread(file.load)
        except OSError as error:
            _LOG.error("approvals cannot be stored", extra={"file": error.filename, "why": error.strerror})
            return
        self._file = file
        for row in rows[-MAX_ENDED:]:
            try:
                _restore(self._approvals, ApprovalEntry.model_validate(row))
            except ValueError:
                _LOG.warning("a row of approvals.jsonl is damaged")
        self._rewrite()

    async def aclose(self) -> None:
        """End running notify commands, and close the file."""
        self._approvals.close()
        await self._notifier.aclose()
        if self._file is not None:
            self._file.close()

    async def answer(self, request: ApprovalsRequest, sees: ApprovalVisibility) -> ApprovalsReply:
        """Perform a request on the approval requests that the caller sees.

        Raises:
            PtyctlError: NOT_FOUND; FORBIDDEN; ALREADY_CLOSED; LIMIT_EXCEEDED; as `Approvals.approve`.
        """
        if request.action == "list":
            return self._list(request, sees)
        if request.action == "watch":
            return await self._watch(request, sees)
        assert request.approval_id is not None
        approval = self._approvals.get(request.approval_id)
        if not sees(approval.held):
            raise no_approval(request.approval_id)
        by, approval_id, via, comment = current_principal(), request.approval_id, request.via, request.comment
        match request.action:
            case "approve":
                same_s, keys_s = request.for_s, request.keys_s
                if request.text is None:
                    self._approvals.approve(approval_id, by, via=via, comment=comment, same_s=same_s, keys_s=keys_s)
                else:
                    await self._approvals.approve_edited(
                        approval_id, by, request.text, via=via, comment=comment, same_s=same_s, keys_s=keys_s
                    )
            case "decline":
                self._approvals.decline(approval_id, by, via=via, comment=comment)
            case "revoke":
                self._approvals.revoke(approval_id, by, via=via, comment=comment)
        if request.action == "get" and len(approval.held.text) > LONG_TEXT:
            with suppress(PtyctlError):  # the text alone is shown then
                await judge_in_thread(lambda: approval.spans)
        entry = self._entry(approval, screen=request.action == "get")
        return ApprovalsReply(approval=entry, answerable=self._approvals.answerable)

    def _list(self, request: ApprovalsRequest, sees: ApprovalVisibility) -> ApprovalsReply:
        chosen = (
            approval
            for approval in self._approvals.all()
            if sees(approval.held)
            and request.session_id in (None, approval.held.session_id)
            and request.state in (None, approval.state)
        )
        return self._reply(chosen, request.limit)

    async def _watch(self, request: ApprovalsRequest, sees: ApprovalVisibility) -> ApprovalsReply:
        """Return the changes after the cursor; wait for a change that the caller may see."""
        run, _, number = (request.since or "").partition("-")
        revision = int(number) if run == self._run and number.isdecimal() else None
        deadline = asyncio.get_running_loop().time() + request.timeout_ms / 1000
        with self._watches.counting():
            by = current_principal()
            if by.kind is Kind.AGENT or not by.may(Operation.APPROVE):
                return await self._changes(revision, deadline, sees)
            with self._approvals.watching():
                return await self._changes(revision, deadline, sees)

    async def _changes(self, revision: int | None, deadline: float, sees: ApprovalVisibility) -> ApprovalsReply:
        while True:
            current = self._approvals.revision
            changed = [
                approval for approval in self._approvals.all() if self._is_change(approval, revision) and sees(approval.held)
            ]
            if changed or revision is None or asyncio.get_running_loop().time() >= deadline:
                return self._reply(changed, len(changed))
            revision = current
            await self._approvals.wait_for_change(revision, deadline)

    def _is_change(self, approval: Approval, revision: int | None) -> bool:
        if revision is not None:
            return approval.revision > revision
        return not approval.ended or bool(self._approvals.grants_of(approval.approval_id))

    def _reply(self, chosen: Iterable[Approval], limit: int) -> ApprovalsReply:
        entries: list[ApprovalEntry] = []
        size, truncated = 0, False
        for approval in reversed(list(chosen)):
            entry = self._entry(approval)
            size += len(entry.model_dump_json())
            if len(entries) >= limit or (size > MAX_REPLY_BYTES and entries):
                truncated = True
                break
            entries.append(entry)
        return ApprovalsReply(
            approvals=entries[::-1],
            cursor=f"{self._run}-{self._approvals.revision}",
            truncated=truncated or None,
            answerable=self._approvals.answerable,
            problem=self._notifier.problem,
        )

    def _entry(self, approval: Approval, *, screen: bool = False) -> ApprovalEntry:
        approval.expire_if_due()
        held = approval.held
        spans = approval.spans if "spans" in vars(approval) or len(held.text) <= LONG_TEXT else []
        until = {f"{grant.kind}_until": grant.expires_at for grant in self._approvals.grants_of(approval.approval_id)}
        return ApprovalEntry(
            approval_id=approval.approval_id,
            state=approval.state,
            used=approval.redeemed or None,
            created_at=approval.created_at,
            expires_at=approval.expires_at,
            session_id=held.session_id,
            device=held.device,
            platform=held.platform,
            mode=held.mode,
            principal=held.principal,
            task_id=held.owner.task_id or None,
            block_id=held.block_id,
            text=_encodable(held.text),
            canonical=_encodable(held.canonical),
            rules=list(held.rules),
            reason=held.reason,
            marks=[list(span) for span in spans] if spans and held.text == _encodable(held.text) else None,
            screen=list(map(_encodable, held.screen)) if screen else None,
            edited=approval.edited or None,
            approved_text=_encodable(approval.text) if approval.edited else None,
            decided_by=approval.decided_by,
            decided_at=approval.decided_at,
            via=approval.via,
            comment=approval.comment,
            scope=ApprovalScope(**until) if until else None,
        )

    def _handle_change(self, changed: ApprovalChanged) -> None:
        """Store, record and announce a change. A fault in that must not stop the session."""
        try:
            self._follow(changed)
        except Exception:  # noqa: BLE001 - a bug: what is held must end all the same
            _LOG.exception("a change of an approval request was not stored")

    def _follow(self, changed: ApprovalChanged) -> None:
        approval, held = changed.approval, changed.approval.held
        is_new = changed.event == "ask"
        entry = self._entry(approval, screen=is_new)
        by_requester = changed.event in ("ask", "redeem")
        shown = held.text if is_new else entry.approved_text if changed.event in ("approve", "redeem") else None
        self._recorder.record(
            "approval",
            action=changed.event,
            approval_id=approval.approval_id,
            session_id=held.session_id,
            device=held.device,
            principal=held.principal if by_requester else changed.by,
            requester=None if by_requester else held.principal,
            task=held.owner.task_id or None,
            trace_id=held.trace_id,
            text=shown,
            rules=list(held.rules) if is_new else None,
            mode=held.mode if is_new else None,
            block_id=held.block_id if is_new else None,
            via=changed.via,
            comment=changed.why,
            **(entry.scope.payload() if entry.scope is not None and changed.event == "approve" else {}),
        )
        if self._file is not None:
            self._file.append(entry.payload())
            if self._file.is_full:
                self._rewrite()
        if is_new:
            self._notifier.notify(entry.payload())

    def _rewrite(self) -> None:
        assert self._file is not None
        self._file.replace(self._entry(approval).payload() for approval in self._approvals.all())


class ApprovalFile:
    """approvals.jsonl: the state of a request after each change; its last row counts.

    A disk that takes no rows does not stop approvals: the audit log is the record, and may stop input.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: AppendFile | None = None
        self._max_bytes = MAX_FILE_BYTES

    def load(self) -> list[dict[str, Any]]:
        """Return the last row of each request, in the order of their first rows. Raises OSError."""
        if (why := make_usable(self._path, _MAX_DAMAGED_BYTES)) is not None:
            _LOG.error("earlier approval requests are not shown", extra={"file": str(self._path), "why": why})
        cut_torn_line(self._path)
        return list({str(row.get("approval_id")): row for row in read_rows(self._path)}.values())

    @property
    def is_full(self) -> bool:
        """Whether the file should be written again."""
        return self._file is not None and self._file.size_with_batch > self._max_bytes

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        if self._file is not None:
            self._file.append(json_line(row))
            self._file.flush()

    def replace(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace the content; later rows are appended to it."""
        self.close()
        try:
            replace_file(self._path, b"".join(map(json_line, rows)).decode())
            self._file = AppendFile(self._path)
            self._max_bytes = max(MAX_FILE_BYTES, 2 * self._file.size)
        except OSError as error:
            _LOG.error("approvals cannot be stored", extra={"file": str(self._path), "why": error.strerror})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Notifier:
    """Runs a program for each request, to announce it on a desktop or in a chat.

    Attributes:
        problem: why the last run failed.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = asyncio.Semaphore(_MAX_RUNNING)
        self.problem: str | None = None

    def notify(self, row: Mapping[str, Any]) -> None:
        """Start the program with the request as one line of JSON on its standard input."""
        if not self._command:
            return
        if len(self._tasks) >= _MAX_NOTIFICATIONS:
            self._report("too many of its runs have not ended")
            return
        task = asyncio.create_task(self._run(to_json(row) + b"\n"), name="notify command")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End the programs that run."""
        await cancel_and_wait(*self._tasks)

    async def _run(self, data: bytes) -> None:
        async with self._running:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    env={name: value for name in _VARIABLES if (value := os.environ.get(name)) is not None},
                    cwd="/",
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                self._report(f"it cannot be started: {getattr(error, 'strerror', None) or error}")
                return
            try:
                async with asyncio.timeout(NOTIFY_S):
                    await process.communicate(data)
            except TimeoutError:
                self._report(f"it did not end within {NOTIFY_S:.0f} s")
            else:
                self._report(f"it ended with exit code {process.returncode}" if process.returncode else None)
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()

    def _report(self, problem: str | None) -> None:
        self.problem = None if problem is None else f"{self._command[0]}: {problem}"
        if problem is not None:
            _LOG.error("the notify command failed", extra={"command": self._command[0], "why": problem})


def _encodable(text: str) -> str:
    """Escape bytes of typed input that are no UTF-8 (lone surrogates, PEP 383): replies and files cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _restore(approvals: Approvals, entry: ApprovalEntry) -> None:
    held = HeldText(
        session_id=entry.session_id,
        device=entry.device,
        platform=entry.platform,
        mode=entry.mode,
        owner=Owner(entry.principal, entry.task_id or ""),
        text=entry.text,
        canonical=entry.canonical,
        rules=tuple(entry.rules),
        reason=entry.reason,
        binding="",
        screen=tuple(entry.screen or ()),
        block_id=entry.block_id,
        find_spans=lambda: [(begin, end) for begin, end in entry.marks or ()],
    )
    state: ApprovalState = "redeemed" if entry.used else entry.state
    approval = approvals.add_stored(entry.approval_id, held)
    text = entry.text if entry.approved_text is None else entry.approved_text
    answer = (entry.decided_by, entry.decided_at, entry.via, entry.comment)
    approval.restore(state, entry.created_at, entry.expires_at, text, answer)
