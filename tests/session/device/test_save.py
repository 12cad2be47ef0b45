"""Saving on scripted devices: several questions, and long silences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Platforms
from ptyctl.session.calls.mode_change import save
from ptyctl.session.device.login import LoginCredentials
from ptyctl.session.io.gate import Writer
from tests.session.scripted_session import Console, connect_session


def saved(folder: Path, family: str, script: Callable[[Console], Awaitable[None]]) -> tuple[str, PtyctlError | None, bytes]:
    """The output of the save or its error, and input that the device did not expect."""

    async def run() -> tuple[str, PtyctlError | None, bytes]:
        console, platform, said, refusal = Console(), Platforms().get(family), "", None
        session = await connect_session(folder, console, platform=family, expect=platform.expect())
        session.platform, session.credentials = platform, LoginCredentials()
        device = asyncio.ensure_future(script(console))
        try:
            said = (await save(session, Writer("me")))[1]
        except PtyctlError as error:
            refusal = error
        await device
        typed = bytes(console.written)
        await session.close(force=True)
        return said, refusal, typed

    return run_virtually(run())


def test_each_question_of_save_is_answered(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"<sw1>")
        await console.expect_input(
            b"save\r", b"save\r\nThe current configuration will be written.\r\nAre you sure to continue?[Y/N]"
        )
        await console.expect_input(b"y\r", b"y\r\nInfo: Please input the file name(*.cfg,*.zip)[vrpcfg.zip]:")
        await console.expect_input(b"\r", b"\r\nflash:/vrpcfg.zip exists, overwrite?[Y/N]:")
        await console.expect_input(b"y\r", b"y\r\nInfo: Save the configuration successfully.\r\n<sw1>")

    said, refusal, typed = saved(tmp_path, "huawei_vrp", script)
    assert (refusal, typed) == (None, b"")
    assert said.endswith("Info: Save the configuration successfully.")


def test_repeated_question_is_policy_denied(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"<sw1>")
        await console.expect_input(b"save\r", b"save\r\nContinue? [Y/N]:")
        await console.expect_input(b"y\r", b"y\r\nThe slave board is not there. Continue? [Y/N]:")
        await console.expect_input(b"\x03", b"\r\n<sw1>")

    _, refusal, _ = saved(tmp_path, "huawei_vrp", script)
    assert refusal is not None
    assert (refusal.code, refusal.details["mode"]) == (ErrorCode.POLICY_DENIED, "user_view")
    assert "The slave board is not there" in refusal.message


def test_save_tolerates_long_silence(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"sw1#")
        await console.expect_input(b"write memory\r", b"write memory\r\nBuilding configuration...\r\n")
        await asyncio.sleep(40)
        console.feed(b"[OK]\r\nsw1#")

    assert saved(tmp_path, "cisco_ios", script) == ("Building configuration...\n[OK]", None, b"")


def test_save_that_stays_silent_is_not_interrupted(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"sw1#")
        await console.expect_input(b"write memory\r", b"write memory\r\nBuilding configuration...\r\n")

    _, refusal, typed = saved(tmp_path, "cisco_ios", script)
    assert refusal is not None
    assert refusal.code is ErrorCode.IO_ERROR
    assert "no output for 45 s; the device may still be saving" in refusal.message
    assert refusal.hint == "wait, and look at the screen"
    assert typed == b""


def test_output_of_save_on_several_pages_is_complete(tmp_path: Path) -> None:
    eraser = b"\b" * 9 + b" " * 8 + b"\b" * 9

    async def script(console: Console) -> None:
        console.feed(b"sw1#")
        await console.expect_input(b"write memory\r", b"write memory\r\nfile 1\r\n --More-- ")
        await console.expect_input(b" ", eraser)
        await asyncio.sleep(0.3)
        console.feed(b"file 2\r\nfile 3\r\n --More-- ")
        await console.expect_input(b" ", eraser + b"file 4\r\n[OK]\r\nsw1#")

    assert saved(tmp_path, "cisco_ios", script) == ("file 1\nfile 2\nfile 3\nfile 4\n[OK]", None, b"")


def test_page_of_save_that_follows_part_of_a_line_completes_it(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"sw1#")
        await console.expect_input(b"write memory\r", b"write memory\r\nfile 1--More-- ")
        await console.expect_input(b" ", b"\b" * 9 + b" " * 9 + b"\b" * 9 + b" is saved\r\n[OK]\r\nsw1#")

    assert saved(tmp_path, "frr", script) == ("file 1 is saved\n[OK]", None, b"")


def test_pager_of_save_that_stays_shown_is_no_output(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        console.feed(b"sw1#")
        await console.expect_input(b"write memory\r", b"write memory\r\nfile 1\r\n --More-- ")
        await console.expect_input(b" ", b"\r\nfile 2\r\n[OK]\r\nsw1#")

    assert saved(tmp_path, "cisco_ios", script) == ("file 1\nfile 2\n[OK]", None, b"")
