"""FRR's zebra over Telnet with platform data: login, mode changes, configuration, save."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from ptyctl import ErrorCode, LocalController, SessionHandle
from tests.controller.session_calls import PATIENCE_MS, config, execute, read, refused
from tests.session.secret_search import files_containing

pytestmark = pytest.mark.waits


async def opened(controller: LocalController, zebra: Zebra, **fields: Any) -> SessionHandle:
    where = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr"}
    auth = {"password": zebra.password, "enable_secret": zebra.enable_password}
    return await SessionHandle.open(controller, **{**where, "auth": auth, **fields})


@pytest.fixture
async def router(controller: LocalController, zebra: Zebra) -> AsyncIterator[SessionHandle]:
    async with await opened(controller, zebra) as handle:
        yield handle


async def test_open_ends_in_privileged_mode_without_pager(router: SessionHandle) -> None:
    assert (router.opened.platform, router.opened.message) == ("frr", None)
    assert (await config(router, "get")).mode == "privileged"
    reply = await router.exec("list", max_output_bytes=1_000_000)
    assert (reply.mode, reply.pages) == ("privileged", None)
    assert len(reply.stdout.splitlines()) > 100


async def test_wrong_password_is_auth_failed(controller: LocalController, zebra: Zebra) -> None:
    with refused(ErrorCode.AUTH_FAILED, "'Password:'", "check the credentials") as caught:
        await opened(controller, zebra, auth={"password": "not-this-one"})
    assert caught.value.details["prompt"] == "Password:"
    assert "not-this-one" not in caught.value.message


async def test_wrong_enable_secret_is_auth_failed(controller: LocalController, zebra: Zebra) -> None:
    """Zebra repeats the prompt after every input, and closes the connection after the third time."""
    auth = {"password": zebra.password, "enable_secret": "not-this-one"}
    refusal = ("the secret was refused on the way from mode user to privileged", "the far end closed the connection")
    with refused(ErrorCode.AUTH_FAILED, *refusal) as caught:
        await opened(controller, zebra, auth=auth)
    assert caught.value.details["mode"] is None
    assert "not-this-one" not in caught.value.message


async def test_missing_enable_secret_leaves_question_open(controller: LocalController, zebra: Zebra) -> None:
    """No key leaves zebra's password prompt, and Enter counts as a wrong password. The caller can still answer it."""
    async with await opened(controller, zebra, auth={"password": zebra.password}) as handle:
        assert (await config(handle, "get")).mode == "user"
        with refused(ErrorCode.AUTH_FAILED, "that secret is not known (it still waits for the answer)", "enable secret"):
            await config(handle, "mode", mode="privileged")
        await handle.write(f"{zebra.enable_password}\n", sensitive=True)
        assert (await handle.read(until_regex="# $", timeout_ms=PATIENCE_MS)).matched
        assert (await config(handle, "get")).mode == "privileged"


async def test_error_in_line_3_of_5_stops_there(router: SessionHandle) -> None:
    lines = ["interface lo", "description one", "descripton two", "description three", "exit"]
    reply = await execute(router, lines=lines, mode="config", timeout_ms=PATIENCE_MS)
    assert (reply.failed_line, reply.mode) == ("descripton two", "config")
    (failed,) = reply.failed_lines or []
    assert failed.model_dump() == {
        "number": 3,
        "line": "descripton two",
        "said": ["% [ZEBRA] Unknown command: descripton two"],
    }
    assert reply.error_hints == failed.said
    assert "three" not in reply.stdout
    shown = await execute(router, cmd="show running-config", mode="privileged", timeout_ms=PATIENCE_MS)
    assert "description one\n" in shown.stdout
    assert "three" not in shown.stdout


async def test_on_error_continue_sends_all_5_lines(router: SessionHandle) -> None:
    lines = ["interface lo", "description four", "descripton two", "description five", "exit"]
    reply = await execute(router, lines=lines, mode="config", on_error="continue", timeout_ms=PATIENCE_MS)
    assert [failed.number for failed in reply.failed_lines or []] == [3]
    shown = await execute(router, cmd="show running-config", mode="privileged", timeout_ms=PATIENCE_MS)
    assert "description five\n" in shown.stdout


async def test_hostname_change_in_config_mode_keeps_prompt_detection(router: SessionHandle) -> None:
    reply = await execute(router, cmd="hostname core-router-7", mode="config", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.mode) == ("", "config")
    assert (await config(router, "mode", mode="user")).mode == "user"
    assert (await read(router, mode="tail", max_bytes=16)).chunk == "\ncore-router-7> "
    reply = await execute(router, lines=["hostname R1"], mode="config", timeout_ms=PATIENCE_MS)
    assert (reply.failed_line, reply.mode) == (None, "config")
    assert "FRRouting" in (await execute(router, cmd="show version", mode="privileged", timeout_ms=PATIENCE_MS)).stdout


async def test_save_returns_message_of_device(router: SessionHandle) -> None:
    saved = await config(router, "save")
    assert saved.mode == "privileged"
    assert "Configuration saved to" in (saved.stdout or "")


async def test_platform_auto_detects_frr_and_logs_in(controller: LocalController, zebra: Zebra) -> None:
    async with await opened(controller, zebra, platform="auto") as handle:
        assert handle.opened.platform == "frr"
        assert "platform auto: frr, " in (handle.opened.message or "")
        assert (await config(handle, "get")).mode == "privileged"


async def test_secrets_are_in_no_file_reply_or_log(
    controller: LocalController, zebra: Zebra, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The running configuration contains both passwords; they are masked there too."""
    caplog.set_level(logging.DEBUG)
    async with await opened(controller, zebra) as handle:
        replies = [
            handle.opened,
            await config(handle, "mode", mode="user"),
            await config(handle, "mode", mode="privileged"),
            await handle.exec("show running-config"),
            await config(handle, "get"),
            await read(handle, cursor="0", timeout_ms=0, max_bytes=100_000),
        ]
    replied = "".join(str(reply.payload()) for reply in replies) + caplog.text
    for secret in (zebra.password, zebra.enable_password):
        assert files_containing(tmp_path / "state", secret) == []
        assert secret not in replied
    assert "enable password ************\n" in replied.replace("\\n", "\n")


@pytest.fixture
def zebra_core() -> Iterator[Zebra]:
    with running_zebra("zebra-core1", "zebra", "zebra") as server:
        yield server


async def test_short_password_in_the_hostname_leaves_prompt_and_output_intact(
    controller: LocalController, zebra_core: Zebra, tmp_path: Path
) -> None:
    async with await opened(controller, zebra_core) as handle:
        assert (await read(handle, mode="tail", max_bytes=14)).chunk == "\nzebra-core1# "
        reply = await handle.exec("list", max_output_bytes=1_000_000)
        assert reply.done_reason == "prompt"
        assert "***" not in reply.stdout
    typed = [json.loads(line) for path in (tmp_path / "state").rglob("input.jsonl") for line in path.read_text().splitlines()]
    assert [row["bytes"] for row in typed if row.get("sensitive")] == [7, 7]  # with CR LF
