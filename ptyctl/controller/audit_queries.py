"""Answers requests on the audit log from its files."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic_core import to_json

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.api.operator import AuditFault, AuditReply, AuditRequest
from ptyctl.audit.audit_files import AuditFiles

#: Fields of a request that a row must have with the same value, by the row's name of the field.
_EQUAL = {"event": "event", "session_id": "session_id", "principal": "principal", "task": "task_id"}


async def query_audit(files: AuditFiles, request: AuditRequest) -> AuditReply:
    """Return the rows that a request asks for, or the result of a verification. Reads in a thread.

    Raises:
        PtyctlError: IO_ERROR if a file cannot be read.
    """
    try:
        return await asyncio.to_thread(_verify if request.action == "verify" else _list, files, request)
    except OSError as error:
        message = f"{error.filename or files.folder} cannot be read: {error.strerror}"
        raise PtyctlError(ErrorCode.IO_ERROR, message, hint="check the file and its folder") from None


def _verify(files: AuditFiles, request: AuditRequest) -> AuditReply:
    verification = files.verify()
    fault = None if verification.fault is None else AuditFault(**verification.fault._asdict())
    return AuditReply(rows=[], verified=verification.head.rows, head=verification.head.hash, first_bad=fault)


def _list(files: AuditFiles, request: AuditRequest) -> AuditReply:
    first_month = time.strftime("%Y-%m", time.gmtime((request.since or 0) / 1000))
    newest: deque[dict[str, Any]] = deque()
    size, truncated = 0, False
    for row in files.rows(first_month):
        if not matches(row, request):
            continue
        newest.append(row)
        size += len(to_json(row))
        while len(newest) > request.limit or (size > MAX_LIST_BYTES and len(newest) > 1):
            size -= len(to_json(newest.popleft()))
            truncated = True
    return AuditReply(rows=list(newest), truncated=truncated or None)


def matches(row: Mapping[str, Any], request: AuditRequest) -> bool:
    """Return whether a row matches the filters of a request."""
    if any(getattr(request, field) not in (None, row.get(name)) for name, field in _EQUAL.items()):
        return False
    ts = row.get("ts", 0)
    if (request.since is not None and ts < request.since) or (request.until is not None and ts >= request.until):
        return False
    return request.device is None or fnmatchcase(str(row.get("device", "")), request.device)
