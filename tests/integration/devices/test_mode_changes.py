"""Mode changes: the mode in replies, changes on request, and their failures."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.transcripts.transcript import transcript_names
from ptyctl.api import ErrorCode
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.simulator import Quirks
from tests.controller.session_calls import PATIENCE_MS, config, execute, read, refused, session
from tests.integration.devices.switch_inventory import PASSWORD
from tests.integration.devices.test_sessions_with_quirks import mode_of, switch_with
from tests.integration.devices.test_transcript_tours import logged_in

pytestmark = pytest.mark.waits

WITHOUT_ENABLE = {"auth": {"password": PASSWORD}}
WRONG_ENABLE = {"auth": {"password": PASSWORD, "enable_secret": "not-the-right-One"}}


async def test_unknown_mode_error_lists_known_modes(controller: Controller) -> None:
    async with switch_with(Quirks(), controller) as handle:
        with refused(ErrorCode.UNSUPPORTED, "'root' is not known", "user, privileged, config"):
            await config(handle, "mode", mode="root")
        with refused(ErrorCode.UNSUPPORTED, "'root' is not known"):
            await execute(handle, cmd="show clock", mode="root")
        assert await mode_of(handle) == "privileged"


async def test_exec_with_mode_changes_mode_first(controller: Controller) -> None:
    async with switch_with(Quirks(), controller) as handle:
        reply = await execute(handle, cmd="show clock", mode="user", timeout_ms=PATIENCE_MS)
        assert (reply.mode, reply.stdout.count("\n")) == ("user", 1)
        assert (await execute(handle, cmd="show clock", mode="privileged", timeout_ms=PATIENCE_MS)).mode == "privileged"
        assert (await execute(handle, cmd="hostname edge-9", mode="config", timeout_ms=PATIENCE_MS)).mode == "config"
        assert (await config(handle, "mode", mode="user")).mode == "user"
        assert (await read(handle, mode="tail", max_bytes=8)).chunk == "\nedge-9>"


async def test_missing_enable_secret_leaves_user_mode(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **WITHOUT_ENABLE) as handle:
        assert await mode_of(handle) == "user"
        with refused(ErrorCode.AUTH_FAILED, "'Password:'", "not known (it is in mode user now)", "enable secret") as caught:
            await execute(handle, cmd="show clock", mode="privileged")
        assert (caught.value.details["mode"], caught.value.details["prompt"]) == ("user", "Password:")
        assert (await handle.exec("show clock")).mode == "user"


async def test_refused_enable_secret_is_reported_on_open_and_leaves_prompt(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **WRONG_ENABLE) as handle:
        assert "the secret was refused on the way from mode user to privileged" in (handle.opened.message or "")
        with refused(ErrorCode.AUTH_FAILED, "the secret was refused", "it is in mode user now"):
            await config(handle, "mode", mode="config")
        assert (await handle.exec("show clock")).mode == "user"


@pytest.mark.parametrize("name", sorted({"arista_eos", "frr", "hp_procurve"} & set(transcript_names())))
async def test_refused_enable_secret_leaves_prompt_in_other_families(controller: Controller, name: str) -> None:
    """The device asks again, or returns to its prompt with an error; both end at the prompt."""
    login = {"password": f"login-{name}", "enable_secret": "not-the-right-One"}
    async with logged_in(controller, name, auth=login) as handle:
        assert "the secret was refused" in (handle.opened.message or "")
        assert await mode_of(handle) in ("user", "operator")


async def test_uncommitted_changes_block_mode_change(controller: Controller) -> None:
    async with logged_in(controller, "cisco_xr") as handle:
        lines = ["interface Loopback7", "description leftover"]
        assert (await execute(handle, lines=lines, mode="config", timeout_ms=PATIENCE_MS)).mode == "config"
        with refused(ErrorCode.POLICY_DENIED, "Uncommitted changes found", "it is in mode config now"):
            await config(handle, "mode", mode="exec")
        answers = [{"match": r"\[cancel\]:$", "send": "no\n"}]
        assert (await execute(handle, cmd="end", responses=answers, timeout_ms=PATIENCE_MS)).mode == "exec"


async def test_save_changes_to_mode_that_can_save(controller: Controller) -> None:
    async with switch_with(Quirks(), controller) as handle:
        await config(handle, "mode", mode="config")
        saved = await config(handle, "save")
        assert (saved.mode, saved.stdout) == ("privileged", "Building configuration...\n[OK]")
    async with logged_in(controller, "fortinet_fortios") as handle:
        with refused(ErrorCode.UNSUPPORTED, "saves automatically"):
            await config(handle, "save")


COMMITS = {  # lines of a change, output of the save, and output of a save without changes (None: unsupported)
    "juniper_junos": (["set system host-name edge1"], "commit complete", None),
    "cisco_xr": (["hostname core1"], "", None),
    "vyos": (["set system host-name gw1"], "Saving configuration to", "Saving configuration to"),
    "nokia_sros": (["configure system", "name pe1"], "Completed.", "Completed."),
}


@pytest.mark.parametrize("name", sorted(COMMITS.keys() & set(transcript_names())))
async def test_save_commits_pending_changes_only(controller: Controller, name: str) -> None:
    lines, committed, elsewhere = COMMITS[name]
    async with logged_in(controller, name) as handle:
        home = await mode_of(handle)
        if elsewhere is None:
            with refused(ErrorCode.UNSUPPORTED, "nothing was typed", "what is committed is saved", "'commit' in mode config"):
                await config(handle, "save")
        else:
            assert elsewhere in ((await config(handle, "save")).stdout or "")
        assert await mode_of(handle) == home
        writing = "md_config" if name == "nokia_sros" else "config"
        changed = await execute(handle, lines=lines, mode=writing, timeout_ms=PATIENCE_MS)
        assert (changed.mode, changed.failed_line) == (writing, None)
        saved = await config(handle, "save")
        assert saved.mode == writing
        assert committed in (saved.stdout or "")
        assert (await config(handle, "mode", mode=home)).mode == home  # without a question about changes


async def test_exec_lines_on_error_continue_reports_failed_lines(controller: Controller) -> None:
    async with switch_with(Quirks(), controller) as handle:
        lines = ["interface Vlan1", "bogus one", "description x", "bogus two", "no shutdown"]
        reply = await execute(handle, lines=lines, mode="config", on_error="continue", timeout_ms=PATIENCE_MS)
        assert reply.failed_line == "bogus one"
        assert [(failed.number, failed.line) for failed in reply.failed_lines or []] == [(2, "bogus one"), (4, "bogus two")]
        assert "no shutdown" in reply.stdout
        assert reply.error_hints == ["% Invalid input detected at '^' marker."]


CONSOLE = {"session_type": "console", "device_id": "sw1", "acquire_lock": True, "task_id": "one"}


class TestLocks:
    async def test_mode_change_and_save_require_lock(self, controller: Controller) -> None:
        async with switch_with(Quirks(), controller, **CONSOLE) as handle:
            with refused(ErrorCode.LOCKED, "one"):
                await config(handle, "mode", mode="config", task_id="two")
            with refused(ErrorCode.LOCKED, "one"):
                await config(handle, "save", task_id="two")
            assert (await config(handle, "mode", mode="config", task_id="one")).mode == "config"
            await session(controller, "unlock", session_id=handle.session_id, task_id="one")
            with refused(ErrorCode.LOCK_REQUIRED):
                await execute(handle, cmd="end", mode="privileged")

    async def test_mode_change_during_running_command_is_busy(self, controller: Controller) -> None:
        async with switch_with(Quirks(), controller) as handle:
            running = await handle.exec("ping 192.0.2.1 repeat 100000", timeout_ms=300)
            assert running.timed_out
            with refused(ErrorCode.BUSY, running.block_id):
                await config(handle, "mode", mode="config")


@pytest.mark.parametrize("fields", [{}, {"platform": "linux"}])
async def test_shell_session_has_no_modes(controller: Controller, fields: dict[str, Any]) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc"], **fields)
    assert (await handle.exec("echo hi")).mode is None
    assert await mode_of(handle) is None
    with refused(ErrorCode.UNSUPPORTED, "platform" if not fields else "is not known"):
        await config(handle, "mode", mode="privileged")
