"""Requests of the administrator: accepted with its signature on a challenge of this process, once, and not when it is old."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.certificates import CA_FILE, Authority
from ptyctl.fleet.control import CHALLENGE_S, RequestVerifier, sign_request
from ptyctl.fleet.credentials import ADMIN


def certificate(folder: Path, authority: Authority, name: str) -> Path:
    file = folder / f"{name}.pem"
    file.write_text(authority.issue(name))
    return file


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority.create("test")
    (tmp_path / CA_FILE).write_text(authority.certificate_pem())
    return authority


@pytest.fixture
def verifier(tmp_path: Path, authority: Authority) -> RequestVerifier:
    return RequestVerifier(tmp_path / CA_FILE, "fra", "a")


def refusal(verifier: RequestVerifier, data: bytes) -> str:
    with pytest.raises(PtyctlError) as refused:
        verifier.action(data)
    assert refused.value.code in (ErrorCode.POLICY_DENIED, ErrorCode.INVALID_ARGUMENT)
    return refused.value.message


def test_signed_request_is_accepted_once(tmp_path: Path, authority: Authority, verifier: RequestVerifier) -> None:
    admin = certificate(tmp_path, authority, ADMIN)
    data = sign_request("fra", "a", "drain", verifier.challenge(), admin)
    assert verifier.action(data) == "drain"
    assert "sent before" in refusal(verifier, data)
    assert verifier.action(sign_request("fra", "a", "undrain", verifier.challenge(), admin)) == "undrain"
    assert "sent before" in refusal(verifier, data)


def test_recorded_request_is_refused_by_the_next_process(
    tmp_path: Path, authority: Authority, verifier: RequestVerifier
) -> None:
    data = sign_request("fra", "a", "drain", verifier.challenge(), certificate(tmp_path, authority, ADMIN))
    assert verifier.action(data) == "drain"
    started_again = RequestVerifier(tmp_path / CA_FILE, "fra", "a")
    assert "started again" in refusal(started_again, data)


def test_challenge_is_answered_within_its_life_only(tmp_path: Path, authority: Authority) -> None:
    now, admin = 1000.0, certificate(tmp_path, authority, ADMIN)
    verifier = RequestVerifier(tmp_path / CA_FILE, "fra", "a", lambda: now)
    in_time, late = (sign_request("fra", "a", "drain", verifier.challenge(), admin) for _ in range(2))
    now += CHALLENGE_S
    assert verifier.action(in_time) == "drain"
    assert "sent before" in refusal(verifier, in_time)
    now += 1
    assert "61 s ago" in refusal(verifier, in_time)
    assert "61 s ago" in refusal(verifier, late)


def test_request_without_the_administrators_signature_for_this_node_is_refused(
    tmp_path: Path, authority: Authority, verifier: RequestVerifier
) -> None:
    admin, node = certificate(tmp_path, authority, ADMIN), certificate(tmp_path, authority, "b")
    (tmp_path / "other").mkdir()
    foreign = certificate(tmp_path / "other", Authority.create("test"), ADMIN)
    challenge = verifier.challenge()
    good = json.loads(sign_request("fra", "a", "undrain", challenge, admin))
    for data, why in [
        (b'{"action": "drain"}', "not signed"),
        (sign_request("fra", "a", "drain", challenge, node), "b is not the administrator"),
        (sign_request("fra", "a", "drain", challenge, foreign), "not one of this fleet"),
        (sign_request("fra", "b", "drain", challenge, admin), "was changed"),
        (sign_request("nyc", "a", "drain", challenge, admin), "was changed"),
        (json.dumps({**good, "action": "drain"}).encode(), "was changed"),
        (json.dumps({**good, "challenge": verifier.challenge()}).encode(), "was changed"),
        (sign_request("fra", "a", "drain", "1e9" + challenge, admin), "another process"),
        (sign_request("fra", "a", "drain", "", admin), "another process"),
        (sign_request("fra", "a", "drain", "é/é", admin), "another process"),
    ]:
        assert why in refusal(verifier, data)
    without = RequestVerifier(None, "fra", "a")
    assert "no certificate" in refusal(without, json.dumps(good).encode())
    assert verifier.action(json.dumps(good).encode()) == "undrain"
