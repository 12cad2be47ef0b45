"""Writes of text, bytes and keys, as the program receives them."""

from __future__ import annotations

import asyncio
import base64
import string
import time
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import (
    PATIENCE_MS,
    Open,
    execute,
    key_log,
    read,
    refused,
    scripted_program,
    until_ended,
    write,
)

ESC = "\x1b"
#: What each key sends (VT220; xterm control sequences, PC-style function keys).
KEYS = {
    "enter": "\r",
    "tab": "\t",
    "backspace": "\x7f",
    "delete": f"{ESC}[3~",
    "home": f"{ESC}[H",
    "end": f"{ESC}[F",
    "esc": ESC,
    **{f"ctrl_{letter}": chr(ord(letter) - 96) for letter in string.ascii_lowercase},
    "ctrl_backslash": "\x1c",
    "up": f"{ESC}[A",
    "down": f"{ESC}[B",
    "right": f"{ESC}[C",
    "left": f"{ESC}[D",
    "page_up": f"{ESC}[5~",
    "page_down": f"{ESC}[6~",
    "f1": f"{ESC}OP",
    "f2": f"{ESC}OQ",
    "f3": f"{ESC}OR",
    "f4": f"{ESC}OS",
    "f5": f"{ESC}[15~",
    "f6": f"{ESC}[17~",
    "f7": f"{ESC}[18~",
    "f8": f"{ESC}[19~",
    "f9": f"{ESC}[20~",
    "f10": f"{ESC}[21~",
    "f11": f"{ESC}[23~",
    "f12": f"{ESC}[24~",
}
ALIASES = {
    "ctrl+c": "\x03",
    "Ctrl-C": "\x03",
    "CTRL_C": "\x03",
    "arrow-up": f"{ESC}[A",
    "arrow_left": f"{ESC}[D",
    "Escape": ESC,
    "return": "\r",
    "page-down": f"{ESC}[6~",
    "PageUp": f"{ESC}[5~",
    "F5": f"{ESC}[15~",
    "ctrl+\\": "\x1c",
}
IN_APPLICATION_MODE = {"up": f"{ESC}OA", "left": f"{ESC}OD", "home": f"{ESC}OH", "end": f"{ESC}OF", "page_up": f"{ESC}[5~"}


async def typed(handle: SessionHandle, expected: bytes) -> bytes:
    """The next bytes that the far end received, as many as expected."""
    seen = b""
    while len(seen) < len(expected):
        reply = await handle.read(until_regex=">", timeout_ms=PATIENCE_MS)
        assert reply.matched, f"only {seen!r} came"
        seen += bytes.fromhex((reply.chunk or "").strip("<>"))
    return seen


async def test_each_key_sends_its_bytes(open_session: Open) -> None:
    handle = await key_log(open_session)
    for key, expected in {**KEYS, **ALIASES}.items():
        reply = await handle.key(key)
        assert (reply.bytes_written, reply.next_cursor) == (len(expected), handle.cursor)
        assert await typed(handle, expected.encode()) == expected.encode(), key


async def test_cursor_keys_follow_application_mode(open_session: Open) -> None:
    handle = await key_log(open_session, f"{ESC}[?1h".encode())
    for key, expected in IN_APPLICATION_MODE.items():
        await handle.key(key)
        assert await typed(handle, expected.encode()) == expected.encode(), key
    off = await scripted_program(open_session, f"{ESC}[?1h{ESC}[?1l".encode())
    reply = await off.key("up")
    assert reply.bytes_written == 3


async def test_unknown_key_is_refused(bash: SessionHandle) -> None:
    for key in ("hyper_x", "f13", "", "ctrl_1"):
        with refused(ErrorCode.INVALID_ARGUMENT, "key", "enter", "f12"):
            await bash.key(key)


async def test_break_on_local_terminal_is_unsupported(bash: SessionHandle) -> None:
    with refused(ErrorCode.UNSUPPORTED, "BREAK", "ctrl_c"):
        await bash.key("break")


@pytest.mark.also_remote("text of every kind in requests")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("ls -l\n", b"ls -l\r"),
        ("a\nb\n\nc", b"a\rb\r\rc"),
        ("a\r\nb\rc\n\r\n", b"a\rb\rc\r\r"),  # one Enter each, however the line ends
        ("é€😀\t\x03\x1b[A", "é€😀\t\x03\x1b[A".encode()),
        ("x" * 20_000 + "\n", b"x" * 20_000 + b"\r"),
        ("é" * 9_999, "é".encode() * 9_999),
    ],
    ids=["a line", "lines", "line ends", "not ASCII", "long", "long and cut inside a character"],
)
async def test_text_is_sent_with_enter_as_cr(open_session: Open, data: str, expected: bytes) -> None:
    handle = await key_log(open_session)
    reply = await handle.write(data)
    assert reply.bytes_written == len(data.encode())
    assert await typed(handle, expected) == expected


async def test_empty_write_sends_nothing(bash: SessionHandle) -> None:
    assert (await bash.write("")).bytes_written == 0


@pytest.mark.also_remote("binary data in requests")
async def test_base64_is_sent_unchanged(open_session: Open) -> None:
    handle = await key_log(open_session)
    raw = b"\x00\xff\n\r\n\x80end"
    reply = await handle.write(base64.b64encode(raw).decode(), encoding="base64")
    assert reply.bytes_written == len(raw)
    assert await typed(handle, raw) == raw


@pytest.mark.parametrize("data", ["not base64!", "YQ", "\u00e9"])
async def test_invalid_base64_is_refused(bash: SessionHandle, data: str) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "base64") as caught:
        await bash.write(data, encoding="base64", sensitive=True)
    assert data not in caught.value.message


async def test_response_can_be_read_from_the_writes_cursor(bash: SessionHandle) -> None:
    assert (await bash.read(until_regex="[$#] $", timeout_ms=PATIENCE_MS)).matched
    reply = await bash.write("echo one; echo two\n")
    answer = await read(bash, cursor=reply.next_cursor, until_regex="two\n.*[$#] $", timeout_ms=PATIENCE_MS)
    assert "one\ntwo\n" in (answer.chunk or "")
    assert (answer.chunk or "").startswith("echo one")


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ["data", "key"]),
        ({"data": "x", "key": "enter"}, ["exactly one", "data", "key"]),
        ({"key": "enter", "encoding": "base64"}, ["encoding"]),
        ({"data": "x", "encoding": "latin-1"}, ["encoding"]),
        ({"data": "x", "cursor": "0"}, ["write", "cursor"]),
        ({"data": 7}, ["data"]),
        ({"data": "half \ud83d"}, ["data", "surrogate"]),
        ({"data": "x", "speed": 9600}, ["speed"]),
    ],
)
async def test_invalid_write_request_is_refused(bash: SessionHandle, fields: dict[str, object], parts: list[str]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await write(bash, **fields)


@pytest.mark.also_remote("error of each writing call")
async def test_write_after_program_end_is_refused(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", "exit 4"))
    await until_ended(handle)
    for call in (lambda: handle.write("x"), lambda: handle.key("enter"), lambda: handle.exec("x"), lambda: handle.resize(9, 9)):
        with refused(ErrorCode.REMOTE_CLOSED, "exited with 4"):
            await call()


@pytest.mark.also_remote("a call that overtakes another one, and cancellation")
async def test_ctrl_c_interrupts_a_long_paste(open_session: Open) -> None:
    handle = await key_log(open_session, session_type="console", device_id="rack-1", acquire_lock=True, task_id="t")
    paste = asyncio.create_task(write(handle, "t", data="line\n" * 20_000))
    assert (await handle.read(until_regex="6c696e650d", timeout_ms=PATIENCE_MS)).matched
    await handle.key("ctrl_c")
    assert (await handle.read(until_regex="03", timeout_ms=PATIENCE_MS, max_bytes=1_000_000)).matched
    assert not paste.done()
    paste.cancel()
    assert isinstance((await asyncio.gather(paste, return_exceptions=True))[0], asyncio.CancelledError)
    await handle.key("f1")  # a later write does not wait for the interrupted paste
    assert (await handle.read(until_regex="1b4f50>", timeout_ms=PATIENCE_MS, max_bytes=1_000_000)).matched


async def test_paste_into_echoing_shell_is_complete(bash: SessionHandle, tmp_path: Path) -> None:
    kept = tmp_path / "kept"  # the echo is interleaved with the output
    await bash.exec("true")
    await bash.write("".join(f"echo line {number} of a long paste >>{kept}\n" for number in range(1_000)))
    await bash.write("echo 'the' end\n")
    assert (await bash.read(until_regex="the end\n", timeout_ms=PATIENCE_MS, max_bytes=1_000_000)).matched
    assert kept.read_text() == "".join(f"line {number} of a long paste\n" for number in range(1_000))


async def test_write_during_run_reaches_the_command(bash: SessionHandle) -> None:
    reply = await bash.exec("read -p 'name? ' name; echo hello $name", until_regex="name[?] ", timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "until_regex"
    await bash.write("world\n")
    reply = await execute(bash, block_id=reply.block_id, timeout_ms=PATIENCE_MS)
    assert reply.stdout.endswith("hello world\n")


@pytest.mark.parametrize("fields", [{"data": "touch never\n"}, {"key": "enter"}, {"data": "touch never\n", "timeout_ms": 100}])
async def test_input_that_arrives_after_its_time_limit_is_not_typed(open_session: Open, fields: dict[str, Any]) -> None:
    bash = await open_session()
    late = int(time.time() * 1000) - 1
    with refused(ErrorCode.IO_ERROR, "was not typed") as error:
        await write(bash, **fields, not_after=late)
    assert error.value.details["reason"] == "late"
    with refused(ErrorCode.IO_ERROR, "was not typed"):
        await execute(bash, cmd="touch never", not_after=late)
    await write(bash, data="echo $((6 * 7))\n", not_after=late + PATIENCE_MS)
    reply = await read(bash, cursor="0", until_regex=r"\n42\n", timeout_ms=PATIENCE_MS)
    assert "never" not in (reply.chunk or "")
