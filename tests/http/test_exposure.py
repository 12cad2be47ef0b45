"""Options of servers that other machines reach: TLS, reverse proxies and the public origin."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from ptyctl.http.access import AccessError, Address, Exposure, parse_exposure, parse_listen
from ptyctl.http.origins import Origin
from ptyctl.http.server import behind_proxies
from tests.http.certificates import make_certificate

PUBLIC = Origin("https", "console.example", 443)
PROXIES = (ipaddress.ip_network("192.0.2.0/24"), ipaddress.ip_network("2001:db8::/32"))


def test_parse_exposure_without_options_is_none() -> None:
    assert parse_exposure(None, None, (), None) == Exposure()


def test_parse_exposure_proxies_and_origin() -> None:
    exposure = parse_exposure(None, None, ["192.0.2.0/24", "2001:db8::/32"], "https://Console.Example")
    assert exposure == Exposure(None, PROXIES, PUBLIC)
    assert exposure.url(Address("0.0.0.0", 1)) == "https://console.example"


def test_parse_exposure_loads_certificate(tmp_path: Path) -> None:
    exposure = parse_exposure(*make_certificate(tmp_path), trusted_proxies=(), public_origin=None)
    assert exposure.tls is not None
    assert exposure.url(Address("127.0.0.1", 1)) == "https://127.0.0.1:1"


@pytest.mark.parametrize(
    ("proxies", "origin", "reason"),
    [
        (["x"], "https://a.example", "is not an address"),
        (["192.0.2.1/24"], "https://a.example", "is not an address"),
        (["192.0.2.1"], None, "needs --public-origin"),
        (["192.0.2.1"], "http://a.example", "not an https address"),
        (["192.0.2.1"], "a.example", "not an https address"),
        (["192.0.2.1"], "https://a.example/path", "not an https address"),
        ([], "https://a.example", "needs encryption.*--tls-cert"),
    ],
)
def test_parse_exposure_invalid_option_raises(proxies: list[str], origin: str | None, reason: str) -> None:
    with pytest.raises(AccessError, match=reason):
        parse_exposure(None, None, proxies, origin)


def test_parse_exposure_unusable_certificate_raises(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    for chain, private in ((certificate, None), (None, key), (tmp_path / "none", key), (key, key), (certificate, tmp_path)):
        with pytest.raises(AccessError, match="--tls-cert"):
            parse_exposure(chain, private, (), None)
    key.chmod(0o604)
    with pytest.raises(AccessError, match="chmod o="):
        parse_exposure(certificate, key, (), None)


@pytest.mark.parametrize(("text", "host"), [("0.0.0.0:443", "0.0.0.0"), ("[::]:443", "::"), ("192.0.2.1:443", "192.0.2.1")])
def test_parse_listen_exposed_server_accepts_all_addresses(text: str, host: str) -> None:
    assert parse_listen(text, Exposure(None, PROXIES, PUBLIC)) == Address(host, 443)


def test_parse_listen_exposed_server_needs_address_and_public_origin(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="is not an IP address"):
        parse_listen("console.example:443", Exposure(None, PROXIES, PUBLIC))
    tls = parse_exposure(*make_certificate(tmp_path), trusted_proxies=(), public_origin=None)
    assert parse_listen("127.0.0.1:443", tls) == Address("127.0.0.1", 443)
    with pytest.raises(AccessError, match="--public-origin"):
        parse_listen("0.0.0.0:443", tls)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "198.51.100.7"),
        ("192.0.2.1", "203.0.113.1, 198.51.100.7, 192.0.2.2", "198.51.100.7"),
        ("192.0.2.1", "192.0.2.3", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7, nonsense", "192.0.2.1"),
        ("::ffff:192.0.2.1", "198.51.100.7", "198.51.100.7"),
        ("2001:db8::1", "2001:db9::1", "2001:db9::1"),
        ("127.0.0.1", "198.51.100.7", "127.0.0.1"),
        ("198.51.100.7", "192.0.2.1", None),
        ("2001:db9::1", None, None),
    ],
)
async def test_client_of_a_connection(peer: str, forwarded: str | None, client: str | None) -> None:
    """Only a proxy is believed, and only it and this machine are served."""
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["client"][0])(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "client": (peer, 1)}
    await behind_proxies(app, PROXIES)(scope, receive, send)
    assert (sent[0]["status"], sent[1]["body"].decode()) == ((200, client) if client else (403, "Connect through the proxy\n"))
