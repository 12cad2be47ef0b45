"""`ptyctl bridge` and `ptyctl terminal preflight`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command_line import ptyctl

BINARY = "PM_INTERACTIVE_TERMINAL_BINARY"


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ((), {}, "there is no token"),
        ((), {"PM_INTERACTIVE_TERMINAL_TOKEN": "short"}, "fewer than 32 characters"),
        ((), {"PM_INTERACTIVE_TERMINAL_TOKEN_FILE": "/nonexistent"}, "cannot be read"),
        (("--listen", "0.0.0.0:45459"), {"PM_INTERACTIVE_TERMINAL_TOKEN": "t" * 43}, "add --all-addresses"),
        ((), {"PM_INTERACTIVE_TERMINAL_TOKEN": "t" * 43, "PTYCTL_SYSTEM_USER": "root"}, "daemon of its own user"),
    ],
    ids=["no token", "short token", "unreadable token", "all addresses", "system daemon"],
)
def test_bridge_with_invalid_settings_does_not_start(
    arguments: tuple[str, ...], environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = ptyctl("bridge", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_bridge_with_a_token_that_others_can_read_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("t" * 43)
    file.chmod(0o644)
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_TOKEN_FILE", str(file))
    done = ptyctl("bridge", "--listen", "nowhere")
    assert (done.code, "chmod 600" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("adapter", "binary", "code", "checks"),
    [
        ("local", "/bin/sh", 0, ["mode", "configured"]),
        ("local", "/nonexistent", 2, ["mode", "configured"]),
        ("local", "bin/sh", 2, ["mode"]),
        ("auto", "/bin/sh", 0, ["mode", "configured"]),
        ("auto", "/nonexistent", 0, ["mode", "configured", "daemon"]),
        ("bundled", "", 0, ["mode", "daemon"]),
        ("remote", "", 2, []),
    ],
)
def test_preflight_checks_the_sources_and_starts_nothing(
    adapter: str, binary: str, code: int, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BINARY, binary)
    done = ptyctl("terminal", "preflight", "--adapter", adapter, "--json")
    assert (done.code, [line["check"] for line in done.json["checks"]]) == (code, checks)
    assert done.json["ready"] == (code == 0)
    assert ptyctl("daemon", "status").code == 3


def test_preflight_without_a_program_reports_the_next_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = ptyctl("terminal", "preflight", "--adapter", "local", "--json")
    assert (done.code, done.json["error"]["code"]) == (6, "PM_TERM_GUI_UNAVAILABLE")
    assert "PATH" in done.json["error"]["details"]["next_action"]
    assert "failed  path: none of" in ptyctl("terminal", "preflight", "--adapter", "local").out
