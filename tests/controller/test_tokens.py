"""Named tokens: their file, and the check of a request's token."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode
from ptyctl.controller.tokens import DEFAULT, TokenFile, Tokens
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import user
from tests.controller.session_calls import refused

NIGHT = Principal("night-shift", Kind.AGENT, Role.OPERATOR, ("sw-*", "core-1"))
VIEWER = Principal("viewer", Kind.PERSON, Role.VIEWER)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def name_of(tokens: Tokens, text: str) -> str | None:
    found = tokens.find(text)
    return found.principal.name if found is not None else None


def test_created_token_is_found_with_its_principal_and_stored_as_a_hash(file: TokenFile, path: Path) -> None:
    text = file.create(NIGHT, None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert text not in path.read_text()
    token = Tokens(file, None).find(text)
    assert token is not None
    assert token.principal == NIGHT
    assert list(TokenFile(path.parent).load()) == ["night-shift"]


def test_unknown_token_is_not_found(file: TokenFile) -> None:
    text = file.create(NIGHT, None)
    tokens = Tokens(file, "own")
    for wrong in ("", "x", text[:-1], f"{text}x", text.swapcase(), "\udcff\u00fc", "own "):
        assert tokens.find(wrong) is None
    assert (name_of(tokens, "own"), name_of(tokens, text)) == (DEFAULT, "night-shift")


def test_tokens_without_a_file_are_none_and_an_unused_default_is_not_accepted(file: TokenFile) -> None:
    tokens = Tokens(file, None)
    assert [tokens.find(text) for text in ("", "None", "default")] == [None, None, None]


def test_server_accepts_created_and_rejects_revoked_tokens_at_the_next_request(file: TokenFile) -> None:
    tokens = Tokens(file, "own")
    text = file.create(NIGHT, None)
    assert name_of(tokens, text) == "night-shift"
    other = file.create(VIEWER, None)
    file.revoke("night-shift")
    assert (tokens.find(text), name_of(tokens, other)) == (None, "viewer")
    with refused(ErrorCode.NOT_FOUND, "no token night-shift"):
        file.revoke("night-shift")


def test_token_expires_by_the_wall_clock(file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = int(time.time())
    text = file.create(NIGHT, begin + 100)
    tokens = Tokens(file, None)
    for seconds, valid in ((99, True), (100, False), (10_000, False), (0, True)):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: begin + seconds)
        assert (tokens.find(text) is not None) is valid, seconds


def test_name_in_use_is_refused_until_it_is_revoked_and_has_another_token_then(file: TokenFile) -> None:
    first = file.create(NIGHT, None)
    with refused(ErrorCode.INVALID_ARGUMENT, "there is a token night-shift already"):
        file.create(NIGHT, None)
    file.revoke("night-shift")
    second = file.create(NIGHT, None)
    tokens = Tokens(file, None)
    assert (tokens.find(first), name_of(tokens, second)) == (None, "night-shift")


@pytest.mark.parametrize("name", ["", "default", "a/mcp", "-x", "a b", "a\n", "ü", "x" * 65, user().name])
def test_name_that_is_invalid_or_of_a_user_is_refused(file: TokenFile, path: Path, name: str) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, name):
        file.create(Principal(name, Kind.AGENT, Role.VIEWER), None)
    assert not path.exists()


def test_agent_with_the_role_approver_is_refused(file: TokenFile) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "approver"):
        file.create(Principal("ci", Kind.AGENT, Role.APPROVER), None)
    file.create(Principal("boss", Kind.PERSON, Role.APPROVER), None)


DAMAGES = {
    "empty": "",
    "cut": '{"tokens": [{"na',
    "no object": "[]",
    "no list": '{"tokens": 7}',
    "a row without a role": '{"tokens": [{"name": "x"}]}',
    "an unknown role": None,
    "devices that are no list": None,
}


def damage(path: Path, what: str) -> None:
    text = DAMAGES[what]
    if text is None:
        content = json.loads(path.read_text())
        content["tokens"][0].update({"role": "king"} if "role" in what else {"devices": "*"})
        text = json.dumps(content)
    path.write_text(text)


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_file_is_an_error_and_lets_only_the_default_token_in(file: TokenFile, path: Path, what: str) -> None:
    text = file.create(NIGHT, None)
    tokens = Tokens(file, "own")
    assert name_of(tokens, text) == "night-shift"
    damage(path, what)
    for call in (file.load, lambda: file.create(VIEWER, None), lambda: file.revoke("x"), lambda: Tokens(file, "own")):
        with refused(ErrorCode.INVALID_ARGUMENT, "tokens.json is damaged"):
            call()
    assert (tokens.find(text), name_of(tokens, "own")) == (None, DEFAULT)
    path.unlink()
    again = file.create(NIGHT, None)
    assert (name_of(tokens, again), tokens.find(text)) == ("night-shift", None)


def test_file_that_others_can_read_lets_nobody_else_in_and_is_logged(
    file: TokenFile, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = file.create(NIGHT, None)
    tokens = Tokens(file, None)
    path.chmod(0o640)
    path.write_text(path.read_text() + " ")  # a new version
    with refused(ErrorCode.POLICY_DENIED, "chmod 600"):
        file.load()
    with caplog.at_level(logging.ERROR):
        assert tokens.find(text) is None
        assert tokens.find(text) is None
    assert len(caplog.records) == 1
    assert text not in caplog.text


def test_concurrent_creations_all_survive(file: TokenFile, tmp_path: Path) -> None:
    def create(number: int) -> None:
        TokenFile(tmp_path).create(Principal(f"agent-{number}", Kind.AGENT, Role.VIEWER), None)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file.load()) == [f"agent-{number}" for number in range(8)]


def test_failed_write_keeps_the_stored_tokens(file: TokenFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.create(NIGHT, None)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with refused(ErrorCode.IO_ERROR, "No space left"):
        file.create(VIEWER, None)
    assert path.read_bytes() == before


def test_token_file_behind_a_link_is_loaded_with_the_checks_of_the_file(file: TokenFile, path: Path, tmp_path: Path) -> None:
    text = file.create(VIEWER, None)
    target = path.rename(tmp_path / "secret")
    path.symlink_to(target)
    assert name_of(Tokens(file, None), text) == VIEWER.name
    target.chmod(0o644)
    with refused(ErrorCode.POLICY_DENIED):
        file.load()


def test_identity_of_a_token_in_an_unusable_file_equals_no_other(file: TokenFile, path: Path) -> None:
    assert file.identity_of(VIEWER.name) is None
    file.create(VIEWER, None)
    valid = file.identity_of(VIEWER.name)
    content = path.read_text()
    path.write_text("damaged")
    unknown = [file.identity_of(VIEWER.name) for _ in range(2)]
    path.write_text(content)
    assert file.identity_of(VIEWER.name) == valid
    assert len({valid, None, *unknown}) == 4
