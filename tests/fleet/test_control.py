"""Requests of the administrator: accepted with its signature, for one node, once, and not when they are old."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.certificates import CA_FILE, Authority
from ptyctl.fleet.control import MAX_AGE_S, RequestVerifier, sign_request
from ptyctl.fleet.credentials import ADMIN

NOW = 1_000_000.0


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
    return RequestVerifier(tmp_path / CA_FILE, "fra", "a", lambda: NOW)


def refusal(verifier: RequestVerifier, data: bytes) -> str:
    with pytest.raises(PtyctlError) as refused:
        verifier.action(data)
    assert refused.value.code in (ErrorCode.POLICY_DENIED, ErrorCode.INVALID_ARGUMENT)
    return refused.value.message


def test_signed_request_is_accepted_once(tmp_path: Path, authority: Authority, verifier: RequestVerifier) -> None:
    admin = certificate(tmp_path, authority, ADMIN)
    data = sign_request("fra", "a", "drain", admin, NOW + MAX_AGE_S)
    assert verifier.action(data) == "drain"
    assert "sent before" in refusal(verifier, data)
    assert verifier.action(sign_request("fra", "a", "drain", admin, NOW - MAX_AGE_S)) == "drain"
    assert "sent before" in refusal(verifier, data)


def test_request_is_accepted_once_although_the_clock_is_set_forward_and_back(tmp_path: Path, authority: Authority) -> None:
    now, admin = NOW, certificate(tmp_path, authority, ADMIN)
    verifier = RequestVerifier(tmp_path / CA_FILE, "fra", "a", lambda: now)
    data = sign_request("fra", "a", "drain", admin, NOW)
    assert verifier.action(data) == "drain"
    now = NOW + 86_400
    assert verifier.action(sign_request("fra", "a", "undrain", admin, now)) == "undrain"
    now = NOW
    assert "sent before" in refusal(verifier, data)


def test_request_without_the_administrators_signature_for_this_node_is_refused(
    tmp_path: Path, authority: Authority, verifier: RequestVerifier
) -> None:
    admin, node = certificate(tmp_path, authority, ADMIN), certificate(tmp_path, authority, "b")
    (tmp_path / "other").mkdir()
    foreign = certificate(tmp_path / "other", Authority.create("test"), ADMIN)
    good = json.loads(sign_request("fra", "a", "undrain", admin, NOW))
    for data, why in [
        (b'{"action": "drain"}', "not signed"),
        (sign_request("fra", "a", "drain", node, NOW), "b is not the administrator"),
        (sign_request("fra", "a", "drain", foreign, NOW), "not one of this fleet"),
        (sign_request("fra", "b", "drain", admin, NOW), "was changed"),
        (sign_request("nyc", "a", "drain", admin, NOW), "was changed"),
        (json.dumps({**good, "action": "drain"}).encode(), "was changed"),
        (json.dumps({**good, "nonce": "0" * 32}).encode(), "was changed"),
        (json.dumps({**good, "at": NOW - 1}).encode(), "was changed"),
        (sign_request("fra", "a", "drain", admin, NOW - MAX_AGE_S - 1), "check both clocks"),
        (sign_request("fra", "a", "drain", admin, NOW + MAX_AGE_S + 1), "check both clocks"),
    ]:
        assert why in refusal(verifier, data)
    without = RequestVerifier(None, "fra", "a", lambda: NOW)
    assert "no certificate" in refusal(without, json.dumps(good).encode())
