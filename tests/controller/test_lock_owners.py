"""A lock belongs to a task of one principal: a task of another principal with the same name does not hold it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptyctl.api import Controller, ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import Client, serving, user
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, key_log, refused, session, until

NAMES = ("alice", "ci")


async def is_queued(handle: SessionHandle) -> bool:
    return (await handle.status()).queue == ["t"]


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    with serving(Client(Principal(name, Kind.AGENT, Role.OPERATOR))):
        yield


@pytest.mark.also_remote("fields of locks")
async def test_lock_reply_names_the_principal(bash: SessionHandle) -> None:
    reply = await bash.lock(task_id="t")
    assert (reply.lock_holder, reply.lock_principal) == ("t", user().name)


async def test_every_write_of_the_other_principal_is_locked_and_names_the_holder(bash: SessionHandle) -> None:
    bash.task_id = "t"
    with acting_as("alice"):
        await bash.lock()
        status = await bash.status()
        assert (status.lock_holder, status.lock_principal) == ("t", "alice")
    with acting_as("ci"):
        calls = (
            lambda: bash.exec("echo stolen"),
            lambda: bash.write("stolen"),
            lambda: bash.key("enter"),
            bash.unlock,
            bash.heartbeat,
            bash.lock,
            bash.close,
            lambda: bash.resize(80, 24),
        )
        for call in calls:
            with refused(ErrorCode.LOCKED, "Session locked by task t of alice") as caught:
                await call()
            assert (caught.value.details["lock_holder"], caught.value.details["lock_principal"]) == ("t", "alice")
    with acting_as("alice"):
        assert (await bash.exec("echo mine")).stdout == "mine\n"


async def test_queue_has_a_place_for_each_principal_with_the_same_task_name(bash: SessionHandle) -> None:
    bash.task_id = "t"
    with acting_as("alice"):
        await bash.lock()
    with acting_as("ci"):
        waiting = asyncio.create_task(bash.lock(wait_ms=PATIENCE_MS))
    with acting_as("alice"):
        await until(lambda: is_queued(bash))
        released = await bash.unlock()
        assert released.lock_principal in (None, "ci")
    assert (await waiting).lock_principal == "ci"
    with acting_as("alice"), refused(ErrorCode.LOCKED, "task t of ci"):
        await bash.write("x")


async def test_forced_lock_is_noticed_by_the_task_with_the_same_name(bash: SessionHandle) -> None:
    bash.task_id = "t"
    with acting_as("alice"):
        await bash.lock()
    with acting_as("ci"):
        await bash.lock(force=True, reason="on call")
    with acting_as("alice"):
        notices = (await bash.status()).notices
        assert notices == ["taken over: task t of ci took the lock from task t of alice: on call"]
        with refused(ErrorCode.LOCKED, "task t of ci"):
            await bash.heartbeat()


@pytest.mark.parametrize("stored", [True, False])
async def test_principal_of_a_lock_is_restored_and_is_the_user_if_it_was_not_stored(tmp_path: Path, stored: bool) -> None:
    settings = Settings(state_dir=tmp_path / "stored")
    async with LocalController(settings) as first:
        with acting_as("ci"):
            held = await SessionHandle.open(first, protocol="local", command=BASH, acquire_lock=True, task_id="t")
        meta = tmp_path / "stored" / "sessions" / held.session_id / "meta.json"
        content = json.loads(meta.read_text())
        assert (content["lock_holder"], content["lock_principal"]) == ("t", "ci")
    content |= {"state": "open"}
    if not stored:
        del content["lock_principal"]
    meta.write_text(json.dumps(content))
    async with LocalController(settings) as second:
        reply = await session(second, "status", session_id=held.session_id)
        assert (reply.lock_holder, reply.lock_principal) == ("t", "ci" if stored else user().name)


async def attempt(handle: SessionHandle, action: str) -> ErrorCode | None:
    """Perform an action; return the code of its error."""
    try:
        match action:
            case "lock" | "force":
                await handle.lock(force=action == "force", lock_ttl_ms=86_400_000)
            case "unlock":
                await handle.unlock()
            case "heartbeat":
                await handle.heartbeat(lock_ttl_ms=86_400_000)
            case "write":
                await handle.write("x")
            case _:
                await handle.key("enter")
    except PtyctlError as error:
        return error.code
    return None


@pytest.mark.parametrize("seed", range(3))
async def test_two_principals_with_one_task_name_never_both_write(
    controller: Controller, open_session: Open, seed: int
) -> None:
    """The oracle: only the task that got the lock last, and has not lost it since, may write."""
    choose = random.Random(seed)
    handle = await key_log(open_session)
    handle.task_id = "t"
    holder: str | None = None
    for _ in range(150):
        name, action = choose.choice(NAMES), choose.choice(("lock", "force", "unlock", "heartbeat", "write", "key"))
        with acting_as(name):
            refusal = await attempt(handle, action)
        succeeded = refusal is None
        assert refusal in (None, ErrorCode.LOCKED, ErrorCode.LOCK_LOST)
        expected = action == "force" or (holder == name if action == "heartbeat" else holder in (None, name))
        assert succeeded is expected, (seed, action, name, holder)
        if succeeded and action in ("lock", "force"):
            holder = name
        elif succeeded and action == "unlock":
            holder = None
