"""Masking of secrets: input logs hold only their length, and no stored or shown output contains them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.servers.programs import require_program
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.recovery import restore_session
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.scripted_session import PATIENCE_MS, connect_session, read_from, run_command, write_to
from tests.session.secret_search import files_containing
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions

SECRET = "s3cret-Wörd"


def inputs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "input.jsonl").read_bytes().splitlines()]


async def test_echoed_secret_is_masked_in_replies_and_files(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data)
    session = await connect_session(tmp_path, channel)
    channel.feed(b"Password: ")
    await write_to(session, data=f"{SECRET}\n", sensitive=True)
    channel.feed(b"\nwelcome\r\n> ")
    await write_to(session, data="next\n")
    assert (await read_from(session.stream, cursor="0")).chunk == f"Password: {'*' * len(SECRET.encode())}\nwelcome\n> next"
    folder = session.stream.folder
    first, second = inputs(folder)
    assert (first["bytes"], first["sensitive"]) == (len(SECRET.encode()) + 1, True)
    assert "data" not in first
    assert second["data"] == "next\r"
    await session.close()
    assert files_containing(folder, SECRET) == []


async def test_secret_echoed_byte_by_byte_is_never_on_disk(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    await write_to(session, data=SECRET, sensitive=True)
    folder = session.stream.folder
    for byte in b"> " + SECRET.encode():
        channel.feed(bytes([byte]))
        assert SECRET[0].encode() not in (folder / "output.raw").read_bytes()
    channel.feed(b"!")
    assert (await read_from(session.stream, cursor="0")).chunk == f"> {'*' * len(SECRET.encode())}!"
    await session.close()
    assert (folder / "output.raw").read_bytes() == b"> %s!" % (b"*" * len(SECRET.encode()))


async def test_distinctive_secret_is_masked_everywhere_and_plain_word_in_echo_only(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    await write_to(session, data="enable\n", sensitive=True)
    channel.feed(b"enable\r\nenable\r\n")
    assert session.stream.get_buffer == session.stream.transcript.raw.get_buffer  # no longer buffered for masking
    await write_to(session, data=f"{SECRET}\n", sensitive=True)
    log = f"%SYS-5: user typed {SECRET}\r\n".encode()
    channel.feed(f"{SECRET}\r\n".encode() + log[:22])
    channel.feed(log[22:])
    channel.end()
    again = MemoryChannel()
    await session.connect(again)
    again.feed(b"show history\r\n" + SECRET.encode())
    mask = "*" * len(SECRET.encode())
    shown = f"******\nenable\n{mask}\n%SYS-5: user typed {mask}\nshow history\n{mask}"
    assert (await read_from(session.stream, cursor="0")).chunk == shown
    await session.close()
    assert files_containing(session.stream.folder, SECRET) == []


async def test_output_that_resembles_start_of_echo_is_released_after_short_wait(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    await write_to(session, data=SECRET, sensitive=True)
    channel.feed(b"yes")
    assert (await read_from(session.stream, cursor="0", until_regex="yes", timeout_ms=PATIENCE_MS)).matched
    channel.feed(b" s3c")
    assert (await read_from(session.stream, cursor="0")).chunk == "yes "
    channel.end()
    assert (await read_from(session.stream, cursor="0")).chunk == "yes s3c"
    await session.close()


async def test_long_secret_sent_in_parts_is_logged_by_length_and_masked(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    secret = "".join(f"{number:04}" for number in range(100))
    channel.capacity = 7
    writing = asyncio.create_task(session.gate.type(secret, Writer(sensitive=True)))
    await asyncio.sleep(0.01)
    channel.unblock()
    assert await writing == len(secret)
    channel.feed(secret.encode())
    folder = session.stream.folder
    assert sum(row["bytes"] for row in inputs(folder)) == len(secret)
    await session.close()
    assert (folder / "output.raw").read_bytes() == b"*" * len(secret)


async def test_type_now_in_parts_is_logged_once_as_system_input(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    channel.capacity = 3
    session.gate.type_now("abcdef", SYSTEM)
    channel.unblock()
    assert session.gate._front_task is not None
    await session.gate._front_task
    rows = inputs(session.stream.folder)
    assert "".join(row["data"] for row in rows) == "abcdef"
    assert {row["by"] for row in rows} == {"system"}
    await session.close()


async def local(tmp_path: Path, *argv: str) -> Session:
    return await connect_session(
        tmp_path, LocalChannel(LocalOptions(argv), Pty()), protocol="local", host=None, program=argv[0]
    )


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_password_read_with_echo_off_is_masked_without_sensitive_flag(tmp_path: Path, shell: str) -> None:
    """The terminal has echo off, as with sudo; then the program prints the password."""
    require_program(shell, shell)
    script = 'stty -echo; printf "[sudo] password: "; IFS= read -r x; stty echo; echo; echo "got $x"; read -r y; echo "and $y"'
    session = await local(tmp_path, shell, "-c", script)
    assert (await read_from(session.stream, cursor="0", until_regex="password: $", timeout_ms=PATIENCE_MS)).matched
    await write_to(session, data=f"{SECRET}\n")
    assert (await read_from(session.stream, cursor="0", until_regex="got .*\n", timeout_ms=PATIENCE_MS)).matched
    await write_to(session, data="plain\n")
    assert (await read_from(session.stream, cursor="0", until_regex="and plain\n", timeout_ms=PATIENCE_MS)).matched
    assert f"got {'*' * len(SECRET.encode())}\n" in ((await read_from(session.stream, cursor="0")).chunk or "")
    folder = session.stream.folder
    assert [row.get("data") for row in inputs(folder)] == [None, "plain\r"]
    await session.close()
    assert files_containing(folder, SECRET) == []


async def test_commands_at_a_shell_prompt_without_echo_are_no_secrets(tmp_path: Path) -> None:
    """A here-document is typed, and its lines are shown and recorded as in any other shell."""
    require_program("dash", "dash")
    session = await local(tmp_path, "dash")
    await run_command(session, "stty -echo")
    lines = "interface GigabitEthernet0/1\n description Uplink-To-Core-42\n"
    document = f"cat <<'END'\n{lines}END"
    assert (await run_command(session, document)).stdout == lines
    assert (await run_command(session, f"printf %s '{lines}'")).stdout == lines
    assert all("data" in row for row in inputs(session.stream.folder))
    await session.close()


@pytest.mark.parametrize("question", ["Password: ", "Secret word? "])
async def test_command_at_a_question_for_a_secret_is_refused_and_not_stored(tmp_path: Path, question: str) -> None:
    session = await local(tmp_path, sys.executable, "-I", "-c", f"import getpass; getpass.getpass({question!r})")
    assert (await read_from(session.stream, cursor="0", until_regex=f"{re.escape(question)}$", timeout_ms=PATIENCE_MS)).matched
    with pytest.raises(PtyctlError) as caught:
        await run_command(session, SECRET)
    assert caught.value.details["reason"] == "question"
    await session.close()
    assert files_containing(session.stream.folder, SECRET) == []


async def test_command_at_the_password_prompt_of_a_device_is_not_stored(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: b"")
    session = await connect_session(tmp_path, channel, platform="cisco_ios", probe_shell=False)
    channel.feed(b"R1>enable\r\nPassword: ")
    with pytest.raises(PtyctlError) as caught:
        await run_command(session, SECRET)
    assert (caught.value.details["reason"], bytes(channel.written)) == ("question", b"")
    await session.close()
    assert files_containing(session.stream.folder, SECRET) == []


async def test_secret_read_by_shell_is_masked_in_blocks_events_and_after_crash(tmp_path: Path) -> None:
    session = await local(tmp_path, "bash", "--norc", "--noprofile")
    reply = run_command(session, 'read -rsp "Secret? " x; echo; echo "it was $x"')
    run = asyncio.create_task(reply)
    assert (await read_from(session.stream, cursor="0", until_regex="(?m)^Secret\\? $", timeout_ms=PATIENCE_MS)).matched
    await write_to(session, data=f"{SECRET}\n", sensitive=True)
    done = await run
    assert done.stdout.endswith(f"it was {'*' * len(SECRET.encode())}\n")
    folder = session.stream.folder
    left = tmp_path / "left" / "s"
    shutil.copytree(folder, left)
    await session.close()
    assert files_containing(folder, SECRET) == []
    again = await restore_session(tmp_path / "left", "s", Limits(), hold=True)
    assert again is not None
    await again.close()
    assert files_containing(left, SECRET) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "dash", "mksh"])
async def test_secret_in_a_command_is_masked_in_what_viewers_see_of_it(tmp_path: Path, shell: str) -> None:
    require_program(shell, shell)
    session = await local(tmp_path, shell)
    await run_command(session, "true")
    session.stream.mask(SECRET.encode())
    reply = await run_command(session, f"echo one\necho {SECRET} # x")
    assert reply.stdout == f"one\n{'*' * len(SECRET.encode())}\n"
    stream = session.stream
    shown = stream.read_shown(0, stream.raw_size)
    assert b"# x" in shown
    assert SECRET.encode() not in shown
    await session.close()
    assert set(files_containing(stream.folder, SECRET)).isdisjoint({"output.raw", "timeline.jsonl"})
