"""Output of the commands: control characters in names and text, and long cells."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli.output import print_text, replace_controls
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import open_local, ptyctl

EVIL = "a\x1b]52;c;aGk=\x07b\x9b31mc\x05\u202ed\u2066"
BIDIRECTIONAL = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(st.text() | st.text(f"ab\x9b\n{BIDIRECTIONAL}"))
def test_replace_controls_replaces_c0_c1_and_bidirectional_controls_only(text: str) -> None:
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - set("\b\t\n") | set(BIDIRECTIONAL)
    assert replace_controls(text) == "".join("\ufffd" if letter in controls else letter for letter in text)


@pytest.mark.parametrize("terminal", [True, False])
def test_print_text_replaces_controls_on_terminal_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    print_text(f"{EVIL}\n")
    out = capsys.readouterr().out
    assert out == ("a\ufffd]52;c;aGk=\ufffdb\ufffd31mc\ufffd\ufffdd\ufffd\n" if terminal else f"{EVIL}\n")


def test_names_with_controls_are_printed_without_them(runtime_dir: RuntimeDir) -> None:
    session_id = open_local("--console", EVIL)
    ptyctl("lock", session_id, "--task", EVIL)
    for result in (ptyctl("sessions"), ptyctl("lock", session_id, "--task", EVIL), ptyctl("exec", session_id, "--", "true")):
        assert "\ufffd]52" in result.out + result.err
        assert replace_controls(result.out + result.err) == result.out + result.err


def test_json_escapes_controls_of_names(runtime_dir: RuntimeDir) -> None:
    session_id = open_local("--console", EVIL)
    listed = ptyctl("sessions", "--json")
    assert listed.json["sessions"][0]["device_id"] == EVIL
    assert replace_controls(listed.out) == listed.out
    assert session_id in listed.out


def test_blocks_long_command_is_cut_in_table_only(runtime_dir: RuntimeDir) -> None:
    session_id = open_local()
    ptyctl("exec", session_id, "--", f": {'x' * 5000}")
    assert len(ptyctl("blocks", session_id).out) < 1000
    assert ptyctl("blocks", session_id, "--json").json[0]["cmd"] == f": {'x' * 5000}"
