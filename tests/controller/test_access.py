"""The rights of a principal: operations of its role, its devices, and its own sessions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from fixtures.daemons import daemon_folder
from ptyctl.api import Controller, ErrorCode, PtyctlError, WatchRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import METHODS, PTY_REQUESTS
from ptyctl.api.model import Request
from ptyctl.api.operator import GcRequest, LogRequest, NotifyRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.access import AccessController, operation_of
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Operation, Principal, Role
from ptyctl.session.clients import Client, serving, user
from tests.controller.conversation import LEAST
from tests.controller.local_daemon import served
from tests.controller.session_calls import BASH, refused, session

SWITCHES = Principal("switches", Kind.AGENT, Role.ADMIN, ("sw-*",))


@pytest.fixture(params=["local", "daemon"])
async def controller(request: pytest.FixtureRequest) -> AsyncIterator[Controller]:
    """A controller as servers give it to their clients, in this process and through a daemon's socket."""
    async with AsyncExitStack() as stack:
        access: Controller = AccessController(await stack.enter_async_context(LocalController()))
        if request.param == "daemon":
            access = await stack.enter_async_context(served(access, stack.enter_context(daemon_folder())))
        yield access


@contextmanager
def acting_as(role: Role, name: str = "ci", *devices: str) -> Iterator[None]:
    with serving(Client(Principal(name, Kind.AGENT, role, devices))):
        yield


async def open_console(controller: Controller, name: str) -> SessionHandle:
    return await SessionHandle.open(controller, protocol="local", command=BASH, session_type="console", device_id=name)


def actions_of(kind: type[Request]) -> tuple[str, ...]:
    field = kind.model_fields.get("action")
    return get_args(field.annotation) if field is not None else ()


KINDS = [*(method.request for method in METHODS.values()), WatchRequest]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_request_and_action_has_an_operation(kind: type[Request]) -> None:
    for action in actions_of(kind) or (None,):
        request = kind.model_construct(**({} if action is None else {"action": action}))
        assert operation_of(request) in Operation


def test_request_without_an_operation_is_refused_to_everybody() -> None:
    class Unknown(Request):
        """A request that the table of operations lacks."""

    for request in (Unknown(), SessionRequest.model_construct(action="explode")):
        with refused(ErrorCode.FORBIDDEN, "no role"):
            operation_of(request)


#: The requests on a session, complete, without its id.
ON_SESSION: list[tuple[str, dict[str, Any]]] = [
    *(("ptyctl_session", {"action": action}) for action in ("close", "status")),
    *(("ptyctl_session", {"action": action, "task_id": "t"}) for action in ("lock", "unlock", "heartbeat")),
    ("ptyctl_session_exec", {"cmd": "true"}),
    ("ptyctl_session_exec", {"block_id": "1_1"}),
    ("ptyctl_session_io", {"action": "read", "timeout_ms": 0}),
    ("ptyctl_session_io", {"action": "write", "data": "x"}),
    ("ptyctl_session_config", {"action": "get"}),
    ("ptyctl_session_config", {"action": "resize", "cols": 80, "rows": 24}),
    ("ptyctl_session_config", {"action": "mode", "mode": "config"}),
    ("notify", {"message": "hello"}),
    ("log", {}),
    *((tool, LEAST.get(tool, {})) for tool in PTY_REQUESTS),
]


async def outcome(controller: Controller, method: str, fields: dict[str, Any], session_id: str) -> dict[str, Any]:
    """Return the reply or the error of a call, without the session's id."""
    request = METHODS[method].request.of({**fields, "session_id": session_id})
    try:
        reply = (await METHODS[method].call(controller, request, None)).payload()
    except PtyctlError as error:
        reply = error.payload()
    return dict(json.loads(json.dumps(reply).replace(session_id, "ID")))


async def test_calls_on_a_hidden_session_fail_as_on_one_that_does_not_exist(controller: Controller) -> None:
    hidden = await open_console(controller, "core-1")
    with serving(Client(SWITCHES)):
        for method, fields in ON_SESSION:
            absent = await outcome(controller, method, fields, "20260101-000000-00000000")
            assert absent.get("error_code", absent.get("error")) in ("NOT_FOUND", "not_found"), method
            assert await outcome(controller, method, fields, hidden.session_id) == absent, method
        with refused(ErrorCode.NOT_FOUND, "there is no session"):
            await anext(controller.watch(WatchRequest(session_id=hidden.session_id)))
    assert (await hidden.status()).state == "open"


async def test_list_has_only_the_sessions_of_the_principals_devices(controller: Controller) -> None:
    shown = await open_console(controller, "sw-1")
    await open_console(controller, "core-1")
    await SessionHandle.open(controller, protocol="local", command=BASH)
    with serving(Client(SWITCHES)):
        entries = (await session(controller, "list")).sessions or []
        assert [entry.session_id for entry in entries] == [shown.session_id]
        assert (await session(controller, "status", session_id=shown.session_id)).state == "open"
    assert len((await session(controller, "list")).sessions or []) == 3


@pytest.mark.parametrize(
    "fields", [{"protocol": "local"}, {"protocol": "local", "session_type": "console", "device_id": "sw-9"}]
)
async def test_principal_with_devices_opens_neither_shells_nor_addresses(
    controller: Controller, fields: dict[str, Any]
) -> None:
    with serving(Client(SWITCHES)), refused(ErrorCode.FORBIDDEN, "only the devices sw-*"):
        await session(controller, "open", **fields)


async def test_principal_with_devices_uses_no_conversation_and_removes_no_transcripts(controller: Controller) -> None:
    with serving(Client(SWITCHES)):
        reply = await controller.pty(PTY_REQUESTS["pty_exec_block"].of({"conversation_id": "c1", "cmd": "id"}))
        assert (reply.ok, reply.error) == (False, "forbidden")
        with refused(ErrorCode.FORBIDDEN, "only the devices"):
            await controller.gc(GcRequest(dry_run=True))


async def test_viewer_reads_and_is_told_which_role_may_write(controller: Controller) -> None:
    bash = await SessionHandle.open(controller, protocol="local", command=BASH)
    await bash.exec("echo hi")
    with acting_as(Role.VIEWER):
        assert (await session(controller, "status", session_id=bash.session_id)).state == "open"
        assert (await bash.blocks())[0].cmd == "echo hi"
        await controller.log(LogRequest(session_id=bash.session_id))
        with refused(ErrorCode.FORBIDDEN, "ci has the role viewer", "run commands", "role operator") as caught:
            await bash.exec("echo hi")
        assert caught.value.details == {"role": "viewer", "needed_role": "operator"}
        assert not caught.value.retryable
        with refused(ErrorCode.FORBIDDEN, "role operator"):
            await bash.lock(task_id="t")
        with refused(ErrorCode.FORBIDDEN, "role operator"):
            await bash.close()
        with refused(ErrorCode.FORBIDDEN, "role operator"):
            await controller.notify(NotifyRequest(session_id=bash.session_id, message="x"))


async def test_operator_closes_only_the_sessions_that_it_opened(controller: Controller) -> None:
    with acting_as(Role.OPERATOR, "one"):
        own = await SessionHandle.open(controller, protocol="local", command=BASH)
        assert [entry.opened_by for entry in (await session(controller, "list")).sessions or []] == ["one"]
    with acting_as(Role.OPERATOR, "two"):
        await own.exec("echo hi")
        with refused(ErrorCode.FORBIDDEN, "two has the role operator", "role admin"):
            await own.close(force=True)
        reset = await controller.pty(PTY_REQUESTS["pty_reset"].of({"session_id": own.session_id}))
        assert (reset.ok, reset.error) == (False, "forbidden")
    with acting_as(Role.OPERATOR, "one"):
        await own.close()
        with refused(ErrorCode.NOT_FOUND, "there is no session"):
            await session(controller, "close", session_id="20260101-000000-00000000")


async def test_operator_closes_its_own_conversation_and_no_other(controller: Controller) -> None:
    close = PTY_REQUESTS["pty_close"].of({"conversation_id": "c1"})
    with acting_as(Role.OPERATOR, "one"):
        await controller.pty(PTY_REQUESTS["pty_exec_block"].of({"conversation_id": "c1", "cmd": "true"}))
    with acting_as(Role.OPERATOR, "two"):
        assert (await controller.pty(close)).error == "forbidden"
    with acting_as(Role.OPERATOR, "one"):
        assert (await controller.pty(close)).ok


async def test_admin_closes_any_session(controller: Controller) -> None:
    with acting_as(Role.OPERATOR):
        opened = await SessionHandle.open(controller, protocol="local", command=BASH)
    await opened.close()


async def test_gc_needs_the_role_admin(controller: Controller) -> None:
    with acting_as(Role.OPERATOR), refused(ErrorCode.FORBIDDEN, "role admin"):
        await controller.gc(GcRequest(dry_run=True))
    await controller.gc(GcRequest(dry_run=True))


@pytest.mark.parametrize("stored", [True, False])
async def test_opener_is_restored_from_disk_and_is_the_user_if_it_was_not_stored(tmp_path: Path, stored: bool) -> None:
    settings = Settings(state_dir=tmp_path / "stored")
    async with LocalController(settings) as local:
        with acting_as(Role.OPERATOR):
            opened = await SessionHandle.open(AccessController(local), protocol="local", command=BASH)
    if not stored:
        meta = tmp_path / "stored" / "sessions" / opened.session_id / "meta.json"
        content = json.loads(meta.read_text())
        del content["opened_by"], content["spec"]["opened_by"]
        meta.write_text(json.dumps(content))
    async with LocalController(settings) as local:
        for name in ("ci", user().name):
            with acting_as(Role.OPERATOR, name):
                if stored is (name == "ci"):
                    await session(AccessController(local), "close", session_id=opened.session_id)
                else:
                    with refused(ErrorCode.FORBIDDEN, "role admin"):
                        await session(AccessController(local), "close", session_id=opened.session_id)
