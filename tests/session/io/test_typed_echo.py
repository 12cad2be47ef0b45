"""Typed text at far ends whose echo is not known: stored by its length, unless the far end shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.core.secret_masker import ECHO_TIMEOUT_S
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session, read_from, write_to
from tests.session.secret_search import files_containing

SECRET = "Geheim-7712-x"


class Rows:
    """An audit log in memory."""

    failure = None

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def record(self, event: str, **fields: object) -> None:
        self.rows.append({"event": event, **{name: value for name, value in fields.items() if value is not None}})

    def check(self) -> None:
        return

    def texts(self) -> list[tuple[object, object]]:
        return [(row.get("text"), row.get("secret_bytes")) for row in self.rows if row["event"] == "text"]


def inputs(session: Session) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (session.stream.folder / "input.jsonl").read_bytes().splitlines()]


async def connected(folder: Path, row: str) -> tuple[Session, MemoryChannel, Rows]:
    channel, rows = MemoryChannel(), Rows()
    session = await connect_session(folder, channel)
    session.activity.set_recorder(rows)
    channel.feed(row.encode())
    return session, channel, rows


@pytest.mark.parametrize(
    "question", ["Kennwort: ", "Mot de passe : ", "密码：", "Enter PIN: ", "Verification code: ", "Tajne? "]
)
@pytest.mark.parametrize("by_key", [False, True])
async def test_text_that_is_not_shown_is_nowhere_in_the_files(tmp_path: Path, question: str, by_key: bool) -> None:
    session, channel, rows = await connected(tmp_path, question)
    for part in SECRET if by_key else [SECRET]:
        await write_to(session, data=part)
    await write_to(session, data="\n")
    channel.feed(f"\r\nyour secret is {SECRET}\r\n$ ".encode())
    assert files_containing(session.stream.folder, SECRET) == []
    await session.close()
    assert files_containing(session.stream.folder, SECRET) == []
    assert sum(row["bytes"] for row in inputs(session)) == len(SECRET) + 1
    assert {row.get("data") for row in inputs(session)} <= {None, "\r"}
    assert SECRET not in repr(rows.rows)


async def test_text_without_echo_at_an_unknown_question_is_masked_in_the_same_output(tmp_path: Path) -> None:
    session, channel, _ = await connected(tmp_path, "Geheimzahl: ")
    await write_to(session, data=f"{SECRET}\n")
    channel.feed(f"\r\ngot {SECRET}\r\n".encode())
    assert (await read_from(session.stream, cursor="0")).chunk == f"Geheimzahl: \ngot {'*' * len(SECRET)}\n"
    await session.close()


async def test_shown_text_is_added_to_its_row_and_to_the_audit_log(tmp_path: Path) -> None:
    session, channel, rows = await connected(tmp_path, "sw1>")
    await write_to(session, data='show "clock" detail\n')
    (before,) = inputs(session)
    assert ("data" in before, before["sensitive"], rows.texts()) == (False, True, [])
    channel.feed(b'show "clock" detail\r\n12:00\r\nsw1>')
    (after,) = inputs(session)
    assert (after["data"], after["bytes"], "sensitive" in after) == ('show "clock" detail\r', 20, False)
    assert after["line"] == before["line"]
    assert rows.texts() == [('show "clock" detail\r', None)]
    await session.close()


async def test_server_that_dies_before_the_echo_leaves_rows_with_the_length(tmp_path: Path) -> None:
    session, channel, _ = await connected(tmp_path, "sw1>")
    await write_to(session, data="configure\n")
    left = tmp_path / "left"
    shutil.copytree(session.stream.folder, left)
    assert files_containing(left, "configure") == []
    (row,) = [json.loads(line) for line in (left / "input.jsonl").read_bytes().splitlines()]
    assert (row["bytes"], row["sensitive"]) == (10, True)
    channel.feed(b"configure\r\n")
    await session.close()
    assert inputs(session)[0]["data"] == "configure\r"


async def test_size_of_a_row_depends_on_the_number_of_bytes_only(tmp_path: Path) -> None:
    session, _, _ = await connected(tmp_path, "Kod? ")
    for text in ("abcdefgh", '"\\"\\"\\"\\', "\u00e4\u00e4\u00e4\u00e4"):
        await write_to(session, data=text)
    rows = (session.stream.folder / "input.jsonl").read_bytes().splitlines()
    assert len({len(row) - len(json.dumps(json.loads(row)["line"], separators=(",", ":"))) for row in rows}) == 1
    await session.close()


def test_text_that_is_never_shown_is_recorded_by_length_at_the_time_limit(tmp_path: Path) -> None:
    async def run() -> None:
        session, _, rows = await connected(tmp_path, "? ")
        begun = session.terminal.now()
        await write_to(session, data=f"{SECRET}\n")
        while not rows.texts():
            await session.stream.wait(session.terminal.now() + 0.5)
        assert session.terminal.now() - begun <= ECHO_TIMEOUT_S + 1
        assert (rows.texts(), session.typed_echo.active) == ([(None, len(SECRET) + 1)], False)
        await session.close()

    run_virtually(run())
