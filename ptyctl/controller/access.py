"""The controller that servers give to their clients: each request is checked against the role and devices of its principal.

This is the only place that decides what a principal may do; `ptyctl.core.principal` has the table of the roles.
`find_principal` returns the principal of a user of this machine, by the table `access` of the configuration.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import NoReturn

from ptyctl.accounts import group_name, login_name
from ptyctl.api import blocks, pty, screen
from ptyctl.api.approvals import ApprovalsQuery, ApprovalsReply, ApprovalsRequest
from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.devices import DevicesReply, DevicesRequest
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.model import Addressed, Request
from ptyctl.api.operator import (
    AuditReply,
    AuditRequest,
    GcReply,
    GcRequest,
    LogReply,
    LogRequest,
    NotifyReply,
    NotifyRequest,
    WatchItem,
    WatchRequest,
)
from ptyctl.api.policy import PolicyReply, PolicyRequest
from ptyctl.api.session import Auth, SessionReply, SessionRequest, SshOptions
from ptyctl.core.principal import Kind, Operation, Principal, needed_role
from ptyctl.session.approvals import HeldText
from ptyctl.session.clients import current_client, current_principal, user

from .destinations import without_route
from .local import LocalController
from .registry import no_session
from .settings import AccessSettings, UserRights

#: Requests that address a session.
_OnSession = Addressed | SessionRequest | WatchRequest | LogRequest | RecordingRequest | NotifyRequest | PolicyRequest

#: The operation of each request, by its type and `action`. A request that is not here is refused.
OPERATIONS: Mapping[type[Request], Operation | Mapping[str, Operation]] = {
    SessionRequest: {
        "open": Operation.OPEN,
        "close": Operation.CLOSE,
        "list": Operation.LIST,
        "status": Operation.STATUS,
        "lock": Operation.LOCK,
        "unlock": Operation.LOCK,
        "heartbeat": Operation.LOCK,
    },
    ExecRequest: Operation.EXEC,
    IoRequest: {"read": Operation.READ, "write": Operation.WRITE},
    ConfigRequest: {
        "get": Operation.READ,
        "resize": Operation.CONFIGURE,
        "expect": Operation.CONFIGURE,
        "pace": Operation.CONFIGURE,
        "mode": Operation.WRITE,
        "save": Operation.WRITE,
    },
    WatchRequest: Operation.WATCH,
    LogRequest: Operation.READ,
    RecordingRequest: Operation.READ,
    SearchRequest: Operation.READ,
    DevicesRequest: {"list": Operation.LIST, "doctor": Operation.OPEN},
    NotifyRequest: Operation.NOTIFY,
    GcRequest: Operation.REMOVE,
    AuditRequest: Operation.AUDIT,
    PolicyRequest: {"check": Operation.POLICY, "show": Operation.POLICY, "reload": Operation.RELOAD},
    ApprovalsQuery: Operation.STATUS,
    ApprovalsRequest: {
        "list": Operation.STATUS,
        "get": Operation.STATUS,
        "watch": Operation.STATUS,
        "approve": Operation.APPROVE,
        "decline": Operation.APPROVE,
        "revoke": Operation.APPROVE,
    },
    pty.PtyExecBlock: Operation.EXEC,
    pty.PtyExecInteractive: Operation.EXEC,
    pty.PtyExecInteractiveExpect: Operation.EXEC,
    pty.PtyWaitFor: Operation.READ,
    pty.PtyWaitPrompt: Operation.READ,
    pty.PtyExpectSend: Operation.WRITE,
    pty.PtySend: Operation.WRITE,
    pty.PtyCtrlC: Operation.WRITE,
    pty.PtyCtrlD: Operation.WRITE,
    pty.PtyEnter: Operation.WRITE,
    pty.PtyReadSpool: Operation.READ,
    pty.PtyStatus: Operation.STATUS,
    pty.PtyEndSession: Operation.WRITE,
    pty.PtyReset: Operation.CLOSE,
    pty.PtyResize: Operation.CONFIGURE,
    pty.PtyClose: Operation.CLOSE,
    blocks.BlocksSince: Operation.READ,
    blocks.BlocksGet: Operation.READ,
    blocks.BlocksRead: Operation.READ,
    blocks.BlocksSearch: Operation.READ,
    screen.PtyReadRaw: Operation.READ,
    screen.PtyReadScreen: Operation.READ,
    screen.PtyReadScreenDeltas: Operation.READ,
    screen.PtyScreenStatus: Operation.STATUS,
    screen.PtyReadScrollback: Operation.READ,
}


class AccessController:
    """Serves each request as far as the principal of the current client may make it.

    A session outside the principal's devices does not exist for it. Implements `ptyctl.api.controller.Controller`.
    """

    def __init__(self, controller: LocalController, *, local_sessions: bool = True) -> None:
        """Serve requests. `local_sessions`: whether clients may use this machine as the server's user."""
        self._controller = controller
        self._local_sessions = local_sessions

    @property
    def local_sessions(self) -> bool:
        """Whether clients may use this machine as the server's user."""
        return self._local_sessions

    async def session(self, request: SessionRequest) -> SessionReply:
        await self._admit(request)
        devices = current_principal().devices
        if devices and request.action == "open":
            return await self._open_device(request)
        reply = await self._controller.session(request)
        if devices and reply.sessions is not None:
            sees = current_principal().sees
            reply.sessions = [entry for entry in reply.sessions if sees(entry.device, entry.device_id)]
        return reply

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        await self._admit(request)
        return await self._controller.io(request, progress)

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        await self._admit(request)
        return await self._controller.exec(request, progress)

    async def config(self, request: ConfigRequest) -> ConfigReply:
        await self._admit(request)
        return await self._controller.config(request)

    async def pty(self, request: pty.PtyRequest, progress: Progress | None = None) -> pty.PtyReplyBase:
        try:
            await self._admit(request)
        except PtyctlError as error:
            return pty.encode_error(error)
        return await self._controller.pty(request, progress)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        await self._admit(request)
        async with aclosing(self._controller.watch(request)) as items:
            async for item in items:
                yield item

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        await self._admit(request)
        return await self._controller.notify(request)

    async def log(self, request: LogRequest) -> LogReply:
        await self._admit(request)
        return await self._controller.log(request)

    async def recording(self, request: RecordingRequest) -> RecordingReply:
        await self._admit(request)
        return await self._controller.recording(request)

    async def search(self, request: SearchRequest) -> SearchReply:
        await self._admit(request)
        return await self._controller.search(request, sees=current_principal().sees)

    async def devices(self, request: DevicesRequest) -> DevicesReply:
        await self._admit(request)
        principal = current_principal()
        if not principal.devices:
            return await self._controller.devices(request)
        if request.device is not None and not principal.sees(request.device):
            raise _unknown_device(request.device)
        try:
            seen = await self._controller.devices(DevicesRequest(), sees=principal.sees)
        except PtyctlError as error:
            raise _without_faults(error) from None
        if request.device is None:
            return seen
        if all(entry.device != request.device for entry in seen.devices or ()):
            raise _unknown_device(request.device)
        return await self._controller.devices(request, sees=principal.sees)

    async def gc(self, request: GcRequest) -> GcReply:
        await self._admit(request)
        return await self._controller.gc(request)

    async def audit(self, request: AuditRequest) -> AuditReply:
        await self._admit(request)
        return await self._controller.audit(request)

    async def policy(self, request: PolicyRequest) -> PolicyReply:
        await self._admit(request)
        if request.device is not None and not current_principal().sees(request.device):
            raise _unknown_device(request.device)
        return await self._controller.policy(request)

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        if request.via == "elicitation":
            _check_elicitation(request)
        await self._admit(request)
        if request.action == "watch" and current_principal().kind is Kind.AGENT:
            _forbid(current_principal(), Operation.APPROVE)  # agents list their requests; the number of watches is limited
        return await self._controller.approvals(request, sees=self._sees_request)

    async def aclose(self) -> None:
        await self._controller.aclose()

    def _sees_request(self, held: HeldText) -> bool:
        """Return whether an approval request exists for the current principal: for who may answer it, and for who made it."""
        principal = current_principal()
        answers = principal.kind is Kind.PERSON and principal.may(Operation.APPROVE)
        is_own = held.principal == principal.name
        return (answers or is_own) and principal.sees(*self._controller.device_names(held))

    async def _admit(self, request: Request) -> None:
        """Return if the current principal may make a request.

        Raises:
            PtyctlError: FORBIDDEN; NOT_FOUND for a session outside its devices.
        """
        principal, operation = current_principal(), operation_of(request)
        if not self._local_sessions and _uses_server(request):
            raise PtyctlError(
                ErrorCode.FORBIDDEN,
                "this server opens no local sessions, which would run as its user, and reads no files for its clients",
                hint="the administrator of this server can allow it: local_sessions = true in [access]",
            )
        if principal.may(operation) and not principal.devices:
            return
        least = Operation.CLOSE_OWN if operation is Operation.CLOSE else operation
        if not principal.may(least):
            _forbid(principal, least)
        if principal.devices and not _names_device(request):
            raise PtyctlError(
                ErrorCode.FORBIDDEN,
                f"{principal.name} may use only the devices {', '.join(principal.devices)}",
                {"devices": list(principal.devices)},
                hint="open one of these devices by its name in the inventory",
            )
        if isinstance(request, PolicyRequest) and request.session_id is None:
            return
        if isinstance(request, _OnSession) and operation not in (Operation.LIST, Operation.OPEN):
            await self._admit_on_session(principal, operation, request)

    async def _admit_on_session(self, principal: Principal, operation: Operation, request: _OnSession) -> None:
        try:
            spec = await self._controller.spec_of(request)
        except PtyctlError:  # of an unreadable session it is not known whether the principal may see it
            if principal.devices:
                raise no_session(request.session_id or "") from None
            raise
        if not principal.sees(spec.device, spec.device_id):
            raise no_session(request.session_id or "")
        if not principal.may(operation) and principal.name != (spec.opened_by or user().name):
            _forbid(principal, operation)

    async def _open_device(self, request: SessionRequest) -> SessionReply:
        """Open a device for a principal that does not see all of them: no error names another one."""
        unknown, sees = _unknown_device(request.device), current_principal().sees
        if request.device is None or not sees(request.device):
            raise unknown
        hides = True
        try:
            hides = await self._controller.hides_route(request.device, sees)
            return await self._controller.session(request)
        except PtyctlError as error:
            if error.code is ErrorCode.NOT_FOUND:
                raise unknown from None
            if "faults" in error.details:
                raise _without_faults(error) from None
            raise (without_route(error) if hides else error) from None


def operation_of(request: Request) -> Operation:
    """Return the operation of a request.

    Raises:
        PtyctlError: FORBIDDEN if it has none: no principal may make it.
    """
    operation = OPERATIONS.get(type(request))
    if isinstance(request, ApprovalsRequest) and request.via == "elicitation":
        return Operation.STATUS  # the person at the client answers, not the principal
    if isinstance(operation, Mapping):
        operation = operation.get(getattr(request, "action", ""))
    if operation is None:
        raise PtyctlError(ErrorCode.FORBIDDEN, f"no role may make the request {type(request).__name__}")
    return operation


def _check_elicitation(request: ApprovalsRequest) -> None:
    """Check that an answer was elicited by the MCP server, which only approves or declines. Raises PtyctlError FORBIDDEN."""
    client = current_client()
    if client is None or not client.elicits or request.action not in ("approve", "decline"):
        message = "only the person at an MCP client answers by elicitation"
        raise PtyctlError(ErrorCode.FORBIDDEN, message, hint="use ptyctl approve or ptyctl decline")


def _unknown_device(name: str | None) -> PtyctlError:
    return PtyctlError(ErrorCode.NOT_FOUND, f"no device {name!r} in the inventory", {"field": "device"})


def _without_faults(error: PtyctlError) -> PtyctlError:
    """Return an error that names no device if this one lists the faults of the inventory."""
    if "faults" not in error.details:
        return error
    return invalid("the inventory has errors", hint="ask the administrator of this server")


def _forbid(principal: Principal, operation: Operation) -> NoReturn:
    role = needed_role(operation)
    raise PtyctlError(
        ErrorCode.FORBIDDEN,
        f"{principal.name} has the role {principal.role}, which may not {operation}",
        {"role": principal.role, "needed_role": role},
        hint=f"this needs the role {role}; ask the administrator of this server",
    )


def _uses_server(request: Request) -> bool:
    """Return whether a request uses a local shell, or names a file of the server's machine. A device does neither."""
    if not isinstance(request, SessionRequest) or request.action != "open":
        return getattr(request, "conversation_id", None) is not None
    auth, ssh = request.auth or Auth(), request.ssh_options or SshOptions()
    return request.protocol == "local" or any((auth.private_key_path, ssh.known_hosts_path, ssh.config_path))


def _names_device(request: Request) -> bool:
    """Return whether a request can concern a device, and not a local shell, an arbitrary address or all transcripts."""
    if isinstance(request, SessionRequest) and request.action == "open":
        return request.device is not None
    return not isinstance(request, GcRequest | AuditRequest) and getattr(request, "conversation_id", None) is None


def find_principal(access: AccessSettings, uid: int, gid: int) -> Principal:
    """Return the principal of a process of this machine. Reads the machine's databases of users and groups.

    Raises:
        PtyctlError: FORBIDDEN if neither the user nor one of its groups is in the table.
    """
    name = login_name(uid)
    granted = _find_rights(access.users, _account_keys(uid, name))
    if granted is None and access.groups:
        groups = _groups_of(uid, gid)
        granted = _find_rights(access.groups, set().union(*(_account_keys(group, group_name(group)) for group in groups)))
    if granted is not None:
        return Principal(name, granted.kind, granted.role, granted.devices or ())
    if uid == os.geteuid():
        return user()
    raise PtyctlError(
        ErrorCode.FORBIDDEN,
        f"the user {name} (uid {uid}) may not use this daemon",
        {"uid": uid},
        hint=f'the administrator of the daemon adds to its configuration, in [access.users]: {json.dumps(name)} = "operator"',
    )


def _find_rights(rights: Mapping[str, UserRights], keys: set[str]) -> UserRights | None:
    return next((found for key, found in rights.items() if key in keys), None)


def _account_keys(number: int, name: str) -> set[str]:
    """Return the configuration keys of a user or group. A name of digits is excluded: as a key it is a user or group id."""
    return {str(number)} if name.isdigit() else {str(number), name}


def _groups_of(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]
