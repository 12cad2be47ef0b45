"""`ptyctl export`, `replay` and `gc`: recordings of open and ended sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.tmux.person import ENDED, RESTORED, Person
from fixtures.tmux.server import TmuxServer, running_tmux
from ptyctl import connect
from ptyctl.core.screen import ScreenModel
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import PROGRAM, is_one_line, open_local, ptyctl, screen_rows, terminal_environment
from tests.controller.session_calls import PATIENCE_MS


@pytest.fixture
def session(runtime_dir: RuntimeDir) -> str:
    shell = open_local("--cols", "60", "--rows", "10")
    ptyctl("exec", shell, "--", "PS1='> '; printf '\\033[1;32mgreen\\033[m h\u00e9 \u65e5\u672c\\n'")
    ptyctl("exec", shell, "--", "seq 1 20; printf '\\033[6n\\033]52;c;aGk=\\007'")
    asyncio.run(_prompt_shown(shell))
    return shell


async def _prompt_shown(session: str) -> None:
    """Wait for the prompt: the last output."""
    async with connect() as daemon:
        shell = await daemon.session(session)
        assert (await shell.screen(until_regex=r"(?m)^20\n> *$", timeout_ms=PATIENCE_MS)).matched


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    with running_tmux() as server:
        yield server


def test_asciicast_renders_same_screen_before_and_after_close(session: str) -> None:
    for _ in range(2):
        header, *events = map(json.loads, ptyctl("export", session, "--asciicast").out.splitlines())
        assert (header["version"], header["width"], header["height"]) == (2, 60, 10)
        model = ScreenModel(60, 10)
        for _, kind, data in events:
            assert kind == "o"
            model.feed(data.encode())
        assert list(model.snapshot().rows) == screen_rows(session)
        assert model.responses == []
        ptyctl("close", session)


def test_asciicast_contains_resizes(session: str, tmp_path: Path) -> None:
    async def resize() -> None:
        async with connect() as daemon:
            await (await daemon.session(session)).resize(70, 20)

    asyncio.run(resize())
    file = tmp_path / "cast"
    assert ptyctl("export", session, "--asciicast", "-o", str(file)).out == ""
    events = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [data for _, kind, data in events if kind == "r"] == ["70x20"]


def test_text_and_html_contain_scrollback(session: str) -> None:
    ptyctl("close", session)
    text = ptyctl("export", session[-8:], "--text").out
    assert "green hé 日本\n" in text
    assert "".join(f"{number}\n" for number in range(1, 21)) in text
    page = ptyctl("export", session, "--html").out
    assert "green hé 日本" in page
    assert page.count("\n") > 20


def test_replay_writes_same_screen_without_dangerous_sequences(session: str) -> None:
    out = ptyctl("replay", session, "--speed", "1000").out
    model = ScreenModel(60, 10)
    model.feed(out.encode())
    assert list(model.snapshot().rows) == screen_rows(session)
    assert "\x1b[6n" not in out
    assert "\x1b]52" not in out


def test_replay_restores_terminal(session: str, tmux: TmuxServer) -> None:
    ptyctl("exec", session, "--", "printf '\\033[?1000h\\033[?25l\\033[3;5r'")
    person = Person(tmux, [*PROGRAM, "replay", "--speed", "1000", session], terminal_environment(), 60, 40)
    rows = person.sees(RESTORED)
    assert f"{ENDED} 0" in rows
    assert "20" in rows
    assert tmux.run("display", "-p", "#{mouse_any_flag} #{cursor_flag} #{scroll_region_upper}").split() == ["0", "1", "0"]


def test_export_by_console_name_is_its_last_session(runtime_dir: RuntimeDir) -> None:
    for number in (1, 2):
        console = open_local("--console", "sw1", command=("--", "echo", f"number {number}"))
        ptyctl("tail", console, "-f")
        ptyctl("close", console)
        assert ptyctl("export", "sw1", "--text").out == f"number {number}\n"
    missing = ptyctl("export", "sw2", "--text")
    assert missing.code == 3
    assert is_one_line(missing.err)
    ambiguous = ptyctl("export", open_local()[:9], "--text")
    assert ambiguous.code == 2


def test_gc_removes_ended_sessions_and_keeps_open_ones(session: str) -> None:
    live = open_local()
    ptyctl("close", session)
    planned = ptyctl("gc", "--max-bytes", "1", "--dry-run")
    assert session in planned.out
    assert "1 would be removed" in planned.out
    reply = ptyctl("gc", "--max-bytes", "1", "--json").json
    assert [entry["session_id"] for entry in reply["removed"]] == [session]
    assert reply["kept"] == 1
    assert ptyctl("export", session, "--text").code == 3
    assert ptyctl("exec", live, "--", "true").code == 0


def test_exported_file_is_private_and_no_link_is_followed(session: str, tmp_path: Path) -> None:
    new, old, link = tmp_path / "new.txt", tmp_path / "old.txt", tmp_path / "link.txt"
    old.write_text("x" * 100_000)
    old.chmod(0o644)
    for file in (new, old):
        assert ptyctl("export", session, "--text", "-o", str(file)).code == 0
        assert (file.stat().st_mode & 0o777, "green" in file.read_text(), "xxx" in file.read_text()) == (0o600, True, False)
    old.write_text("kept")
    link.symlink_to(old)
    refused = ptyctl("export", session, "--text", "-o", str(link))
    assert (refused.code, is_one_line(refused.err), old.read_text()) == (1, True, "kept")
