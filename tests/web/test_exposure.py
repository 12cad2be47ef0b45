"""Consoles that other machines reach: over TLS, and behind a reverse proxy."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

import pytest

from ptyctl.http.access import Exposure, parse_exposure
from ptyctl.http.origins import Origin
from tests.http.certificates import make_certificate
from tests.web.console import ALICE, console

PUBLIC = Origin("https", "console.example", 443)
THROUGH_PROXY = {"Host": "console.example", "Origin": "https://console.example"}


async def test_console_over_tls_has_a_secure_cookie(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    exposure = parse_exposure(certificate, key, (), None)
    trusted = ssl.create_default_context(cafile=certificate)
    async with console(tmp_path, exposure=exposure) as server, server.client(trusted=trusted) as client:
        assert server.url.startswith("https://")
        plain = {"Origin": server.url.replace("https", "http")}
        ticket = {"ticket": server.app.mint_ticket(ALICE)}
        assert (await client.post("/api/login", json=ticket, headers=plain)).status_code == 403
        reply = await client.post("/api/login", json=ticket)
        assert reply.status_code == 200
        assert "; Secure" in reply.headers["set-cookie"]
        assert (await client.get("/api/me")).status_code == 200


async def test_console_behind_a_proxy_has_the_public_origin(tmp_path: Path) -> None:
    exposure = Exposure(proxies=(ipaddress.ip_network("127.0.0.1"),), public=PUBLIC)
    async with console(tmp_path, exposure=exposure) as server, server.client(**THROUGH_PROXY) as client:
        ticket = {"ticket": server.app.mint_ticket(ALICE)}
        plain = {"Origin": "http://console.example"}
        assert (await client.post("/api/login", json=ticket, headers=plain)).status_code == 403
        assert (await client.post("/api/login", json=ticket, headers={"Host": "evil.example"})).status_code == 403
        forwarded = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7, 127.0.0.1"}
        reply = await client.post("/api/login", json=ticket, headers=forwarded)
        assert reply.status_code == 200
        assert "; Secure" in reply.headers["set-cookie"]
        assert server.rows[-1]["address"] == "198.51.100.7"


@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8::1", "::ffff:198.51.100.7"])
async def test_each_client_of_a_proxy_has_its_own_limit_of_failures(tmp_path: Path, address: str) -> None:
    exposure = Exposure(proxies=(ipaddress.ip_network("127.0.0.0/8"),), public=PUBLIC)
    async with console(tmp_path, exposure=exposure) as server, server.client(**THROUGH_PROXY) as client:

        async def guess(forwarded_for: str) -> int:
            reply = await client.post("/api/login", json={"token": "x"}, headers={"X-Forwarded-For": forwarded_for})
            return reply.status_code

        assert [await guess(f"192.0.2.{number}, {address}") for number in range(11)] == 10 * [401] + [429]
        assert await guess("198.51.100.8") == 401
