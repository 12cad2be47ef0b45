"""An agent asks to reload a switch, and a person answers in another terminal, whose recording is docs/examples/approval.cast.

`python -m tests.cli.test_approval_recording` writes the recording.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import daemon_folder
from ptyctl.core.screen import ScreenModel
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import open_local, ptyctl, screen_rows, start
from tests.cli.test_shared_console import Agent

RECORDING = Path(__file__).parents[2] / "docs" / "examples" / "approval.cast"
COMMENT = "not before midnight"
#: The keys in the title, once the request was shown for a second.
ANSWERED_BY = "a approve  d decline"
COLS, ROWS = 110, 24
#: Limit of a wait (seconds). Only a failing test reaches it.
PATIENCE_S = 120
RELOAD = {"cmd": "reload", "responses": [{"match": "confirm", "send": "\n"}], "timeout_ms": PATIENCE_S * 1000}
SHELL_SETTINGS = """
PS1='$ '
ptyctl() { %s -c 'from ptyctl.cli import main; main()' "$@"; }
"""


@dataclass(frozen=True)
class Shown:
    """Texts that a screen shows, and one that it does not show."""

    texts: tuple[str, ...]
    gone: str | None = None

    def fits(self, rows: Sequence[str]) -> bool:
        screen = "\n".join(rows)
        return all(text in screen for text in self.texts) and (self.gone is None or self.gone not in screen)


@dataclass
class Story:
    """What happened: what the person's terminal showed, its recording, the agent's replies and the switch's text."""

    screens: list[Shown] = field(default_factory=list)
    replies: list[dict[str, Any]] = field(default_factory=list)
    recording: str = ""
    console: str = ""


class Terminal:
    """The person's terminal: a session that ptyctl records."""

    def __init__(self, folder: Path, story: Story) -> None:
        settings = folder / "bashrc"
        settings.write_text(SHELL_SETTINGS % sys.executable)
        shell = ("--", "bash", "--noprofile", "--rcfile", str(settings))
        self._story = story
        self.session_id = open_local("--cols", str(COLS), "--rows", str(ROWS), command=shell)

    def type(self, text: str, *keys: str) -> None:
        """Type a text; `keys` follow it."""
        pressed = (option for key in keys for option in ("--key", key))
        result = ptyctl("send", self.session_id, "--no-enter", *pressed, "--", text)
        assert result.code == 0, result

    def sees(self, *texts: str, gone: str | None = None) -> None:
        """Wait until the screen shows all texts, and not `gone`."""
        shown = Shown(texts, gone)
        deadline = time.monotonic() + PATIENCE_S
        while not shown.fits(rows := screen_rows(self.session_id)):
            assert time.monotonic() < deadline, "\n".join(rows)
            time.sleep(0.05)
        self._story.screens.append(shown)


@contextmanager
def practice_switch(folder: Path) -> Iterator[None]:
    """Run a simulated switch, and name it `switch-001` in the inventory."""
    switch = start("demo", "--switch")
    printed = ""
    while "enable_secret" not in printed:
        printed += switch.stdout.readline()
    (folder / "devices.toml").write_text(textwrap.dedent(printed[printed.index("  [devices.") :]))
    try:
        yield
    finally:
        switch.send_signal(signal.SIGINT)
        switch.communicate()


def play(folder: Path) -> Story:
    """Let an agent ask twice for `reload`; the person declines the first request and approves the second."""
    story = Story()
    with practice_switch(folder):
        agent = Agent("night-work")
        try:
            opened = agent.call("ptyctl_session", action="open", device="switch-001")
            assert opened.get("success"), opened
            switch = {"session_id": opened["session_id"]}
            agent.call("ptyctl_session", action="lock", **switch)
            agent.call("ptyctl_session_exec", **switch, cmd="show clock")
            person = Terminal(folder, story)
            person.sees("$")
            person.type("ptyctl approvals --watch", "enter")
            person.sees("approvals: 0 waiting", "nothing waits for an approval")
            for answer in (_decline, _approve):
                with ThreadPoolExecutor(1) as thread:
                    asked = thread.submit(agent.call, "ptyctl_session_exec", **switch, **RELOAD)
                    person.sees("approvals: 1 waiting", "/mcp, ", "  reload")
                    answer(person)
                    story.replies.append(asked.result(PATIENCE_S))
            person.type("q")
            person.sees("approvals --watch\n$", gone="approvals:")  # the next prompt
            person.type("ptyctl approvals --all", "enter")
            person.sees("$ ptyctl approvals --all", "declined, by", "used, by")  # the user's name may wrap the rows
            story.recording = ptyctl("export", person.session_id, "--asciicast").out
            story.console = agent.call("ptyctl_session_io", **switch, action="read", cursor="0")["chunk"]
        finally:
            agent.kill()
    return story


def _decline(person: Terminal) -> None:
    person.type("j")  # a request that arrives is not selected
    person.sees("task night-work on switch-001, mode privileged", "because restarts the device (reload)", ANSWERED_BY)
    person.type("v")
    person.sees("switch-001#show clock")
    person.type("v")
    person.sees("because restarts the device (reload)", gone="show clock")
    person.type("d")
    person.sees("decline, because:")
    person.type(COMMENT, "enter")
    person.sees("approvals: 0 waiting", COMMENT, "> declined")


def _approve(person: Terminal) -> None:
    person.type("j")  # the declined request is selected
    person.sees("because restarts the device (reload)", ANSWERED_BY, gone=COMMENT)
    person.type("a")
    person.sees("approvals: 0 waiting", "approved: reload", "used, by")


def missing_screens(recording: str, screens: Sequence[Shown]) -> list[Shown]:
    """Return the screens that an asciicast does not show in this order.

    A recording keeps times of 50 ms, so that one event can show several screens.
    """
    header, *events = map(json.loads, recording.splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, COLS, ROWS)
    model = ScreenModel(COLS, ROWS, scrollback=0)
    missing = list(screens)
    for _, kind, data in events:
        assert kind == "o"
        for character in data:
            model.feed(character.encode())
            while missing and missing[0].fits(model.snapshot().rows):
                del missing[0]
    return missing


def test_reload_is_held_declined_with_a_comment_and_approved_once(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(tmp_path / "devices.toml"))
    story = play(tmp_path)
    declined, done = story.replies
    assert (declined["error_code"], COMMENT in declined["message"]) == ("DECLINED", True)
    assert done["error_code"] == "REMOTE_CLOSED"  # the switch restarts
    assert story.console.count("Proceed with reload?") == 1
    for recording in (story.recording, RECORDING.read_text()):
        assert missing_screens(recording, story.screens) == [], "write it again: python -m tests.cli.test_approval_recording"


def test_screens_within_one_event_are_found_in_their_order() -> None:
    header = json.dumps({"version": 2, "width": COLS, "height": ROWS})
    recording = f"{header}\n" + json.dumps([0.0, "o", "first\x1b[2Jsecond\r\x1b[Kthird"])
    first, second, third = Shown(("first",)), Shown(("second",), gone="first"), Shown(("third",), gone="second")
    assert missing_screens(recording, (first, second, third)) == []
    assert missing_screens(recording, (first, third, second)) == [second]
    assert missing_screens(recording, (first, Shown(("fourth",)))) == [Shown(("fourth",))]


def write_recording() -> None:
    with daemon_folder() as runtime, tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            PTYCTL_RUNTIME_DIR=str(runtime),
            PTYCTL_STATE_DIR=f"{folder}/state",
            PTYCTL_CONFIG=f"{folder}/config.toml",
            PTYCTL_DEVICES_FILE=f"{folder}/devices.toml",
        )
        recording = play(Path(folder)).recording
    RECORDING.write_text(recording)


if __name__ == "__main__":
    write_recording()
