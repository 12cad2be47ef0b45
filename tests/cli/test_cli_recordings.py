"""`ptyctl export` and `replay`: what was recorded comes back, also from a session that has ended."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.tmux.person import ENDED, RESTORED, Person
from fixtures.tmux.server import TmuxServer, running_tmux
from ptyctl import connect
from ptyctl.core.screen import ScreenModel
from ptyctl.daemon.place import Place
from tests.cli.command_line import is_one_line, opened, ptyctl

PROGRAM = (sys.executable, "-c", "from ptyctl.cli import main; main()")


@pytest.fixture
def session(place: Place) -> str:
    shell = opened("--cols", "60", "--rows", "10")
    ptyctl("exec", shell, "--", "PS1='> '; printf '\\033[1;32mgreen\\033[m h\u00e9 \u65e5\u672c\\n'")
    ptyctl("exec", shell, "--", "seq 1 20; printf '\\033[6n\\033]52;c;aGk=\\007'")
    return shell


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    with running_tmux() as server:
        yield server


def picture(session: str) -> list[str]:
    rows: list[str] = ptyctl("screen", session, "--json").json["rows"]
    return rows


def test_an_asciicast_is_the_same_screen(session: str) -> None:
    for _ in range(2):  # open, and ended
        header, *events = map(json.loads, ptyctl("export", session, "--asciicast").out.splitlines())
        assert (header["version"], header["width"], header["height"]) == (2, 60, 10)
        model = ScreenModel(60, 10)
        for _, kind, data in events:
            assert kind == "o"
            model.feed(data.encode())
        assert list(model.snapshot().rows) == picture(session)
        assert model.responses == []
        ptyctl("close", session)


def test_resizes_are_in_it(session: str, tmp_path: Path) -> None:
    async def resize() -> None:
        async with connect() as daemon:
            await (await daemon.session(session)).resize(70, 20)

    asyncio.run(resize())
    file = tmp_path / "cast"
    assert ptyctl("export", session, "--asciicast", "-o", str(file)).out == ""
    events = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [data for _, kind, data in events if kind == "r"] == ["70x20"]


def test_text_and_page(session: str) -> None:
    ptyctl("close", session)
    text = ptyctl("export", session[-8:], "--text").out
    assert "green hé 日本\n" in text
    assert "".join(f"{number}\n" for number in range(1, 21)) in text
    page = ptyctl("export", session, "--html").out
    assert "green hé 日本" in page
    assert page.count("\n") > 20


def test_a_replay_is_the_same_bytes_without_what_attacks(session: str) -> None:
    out = ptyctl("replay", session, "--speed", "1000").out
    model = ScreenModel(60, 10)
    model.feed(out.encode())
    assert list(model.snapshot().rows) == picture(session)
    assert "\x1b[6n" not in out
    assert "\x1b]52" not in out


def test_a_replay_in_a_terminal_leaves_it_as_it_was(session: str, tmux: TmuxServer) -> None:
    ptyctl("exec", session, "--", "printf '\\033[?1000h\\033[?25l\\033[3;5r'")
    environment = {name: value for name, value in os.environ.items() if name.startswith("PTYCTL_") or name == "HOME"}
    person = Person(tmux, [*PROGRAM, "replay", "--speed", "1000", session], environment, 60, 40)
    rows = person.sees(RESTORED)
    assert f"{ENDED} 0" in rows
    assert "20" in rows
    assert tmux.run("display", "-p", "#{mouse_any_flag} #{cursor_flag} #{scroll_region_upper}").split() == ["0", "1", "0"]


def test_consoles_are_named_and_others_are_not_found(place: Place) -> None:
    for number in (1, 2):  # its last session is meant, also when that has ended
        console = opened("--console", "sw1", command=("--", "echo", f"number {number}"))
        ptyctl("tail", console, "-f")
        ptyctl("close", console)
        assert ptyctl("export", "sw1", "--text").out == f"number {number}\n"
    missing = ptyctl("export", "sw2", "--text")
    assert missing.code == 3
    assert is_one_line(missing.err)
    several = ptyctl("export", opened()[:9], "--text")
    assert several.code == 2


def test_old_ones_are_thrown_away(session: str) -> None:
    live = opened()
    ptyctl("close", session)
    planned = ptyctl("gc", "--max-bytes", "1", "--dry-run")
    assert session in planned.out
    assert "1 would go" in planned.out
    reply = ptyctl("gc", "--max-bytes", "1", "--json").json
    assert [entry["session_id"] for entry in reply["removed"]] == [session]
    assert reply["kept"] == 1
    assert ptyctl("export", session, "--text").code == 3
    assert ptyctl("exec", live, "--", "true").code == 0
