"""`ptyctl open`: addresses, working directory, and the reply."""

from __future__ import annotations

import os

import pytest

from ptyctl.cli.session_commands import parse_address
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import BASH, is_one_line, open_local, ptyctl


def test_open_json_is_the_reply(runtime_dir: RuntimeDir) -> None:
    reply = ptyctl("open", "local", "--json", *BASH).json
    assert (reply["action"], reply["state"], reply["pty_enabled"]) == ("open", "open", True)


def test_open_local_starts_in_current_directory_or_cwd(
    runtime_dir: RuntimeDir, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ptyctl("exec", open_local(), "--", "pwd").out == f"{tmp_path}\n"
    assert ptyctl("exec", open_local("--cwd", "/"), "--", "pwd").out == "/\n"


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("h", {"host": "h"}),
        ("me@h", {"host": "h", "username": "me"}),
        ("me@192.0.2.1:2222", {"host": "192.0.2.1", "port": 2222, "username": "me"}),
        ("2001:db8::1", {"host": "2001:db8::1"}),
        ("[2001:db8::1]:23", {"host": "2001:db8::1", "port": 23}),
    ],
)
def test_address_is_parsed_into_fields(address: str, fields: dict[str, object]) -> None:
    assert parse_address(address) == fields


def test_malformed_address_is_usage_error(runtime_dir: RuntimeDir) -> None:
    for address in ("h:port", "@h", "h:"):
        result = ptyctl("open", "telnet", address)
        assert result.code == 2
        assert is_one_line(result.err), result.err


def test_refused_connection_exits_with_6(runtime_dir: RuntimeDir) -> None:
    result = ptyctl("open", "telnet", "127.0.0.1:1", "--connect-timeout", "5")
    assert result.code == 6
    assert is_one_line(result.err)
