"""`ptyctl token`: create, list and revoke."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ptyctl.controller.tokens import TokenFile, Tokens
from tests.cli.command_line import is_one_line, ptyctl


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PTYCTL_STATE_DIR", str(folder))
    return folder


def test_create_prints_only_the_token_on_stdout_and_list_shows_the_rest(state: Path) -> None:
    before = int(time.time())
    created = ptyctl(
        "token", "create", "night", "--role", "viewer", "--kind", "agent", "--devices", "sw-*, core-1", "--expires", "2h"
    )
    assert created.code == 0
    text = created.out.strip()
    assert is_one_line(created.err)
    assert text not in created.err
    token = Tokens(TokenFile(state), None).find(text)
    assert token is not None
    assert token.principal.devices == ("sw-*", "core-1")
    (row,) = ptyctl("token", "list", "--json").json
    assert before <= row["created_at"] <= time.time()
    assert before <= row["expires_at"] - 7200 <= time.time()
    del row["created_at"], row["expires_at"]
    assert row == {"name": "night", "kind": "agent", "role": "viewer", "devices": ["sw-*", "core-1"]}
    listed = ptyctl("token", "list")
    assert "night" in listed.out
    assert text not in listed.out


def test_created_token_lasts_thirty_days_by_default() -> None:
    ptyctl("token", "create", "a")
    ptyctl("token", "create", "b", "--expires", "never")
    month, never = (row["expires_at"] for row in ptyctl("token", "list", "--json").json)
    assert abs(month - time.time() - 30 * 86400) < 3600
    assert never is None


def test_revoked_token_is_gone_and_revoking_it_again_fails() -> None:
    ptyctl("token", "create", "night")
    assert ptyctl("token", "revoke", "night").out == "revoked: night\n"
    assert ptyctl("token", "list", "--json").json == []
    again = ptyctl("token", "revoke", "night")
    assert (again.code, is_one_line(again.err)) == (3, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("default",),
        ("root",),
        ("x", "--expires", "0d"),
        ("x", "--expires", "soon"),
        ("x", "--expires", "999999999d"),
        ("x", "--devices", "sw-*,,"),
        ("x", "--devices", " "),
        ("x", "--role", "king"),
        ("x", "--role", "approver"),
    ],
)
def test_invalid_token_is_refused_in_one_line_and_not_created(arguments: tuple[str, ...]) -> None:
    refused = ptyctl("token", "create", *arguments)
    assert (refused.code, refused.out, is_one_line(refused.err)) == (2, "", True)
    assert ptyctl("token", "list", "--json").json == []


def test_state_directory_that_others_can_read_is_refused(state: Path) -> None:
    state.chmod(0o755)
    assert ptyctl("token", "create", "night").code == 1
    assert not (state / "tokens.json").exists()
