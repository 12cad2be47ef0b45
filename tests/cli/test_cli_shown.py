"""What others have named or printed does not act on the terminal that shows it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli import shown
from ptyctl.daemon.place import Place
from tests.cli.command_line import opened, ptyctl

EVIL = "a\x1b]52;c;aGk=\x07b\x9b31mc\x05"


@given(st.text())
def test_nothing_acts_and_the_rest_stays(text: str) -> None:
    controls = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - set("\b\t\n")
    assert shown.harmless(text) == "".join("\ufffd" if letter in controls else letter for letter in text)


@pytest.mark.parametrize("terminal", [True, False])
def test_programs_get_what_was_printed_as_it_is(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    shown.text(f"{EVIL}\n")
    out = capsys.readouterr().out
    assert out == ("a\ufffd]52;c;aGk=\ufffdb\ufffd31mc\ufffd\n" if terminal else f"{EVIL}\n")


def test_names_that_others_gave_do_not_act(place: Place) -> None:
    session_id = opened("--console", EVIL)
    ptyctl("lock", session_id, "--task", EVIL)
    for ran in (ptyctl("sessions"), ptyctl("lock", session_id, "--task", EVIL), ptyctl("exec", session_id, "--", "true")):
        assert "\ufffd]52" in ran.out + ran.err
        assert shown.harmless(ran.out + ran.err) == ran.out + ran.err


def test_a_command_that_is_very_long_does_not_fill_the_list(place: Place) -> None:
    session_id = opened()
    ptyctl("exec", session_id, "--", f": {'x' * 5000}")
    assert len(ptyctl("blocks", session_id).out) < 1000
    assert ptyctl("blocks", session_id, "--json").json[0]["cmd"] == f": {'x' * 5000}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("lock", "SESSION", "--ttl", "inf"),
        ("open", "telnet", "h", "--connect-timeout", "inf"),
        ("lock", "SESSION", "--ttl", "nan"),
    ],
    ids=" ".join,
)
def test_a_time_without_an_end_is_told(place: Place, arguments: tuple[str, ...]) -> None:
    ran = ptyctl(*arguments)
    assert ran.code == 2
    assert arguments[-2] in ran.err


def test_a_wait_may_be_without_an_end(place: Place) -> None:
    session_id = opened()
    assert ptyctl("lock", session_id, "--wait", "inf").code == 0
    assert ptyctl("exec", session_id, "--timeout", "inf", "--", "exit 3").code == 3
